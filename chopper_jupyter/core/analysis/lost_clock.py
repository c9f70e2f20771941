"""GPUs that are slower than the others: because their clock is lower, or for other reasons."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core.analysis.bootstrap import quantile
from chopper_jupyter.core.analysis.clock_of_ops import ENOUGH, SENSOR
from chopper_jupyter.core.analysis.frequency import frequency
from chopper_jupyter.core.analysis.losses import Loss
from chopper_jupyter.core.analysis.quantities import duration, percent
from chopper_jupyter.core.errors import MissingDataError, PartialTraceWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chopper_jupyter.core.analysis.grouping import Floats
    from chopper_jupyter.core.analysis.losses import Run, Where
    from chopper_jupyter.core.analysis.timeline import Mask

SLOW_CLOCK = 0.05
"""Share by which the median clock of a GPU must be below that of all GPUs: the clocks of healthy
GPUs of one kind spread by 2 % over iterations, and their medians by less."""

SLOW_CLOCK_ONCE, SPREADS = 0.08, 4.0
"""Share, and standard deviations of all, by which the clock of one iteration must be below the
median: with a spread of 2 %, one run of 8 GPUs and 10 iterations in 500 has such a clock by
chance."""

SLOW_GPU = 0.05
"""Share by which a GPU must compute longer than the others."""

_SPREAD_OF_MAD = 1.4826
_SEVERAL = 2


class CellClocks(NamedTuple):
    """Mean clock by GPU and iteration in MHz (NaN where not known) and its relative error.

    ``usual`` is the median, ``low`` marks what lies below it beyond the usual spread.
    """

    mean: Floats
    error: Floats
    usual: float
    low: Mask

    @property
    def slower(self) -> Floats:
        """Logarithm of the usual clock over the clock where that is low, else 0."""
        safe = np.where(self.low, self.mean, self.usual or 1.0)
        return np.asarray(np.log((self.usual or 1.0) / safe), np.float64)


def clocks_of(run: Run) -> CellClocks:
    """Return the clocks of GPUs in iterations, and which of them are low."""
    mean, error = np.full(run.wall.shape, np.nan), np.full(run.wall.shape, np.nan)
    nothing = CellClocks(mean, error, np.nan, np.zeros(run.wall.shape, bool))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PartialTraceWarning)  # what was filtered away is said
            rows = frequency(run.trace, ["gpu", "iteration"])
    except MissingDataError:
        return nothing
    if SENSOR not in rows:
        return nothing
    rows = rows[rows[SENSOR].notna() & rows["gpu"].notna() & (rows["fresh_samples"] >= ENOUGH)]
    columns = (rows[name] for name in ("gpu", "iteration", SENSOR, f"{SENSOR}_std"))
    for (gpu, iteration, clock, std), fresh in zip(
        zip(*columns, strict=True), rows["fresh_samples"], strict=True
    ):
        place = run.gpus.index(int(gpu)), _column(run, iteration)
        mean[place] = clock
        error[place] = quantile(int(fresh) - 1) * float(std) / np.sqrt(float(fresh)) / clock
    if np.count_nonzero(np.isfinite(mean)) < _SEVERAL:
        return nothing
    usual = float(np.nanmedian(mean))
    return CellClocks(mean, error, usual, _low(mean, usual))


def _column(run: Run, iteration: object) -> int:
    known = [None if i is None else int(i) for i in run.iterations]
    return known.index(int(iteration)) if isinstance(iteration, int | np.integer) else 0


def _low(clock: Floats, usual: float) -> Mask:
    """Mark low clocks: of GPUs that are low most of the time, and of single iterations."""
    below = 1 - np.nan_to_num(clock, nan=usual) / usual
    spread = _SPREAD_OF_MAD * float(np.median(np.abs(below - np.median(below))))
    low = below >= max(SLOW_CLOCK_ONCE, SPREADS * spread)
    typical = 1 - np.median(below, axis=1)
    if len(typical) >= _SEVERAL:
        lasting = typical <= (1 - SLOW_CLOCK) * np.median(typical)
        low |= lasting[:, None] & (below > 0)
    return np.asarray(low & np.isfinite(clock), bool)


def clock_losses(run: Run, clocks: CellClocks, lost: Floats) -> Iterator[Loss]:
    """Find the GPUs whose clock is low and that compute longer for it.

    Parameters
    ----------
    lost : float64 array of shape (gpus, iterations)
        What the low clocks should cost, in ns; no more than kernels took longer is a loss.
    """
    longer = _longer(run, ~clocks.low)
    own = np.where(clocks.low, np.clip(lost, 0, longer), 0.0)
    run.claimed["compute"] += own
    share = np.where(longer > 0, own / np.maximum(longer, 1), 0.0)
    for place, gpu in enumerate(run.gpus):
        when = np.flatnonzero(own[place] > 0)
        if not len(when):
            continue
        mine = np.zeros(run.wall.shape)
        mine[place] = run.unhidden(place, own[place])
        waits = _claim_waits(run, gpu, share[place])
        clock = float(clocks.mean[place, when].mean())
        numbers = [run.iterations[i] for i in when]
        once = len(numbers) == 1 and numbers[0] is not None
        text = f"in iteration {numbers[0]}" if once else f"in {len(numbers)} iterations"
        text = "" if numbers[0] is None else f" {text}"
        where: Where = [["gpu", int(gpu)]]
        where += [["iteration", int(numbers[0] or 0)]] if once else []
        error = clocks.error[place, when] * run.compute[place, when]
        yield Loss(
            "clock",
            f"GPU {gpu} runs {percent(1 - clock / clocks.usual)} below the usual clock{text}",
            "look for a power cap, heat or a neighbour that shares its power: "
            'frequency(trace, by="time")',
            f"{clock:.0f} of {clocks.usual:.0f} MHz; its kernels take "
            f"{duration(own[place].sum() / len(when))} longer, others wait "
            f"{duration(waits.sum())} in all",
            mine + waits,
            where,
            float(np.sqrt(np.nansum(error**2))),
        )


def _longer(run: Run, usual: Mask) -> Floats:
    """Return by how much GPUs compute longer than is usual among those marked."""
    left = run.compute - run.claimed["compute"]
    typical = np.median(left[usual]) if usual.any() else np.inf
    return np.maximum(left - typical, 0)


def _claim_waits(run: Run, gpu: int, share: Floats) -> Floats:
    """Claim shares, by iteration, of the waits for what a GPU computed; return them by GPU."""
    of_wait = np.where(run.waits.culprit == gpu, share[run.cell[run.wait_row] % len(share)], 0.0)
    found = run.grid(run.wait_row, run.waited(("compute",)) * of_wait)
    run.claim_waits(("compute",), of_wait)
    return found


def slow_gpu_losses(run: Run) -> Iterator[Loss]:
    """Find GPUs that compute longer than the others for no reason found so far."""
    left = run.compute - run.claimed["compute"]
    if len(run.gpus) < _SEVERAL:
        return
    usual = np.median(left, axis=1)
    for place, gpu in enumerate(run.gpus):
        others = np.delete(left, place, axis=0)
        typical = np.median(others, axis=0)
        behind = float(usual[place] / max(np.median(others), 1.0) - 1)
        if behind < SLOW_GPU:
            continue
        mine = np.zeros(run.wall.shape)
        mine[place] = run.unhidden(place, np.maximum(left[place] - typical, 0))
        waits = _claim_waits(run, gpu, np.ones(run.wall.shape[1]))
        yield Loss(
            "slow_gpu",
            f"GPU {gpu} computes {percent(behind)} longer than the others",
            "compare its clock, its work and its machine with those of the others: "
            'compare, or summarize(trace, by=["gpu", "op"])',
            f"{duration(float(usual[place]))} of compute per iteration against "
            f"{duration(float(np.median(others)))}; others wait {duration(waits.sum())} in all",
            mine + waits,
            [["gpu", int(gpu)]],
        )

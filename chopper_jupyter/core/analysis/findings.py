"""What stands out in a run: ranked sentences, each with its number and its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from chopper_jupyter.core.analysis.breakdown import breakdown
from chopper_jupyter.core.analysis.frequency import frequency
from chopper_jupyter.core.analysis.idle_causes import CAUSES, idle_causes
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.quantities import duration, percent
from chopper_jupyter.core.analysis.variation import variation
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chopper_jupyter.core.trace import Trace

IDLE_SHARE, EXPOSED_SHARE = 0.05, 0.10
"""Shares of the wall time from which idle time and exposed communication are worth a sentence."""

SLOW_GPU, SLOW_CLOCK, SLOW_ITERATION = 0.05, 0.05, 0.10
"""Shares by which a GPU, a clock or an iteration must be behind the median of all."""

CLOCK = "gpu_clock_mhz"
_MS = 1e-6


class _Finding(NamedTuple):
    """One finding; ``cost_ms`` is the time it takes per iteration and GPU."""

    kind: str
    title: str
    detail: str
    value: str
    cost_ms: float
    selection: list[list[Any]]


_ADVICE = {
    "input": "the loop waits for its data: more loader workers, pinned memory, copies ahead of use",
    "iteration_boundary": "the program works between iterations: logging, checkpoints, .item()",
    "host_late": "the program launches too slowly: larger batches, torch.compile, CUDA graphs",
    "communication": "kernels wait for a collective: prefetch, other bucket sizes, less sharding",
    "launch_latency": "many short kernels: fuse them, or launch them as a graph",
    "unknown": "the launches were not recorded, so the cause is not known",
}


def findings(trace: Trace) -> pd.DataFrame:
    """List what stands out in a run, what costs most first.

    Parameters
    ----------
    trace : Trace
        A run recorded on GPUs.

    Returns
    -------
    pandas.DataFrame
        ``kind`` (``idle``, ``communication``, ``clock``, ``slow_gpu``, ``slow_iteration``),
        ``title``, ``detail`` (what to do about it), ``value`` (the number, with its unit),
        ``cost_ms`` (time per iteration and GPU that it takes) and ``selection``, the levels that
        hold the evidence as pairs for ``Explorer.selection``. Without a row, nothing stood out.

    Notes
    -----
    A sentence is made only from the answer of an analysis, and only beyond a threshold: idle
    causes from 5 % of the wall time, exposed communication from 10 %, GPUs and clocks 5 % behind
    the median of all, iterations 10 %.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> findings(Trace.from_tables({})).empty
    True
    """
    found: list[_Finding] = []
    if trace.info.device_kind != "cpu" and trace.kernels.num_rows:
        wall = float(breakdown(trace)["wall_ns"].iloc[0])
        per = included(trace).instances
        found = [
            *_idle(trace, wall, per),
            *_communication(trace, wall, per),
            *_clocks(trace, wall * _MS / per),
            *_gpus(trace),
            *_iterations(trace),
        ]
    found.sort(key=lambda one: -one.cost_ms)
    return pd.DataFrame(found, columns=list(_Finding._fields))


def _idle(trace: Trace, wall: float, per: int) -> Iterator[_Finding]:
    row = idle_causes(trace).iloc[0]
    for cause, words in CAUSES.items():
        time = float(row[f"{cause}_ns"])
        if wall and time / wall >= IDLE_SHARE:
            where = _most(idle_causes(trace, ["phase", "op"]), f"{cause}_ns")
            yield _Finding(
                "idle",
                f"{words}: the GPUs idle {percent(time / wall)} of the time",
                _ADVICE[cause],
                duration(time / per),
                time * _MS / per,
                where,
            )


def _most(rows: pd.DataFrame, column: str) -> list[list[Any]]:
    """Return the levels of the row with the most of something."""
    if rows.empty:
        return []
    top = rows.iloc[int(np.argmax(rows[column].astype(float)))]
    return [[level, None if pd.isna(top[level]) else str(top[level])] for level in ("phase", "op")]


def _communication(trace: Trace, wall: float, per: int) -> Iterator[_Finding]:
    time = float(breakdown(trace)["exposed_communication_ns"].iloc[0])
    if wall and time / wall >= EXPOSED_SHARE:
        rows = breakdown(trace, ["phase", "op"])
        yield _Finding(
            "communication",
            f"Communication that no compute hides takes {percent(time / wall)} of the time",
            "overlap it with compute (prefetch), or send less (other sharding, larger batches)",
            duration(time / per),
            time * _MS / per,
            _most(rows, "exposed_communication_ns"),
        )


def _clocks(trace: Trace, wall_ms: float) -> Iterator[_Finding]:
    """Find GPUs, in single iterations or all along, whose clock is below that of the others."""
    try:
        rows = frequency(trace, ["gpu", "iteration"])
    except MissingDataError:
        return
    if CLOCK not in rows:
        return
    rows = rows[rows[CLOCK].notna() & rows["gpu"].notna()]
    clock = rows[CLOCK].astype(float).to_numpy()
    if len(clock) < 2:  # noqa: PLR2004  nothing to compare with
        return
    usual = float(np.median(clock))
    behind = np.flatnonzero(clock < (1 - SLOW_CLOCK) * usual)
    for gpu, mine in rows.iloc[behind].groupby("gpu", sort=True):
        own = mine[CLOCK].astype(float)
        loss = float((usual / own - 1).sum()) * wall_ms / len(rows)
        selection: list[list[Any]] = [["gpu", int(str(gpu))]]
        when = [int(i) for i in mine["iteration"].dropna()]
        if len(when) == 1:
            selection.append(["iteration", when[0]])
        text = f"in iteration {when[0]}" if len(when) == 1 else f"in {len(mine)} iterations"
        yield _Finding(
            "clock",
            f"GPU {gpu} runs {percent(1 - float(own.mean()) / usual)} below the usual clock {text}",
            "look for a power cap, heat or a neighbour that shares its power",
            f"{own.mean():.0f} of {usual:.0f} MHz",
            loss,
            selection,
        )


def _gpus(trace: Trace) -> Iterator[_Finding]:
    """Find a GPU whose compute kernels take longer than those of the others."""
    compute = trace.filter(kind="compute")
    if len(included(compute).gpus) < 2:  # noqa: PLR2004  nothing to compare with
        return
    row = variation(compute).iloc[0]
    times = _median_times(compute)
    slowest = max(times, key=lambda gpu: times[gpu])
    others = float(np.median([t for gpu, t in times.items() if gpu != slowest]))
    if others and times[slowest] >= (1 + SLOW_GPU) * others:
        behind = times[slowest] - others
        yield _Finding(
            "slow_gpu",
            f"GPU {slowest} computes {percent(behind / others)} longer than the others",
            "all ranks wait for it at the next collective: compare its clock, work and machine",
            f"{times[slowest]:.3g} of {float(row['median_ms']):.3g} ms",
            behind,
            [["gpu", int(slowest)]],
        )


def _median_times(compute: Trace) -> dict[int, float]:
    """Return the compute time of an iteration of each GPU, in ms."""
    found = {}
    for gpu in included(compute).gpus:
        found[gpu] = float(variation(compute.filter(gpu=gpu))["median_ms"].iloc[0])
    return found


def _iterations(trace: Trace) -> Iterator[_Finding]:
    measured = trace.measured_iterations
    if len(measured) < 3:  # noqa: PLR2004  an odd one needs others
        return
    rows = breakdown(trace, "iteration")
    wall = dict(zip(rows["iteration"], rows["wall_ns"].astype(float), strict=True))
    slowest = max(measured, key=lambda i: wall.get(i, 0.0))
    usual = float(np.median([wall[i] for i in measured if i != slowest]))
    if usual and wall[slowest] >= (1 + SLOW_ITERATION) * usual:
        gpus = max(1, len(included(trace).gpus))
        behind = wall[slowest] - usual
        yield _Finding(
            "slow_iteration",
            f"Iteration {slowest} takes {percent(behind / usual)} longer than the others",
            "compare its idle time and communication with those of another iteration",
            duration(behind / gpus),
            behind * _MS / gpus / len(measured),
            [["iteration", int(slowest)]],
        )

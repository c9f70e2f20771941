"""What stands out in a run: ranked sentences, each with its number and its evidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from chopper_jupyter.core.analysis.losses import Loss, Run, run_of
from chopper_jupyter.core.analysis.lost_clock import clock_losses, clocks_of, slow_gpu_losses
from chopper_jupyter.core.analysis.lost_compute import (
    contention_losses,
    factors_of,
    padding_losses,
)
from chopper_jupyter.core.analysis.lost_waiting import (
    WORTH,
    communication_losses,
    idle_losses,
    iteration_losses,
    straggler_losses,
    waiting_losses,
)
from chopper_jupyter.core.analysis.quantities import duration
from chopper_jupyter.core.analysis.sharing import shared, sharing

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.lost_clock import CellClocks
    from chopper_jupyter.core.trace import Trace

COLUMNS = (
    "kind", "title", "detail", "value", "cost_ms", "cost_low_ms", "cost_high_ms", "evidence",
    "selection",
)  # fmt: skip


def findings(trace: Trace) -> pd.DataFrame:
    """List what stands out in a run, what costs most first.

    Every instant of a GPU counts for one finding at most: what others wait for a late GPU counts
    for what made it late. So costs may be added, and tell what an iteration would gain.

    Parameters
    ----------
    trace : Trace
        A run recorded on GPUs.

    Returns
    -------
    pandas.DataFrame
        One row per finding:

        - ``kind``: ``clock`` (a GPU, in one iteration or all along, below the usual clock),
          ``slow_gpu`` (computes longer for another reason), ``straggler`` (stands idle before
          collectives that others wait in), ``padding`` (an op does operations that nobody
          needs), ``contention`` (kernels slowed by communication), ``idle`` (by cause),
          ``waiting`` (in collectives, for no single GPU), ``communication``,
          ``slow_iteration``;
        - ``title`` (what and where), ``detail`` (the next step), ``evidence`` (the numbers
          behind, and the analysis that has more);
        - ``value``: the time lost per iteration and GPU, with its unit; ``cost_ms``: the same as
          a number, and ``cost_low_ms``, ``cost_high_ms``: its 95 % interval, null where nothing
          was inferred;
        - ``selection``: the levels that hold the evidence, as pairs for ``Explorer.selection``.

        Without a row, nothing stood out.

    Notes
    -----
    A sentence is made only beyond a threshold. A single fault costs 0.5 % of the time at least:
    clocks 5 % below the median of the GPUs all along, or 8 % and four standard deviations in one
    iteration; compute 5 % longer than on other GPUs; 1.05 times the operations; kernels 1.25
    times longer beside communication; one GPU that half of all waits are for. Idle causes count
    from 2 %, waits for various GPUs from 5 %, exposed communication from 10 %, iterations that
    are 10 % longer.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> findings(Trace.from_tables({})).empty
    True
    """
    with sharing(trace):
        return shared(trace, "findings", lambda: _frame(trace))


def _frame(trace: Trace) -> pd.DataFrame:
    found: list[Loss] = []
    if trace.info.device_kind != "cpu" and trace.kernels.num_rows:
        found = _losses(run_of(trace))
    found.sort(key=lambda loss: -loss.ms)
    frame = pd.DataFrame([_row(loss) for loss in found], columns=COLUMNS)
    frame.attrs["units"] = {name: "ms" for name in COLUMNS if name.endswith("_ms")}
    return frame


def _losses(run: Run) -> list[Loss]:
    """Find the reasons one after the other; each takes what those before it leave."""
    clocks = clocks_of(run)
    factors = factors_of(run.trace, run, clocks.slower) if _may_tell(run, clocks) else None
    found: list[Loss] = []
    if factors is not None:
        clock = factors.on_grid(run, factors.lost(factors.clock))
        found += clock_losses(run, clocks, clock)
        for loss in (*padding_losses(run, factors), *contention_losses(run, factors)):
            run.claimed["compute"] += loss.lost
            found.append(loss)
    found += straggler_losses(run)
    found += slow_gpu_losses(run)
    found = [loss for loss in found if run.share(loss.lost) >= WORTH]
    found += idle_losses(run)
    found += waiting_losses(run)
    found += communication_losses(run)
    found += iteration_losses(run, found)
    return found


def _may_tell(run: Run, clocks: CellClocks) -> bool:
    """Tell if runs of ops may say anything: what is known of each takes long to work out."""
    if run.trace.counters.num_rows or clocks.low.any():
        return True
    beside = run.trace.kernels["overlap_ns"].to_numpy().any()
    shapes = run.trace.ops["input_shapes"]
    return bool(beside and shapes.null_count < len(shapes))


def _row(loss: Loss) -> dict[str, Any]:
    half = loss.half_width_ms
    return {
        "kind": loss.kind,
        "title": loss.title,
        "detail": loss.detail,
        "value": duration(loss.ms * 1e6),
        "cost_ms": loss.ms,
        "cost_low_ms": None if math.isnan(half) else loss.ms - half,
        "cost_high_ms": None if math.isnan(half) else loss.ms + half,
        "evidence": loss.evidence,
        "selection": loss.where,
    }

"""Warns of what a recording lacks: damaged parts, ranks that failed, kernels without a launch."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import ClockWarning, PartialTraceWarning

if TYPE_CHECKING:
    from pathlib import Path

    from chopper_jupyter.core.trace import Trace

MAX_LOST_SHARE = 0.01
"""A warning is issued when more of the events than this could not be used."""

MAX_UNLINKED_SHARE = 0.1
"""A warning is issued when more of the kernel time than this has no launch."""

FAILED_RANKS = "ranks that could not be read"
"""Name of this repair in the quality record."""

FAILED = "could not be read and is missing"

UNUSED = "{} of the run that could not be used"
"""Name of this repair: counters or telemetry that do not fit the trace."""

BESIDE = ("counters", "telemetry")
"""What is recorded beside a trace; names of its repairs begin with it."""

FAR_APART_NS = 10**9
"""Clocks that differ by more than this are worth a warning, though they were aligned."""


def warn_of_losses(trace: Trace, stacklevel: int) -> None:
    """Issue a PartialTraceWarning for each kind of noticeable loss, a ClockWarning for clocks.

    Parameters
    ----------
    trace : Trace
        Just read, or opened from the cache of an earlier reading.
    stacklevel : int
        Calls between the user's code and this function, both included, as in ``warnings.warn``.
    """
    for loss in (_failed(trace), _damaged(trace), _unlinked(trace), _unused(trace)):
        if loss:
            msg = f"{trace.info.name}: {loss}"
            warnings.warn(msg, PartialTraceWarning, stacklevel=stacklevel + 1)
    clocks = _clocks(trace)
    if clocks:
        msg = f"{trace.info.name}: {clocks}"
        warnings.warn(msg, ClockWarning, stacklevel=stacklevel + 1)


def failure_note(rank: int | None, path: Path, error: Exception | None) -> str:
    """Say in one sentence which rank failed and why; the quality record holds it."""
    which = "one file" if rank is None else f"rank {rank}"
    why = str(error).replace(f"{path.parent}{os.sep}", "")
    return f"{which} {FAILED}: {why}"


def _failed(trace: Trace) -> str:
    count = trace.quality.repairs.get(FAILED_RANKS, 0)
    if not count:
        return ""
    told = [note for note in trace.quality.notes if f" {FAILED}: " in note]
    return f"{count} of the recording's ranks could not be read; {'; '.join(told)}"


def _damaged(trace: Trace) -> str:
    beside = tuple(f"{what}: " for what in BESIDE)
    repairs = {w: n for w, n in trace.quality.repairs.items() if not w.startswith(beside)}
    skipped = {w: n for w, n in trace.quality.skipped.items() if not w.startswith(beside)}
    lost = sum(n for what, n in repairs.items() if "cut short" in what or "left out" in what)
    unusable = sum(n for what, n in skipped.items() if "usable" in what)
    total = trace.quality.events_read + lost
    if not lost and not (total and unusable / total > MAX_LOST_SHARE):
        return ""
    details = "; ".join(f"{what}: {count}" for what, count in repairs.items())
    return f"part of the input is damaged ({lost + unusable} of {total} events lost; {details})"


def _unused(trace: Trace) -> str:
    kinds = {UNUSED.format(what) for what in BESIDE}
    told = [note for note in trace.quality.notes if " of the run could not be used: " in note]
    return "; ".join(told) if kinds & set(trace.quality.repairs) else ""


def _clocks(trace: Trace) -> str:
    """Say what is wrong between clocks: of other hosts and not aligned, or very far apart."""
    columns = (trace.gpus[c].to_pylist() for c in ("host", "offset_ns", "offset_uncertainty_ns"))
    rows = list(zip(*columns, strict=True))
    hosts = {host for host, _, _ in rows if host is not None}
    if len(hosts) > 1 and any(uncertainty is None for _, _, uncertainty in rows):
        return (
            "its ranks ran on several hosts and share no collectives by which their clocks could "
            "be aligned; times of one host say nothing about times of another"
        )
    most = max((abs(offset) for _, offset, _ in rows), default=0)
    if most > FAR_APART_NS:
        return (
            f"clocks of its ranks differ by up to {most * 1e-9:.1f} s and were aligned by the ends "
            "of their collectives; are these files of one run?"
        )
    return ""


def _unlinked(trace: Trace) -> str:
    linked = trace.quality.linked.get("launch", 1.0)
    if linked >= 1 - MAX_UNLINKED_SHARE:
        return ""
    return (
        f"{100 * (1 - linked):.1f} % of the kernel time has no launch in "
        "the recording (its window opened after them, or the profiler lost events); it keeps "
        "its time but has no iteration, phase, layer or op"
    )

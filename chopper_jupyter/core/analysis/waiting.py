"""For whom GPUs wait in collectives with nothing to compute, and what made it late."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.align.across_ranks import calls_of, extreme, plausible
from chopper_jupyter.core.analysis.activity import BUSY, activity
from chopper_jupyter.core.analysis.collectives import latest
from chopper_jupyter.core.analysis.idle_causes import CAUSES
from chopper_jupyter.core.analysis.timeline import runs

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.activity import Activity
    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.timeline import Mask, Timeline
    from chopper_jupyter.core.trace import Trace

STATES = (*BUSY, *CAUSES)
"""What a late GPU may have done while another one waited."""


@dataclass(frozen=True)
class Waiting:
    """Waits, one row per GPU and call in which it waited with nothing to compute.

    Parameters
    ----------
    place, call : int64 array
        Place of the waiting kernel in the timeline, and number of its call.
    gpu, culprit : int64 array
        The GPU that waited, and the one that arrived last.
    ns, lead : float64 and int64 array
        How long, and how long after the one before it the culprit arrived.
    because : float64 array of shape (rows, states)
        ``ns``, divided among what the culprit did longer than the one that waited.
    calls : int
        Calls that were compared.
    """

    place: Ints
    call: Ints
    gpu: Ints
    culprit: Ints
    ns: Floats
    lead: Ints
    because: Floats
    calls: int

    def kept(self, mask: Mask) -> Waiting:
        """Keep some of the rows."""
        rows = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "calls"}
        return Waiting(**{name: values[mask] for name, values in rows.items()}, calls=self.calls)


def waiting(trace: Trace, line: Timeline) -> Waiting:
    """Find the waits of all GPUs, and their reasons.

    A GPU waits from its arrival at a collective until the last one's, for as long as none of its
    compute kernels runs. Since it last was in step, both GPUs had the same time; what the one that
    arrived last did longer than the other (compute, stand idle for some cause) made it late.
    The parts of the wait are in proportion to these excesses.

    Parameters
    ----------
    trace : Trace
        The trace; only calls of several GPUs that nobody leaves before all came tell anything,
        and only where they arrive further apart than clocks are known.
    line : Timeline
        All its kernels.
    """
    calls = calls_of(line.kernels)
    place = line.places_of(calls.row)
    calls = plausible(calls, line.start[place], line.end[place])
    place = line.places_of(calls.row)
    last = extreme(np.maximum, calls, line.start[place])
    culprit, lead = latest(calls, line.start[place], line.gpu[place])
    late = last[calls.call]
    sure = calls.together[calls.call] & (late - line.start[place] > _uncertainty(trace))
    every = activity(trace, line) if sure.any() else {}  # takes longest by far
    late = np.where(sure, late, line.start[place])
    ends = np.minimum(late, line.end[place])
    ns = _exposed(line, place, ends, every) if every else np.zeros(len(place))
    waits = np.flatnonzero(ns > 0)
    waits = waits[np.lexsort((line.start[place[waits]], line.gpu[place[waits]]))]
    call = calls.call[waits]
    gpu, whom, until = line.gpu[place[waits]], culprit[call], last[call]
    since = _since(gpu, whom, until, every)
    because = _shares(gpu, whom, (since, until), every) * ns[waits, None]
    return Waiting(place[waits], call, gpu, whom, ns[waits], lead[call], because, calls.count)


def _uncertainty(trace: Trace) -> int:
    known = trace.gpus["offset_uncertainty_ns"].to_pylist()
    return max((value for value in known if value is not None), default=0)


def _exposed(line: Timeline, place: Ints, late: Ints, every: dict[int, Activity]) -> Floats:
    """Return how long each kernel of a call waited while its GPU computed nothing.

    Of several collectives that wait at once the time counts for the first.
    """
    found = np.zeros(len(place))
    order = np.lexsort((line.start[place], line.gpu[place]))
    for gpu, rows in runs(line.gpu[place[order]]):
        mine = order[rows]
        start, end = line.start[place[mine]], late[mine]
        latest = np.maximum.accumulate(np.concatenate([start[:1], end[:-1]]))
        start = np.maximum(start, latest)
        end = np.maximum(end, start)
        found[mine] = end - start - every[gpu].computing(start, end)
    return found


def _since(gpu: Ints, whom: Ints, until: Ints, every: dict[int, Activity]) -> Ints:
    """Return since when each wait's GPU was in step with the others before.

    It was when it last waited or was waited for; at first, when the recording of all begins.
    """
    origin = max((one.begin for one in every.values()), default=0)
    since = np.full(len(gpu), origin, np.int64)
    for one, rows in runs(gpu):
        met = np.sort(until[(gpu == one) | (whom == one)])
        before = np.searchsorted(met, until[rows]) - 1
        since[rows] = np.where(before >= 0, met[np.maximum(before, 0)], origin)
    return np.asarray(np.minimum(since, until), np.int64)


def _shares(gpu: Ints, whom: Ints, window: tuple[Ints, Ints], every: dict[int, Activity]) -> Floats:
    """Return in which proportions what the late GPU did longer made the other one wait."""
    excess = _spent(whom, window, every) - _spent(gpu, window, every)
    excess = np.maximum(excess, 0)
    total = excess.sum(axis=1, keepdims=True)
    return np.asarray(excess / np.where(total > 0, total, 1), np.float64)


def _spent(gpu: Ints, window: tuple[Ints, Ints], every: dict[int, Activity]) -> Floats:
    """Return how long each GPU was in each state during its window."""
    found = np.zeros((len(gpu), len(STATES)))
    for one, states in every.items():
        mine = np.flatnonzero(gpu == one)
        before, after = (states.until(edge[mine]) for edge in window)
        found[mine] = np.stack([after[name] - before[name] for name in STATES], axis=1)
    return found

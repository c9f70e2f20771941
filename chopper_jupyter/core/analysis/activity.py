"""How long each GPU was in each state up to any time, as running totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.analysis.idle_causes import CAUSES, split_idle
from chopper_jupyter.core.intervals import covered, union

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.timeline import Timeline
    from chopper_jupyter.core.trace import Trace

BUSY = ("compute", "transfer", "memory")
"""States of a busy GPU; each takes what those before it leave: ``transfer`` is exposed."""


@dataclass(frozen=True)
class Activity:
    """Running totals of one GPU.

    Parameters
    ----------
    begin, end : int
        First start and last end of its kernels, in ns.
    unions : tuple of pairs of int64 arrays
        Disjoint intervals of compute, of that or collectives, and of anything.
    gap : int64 array
        Begin and end of each gap in turn, in order of time.
    idle : dict of str to float64 array
        By cause of idle time that occurs, its total until each of them.
    """

    begin: int
    end: int
    unions: tuple[tuple[Ints, Ints], ...]
    gap: Ints
    idle: dict[str, Floats]

    def until(self, time: Ints) -> dict[str, Floats]:
        """Return, by state, how long the GPU was in it before each time."""
        origin = np.full(len(time), min(self.begin, int(time.min(initial=self.begin))))
        found, before = {}, np.zeros(len(time))
        for name, (start, end) in zip(BUSY, self.unions, strict=True):
            total = covered(origin, time, start, end).astype(np.float64)
            found[name], before = total - before, total
        for name in CAUSES:
            totals = self.idle.get(name)
            found[name] = before * 0 if totals is None else np.interp(time, self.gap, totals)
        return found

    def computing(self, start: Ints, end: Ints) -> Ints:
        """Return how long compute ran within each interval."""
        return covered(start, end, *self.unions[0])


def activity(trace: Trace, line: Timeline) -> dict[int, Activity]:
    """Return the running totals of every GPU of a timeline.

    Examples
    --------
    >>> from chopper_jupyter.core.analysis.included import included
    >>> from chopper_jupyter.core.analysis.timeline import timeline
    >>> from chopper_jupyter.core.trace import Trace
    >>> trace = Trace.from_tables({})
    >>> activity(trace, timeline(trace, included(trace), "this"))
    {}
    """
    causes = split_idle(trace, line)
    idle = line.ints("idle_ns")
    compute, collective = line.named("kind", "compute"), line.named("kind", "collective")
    found = {}
    for gpu, places in line.gpus():
        start, end, gap = line.start[places], line.end[places], idle[places]
        kinds = (compute[places], compute[places] | collective[places])
        rows = np.flatnonzero(gap > 0)
        lost = {name: values[places][rows] for name, values in causes.items()}
        found[gpu] = Activity(
            int(start[0]),
            int(end.max()),
            (*(union(start[mask], end[mask]) for mask in kinds), union(start, end)),
            _alternating(start[rows] - gap[rows], start[rows]),
            {name: _steps(values) for name, values in lost.items() if values.any()},
        )
    return found


def _steps(lost: Ints) -> Floats:
    """Return the total before and after each gap."""
    after = np.cumsum(lost.astype(np.float64))
    return _alternating(after - lost, after)


def _alternating(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return one value of each in turn."""
    found = np.empty(2 * len(first), first.dtype)
    found[::2], found[1::2] = first, second
    return found

"""How long each GPU was in each state up to any time, as running totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.idle_causes import split_idle
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
        By cause of idle time, its total until each of them.
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
        for name, totals in self.idle.items():
            found[name] = np.interp(time, self.gap, totals) if len(self.gap) else before * 0
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
        kinds = (compute[places], (compute | collective)[places], np.ones(len(start), bool))
        rows = np.flatnonzero(gap > 0)
        edges = np.stack([start[rows] - gap[rows], start[rows]], axis=1).reshape(-1)
        found[gpu] = Activity(
            int(start[0]),
            int(end.max()),
            tuple(union(start[mask], end[mask]) for mask in kinds),
            edges,
            {name: _steps(values[places][rows]) for name, values in causes.items()},
        )
    return found


def _steps(lost: Ints) -> Floats:
    """Return the total before and after each gap."""
    after = np.cumsum(lost.astype(np.float64))
    return np.stack([after - lost, after], axis=1).reshape(-1)

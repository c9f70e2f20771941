"""When each iteration ran on each GPU, for what is known by time alone, such as telemetry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.included import NEVER, included

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Ints
    from chopper_jupyter.core.trace import Trace


@dataclass(frozen=True)
class Windows:
    """Consecutive spans of time, the last kernel's end of one being the start of the next.

    Parameters
    ----------
    iterations : tuple of int or None
        The iteration of each; None for a recording without iterations, then there is one.
    start, end : numpy.ndarray of int64
        Exclusive start and inclusive end of each in ns; they do not overlap.
    """

    iterations: tuple[int | None, ...]
    start: Ints
    end: Ints

    def place(self, time: Ints) -> Ints:
        """Return which window each time lies in, -1 for none.

        Examples
        --------
        >>> Windows((0, 1), np.array([0, 10]), np.array([10, 30])).place(np.array([0, 5, 10, 31]))
        array([-1,  0,  0, -1])
        """
        if not len(self.end):
            return np.full(len(time), -1)
        at = np.searchsorted(self.end, time)
        inside = at < len(self.end)
        at = np.where(inside, at, 0)
        return np.where(inside & (time > self.start[at]), at, -1)


def iteration_windows(trace: Trace, gpus: list[int] | None = None) -> Windows:
    """Return the windows of the iterations after warm-up, over some GPUs together.

    Iteration k ends with the last kernel of it on any of the GPUs. A first iteration without one
    before it starts with its first kernel.
    """
    which = included(trace)
    rows = [i for i, gpu in enumerate(which.gpus) if gpus is None or gpu in gpus]
    begin, end = (edge[rows] for edge in which.edges)
    ran = begin.min(axis=0, initial=NEVER) != NEVER
    if not ran.any():
        none = np.zeros(0, np.int64)
        return Windows((), none, none)
    if not which.iterations:
        return Windows((None,), np.array([begin.min() - 1]), np.array([end.max()]))
    codes = [i for i in range(len(which.iterations)) if ran[i]]
    ends = np.maximum.accumulate(end[:, codes].max(axis=0))
    starts = np.concatenate([[begin[:, codes[0]].min() - 1], ends[:-1]])
    return Windows(tuple(which.iterations[i] for i in codes), starts, ends)

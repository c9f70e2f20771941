"""When each iteration ran on each GPU, for what is known by time alone, such as telemetry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.included import included

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
    kernels = included(trace).kernels
    if gpus is not None:
        kernels = kernels.filter(pc.is_in(kernels["gpu"], pa.array(gpus, pa.int32())))
    start = kernels["start_ns"].to_numpy()
    end = start + kernels["dur_ns"].to_numpy()
    first = start - kernels["idle_ns"].to_numpy()  # the gap before a kernel belongs to it
    if not len(start):
        none = np.zeros(0, np.int64)
        return Windows((), none, none)
    iterations = trace.measured_iterations
    if not iterations:
        return Windows((None,), np.array([first.min() - 1]), np.array([end.max()]))
    own = pc.fill_null(kernels["iteration"], -1).to_numpy()
    present = [i for i in iterations if (own == i).any()]
    ends = np.maximum.accumulate([int(end[own == i].max()) for i in present])
    starts = np.concatenate([[int(first[own == present[0]].min()) - 1], ends[:-1]])
    return Windows(tuple(present), starts.astype(np.int64), ends.astype(np.int64))

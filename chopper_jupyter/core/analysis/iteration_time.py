"""How long an iteration takes: the wall time of the slowest GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.grouping import Ints, group
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.levels import encode
from chopper_jupyter.core.analysis.tokens import tokens_per_iteration

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace


@dataclass(frozen=True)
class IterationTime:
    """Wall time of each included iteration.

    Parameters
    ----------
    iterations : tuple of int
        The iterations; empty if the recording has none, then it counts as one.
    wall_ns : numpy.ndarray of int64
        Wall time of each, the longest over the GPUs.
    tokens_per_second : float or None
        Tokens of an iteration over its median time, if the number of tokens is known.
    tokens_from : str
        Where the number of tokens comes from.
    """

    iterations: tuple[int, ...]
    wall_ns: Ints
    tokens_per_second: float | None = None
    tokens_from: str = ""

    @property
    def median_ns(self) -> float:
        """Median over the iterations."""
        return float(np.median(self.wall_ns))


def iteration_time(trace: Trace) -> IterationTime | None:
    """Measure the included iterations; None if there are no kernels.

    The wall time of an iteration on one GPU is the busy and idle time of its kernels: from the
    end of the last kernel before it to the end of its own last one.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> iteration_time(Trace.from_tables({})) is None
    True
    """
    which = included(trace)
    tokens = tokens_per_iteration(trace)
    kernels = which.kernels
    if not kernels.num_rows:
        return None
    iteration = encode(kernels, "iteration")
    groups = group([iteration, encode(kernels, "gpu")], kernels.num_rows)
    wall = groups.sum_of(kernels["busy_ns"].to_numpy() + kernels["idle_ns"].to_numpy())
    longest = np.zeros(max(1, len(which.iterations)), np.int64)
    np.maximum.at(longest, groups.codes[0], wall)  # without iterations all codes are -1: the one
    median = float(np.median(longest))
    rate = tokens.count / median * 1e9 if tokens and which.iterations and median else None
    return IterationTime(which.iterations, longest, rate, tokens.source if tokens else "")

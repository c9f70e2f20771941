"""The whole run in a few hundred bins: how busy the GPUs were and when the iterations ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.schema import FAMILIES

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.timeline_index import TimelineIndex
    from chopper_jupyter.core.trace import Trace


@dataclass(frozen=True)
class IterationSpan:
    """When an iteration ran on any GPU; ``measured`` is False for warm-up."""

    number: int
    start: int
    end: int
    measured: bool


def iteration_spans(trace: Trace, index: TimelineIndex) -> list[IterationSpan]:
    """Return first start and last end of the compute kernels of every iteration."""
    spans = index.spans["iteration"]
    measured = set(trace.measured_iterations)
    found = []
    for number in np.unique(spans.code).tolist():
        own = spans.code == number
        start, end = int(spans.start[own].min()), int(spans.end[own].max())
        found.append(IterationSpan(number, start, end, number in measured))
    return found


def busy_share(trace: Trace, bins: int) -> Floats:
    """Return the share of every bin of the run in which kernels of each family kept GPUs busy.

    Parameters
    ----------
    trace : Trace
        The trace.
    bins : int
        How many bins to divide the run into, first start to last end.

    Returns
    -------
    numpy.ndarray of float64
        One row per family of ``FAMILIES``, one column per bin; the mean over GPUs. Nothing is
        counted twice, so that the rest to 1 is idle time.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> busy_share(Trace.from_tables({}), 3).sum()
    np.float64(0.0)
    """
    kernels = trace.kernels
    shares = np.zeros((len(FAMILIES), bins))
    if not kernels.num_rows:
        return shares
    start = kernels["start_ns"].to_numpy()
    end = start + kernels["dur_ns"].to_numpy()
    busy = kernels["busy_ns"].to_numpy()
    edges = np.linspace(start.min(), end.max(), bins + 1)
    width = max(edges[1] - edges[0], 1e-9)
    gpus = len(np.unique(kernels["gpu"].to_numpy()))
    codes = kernels["family"].unify_dictionaries().combine_chunks()
    names = codes.dictionary.to_pylist()
    raw = codes.indices.to_numpy(zero_copy_only=False)
    for code, name in enumerate(names):
        own = raw == code
        at = FAMILIES.index(name if name in FAMILIES else "elementwise")
        # What an earlier kernel did not account for yet is the last part of a kernel.
        shares[at] += np.diff(_time_before(end[own] - busy[own], end[own], edges))
    return np.asarray(np.clip(shares / (width * gpus), 0, 1))


def _time_before(start: Ints, end: Ints, edges: Floats) -> Floats:
    """Return the time that intervals spend before each edge, summed over the intervals."""
    return _past(start, edges) - _past(end, edges)


def _past(times: Ints, edges: Floats) -> Floats:
    """Return, for each edge, how long ago all earlier times were, summed."""
    ordered = np.sort(times)
    sums = np.concatenate([np.zeros(1), np.cumsum(ordered - edges[0])])
    before = np.searchsorted(ordered, edges)
    return np.asarray(before * (edges - edges[0]) - sums[before])

"""Before which kernels the host had waited until the GPU had run all that was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.host_threads import filled, may_run_on, places_by_rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chopper_jupyter.core.analysis.grouping import Ints
    from chopper_jupyter.core.analysis.timeline import Mask, Timeline
    from chopper_jupyter.core.trace import Trace

SYNC = "sync"
"""Kind of the spans that are waits of the host for the GPU."""


def synchronised(trace: Trace, line: Timeline, begin: Ints, launch: Ints) -> Mask:
    """Mark the kernels whose thread waited for the GPU when their gap began.

    Such a call began while the GPU still worked, ended after the gap had begun, and before the
    kernel was launched: as long as it lasted, nothing could be launched ahead.

    Parameters
    ----------
    trace : Trace
        Its ``spans`` hold the waits.
    line : Timeline
        The kernels.
    begin, launch : numpy.ndarray of int64
        Start of the gap before each kernel, and of its launch call, by place. Kernels that were
        launched before their gap began are not marked.

    Notes
    -----
    Threads are told apart as for the data loader: see ``loading_time``.
    """
    found = np.zeros(len(begin), bool)
    places_of, hits = places_by_rank(trace, line), []
    for rank, tid, start, end in _waits(trace):
        for places in places_of.get(rank, ()):
            rows = places.start + np.flatnonzero(launch[places] > begin[places])
            at = np.searchsorted(end, begin[rows])
            some = at < len(end)
            rows, at = rows[some], at[some]
            rows = rows[(start[at] <= begin[rows]) & (end[at] <= launch[rows])]
            hits.append((rows, np.full(len(rows), tid)))
    if hits:
        at, threads = (np.concatenate(columns) for columns in zip(*hits, strict=True))
        found[at[may_run_on(trace, line, at, threads)]] = True
    return found


def _waits(trace: Trace) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Yield rank, thread, starts and ends of the waits of each thread, in order of time.

    A thread waits in one call at a time.
    """
    waits = trace.spans.filter(pc.equal(trace.spans["kind"].cast(pa.string()), SYNC))
    columns = (waits[name] for name in ("rank", "tid", "start_ns", "dur_ns"))
    rank, tid, start, dur = (filled(column) for column in columns)
    for one, thread in sorted(set(zip(rank.tolist(), tid.tolist(), strict=True))):
        mine = np.flatnonzero((rank == one) & (tid == thread))
        order = mine[np.argsort(start[mine], kind="stable")]
        yield one, thread, start[order], np.maximum.accumulate(start[order] + dur[order])

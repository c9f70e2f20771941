"""When the host threads that launch kernels were waiting for their data loader."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.host_threads import filled, may_run_on, places_by_rank
from chopper_jupyter.core.intervals import covered, union

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Ints
    from chopper_jupyter.core.analysis.timeline import Timeline
    from chopper_jupyter.core.trace import Trace

_NEXT = re.compile(r"DataLoader.*__next__$")
"""``enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__`` and its kin."""


def loading_time(trace: Trace, line: Timeline, begin: Ints, length: Ints) -> Ints:
    """Return how long, within a time before each kernel, its thread waited for the data loader.

    Parameters
    ----------
    trace : Trace
        Its ``spans`` and ``ops`` hold the calls of the data loader.
    line : Timeline
        The kernels.
    begin, length : numpy.ndarray of int64
        The time to look at, by place.

    Notes
    -----
    The thread of a kernel is that of the operator that launched it: a loader that runs in a
    thread of its own does not hold up those that do not wait for it. Where the operator is not
    known, any thread of the rank counts.
    """
    found = np.zeros(len(begin), np.int64)
    places_of = places_by_rank(trace, line)
    hits = [
        (rows[time > 0], np.full(np.count_nonzero(time), tid), time[time > 0])
        for (rank, tid), waits in _waits(trace).items()
        for places in places_of.get(rank, ())
        for rows in [places.start + np.flatnonzero(length[places])]
        for time in [covered(begin[rows], begin[rows] + length[rows], *waits)]
    ]
    if hits:
        at, tid, time = (np.concatenate(columns) for columns in zip(*hits, strict=True))
        np.maximum.at(found, at, np.where(may_run_on(trace, line, at, tid), time, 0))
    return found


def _waits(trace: Trace) -> dict[tuple[int, int], tuple[Ints, Ints]]:
    """Return the calls of data loaders by rank and thread, as disjoint intervals."""
    parts = [_calls(table) for table in (trace.spans, trace.ops)]
    rank, tid, start, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    threads = set(zip(rank.tolist(), tid.tolist(), strict=True))
    waits = {}
    for one in sorted(threads):
        mine = (rank == one[0]) & (tid == one[1])
        waits[one] = union(start[mine], end[mine])
    return waits


def _calls(table: pa.Table) -> tuple[Ints, Ints, Ints, Ints]:
    """Return rank, thread, start and end of the calls of data loaders in a table."""
    names = table["name"].unify_dictionaries()
    words = names.chunk(0).dictionary.to_pylist() if names.num_chunks else []
    wanted = [i for i, word in enumerate(words) if _NEXT.search(word)]
    rows = np.zeros(0, np.int64)
    if wanted:
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in names.chunks])
        rows = np.flatnonzero(np.isin(codes, wanted))
    few = table.select(["rank", "tid", "start_ns", "dur_ns"]).take(pa.array(rows))
    rank, tid, start, dur = (filled(few[column]) for column in few.column_names)
    return rank, tid, start, start + dur

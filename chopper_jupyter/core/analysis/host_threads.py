"""Which kernels a thread of the host may have launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Ints
    from chopper_jupyter.core.analysis.timeline import Mask, Timeline
    from chopper_jupyter.core.trace import Trace

_NO_RANK = -1


def places_by_rank(trace: Trace, line: Timeline) -> dict[int, list[slice]]:
    """Return by rank the places of each GPU that it drove."""
    rank_of = dict(zip(*(filled(trace.gpus[c]).tolist() for c in ("gpu", "rank")), strict=True))
    found: dict[int, list[slice]] = {}
    for gpu, places in line.gpus():
        found.setdefault(rank_of.get(gpu, _NO_RANK), []).append(places)
    return found


def may_run_on(trace: Trace, line: Timeline, places: Ints, tid: Ints) -> Mask:
    """Mark the kernels that were launched from a thread, or nobody knows from which."""
    ids, threads = (trace.ops[column].to_numpy() for column in ("op_id", "tid"))
    if not len(ids):
        return np.ones(len(places), bool)
    wanted = line.ints("op_id", -1)[places]
    order = np.argsort(ids, kind="stable")
    at = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    return np.asarray((ids[at] != wanted) | (threads[at] == tid), bool)


def filled(column: pa.ChunkedArray) -> Ints:
    """Return whole numbers with -1 for null."""
    return np.asarray(pc.fill_null(column, _NO_RANK).to_numpy(), np.int64)

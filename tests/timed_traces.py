"""Traces drawn by hypothesis whose times make sense: launches, overlaps, gaps, data loaders."""

from __future__ import annotations

import itertools

import brute_force
import pyarrow as pa
from builders import kernels
from hypothesis import strategies as st

from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.schema import KERNEL_KINDS, KERNELS
from chopper_jupyter.core.trace import Trace, TraceInfo

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
COPIES = ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pageable)", "CopyHostToDevice")
THREADS = {10: 0, 11: 0, 12: 1}
"""Thread of each operator."""


@st.composite
def timed_rows(draw, smallest: int = 0) -> list[dict]:
    """Draw kernels whose overlap, busy and idle time follow from when they run."""
    starts = draw(st.lists(st.integers(0, 60), unique=True, min_size=smallest, max_size=14))
    rows = [_row(draw, i, start) for i, start in enumerate(starts)]
    return with_measures(rows)


def _row(draw, number: int, start: int) -> dict:
    kind = draw(st.sampled_from(KERNEL_KINDS))
    names = COPIES if kind == "memcpy" else ("one", "two")
    launch = draw(st.none() | st.integers(start - 30, start + 4))
    known = ("runtime", "driver", "graph")
    return {
        "kernel_id": number,
        "gpu": draw(st.integers(0, 1)),
        "stream": draw(st.sampled_from((0, 7, 2**40))),
        "name": draw(st.sampled_from(names)),
        "kind": kind,
        "family": draw(st.sampled_from(("gemm", "norm"))),
        "start_ns": start,
        "dur_ns": draw(st.integers(0, 12)),
        "launch_ns": launch,
        "launch_kind": None if launch is None else draw(st.sampled_from(known)),
        "op_id": draw(st.sampled_from((None, *THREADS))),
        "iteration": draw(st.sampled_from((None, 0, 1, 2))),
        "micro_batch": draw(st.sampled_from((None, 0, 1))),
        "phase": draw(st.sampled_from((None, "forward", "backward"))),
        "layer": draw(st.sampled_from((None, "layers.0"))),
        "op": draw(st.sampled_from((None, "q_proj", "up"))),
        "recompute": draw(st.booleans()),
        "collective": draw(st.sampled_from(("all_gather", "all_reduce")))
        if kind == "collective"
        else None,
    }


def with_measures(rows: list[dict]) -> list[dict]:
    """Fill in overlap, busy and idle time."""
    for gpu in {row["gpu"] for row in rows}:
        mine = [row for row in rows if row["gpu"] == gpu]
        for row, (overlap, busy, idle) in zip(mine, brute_force.times(mine), strict=True):
            row.update(overlap_ns=overlap, busy_ns=busy, idle_ns=idle)
    return rows


LOADS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(-10, 60), st.integers(0, 9)),
    max_size=4,
)
"""Calls of data loaders: rank, thread, start, length."""


def _one_at_a_time(calls):
    """Drop calls that begin before an earlier one of their thread ends."""
    kept, free = [], {}
    for rank, tid, start, dur in sorted(calls, key=lambda call: call[2:]):
        if start >= free.get((rank, tid), start):
            kept.append((rank, tid, start, dur))
            free[rank, tid] = start + dur
    return kept


SYNCS = LOADS.map(_one_at_a_time)
"""Waits of the host for the GPU: rank, thread, start, length."""


def timed_trace(rows, loads=(), syncs=(), **info) -> Trace:
    """Make a Trace in which GPU g belongs to rank g; the first loads are spans, the rest ops."""
    unsaid = dict.fromkeys({name for row in rows for name in row if KERNELS.field(name).nullable})
    rows = [unsaid | row for row in rows]
    gpus = [
        {"gpu": gpu, "rank": gpu, "device": gpu, "offset_ns": 0}
        for gpu in sorted({row["gpu"] for row in rows} | {0})
    ]
    calls = [
        {"name": LOADER, "rank": rank, "tid": tid, "start_ns": start, "dur_ns": dur}
        for rank, tid, start, dur in loads
    ]
    spans = [
        {"span_id": i, "kind": "annotation", **call} for i, call in enumerate(calls) if i % 2 == 0
    ]
    spans += [
        {"span_id": 50 + i, "kind": "sync", "name": "cudaStreamSynchronize"}
        | dict(zip(("rank", "tid", "start_ns", "dur_ns"), call, strict=True))
        for i, call in enumerate(syncs)
    ]
    ops = [{"op_id": 100 + i, **call} for i, call in enumerate(calls) if i % 2]
    ops += [
        {"op_id": number, "name": "aten::mm", "rank": 0, "tid": tid, "start_ns": 0, "dur_ns": 0}
        for number, tid in THREADS.items()
    ]
    tables = {"gpus": pa.Table.from_pylist(gpus), "ops": pa.Table.from_pylist(ops)}
    tables |= {"kernels": kernels(rows)} if rows else {}
    tables |= {"spans": pa.Table.from_pylist(spans)} if spans else {}
    return Trace.from_tables(tables, TraceInfo(**info), Quality(kernels=len(rows)))


def covered(rows, include: str, warmup: int) -> list[dict]:
    """Rows that an answer covers."""
    numbers = sorted({row["iteration"] for row in rows} - {None})
    if include == "all" or not numbers:
        return rows
    measured = numbers[warmup:] or numbers
    return [row for row in rows if row["iteration"] in measured]


def grouped(rows, by):
    """Rows by the values of the columns that the levels name."""
    columns = ["name" if level == "kernel" else level for level in by]
    values = [tuple(row.get(column) for column in columns) for row in rows]
    return {v: [row for row, w in zip(rows, values, strict=True) if v == w] for v in set(values)}


def by_key(frame, by) -> dict:
    """Rows of an answer by the values of its key columns, null as None."""
    plain = frame.astype(object).where(frame.notna(), None)
    records = plain.to_dict("records")
    return {tuple(row[level] for level in by): row for row in records}


def merged(intervals) -> list[tuple[int, int]]:
    """Union of intervals, one after the other."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > start:
            found.append((start, end))
    return found


def shared(some, others) -> int:
    """Time that two lists of disjoint intervals have in common."""
    pairs = itertools.product(some, others)
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs)

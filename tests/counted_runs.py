"""Counting runs made from rows: what a counter importer would have read."""

from __future__ import annotations

import pyarrow as pa

from chopper_jupyter.core.counter_events import COUNTED, VALUES, CounterRun


def counted_run(rows: list[dict], tool: str = "rocprofv3", **facts) -> CounterRun:
    """Make a run of these kernels; ``counters`` of a row maps counters to values."""
    base = {
        "pass": 0, "process": 1000, "device": 0, "stream": 1, "name": "k", "work_items": 64,
        "group_items": 32, "start_ns": None, "dur_ns": None,
    }  # fmt: skip
    full = [
        {"counted_id": i, "order": i, **base, **{k: v for k, v in row.items() if k != "counters"}}
        for i, row in enumerate(rows)
    ]
    values = [
        {"counted_id": i, "counter": counter, "value": float(value)}
        for i, row in enumerate(rows)
        for counter, value in row.get("counters", {}).items()
    ]
    return CounterRun(
        tool,
        pa.Table.from_pylist(full, COUNTED),
        pa.Table.from_pylist(values, VALUES),
        sources=("test",),
        **facts,
    )

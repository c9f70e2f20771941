"""Traces with samples of sensors."""

from __future__ import annotations

import pyarrow as pa
from builders import trace_of

from chopper_jupyter.core.trace import Trace


def sample(metric, time_ns, value, *, gpu=None, core=None, host=None) -> dict:
    return {
        "source": "test", "host": host, "gpu": gpu, "core": core, "time_ns": time_ns,
        "metric": metric, "value": float(value),
    }  # fmt: skip


def with_samples(trace: Trace, rows: list[dict]) -> Trace:
    table = pa.Table.from_pylist(rows)
    return Trace.from_tables({**trace.tables, "telemetry": table}, trace.info, trace.quality)


def steady(gpus: int = 1, iterations: int = 3, **info) -> Trace:
    """Make a Trace whose iterations last 1,000 ns: mm for 600, a gap of 100, norm for 300."""
    rows = []
    for gpu in range(gpus):
        for i in range(iterations):
            at = 1000 * i
            rows += [
                {"gpu": gpu, "iteration": i, "phase": "forward", "op": "mm", "start_ns": at,
                 "dur_ns": 600},
                {"gpu": gpu, "iteration": i, "phase": "backward", "op": "norm",
                 "start_ns": at + 700, "dur_ns": 300, "idle_ns": 100},
            ]  # fmt: skip
    return trace_of(rows, **info)

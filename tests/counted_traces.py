"""Traces with counters and telemetry made of rows, and real counter files as rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
from builders import kernels

from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.schema import KERNELS
from chopper_jupyter.core.trace import Trace, TraceInfo


def counted_trace(
    rows: list[dict[str, Any]],
    gpu: str = "AMD Instinct MI300X",
    *,
    telemetry: list[dict[str, Any]] = (),
    ops: list[dict[str, Any]] = (),
    **info: Any,
) -> Trace:
    """Make a Trace of kernels; ``counters`` of a row maps counters to values, or to several.

    Several values are those of several passes.
    """
    counted = [
        {"kernel_id": row.get("kernel_id", i), "counter": name, "value": float(value), "pass": at,
         "matched_by": "unique"}
        for i, row in enumerate(rows)
        for name, values in row.get("counters", {}).items()
        for at, value in enumerate(values if isinstance(values, list) else [values])
    ]  # fmt: skip
    plain = [{k: v for k, v in row.items() if k != "counters"} for row in rows]
    given = {name for row in plain for name in row}
    unsaid = dict.fromkeys(name for name in given if KERNELS.field(name).nullable)
    gpus = sorted({row.get("gpu", 0) for row in rows} | {0})
    every = dict.fromkeys(n for one in ops for n in one)
    tables = {
        "gpus": [{"gpu": g, "rank": g, "device": g, "name": gpu, "offset_ns": 0} for g in gpus],
        "counters": counted,
        "telemetry": [{"source": "test", "host": "h", **row} for row in telemetry],
        "ops": [
            {
                **every,
                "name": "aten::op",
                "rank": 0,
                "start_ns": 0,
                "dur_ns": 1,
                "tid": 1,
                **row,
            }
            for row in ops
        ],
    }
    made = {name: pa.Table.from_pylist(found) for name, found in tables.items() if found}
    if plain:
        made["kernels"] = kernels([unsaid | row for row in plain])
    quality = Quality(kernels=len(rows))
    return Trace.from_tables(made, TraceInfo(**info), quality)


def rocprof_rows(*paths: Path) -> list[dict[str, Any]]:
    """Read files of rocprofv3 as kernels one after the other, in the order of the first file."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        with path.open(newline="") as file:
            for line in csv.DictReader(file):
                start, end = (int(line[f"{at}_Timestamp"]) for at in ("Start", "End"))
                row = found.setdefault(
                    line["Dispatch_Id"],
                    {"name": line["Kernel_Name"], "start_ns": 0, "dur_ns": end - start,
                     "counters": {"counted_duration_ns": end - start}},
                )  # fmt: skip
                row["counters"][line["Counter_Name"]] = float(line["Counter_Value"])
    for before, row in zip([None, *found.values()], found.values(), strict=False):
        row["start_ns"] = before["start_ns"] + before["dur_ns"] if before else 0
    return list(found.values())

"""Counters in rocpd databases and in the JSON of rocprofv3."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counter_tables import (
    NO_KERNEL,
    CountedFile,
    dense,
    first_rows,
    with_durations,
)
from chopper_jupyter.core.importers.sqlite_columns import opened, tables_of

if TYPE_CHECKING:
    from pathlib import Path

VIEW = "counters_collection"
_WANTED = (
    "dispatch_id", "pid", "agent_abs_index", "queue_id", "grid_size", "workgroup_size",
    "kernel_name", "counter_name", "value", "start", "end",
)  # fmt: skip


def read_rocpd(path: Path) -> CountedFile:
    """Read the counters of a rocpd database.

    Raises
    ------
    TraceFormatError
        If it is damaged or holds no counters.
    """
    with opened(path) as db:
        if VIEW not in tables_of(db):
            msg = f"{path.name} holds no counters: it has no {VIEW}"
            raise TraceFormatError(msg)
        there = {row[1] for row in db.execute(f"PRAGMA table_info({VIEW})")}
        missing = {"dispatch_id", "kernel_name", "counter_name", "value"} - there
        if missing:
            msg = f"{path.name}: {VIEW} lacks {', '.join(sorted(missing))}"
            raise TraceFormatError(msg)
        names = [f'"{name}"' if name in there else "NULL" for name in _WANTED]
        rows = db.execute(f"SELECT {', '.join(names)} FROM {VIEW}").fetchall()  # noqa: S608  fixed
    return _of_records([dict(zip(_WANTED, row, strict=True)) for row in rows], path)


def read_json(path: Path) -> CountedFile:
    """Read the counters of rocprofv3's JSON; instances of a counter add up.

    Raises
    ------
    TraceFormatError
        If it holds no counters.
    """
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    try:
        tools = json.loads(data)["rocprofiler-sdk-tool"]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{path.name} is not the JSON of rocprofv3 ({error!r})"
        raise TraceFormatError(msg) from error
    records: list[dict[str, Any]] = []
    for tool in tools:
        records += _of_tool(tool)
    return _of_records(records, path)


def _of_tool(tool: dict[str, Any]) -> list[dict[str, Any]]:
    counters = {c["id"]["handle"]: c["name"] for c in tool.get("counters", [])}
    symbols = {s["kernel_id"]: s.get("formatted_kernel_name") or s.get("kernel_name", "")
               for s in tool.get("kernel_symbols", [])}  # fmt: skip
    agents = {a["id"]["handle"]: a.get("node_id", 0) for a in tool.get("agents", [])}
    pid = tool.get("metadata", {}).get("pid")
    found = []
    for one in tool.get("callback_records", {}).get("counter_collection", []):
        data = one["dispatch_data"]
        info = data["dispatch_info"]
        sums: Counter[int] = Counter()
        for record in one.get("records", []):
            sums[record["counter_id"]["handle"]] += record["value"]
        about = {
            "dispatch_id": info["dispatch_id"], "pid": pid,
            "agent_abs_index": agents.get(info["agent_id"]["handle"], 0),
            "queue_id": info["queue_id"]["handle"], "grid_size": _product(info["grid_size"]),
            "workgroup_size": _product(info["workgroup_size"]),
            "kernel_name": symbols.get(info["kernel_id"]), "start": data.get("start_timestamp"),
            "end": data.get("end_timestamp"),
        }  # fmt: skip
        found += [
            {**about, "counter_name": counters.get(handle), "value": value}
            for handle, value in sums.items()
        ]
    return found


def _product(size: dict[str, int]) -> int:
    return int(size["x"]) * int(size["y"]) * int(size["z"])


def _of_records(records: list[dict[str, Any]], path: Path) -> CountedFile:
    """Put records, one per counter of a kernel, into columns."""
    needed = ("dispatch_id", "kernel_name", "counter_name", "value")
    good = [r for r in records if all(r[name] is not None for name in needed)]
    if not good:
        msg = f"{path.name} holds no counters"
        raise TraceFormatError(msg)
    table = pa.Table.from_pylist(good)
    names = {name: table[name].combine_chunks() for name in table.column_names}
    pid = names["pid"].cast(pa.int64()).fill_null(0).to_numpy()
    dispatch = names["dispatch_id"].cast(pa.int64()).to_numpy()
    _, process = np.unique(pid, return_inverse=True)
    first, kernel = first_rows(process.reshape(-1) * (int(dispatch.max()) + 1) + dispatch)
    at = pa.array(first)
    device = dense(names["agent_abs_index"].cast(pa.string()))[first]
    made = CountedFile(
        {
            "process": names["pid"].cast(pa.int64()).take(at),
            "device": pa.array(device),
            "stream": names["queue_id"].cast(pa.int64()).take(at),
            "order": names["dispatch_id"].cast(pa.int64()).take(at),
            "name": names["kernel_name"].cast(pa.string()).take(at),
            "work_items": names["grid_size"].cast(pa.int64()).take(at),
            "group_items": names["workgroup_size"].cast(pa.int64()).take(at),
        },
        kernel,
        names["counter_name"].cast(pa.string()),
        np.asarray(names["value"].cast(pa.float64()).to_numpy(zero_copy_only=False)),
        {},
        Counter({NO_KERNEL: len(records) - len(good)} if len(records) > len(good) else {}),
    )
    start, end = (names[n].cast(pa.int64()).take(at) for n in ("start", "end"))
    known = start.is_valid().to_numpy(zero_copy_only=False) & end.is_valid().to_numpy(
        zero_copy_only=False
    )
    begun, ended = (np.asarray(t.fill_null(0), np.int64) for t in (start, end))
    return with_durations(made, begun, ended, known)

"""Counters of rocprofv3 in JSON: ``rocprofv3 --pmc ... --output-format json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counter_agents import agents_of
from chopper_jupyter.core.importers.counter_parts import UNKNOWN, LongRows, Part, part_of_rows
from chopper_jupyter.core.importers.csv_columns import filled
from chopper_jupyter.core.importers.json_values import as_document
from chopper_jupyter.core.importers.rocprof_json_trace import GPU, KEY

if TYPE_CHECKING:
    from pathlib import Path

    from chopper_jupyter.core.importers.event_tables import Ints

AXES = ("x", "y", "z")
_HANDLE = pa.struct([("handle", pa.uint64())])
_SIZE = pa.struct([(axis, pa.int64()) for axis in AXES])
_INFO = pa.struct([
    ("agent_id", _HANDLE), ("queue_id", _HANDLE), ("kernel_id", pa.int64()),
    ("dispatch_id", pa.int64()), ("workgroup_size", _SIZE), ("grid_size", _SIZE),
])  # fmt: skip
_DATA = pa.struct([
    ("dispatch_info", _INFO), ("start_timestamp", pa.int64()), ("end_timestamp", pa.int64()),
])  # fmt: skip
_RECORD = pa.struct([("counter_id", _HANDLE), ("value", pa.float64())])
COUNTED = pa.struct([("dispatch_data", _DATA), ("records", pa.list_(_RECORD))])


def read_parts(path: Path) -> list[Part]:
    """Read a file: one part for each process that counted.

    The file has a value for each instance of a counter (die, shader engine, channel); they are
    added up, as in the CSV of rocprofv3.

    Raises
    ------
    TraceFormatError
        If the file is damaged, of another tool, or holds no counters.
    """
    document = as_document(path)
    tools = document.get(KEY) if isinstance(document, dict) else None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        msg = f"{path.name} is not the JSON of rocprofv3: it has no list {KEY!r}"
        raise TraceFormatError(msg)
    try:
        found = [_part(tool, path) for tool in tools if _records(tool)]
    except (pa.ArrowException, KeyError, TypeError, AttributeError, OverflowError) as error:
        msg = f"{path.name} is JSON of rocprofv3 with counters that cannot be read ({error!r})"
        raise TraceFormatError(msg) from error
    if not found:
        msg = f"{path.name} holds no counters: it was recorded without `--pmc`"
        raise TraceFormatError(msg)
    return found


def _records(tool: dict[str, Any]) -> list[Any]:
    return (tool.get("callback_records") or {}).get("counter_collection") or []


def _part(tool: dict[str, Any], path: Path) -> Part:
    counted = pa.array(_records(tool), COUNTED)
    data = counted.field("dispatch_data")
    info = data.field("dispatch_info")
    pid = (tool.get("metadata") or {}).get("pid")
    records = counted.field("records")
    kernel = np.asarray(pc.list_parent_indices(records).to_numpy(), np.int64)
    flat = pc.list_flatten(records)
    at = pa.array(kernel)
    names = {c["id"]["handle"]: c["name"] for c in tool.get("counters") or []}
    rows = LongRows(
        {
            "process": np.full(len(kernel), UNKNOWN if pid is None else int(pid)),
            "stream": filled(_handle(info, "queue_id"), UNKNOWN)[kernel],
            "order": filled(info.field("dispatch_id"), UNKNOWN)[kernel],
            "work_items": _product(info.field("grid_size"))[kernel],
            "group_items": _product(info.field("workgroup_size"))[kernel],
            "start": filled(data.field("start_timestamp"), 0)[kernel],
            "end": filled(data.field("end_timestamp"), 0)[kernel],
            "agent": _handle(info, "agent_id").cast(pa.string()).take(at),
            "name": _words(info.field("kernel_id"), _symbols(tool)).take(at),
        },
        _words(_handle(flat, "counter_id"), names),
        flat.field("value"),
    )
    part = part_of_rows(rows, "rocprofv3", path, summed=True)
    part.form = "json"
    gpus = [a for a in tool.get("agents") or [] if a.get("type", GPU) == GPU]
    part.agents = agents_of([g | {"label": str(g["id"]["handle"])} for g in gpus])
    return part


def _handle(values: pa.Array, name: str) -> pa.Array:
    """Return handles as signed numbers: only which are equal matters."""
    return values.field(name).field("handle").view(pa.int64())


def _words(number: pa.Array, words: dict[int, str]) -> pa.DictionaryArray:
    """Return the text of each number; null where there is none."""
    known = {key: str(word) for key, word in words.items() if word}
    keys = pa.array(list(known), pa.uint64()).view(pa.int64())
    codes = pc.index_in(number, value_set=keys)
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(known.values()), pa.string()))


def _symbols(tool: dict[str, Any]) -> dict[int, str]:
    return {
        symbol["kernel_id"]: symbol.get("formatted_kernel_name") or symbol.get("kernel_name") or ""
        for symbol in tool.get("kernel_symbols") or []
    }


def _product(size: pa.Array) -> Ints:
    x, y, z = (filled(size.field(axis), 0) for axis in AXES)
    found = x * y * z
    return np.where(found > 0, found, UNKNOWN)

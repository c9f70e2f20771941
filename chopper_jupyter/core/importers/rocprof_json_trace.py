"""Traces of rocprofv3 in JSON: ``rocprofv3 --output-format json``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.event_tables import Ints, numbered
from chopper_jupyter.core.importers.json_values import as_document
from chopper_jupyter.core.importers.rocprof_events import (
    AXES,
    NO_STREAM,
    Records,
    device_of_copy,
    events_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from chopper_jupyter.core.events import RankEvents

KEY = "rocprofiler-sdk-tool"
_START = re.compile(rb'^\s*\{\s*"rocprofiler-sdk-tool"\s*:')

_HANDLE = pa.struct([("handle", pa.int64())])
_SIZE = pa.struct([(axis, pa.int64()) for axis in AXES])
_CALL = (
    ("kind", pa.int64()), ("operation", pa.int64()), ("thread_id", pa.int64()),
    ("correlation_id", pa.struct([("internal", pa.int64())])),
    ("start_timestamp", pa.int64()), ("end_timestamp", pa.int64()),
)  # fmt: skip
_DISPATCH = (
    ("agent_id", _HANDLE), ("queue_id", _HANDLE), ("kernel_id", pa.int64()),
    ("workgroup_size", _SIZE), ("grid_size", _SIZE),
)  # fmt: skip
CALL = pa.struct(_CALL)
KERNEL = pa.struct([*_CALL, ("dispatch_info", pa.struct(_DISPATCH)), ("stream_id", _HANDLE)])
COPY = pa.struct([*_CALL, ("src_agent_id", _HANDLE), ("dst_agent_id", _HANDLE),
                  ("stream_id", _HANDLE), ("bytes", pa.int64())])  # fmt: skip
SYMBOL = pa.struct([("kernel_id", pa.int64()), ("formatted_kernel_name", pa.string()),
                    ("kernel_name", pa.string())])  # fmt: skip

APIS = ("hip_api", "hsa_api", "rccl_api", "marker_api")


def is_rocprof(head: bytes) -> bool:
    """Say whether a JSON file that begins like this is rocprofv3's."""
    return _START.match(head) is not None


def read_ranks(path: Path) -> list[RankEvents]:
    """Read a file: one rank for each process in it, most often one.

    The device is the number of the GPU among those of its host.

    Raises
    ------
    TraceFormatError
        If the file is damaged, or holds no kernels.
    """
    document = as_document(path)
    tools = document.get(KEY) if isinstance(document, dict) else None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        msg = f"{path.name} is JSON but not of rocprofv3: it has no list {KEY!r}"
        raise TraceFormatError(msg)
    if not tools:
        msg = f"{path.name} holds no process"
        raise TraceFormatError(msg)
    try:
        return [
            _rank(tool, path.name, n if len(tools) > 1 else None) for n, tool in enumerate(tools)
        ]
    except (pa.ArrowException, TypeError, AttributeError, OverflowError) as error:
        msg = f"{path.name} is JSON of rocprofv3 with values that cannot be read ({error})"
        raise TraceFormatError(msg) from error


def _rank(tool: dict[str, Any], source: str, rank: int | None) -> RankEvents:
    buffers = tool.get("buffer_records") or {}
    agents = {a["id"]["handle"]: a for a in tool.get("agents") or [] if a.get("type") == GPU}
    numbers = _numbers(agents)
    node = (tool.get("metadata") or {}).get("node") or {}
    records = Records(
        kernels=_kernels(_array(buffers.get("kernel_dispatch"), KERNEL), tool, numbers),
        copies=_copies(_array(buffers.get("memory_copy"), COPY), tool, numbers),
        calls=_calls(buffers, tool),
        devices={numbers[h]: a["product_name"] for h, a in agents.items() if a.get("product_name")},
        host=node.get("hostname"), source=source, rank=rank,
    )  # fmt: skip
    for name, rows in buffers.items():
        if isinstance(rows, list) and name not in (*APIS, "kernel_dispatch", "memory_copy"):
            records.skipped.update({f"records of {name}": len(rows)})
    return events_of(records)


GPU = 2
"""Type of an agent that is a GPU."""


def _numbers(agents: dict[int, dict[str, Any]]) -> dict[int, int]:
    """Return the number of each GPU on its host, else its place."""
    order = sorted(agents, key=lambda handle: agents[handle].get("node_id", handle))
    return {
        handle: int(agents[handle].get("logical_node_type_id", place))
        for place, handle in enumerate(order)
    }


def _array(rows: Any, kind: pa.DataType) -> pa.Array:
    return pa.array(rows if isinstance(rows, list) else [], kind)


def _field(rows: pa.Array, *path: str) -> pa.Array:
    return pc.struct_field(rows, list(path))


def _ints(rows: pa.Array, *path: str, default: int = 0) -> Ints:
    return np.asarray(pc.fill_null(_field(rows, *path), default).to_numpy(), np.int64)


def _times(rows: pa.Array) -> dict[str, Ints]:
    return {
        "start": _ints(rows, "start_timestamp"),
        "end": _ints(rows, "end_timestamp"),
        "correlation": _ints(rows, "correlation_id", "internal"),
    }


def _devices(handles: Ints, numbers: dict[int, int]) -> Ints:
    number, distinct = numbered(handles)
    known = [numbers.get(handle, 0) for handle in distinct.tolist()]
    return np.array(known, np.int64)[number] if known else number


def _stream(rows: pa.Array, default: pa.Array) -> Ints:
    found = pc.coalesce(_field(rows, "stream_id", "handle"), default)
    return np.asarray(pc.fill_null(found, NO_STREAM).to_numpy(), np.int64)


def _kernels(rows: pa.Array, tool: dict[str, Any], numbers: dict[int, int]) -> dict[str, Any]:
    symbols = _array(tool.get("kernel_symbols"), SYMBOL)
    names = pc.coalesce(_field(symbols, "formatted_kernel_name"), _field(symbols, "kernel_name"))
    at = pc.index_in(_field(rows, "dispatch_info", "kernel_id"), _field(symbols, "kernel_id"))
    found = pc.fill_null(names.take(at), "kernel without a name in the file")
    sizes = {f"{of}_{axis}": _ints(rows, "dispatch_info", field, axis) for of, field in
             (("grid", "grid_size"), ("group", "workgroup_size")) for axis in AXES}  # fmt: skip
    agents = _ints(rows, "dispatch_info", "agent_id", "handle")
    return {
        "name": found,
        "device": _devices(agents, numbers),
        "stream": _stream(rows, _field(rows, "dispatch_info", "queue_id", "handle")),
        **_times(rows),
        **sizes,
    }


def _operations(tool: dict[str, Any]) -> list[dict[str, Any]]:
    return list((tool.get("strings") or {}).get("buffer_records") or [])


def _operation_names(rows: pa.Array, tool: dict[str, Any]) -> tuple[pa.Array, pa.Array]:
    """Return the names of domain and operation of each record."""
    kinds = _operations(tool)
    kind, operation = _ints(rows, "kind"), _ints(rows, "operation")
    number, distinct = numbered((kind << 32) | operation)
    domains, names = [], []
    for key in distinct.tolist():
        k, o = key >> 32, key & 0xFFFFFFFF
        entry = kinds[k] if k < len(kinds) else {}
        words = entry.get("operations") or []
        domains.append(entry.get("kind") or f"KIND_{k}")
        names.append(words[o] if o < len(words) else f"operation {o}")
    at = pa.array(number)
    return pa.array(domains, pa.string()).take(at), pa.array(names, pa.string()).take(at)


def _copies(rows: pa.Array, tool: dict[str, Any], numbers: dict[int, int]) -> dict[str, Any]:
    _, direction = _operation_names(rows, tool)
    ends = [_devices(_ints(rows, end, "handle"), numbers) for end in
            ("src_agent_id", "dst_agent_id")]  # fmt: skip
    return {
        "direction": direction,
        "device": device_of_copy(direction, *ends),
        "stream": _stream(rows, pa.nulls(len(rows), pa.int64())),
        **_times(rows),
        "bytes": _ints(rows, "bytes", default=-1),
    }


def _calls(buffers: dict[str, Any], tool: dict[str, Any]) -> dict[str, Any]:
    """Return the API calls and roctx ranges; the text of a range is kept apart by its id."""
    rows = [row for api in APIS for row in buffers.get(api) or []]
    made = _array(rows, CALL)
    domains, names = _operation_names(made, tool)
    said = (tool.get("strings") or {}).get("marker_api") or []
    keys = pa.array([one.get("key") for one in said], pa.int64())
    texts = pa.array([one.get("value") for one in said], pa.string())
    text = texts.take(pc.index_in(_field(made, "correlation_id", "internal"), keys))
    is_marker = pc.starts_with(domains, "MARKER_CORE")
    return {
        "domain": domains,
        "name": pc.if_else(is_marker, pc.coalesce(text, names), names),
        "tid": _ints(made, "thread_id"),
        **_times(made),
    }

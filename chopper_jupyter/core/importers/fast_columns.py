"""Turns the scanner's rows into the same tables that the plain reader makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chopper_jupyter.core.events import DEVICE, FLOWS, LAUNCHES, MEMORY, RANGES
from chopper_jupyter.core.importers import event_layout as scanner
from chopper_jupyter.core.importers.json_stream import read_value
from chopper_jupyter.core.importers.kineto_args import HOST_MEMORY, compact_json, dimensions
from chopper_jupyter.core.importers.kineto_columns import SHIFTED, at_home, joined, table_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from chopper_jupyter.core.importers.kineto_events import EventReader

Ints = npt.NDArray[np.int64]
Block = dict[str, npt.NDArray[Any]]

SCHEMAS = {"ranges": RANGES, "launches": LAUNCHES, "device": DEVICE}

_COMMON = {
    "event": (scanner.C_EVENT, np.int64),
    "cat": (scanner.C_CAT, np.int16),
    "name": (scanner.C_NAME, np.int32),
    "pid": (scanner.C_PID, np.int32),
    "tid": (scanner.C_TID, np.int32),
    "start_ns": (scanner.C_TS, np.int64),
    "dur_ns": (scanner.C_DUR, np.int64),
    "external_id": (scanner.C_EXTERNAL, np.int64),
}
LAYOUT: dict[str, dict[str, tuple[int, Any]]] = {
    "ranges": _COMMON
    | {
        "seq": (scanner.C_SEQ, np.int64),
        "fwd_thread": (scanner.C_FWD, np.int64),
        "input_shapes": (scanner.C_DIMS, np.int64),
        "input_dtypes": (scanner.C_TYPES, np.int64),
        "concrete_inputs": (scanner.C_CONCRETE, np.int64),
    },
    "launches": _COMMON | {"correlation_id": (scanner.C_CORRELATION, np.int64)},
    "device": {k: v for k, v in _COMMON.items() if k not in ("pid", "tid")}
    | {
        "correlation_id": (scanner.C_CORRELATION, np.int64),
        "device": (scanner.C_DEVICE, np.int32),
        "stream": (scanner.C_STREAM, np.int64),
        "grid": (scanner.C_GRID, np.int64),
        "block": (scanner.C_BLOCK, np.int64),
        "bytes": (scanner.C_BYTES, np.int64),
    },
    "flows": {
        "event": (scanner.C_EVENT, np.int64),
        "role": (scanner.C_ROLE, np.int8),
        "pid": (scanner.C_PID, np.int32),
        "tid": (scanner.C_TID, np.int32),
        "at": (scanner.C_TS, np.int64),
        "id": (scanner.C_ID, np.int64),
    },
    "memory": {
        "event": (scanner.C_EVENT, np.int64),
        "pid": (scanner.C_PID, np.int32),
        "tid": (scanner.C_TID, np.int32),
        "time_ns": (scanner.C_TS, np.int64),
        "device": (scanner.C_DEVICE, np.int32),
        "type": (scanner.C_DEVICE_TYPE, np.int64),
        "bytes": (scanner.C_BYTES, np.int64),
        "allocated_bytes": (scanner.C_ALLOCATED, np.int64),
        "reserved_bytes": (scanner.C_RESERVED, np.int64),
    },
}
"""Columns that each table keeps of the scanner's rows, and how small they can be kept."""

ROLES_OF = {
    "ranges": (scanner.RANGE, scanner.STACK),
    "launches": (scanner.LAUNCH, scanner.LAUNCH),
    "device": (scanner.ACTIVITY, scanner.ACTIVITY),
    "flows": (scanner.FLOW_START, scanner.FLOW_END),
    "memory": (scanner.MEMORY, scanner.MEMORY),
}
"""First and last role of the rows of each table."""

KINDS = {
    "cpu_op": "op", "Operator": "op", "user_annotation": "annotation",
    "python_function": "module_stack", "cuda_driver": "driver",
    "kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "memcpy", "Memcpy": "memcpy",
    "gpu_memset": "memset", "Memset": "memset",
}  # fmt: skip
"""Kind of a category; the remaining ones are runtime calls."""

WORD_COLUMNS = {
    "input_shapes": compact_json,
    "input_dtypes": compact_json,
    "concrete_inputs": compact_json,
    "grid": dimensions,
    "block": dimensions,
}
"""Columns whose values are coded as they are written, and what makes their text of the value."""


def split(rows: Ints) -> dict[str, Block]:
    """Split one block's rows by table, in columns no wider than needed."""
    role = rows[:, scanner.C_ROLE].copy()
    result = {}
    for name, layout in LAYOUT.items():
        least, most = ROLES_OF[name]
        mine = rows[(role >= least) & (role <= most)]
        if len(mine):
            result[name] = {key: mine[:, at].astype(kind) for key, (at, kind) in layout.items()}
    return result


def tables(
    blocks: dict[str, list[Block]],
    words: list[bytes],
    odd: list[tuple[int, Any]],
    reader: EventReader,
) -> dict[str, pa.Table]:
    """Build the five tables of the scanned rows and of the odd events, in the file's order.

    Parameters
    ----------
    blocks : dict of str to list
        What ``split`` returned for each block, by table.
    words : list of bytes
        Texts by code.
    odd : list of (int, object)
        Events for the plain reader, with their numbers.
    reader : EventReader
        The plain reader; it also numbers threads and processes.
    """
    texts = [word.decode("utf-8") for word in words]
    numbers = _read_odd(odd, reader)
    made = {}
    for name, schema in SCHEMAS.items():
        block = _joined_blocks(blocks.pop(name, []), LAYOUT[name])
        fast = _table(name, schema, block, texts, reader)
        slow = table_of(schema, getattr(reader.columns, name), reader.base_ns)
        made[name] = _in_order(fast, block["event"], slow, numbers[name])
    made["ranges"] = at_home(made["ranges"], reader.threads)
    made["flows"] = _flows(blocks.pop("flows", []), texts, reader, numbers["flows"])
    block = _joined_blocks(blocks.pop("memory", []), LAYOUT["memory"])
    slow = table_of(MEMORY, reader.columns.memory, reader.base_ns)
    fast = _memory(block, texts, reader)
    made["memory"] = _in_order(fast, block["event"], slow, numbers["memory"])
    return made


def _read_odd(odd: list[tuple[int, Any]], reader: EventReader) -> dict[str, Ints]:
    """Read the odd events; return the event number of each row they made, by table."""
    columns = reader.columns
    lists = {n: getattr(columns, n) for n in LAYOUT}
    numbers: dict[str, list[int]] = {name: [] for name in lists}
    for number, event in odd:
        reader.take(event)
        for name, rows in lists.items():
            if len(rows) > len(numbers[name]):
                numbers[name].append(number)
    return {name: np.array(found, np.int64) for name, found in numbers.items()}


def _joined_blocks(parts: list[Block], layout: dict[str, tuple[int, Any]]) -> Block:
    """Join the blocks column by column, giving each block's memory back on the way."""
    return {
        key: np.concatenate([part.pop(key) for part in parts]) if parts else np.zeros(0, kind)
        for key, (_, kind) in layout.items()
    }


def _table(
    name: str, schema: pa.Schema, block: Block, texts: list[str], reader: EventReader
) -> pa.Table:
    kinds = [KINDS.get(text, "runtime") for text in texts[: _categories(block)]]
    columns: dict[str, Any] = {
        "name": _words(block["name"], texts),
        "kind": _encoded(block["cat"], kinds),
        "external_id": _nullable(block["external_id"], also=0),
    }
    if "pid" in block:
        columns["tid"] = _threads(block, texts, reader)
    if name == "launches":
        columns["pid"] = _processes(block["pid"], texts, reader)
    if name == "ranges":
        _count(columns["tid"], columns["kind"], reader)
        block["seq"][block["seq"] < 0] = scanner.NULL
    for field in schema:
        if field.name in columns:
            continue
        if field.name not in block:
            columns[field.name] = pa.nulls(len(block["event"]), field.type)
        elif field.name in WORD_COLUMNS:
            raw = _words(block.pop(field.name), texts)
            columns[field.name] = _meaning(raw, WORD_COLUMNS[field.name])
        elif field.name in SHIFTED:
            columns[field.name] = pa.array(block.pop(field.name) + reader.base_ns)
        else:
            zero = 0 if name == "device" and field.name == "correlation_id" else scanner.NULL
            columns[field.name] = _nullable(block.pop(field.name), also=zero)
    return pa.table([columns[field.name] for field in schema], schema=schema)


def _categories(block: Block) -> int:
    return int(block["cat"].max(initial=-1)) + 1


def _nullable(values: npt.NDArray[Any], also: int) -> pa.Array:
    if values.dtype != np.int64:
        return pa.array(values)
    return pa.array(values, mask=(values == scanner.NULL) | (values == also))


def _words(codes: npt.NDArray[Any], texts: list[str]) -> pa.DictionaryArray:
    """Encode a column by the words it uses, in order of their codes."""
    missing = codes < 0
    used, position = _distinct(np.where(missing, len(texts), codes))
    found = used[:-1] if len(used) and used[-1] == len(texts) else used
    return pa.DictionaryArray.from_arrays(
        pa.array(position.astype(np.int32), mask=missing),
        pa.array([texts[c] for c in found.tolist()], pa.string()),
    )


def _distinct(codes: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Return the codes that occur, ascending, and the place of each row's among them.

    As ``numpy.unique`` does by sorting; codes are small, so that counting them is faster.
    """
    used = np.flatnonzero(np.bincount(codes))
    place = np.zeros(int(used[-1]) + 1 if len(used) else 0, np.int64)
    place[used] = np.arange(len(used))
    return used, place[codes]


def _meaning(raw: pa.DictionaryArray, text_of: Callable[[Any], str | None]) -> pa.DictionaryArray:
    """Replace each distinct written value by its text; different spellings may mean the same."""
    texts = [text_of(read_value(word)) for word in raw.dictionary.to_pylist()]
    words = {text: i for i, text in enumerate(dict.fromkeys(t for t in texts if t is not None))}
    to = np.array([*(-1 if t is None else words[t] for t in texts), -1], np.int32)
    index = to[np.asarray(raw.indices.fill_null(-1))]
    return pa.DictionaryArray.from_arrays(
        pa.array(index, mask=index < 0), pa.array(list(words), pa.string())
    )


def _encoded(codes: npt.NDArray[Any], kinds: list[str]) -> pa.DictionaryArray:
    """Encode a column by the kind of each code; kinds that no row has are no words of it."""
    used, index = _distinct(codes)
    words = {kind: i for i, kind in enumerate(dict.fromkeys(kinds[c] for c in used.tolist()))}
    to = np.array([words[kinds[c]] for c in used.tolist()], np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(to[index] if len(to) else to), pa.array(list(words), pa.string())
    )


def _threads(block: Block, texts: list[str], reader: EventReader) -> Ints:
    pids, pid = _distinct(block["pid"])
    tids, tid = _distinct(block["tid"])
    pairs, index = _distinct(pid * len(tids) + tid)
    number = [
        reader.threads.of(texts[pids[pair // len(tids)]], texts[tids[pair % len(tids)]])
        for pair in pairs.tolist()
    ]
    return np.array(number, np.int64)[index]


def _processes(pids: npt.NDArray[Any], texts: list[str], reader: EventReader) -> Ints:
    used, index = _distinct(pids)
    number = [reader.threads.process_of(texts[p]) for p in used.tolist()]
    return np.array(number, np.int64)[index]


def _count(tid: Ints, kind: pa.DictionaryArray, reader: EventReader) -> None:
    """Count ranges by thread and kind, as the plain reader does one by one."""
    words = kind.dictionary.to_pylist()
    codes = kind.indices.to_numpy()
    for code, word in enumerate(words):
        for thread, times in enumerate(np.bincount(tid[codes == code]).tolist()):
            if times:
                reader.threads.count(thread, word, times)


def _in_order(fast: pa.Table, numbers: Ints, slow: pa.Table, slow_numbers: Ints) -> pa.Table:
    """Merge the rows of both readers in the order of the file."""
    if not slow.num_rows:
        return fast
    both = pa.concat_tables([fast, slow]).unify_dictionaries()
    order = np.argsort(np.concatenate([numbers, slow_numbers]), kind="stable")
    return both.take(pa.array(order))


def _flows(
    parts: list[Block], texts: list[str], reader: EventReader, slow_numbers: Ints
) -> pa.Table:
    block = _joined_blocks(parts, LAYOUT["flows"])
    thread = _threads(block, texts, reader)
    if len(slow_numbers):
        rows = [
            (event, (f"{texts[pid]}:{key}", "s" if role == scanner.FLOW_START else "f", tid, at))
            for event, pid, key, role, tid, at in zip(
                *(block[c].tolist() for c in ("event", "pid", "id", "role")), thread.tolist(),
                block["at"].tolist(), strict=True,
            )
        ]  # fmt: skip
        rows += zip(slow_numbers.tolist(), reader.columns.flows, strict=True)
        rows.sort(key=lambda row: row[0])
        return table_of(FLOWS, joined([row for _, row in rows]), reader.base_ns)
    starts = np.flatnonzero(block["role"] == scanner.FLOW_START)
    ends = np.flatnonzero(block["role"] == scanner.FLOW_END)
    key = _arrows(block)
    keys, last = np.unique(key[starts][::-1], return_index=True)
    starts = starts[::-1][last]  # of several starts of one arrow the last one counts
    at = np.searchsorted(keys, key[ends])
    hit = (
        (at < len(keys)) & (keys[np.minimum(at, len(keys) - 1)] == key[ends])
        if len(keys)
        else np.zeros(len(ends), bool)
    )
    ends, starts = ends[hit], starts[at[hit]]
    return pa.table(
        [thread[starts], block["at"][starts] + reader.base_ns,
         thread[ends], block["at"][ends] + reader.base_ns],
        schema=FLOWS,
    )  # fmt: skip


def _memory(block: Block, texts: list[str], reader: EventReader) -> pa.Table:
    totals = [block[name] for name in ("allocated_bytes", "reserved_bytes")]
    return pa.table(
        [_threads(block, texts, reader), block["time_ns"] + reader.base_ns,
         pa.array(block["device"], mask=block["type"] == HOST_MEMORY), block["bytes"],
         *(pa.array(total, mask=total < 0) for total in totals)],
        schema=MEMORY,
    )  # fmt: skip


def _arrows(block: Block) -> Ints:
    """Tell the arrows apart by process and id: files fused from several ranks reuse the ids."""
    processes, process = _distinct(block["pid"])
    _, number = np.unique(block["id"], return_inverse=True)
    return np.asarray(number * len(processes) + process, np.int64)

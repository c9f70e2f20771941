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
from chopper_jupyter.core.importers.kineto_columns import at_home, joined, table_of, valid_text
from chopper_jupyter.core.importers.merged_columns import Column, absent, arrow, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chopper_jupyter.core.importers.column_chunks import Chunks
    from chopper_jupyter.core.importers.kineto_events import EventReader

Ints = npt.NDArray[np.int64]

_COMMON = {
    "cat": scanner.C_CAT,
    "name": scanner.C_NAME,
    "start_ns": scanner.C_TS,
    "dur_ns": scanner.C_DUR,
    "external_id": scanner.C_EXTERNAL,
}
_THREAD = {"pid": scanner.C_PID, "tid": scanner.C_TID}
LAYOUT = {
    "ranges": {
        **_COMMON,
        **_THREAD,
        "seq": scanner.C_SEQ,
        "fwd_thread": scanner.C_FWD,
        "input_shapes": scanner.C_DIMS,
        "input_dtypes": scanner.C_TYPES,
        "concrete_inputs": scanner.C_CONCRETE,
    },
    "launches": {**_COMMON, **_THREAD, "correlation_id": scanner.C_CORRELATION},
    "device": {
        **_COMMON,
        "correlation_id": scanner.C_CORRELATION,
        "device": scanner.C_DEVICE,
        "stream": scanner.C_STREAM,
        "grid": scanner.C_GRID,
        "block": scanner.C_BLOCK,
        "bytes": scanner.C_BYTES,
    },
    "flows": {**_THREAD, "role": scanner.C_ROLE, "at": scanner.C_TS, "id": scanner.C_ID},
    "memory": {
        **_THREAD,
        "time_ns": scanner.C_TS,
        "device": scanner.C_DEVICE,
        "type": scanner.C_DEVICE_TYPE,
        "bytes": scanner.C_BYTES,
        "allocated_bytes": scanner.C_ALLOCATED,
        "reserved_bytes": scanner.C_RESERVED,
    },
}
"""Columns that each table keeps of the scanner's rows, in the scanner's order of tables."""

WIDE = {
    "start_ns", "dur_ns", "external_id", "seq", "fwd_thread", "correlation_id", "stream", "bytes",
    "at", "id", "time_ns", "type", "allocated_bytes", "reserved_bytes",
}  # fmt: skip
"""Columns of eight bytes; the others are codes of words, or devices."""

KINDS = {
    "cpu_op": "op", "Operator": "op", "user_annotation": "annotation",
    "python_function": "module_stack", "cuda_driver": "driver",
    "kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "memcpy", "Memcpy": "memcpy",
    "gpu_memset": "memset", "Memset": "memset",
}  # fmt: skip
"""Kind of a category; the remaining ones are runtime calls."""


SPARSE = 1 << 20
"""Codes from which counting may take more memory than sorting."""


def tables(
    rows: dict[str, Chunks],
    words: list[bytes],
    odd: list[tuple[list[int], Any]],
    reader: EventReader,
) -> dict[str, pa.Table]:
    """Build the five tables of the scanned rows and of the odd events, in the file's order.

    Parameters
    ----------
    rows : dict of str to Chunks
        The scanner's rows by table; they are taken from there.
    words : list of bytes
        Texts by code.
    odd : list of (list of int, object)
        Events for the plain reader, each with the number of rows of every table before it.
    reader : EventReader
        The plain reader; it also numbers threads and processes.
    """
    texts = [word.decode("utf-8") for word in words]
    places = _read_odd(odd, reader)
    made = {}
    for name, (schema, columns) in TABLES.items():
        scanned = Scanned(rows.pop(name), places[name], texts)
        made[name] = _table(name, schema, columns(scanned, reader), scanned.among, reader)
    made["ranges"] = at_home(made["ranges"], reader.threads)
    made["flows"] = _flows(Scanned(rows.pop("flows"), places["flows"], texts), reader)
    return made


class Scanned:
    """Columns of scanned rows, with -1 in the place of each row of the plain reader.

    Parameters
    ----------
    chunks : Chunks
        The scanned rows.
    places : int array
        For each row of the plain reader, the number of scanned rows before it.
    texts : list of str
        Texts by code.
    """

    def __init__(self, chunks: Chunks, places: Ints, texts: list[str]) -> None:
        self.chunks, self.texts = chunks, texts
        self.among = np.zeros(chunks.rows + len(places), bool)
        self.among[places + np.arange(len(places))] = True

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return a column, anew each time."""
        return self.chunks.column(name, self.among)


def _read_odd(odd: list[tuple[list[int], Any]], reader: EventReader) -> dict[str, Ints]:
    """Read the odd events; return, for each row they made, the number of scanned rows before."""
    lists = [getattr(reader.columns, name) for name in LAYOUT]
    places: list[list[int]] = [[] for _ in lists]
    for before, event in odd:
        reader.take(event)
        for made, at, place in zip(lists, places, before, strict=True):
            if len(made) > len(at):
                at.append(place)
    return {name: np.array(at, np.int64) for name, at in zip(LAYOUT, places, strict=True)}


def _table(
    name: str,
    schema: pa.Schema,
    columns: Iterator[tuple[str, Column]],
    among: npt.NDArray[np.bool_],
    reader: EventReader,
) -> pa.Table:
    """Build a table of scanned columns and, among them, the rows of the plain reader."""
    slow = table_of(schema, getattr(reader.columns, name), reader.base_ns)
    made = {}
    for key, column in columns:
        whole = filled(column, slow[key], among) if slow.num_rows else column
        made[key] = arrow(schema.field(key).type, whole)
    for field in schema:
        if field.name not in made:
            made[field.name] = absent(field.type, slow[field.name], among)
    return pa.table([made[field.name] for field in schema], schema=schema)


def _ranges(rows: Scanned, reader: EventReader) -> Iterator[tuple[str, Column]]:
    """Yield the columns of host ranges one by one, so that none is held twice."""
    kind = _kinds(rows)
    tid = _threads(rows, reader)
    _count(tid, kind, reader)
    yield "kind", kind
    yield "tid", Column(tid)
    seq = rows["seq"]
    seq[seq < 0] = scanner.NULL
    yield "seq", _nullable(seq)
    yield "fwd_thread", _nullable(rows["fwd_thread"])
    for name in ("input_shapes", "input_dtypes", "concrete_inputs"):
        yield name, _meaning(_words(rows, name), compact_json)
    yield from _common(rows, reader)


def _launches(rows: Scanned, reader: EventReader) -> Iterator[tuple[str, Column]]:
    yield "kind", _kinds(rows)
    pids, pid = _distinct(rows["pid"])
    process = [reader.threads.process_of(rows.texts[p]) for p in pids.tolist()]
    yield "pid", Column(np.array([*process, -1], np.int64)[pid])
    yield "tid", Column(_threads(rows, reader))
    yield "correlation_id", _nullable(rows["correlation_id"])
    yield from _common(rows, reader)


def _device(rows: Scanned, reader: EventReader) -> Iterator[tuple[str, Column]]:
    yield "kind", _kinds(rows)
    yield "correlation_id", _nullable(rows["correlation_id"], zero=True)
    yield "device", Column(rows["device"])
    yield "stream", Column(rows["stream"])
    yield "bytes", _nullable(rows["bytes"])
    for name in ("grid", "block"):
        yield name, _meaning(_words(rows, name), dimensions)
    yield from _common(rows, reader)


def _common(rows: Scanned, reader: EventReader) -> Iterator[tuple[str, Column]]:
    """Yield name, times and operator."""
    yield "name", _words(rows, "name")
    start = rows["start_ns"]
    start += reader.base_ns
    yield "start_ns", Column(start)
    yield "dur_ns", Column(rows["dur_ns"])
    yield "external_id", _nullable(rows["external_id"], zero=True)


def _memory(rows: Scanned, reader: EventReader) -> Iterator[tuple[str, Column]]:
    yield "tid", Column(_threads(rows, reader))
    yield "time_ns", Column(rows["time_ns"] + reader.base_ns)
    yield "device", Column(rows["device"], rows["type"] == HOST_MEMORY)
    yield "bytes", Column(rows["bytes"])
    for name in ("allocated_bytes", "reserved_bytes"):
        total = rows[name]
        yield name, Column(total, total < 0)


TABLES = {
    "ranges": (RANGES, _ranges),
    "launches": (LAUNCHES, _launches),
    "device": (DEVICE, _device),
    "memory": (MEMORY, _memory),
}
"""Schema of each table and what yields its columns."""


def _nullable(values: Ints, *, zero: bool = False) -> Column:
    """Take what is NULL, and maybe 0, as missing."""
    missing = values == scanner.NULL
    if zero:
        missing |= values == 0
    return Column(values, missing)


def _words(rows: Scanned, name: str) -> Column:
    """Encode a column by the words it uses, in order of their codes; -1 is none."""
    used, place = _distinct(rows[name])
    return Column(place, place < 0, [rows.texts[c] for c in used.tolist()])


def _distinct(codes: npt.NDArray[Any]) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Return the codes that occur, ascending, and the place of each row's among them.

    As ``numpy.unique`` does by sorting; most codes are small, so that counting them is faster.
    -1 stays -1.
    """
    if codes.max(initial=-1) >= max(SPARSE, 4 * len(codes)):
        used, place = np.unique(codes, return_inverse=True)
        missing = int(used[0] < 0)
        return used[missing:], (place - missing).astype(np.int32)
    counts = np.bincount(codes + 1)
    used = np.flatnonzero(counts[1:])
    place = np.full(max(len(counts), 1), -1, np.int32)  # the last one is for -1
    place[used] = np.arange(len(used))
    return used, place[codes]


def _meaning(raw: Column, text_of: Callable[[Any], str | None]) -> Column:
    """Replace each distinct written value by its text; different spellings may mean the same."""
    texts = [valid_text(text_of(read_value(word))) for word in raw.words or ()]
    words = {text: i for i, text in enumerate(dict.fromkeys(t for t in texts if t is not None))}
    to = np.array([*(-1 if t is None else words[t] for t in texts), -1], np.int32)
    index = to[raw.values]
    return Column(index, index < 0, list(words))


def _kinds(rows: Scanned) -> Column:
    """Encode a column by the kind of each category; kinds that no row has are no words of it."""
    used, place = _distinct(rows["cat"])
    kinds = [KINDS.get(rows.texts[c], "runtime") for c in used.tolist()]
    words = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}
    return Column(np.array([*(words[k] for k in kinds), -1], np.int32)[place], None, list(words))


def _threads(rows: Scanned, reader: EventReader) -> Ints:
    """Return the number of each row's thread, -1 in the places of other rows."""
    pids, pid = _distinct(rows["pid"])
    tids, tid = _distinct(rows["tid"])
    pair = pid.astype(np.int64) * len(tids) + tid
    pair[rows.among] = -1
    pairs, index = _distinct(pair)
    number = [
        reader.threads.of(rows.texts[pids[p // len(tids)]], rows.texts[tids[p % len(tids)]])
        for p in pairs.tolist()
    ]
    return np.array([*number, -1], np.int64)[index]


def _count(tid: Ints, kind: Column, reader: EventReader) -> None:
    """Count ranges by thread and kind, as the plain reader does one by one."""
    words = kind.words or []
    scanned = tid >= 0
    counts = np.bincount(tid[scanned] * len(words) + kind.values[scanned])
    for at in np.flatnonzero(counts).tolist():
        thread, code = divmod(at, len(words))
        reader.threads.count(thread, words[code], int(counts[at]))


def _flows(rows: Scanned, reader: EventReader) -> pa.Table:
    process, role, at, number = (rows[name] for name in ("pid", "role", "at", "id"))
    thread = _threads(rows, reader)
    if rows.among.any():
        slow = iter(reader.columns.flows)
        both = [
            next(slow)
            if odd
            else (f"{rows.texts[pid]}:{key}", "s" if kind == scanner.FLOW_START else "f", tid, time)
            for odd, pid, key, kind, tid, time in zip(
                *(v.tolist() for v in (rows.among, process, number, role, thread, at)), strict=True
            )
        ]
        return table_of(FLOWS, joined(both), reader.base_ns)
    starts = np.flatnonzero(role == scanner.FLOW_START)
    ends = np.flatnonzero(role == scanner.FLOW_END)
    key = _arrows(process, number)
    keys, last = np.unique(key[starts][::-1], return_index=True)
    starts = starts[::-1][last]  # of several starts of one arrow the last one counts
    hits = np.searchsorted(keys, key[ends])
    hit = (
        (hits < len(keys)) & (keys[np.minimum(hits, len(keys) - 1)] == key[ends])
        if len(keys)
        else np.zeros(len(ends), bool)
    )
    ends, starts = ends[hit], starts[hits[hit]]
    return pa.table(
        [thread[starts], at[starts] + reader.base_ns, thread[ends], at[ends] + reader.base_ns],
        schema=FLOWS,
    )


def _arrows(pid: npt.NDArray[Any], number: Ints) -> Ints:
    """Tell the arrows apart by process and id: files fused from several ranks reuse the ids."""
    processes, process = _distinct(pid)
    _, number = np.unique(number, return_inverse=True)
    return np.asarray(number * len(processes) + process, np.int64)

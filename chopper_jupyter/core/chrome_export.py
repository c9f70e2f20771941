"""All ranks in one Chrome trace file that opens in Perfetto.

Every GPU is a process with one track per level above one track per stream; every rank's host
ranges are a process with one track per thread. Events are put together as Arrow text columns,
chunk by chunk, so that a large trace needs neither a loop over kernels nor one giant string.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_TRACKS = ("iteration", "phase", "layer", "op")
"""Levels that get a track, outermost first: a run of a level ends where an outer one changes."""

_PLACED = ("gpu", "stream", "name", "start_ns", "dur_ns")
"""Columns of ``kernels`` that are the place of a slice; all others are its arguments."""

_HOST_SPANS = ("module", "annotation", "sync")
_CHUNK = 1 << 16
_LANES = 8
_TIDS_PER_PROCESS = 10_000

Ints = npt.NDArray[np.int64]


def write(path: Path, tables: Mapping[str, pa.Table], *, name: str) -> Path:
    """Write the tables of a Trace as Chrome trace events.

    Times are microseconds with exact nanosecond decimals, since the origin of the trace. The
    same tables always give the same bytes.

    Parameters
    ----------
    path : pathlib.Path
        File to write; compressed if it ends in ``.gz``. It appears only when it is complete.
    tables : mapping of str to pyarrow.Table
        ``gpus``, ``kernels``, ``ops`` and ``spans``.
    name : str
        Name of the run.

    Returns
    -------
    pathlib.Path
        The path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        _write_events(partial, tables, name, packed=path.suffix == ".gz")
        os.replace(partial, path)  # noqa: PTH105  atomic on every platform
    finally:
        partial.unlink(missing_ok=True)
    return path


def _write_events(path: Path, tables: Mapping[str, pa.Table], name: str, *, packed: bool) -> None:
    with _text_file(path, packed=packed) as out:
        head = {"displayTimeUnit": "ns", "otherData": {"name": name}}
        out.write(json.dumps(head)[:-1] + ', "traceEvents": [')
        separator = "\n"
        for text in _events(tables):
            out.write(separator + text)
            separator = ",\n"
        out.write("\n]}\n")


@contextmanager
def _text_file(path: Path, *, packed: bool) -> Iterator[TextIO]:
    """Open a text file; a compressed one carries no name and time, which would differ."""
    with path.open("wb") as raw:
        binary = gzip.GzipFile("", "wb", 6, raw, mtime=0) if packed else raw
        with binary, io.TextIOWrapper(binary, encoding="ascii", newline="") as out:
            yield out


def _events(tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield the events as text, some thousands at a time."""
    pid = 0
    for gpu in _gpus(tables):
        pid += 1
        yield from _gpu_events(pid, gpu, tables["kernels"])
    host = _host_ranges(tables)
    for rank in sorted(pc.unique(host["rank"]).to_pylist(), key=lambda r: (r is None, r)):
        pid += 1
        mine = pc.is_null(host["rank"]) if rank is None else pc.equal(host["rank"], rank)
        yield from _host_events(pid, rank, host.filter(mine))


# --- GPUs ---------------------------------------------------------------------------------


def _gpus(tables: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    """List what is known of each GPU, also of one that only its kernels name."""
    unknown = {"name": None, "rank": None, "host": None}
    used = pc.unique(tables["kernels"]["gpu"]).to_pylist()
    found = {gpu: {"gpu": gpu, **unknown} for gpu in used}
    found |= {row["gpu"]: row for row in tables["gpus"].to_pylist()}
    return [found[gpu] for gpu in sorted(found)]


def _gpu_events(pid: int, gpu: Mapping[str, Any], kernels: pa.Table) -> Iterator[str]:
    mine = kernels.filter(pc.equal(kernels["gpu"], gpu["gpu"]))
    mine = mine.sort_by([(c, "ascending") for c in ("start_ns", "stream", "kernel_id")])
    tid = pid * _TIDS_PER_PROCESS
    lanes, titles = _lanes(mine["stream"].to_numpy(), mine["start_ns"].to_numpy(), _ends(mine))
    word = "thread" if gpu["name"] == "cpu" else "stream"
    tracks = [*_TRACKS, *(f"{word} {title}" for title in titles)]
    yield _metadata(pid, _gpu_title(gpu), [(tid + i, t) for i, t in enumerate(tracks)])
    progress = mine.filter(pc.not_equal(mine["kind"].cast(pa.string()), "collective"))
    for i, level in enumerate(_TRACKS):
        yield from _lines(pid, _runs(progress, level, tid + i))
    slices = {
        "tid": pa.array(lanes + tid + len(_TRACKS)),
        "name": mine["name"],
        "cat": mine["kind"],
        "start_ns": mine["start_ns"],
        "dur_ns": mine["dur_ns"],
    }
    arguments = {c: mine[c] for c in mine.column_names if c not in _PLACED}
    yield from _lines(pid, pa.table(slices), pa.table(arguments))


def _gpu_title(gpu: Mapping[str, Any]) -> str:
    """Name the process of a GPU, for instance ``GPU 0 · rank 0 · NVIDIA H100 80GB HBM3``."""
    parts = ["CPU operators"] if gpu["name"] == "cpu" else [f"GPU {gpu['gpu']}"]
    parts += [] if gpu["rank"] is None else [f"rank {gpu['rank']}"]
    parts += [gpu["name"]] if gpu["name"] and gpu["name"] != "cpu" else []
    return " · ".join([*parts, *([gpu["host"]] if gpu["host"] else [])])


def _runs(kernels: pa.Table, level: str, tid: int) -> pa.Table:
    """Join neighbours in time that agree in a level and all outer ones into one slice.

    Communication is left out by the caller: it runs ahead of the layer it belongs to and would
    cut the others into slivers. Slices end at the next run's start, so none overlap.
    """
    outer = _TRACKS[: _TRACKS.index(level) + 1]
    start, end = kernels["start_ns"].to_numpy(), _ends(kernels)
    changed = np.zeros(len(start), bool)
    changed[:1] = True
    for name in outer:
        codes = _codes(kernels[name])
        changed[1:] |= codes[1:] != codes[:-1]
    first = np.flatnonzero(changed)
    last = np.maximum.reduceat(end, first) if len(first) else end.copy()
    last[:-1] = np.minimum(last[:-1], start[first][1:])
    values = kernels[level].take(pa.array(first))
    if level == "iteration":
        texts = values.cast(pa.string())
        values = pc.binary_join_element_wise("iteration", texts, " ")
    runs = {
        "tid": pa.array(np.full(len(first), tid)),
        "name": values,
        "cat": pa.array(["level"] * len(first), pa.string()),
        "start_ns": pa.array(start[first]),
        "dur_ns": pa.array(last - start[first]),
    }
    table = pa.table(runs)
    return table.filter(pc.is_valid(table["name"]))


def _codes(column: pa.ChunkedArray) -> Ints:
    """Return numbers that differ where the values differ; null is -1."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = [pc.fill_null(chunk.indices, -1) for chunk in column.unify_dictionaries().chunks]
    return np.asarray(pa.chunked_array(indices, pa.int32()).to_numpy(), np.int64)


def _ends(kernels: pa.Table) -> Ints:
    return np.asarray(pc.add(kernels["start_ns"], kernels["dur_ns"]).to_numpy(), np.int64)


def _lanes(stream: Ints, start: Ints, end: Ints) -> tuple[Ints, list[str]]:
    """Give each kernel the track of its stream; what overlaps on a stream gets further tracks.

    Returns the track of each kernel and the titles of the tracks.
    """
    track = np.zeros(len(stream), np.int64)
    titles: list[str] = []
    for one in np.unique(stream).tolist():
        left = np.flatnonzero(stream == one)
        for lane in range(_LANES):
            if not len(left):
                break
            before = np.maximum.accumulate(end[left])
            overlaps = np.append(False, start[left][1:] < before[:-1])
            overlaps &= lane < _LANES - 1
            track[left[~overlaps]] = len(titles)
            titles.append(str(one) if lane == 0 else f"{one} ({lane + 1})")
            left = left[overlaps]
    return track, titles


# --- Hosts --------------------------------------------------------------------------------


def _host_ranges(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Put operator calls and the program's own ranges into one table, outer ones first."""
    spans = tables["spans"]
    spans = spans.filter(pc.is_in(spans["kind"].cast(pa.string()), pa.array(_HOST_SPANS)))
    columns = ["rank", "tid", "name", "start_ns", "dur_ns"]
    ranges = []
    for table, kind in ((spans, None), (tables["ops"], "op")):
        cat = pa.array([kind] * table.num_rows, pa.string()) if kind else table["kind"]
        plain = table.select(columns).append_column("cat", cat)
        for name in ("name", "cat"):
            where = plain.column_names.index(name)
            plain = plain.set_column(where, name, plain[name].cast(pa.string()))
        ranges.append(plain)
    joined = pa.concat_tables(ranges)
    order = [("tid", "ascending"), ("start_ns", "ascending"), ("dur_ns", "descending")]
    return joined.sort_by([*order, ("name", "ascending")])


def _host_events(pid: int, rank: int | None, ranges: pa.Table) -> Iterator[str]:
    title = "CPU · rank unknown" if rank is None else f"CPU · rank {rank}"
    threads = np.unique(ranges["tid"].to_numpy())
    tid = np.searchsorted(threads, ranges["tid"].to_numpy()) + pid * _TIDS_PER_PROCESS
    tracks = [(pid * _TIDS_PER_PROCESS + i, f"thread {t}") for i, t in enumerate(threads.tolist())]
    yield _metadata(pid, title, tracks)
    where = ranges.column_names.index("tid")
    yield from _lines(pid, ranges.set_column(where, "tid", pa.array(tid)))


# --- Text ---------------------------------------------------------------------------------


def _metadata(pid: int, title: str, tracks: list[tuple[int, str]]) -> str:
    """Name and order a process and its tracks."""
    events: list[dict[str, Any]] = [
        {"name": "process_name", "args": {"name": title}},
        {"name": "process_sort_index", "args": {"sort_index": pid}},
    ]
    for tid, name in tracks:
        events.append({"tid": tid, "name": "thread_name", "args": {"name": name}})
        events.append({"tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}})
    return ",\n".join(json.dumps({"ph": "M", "pid": pid, **event}) for event in events)


def _lines(pid: int, slices: pa.Table, arguments: pa.Table | None = None) -> Iterator[str]:
    """Yield slices as event text, a chunk at a time."""
    for start in range(0, slices.num_rows, _CHUNK):
        part = slices.slice(start, _CHUNK).combine_chunks()
        args = "" if arguments is None else _arguments(arguments.slice(start, _CHUNK))
        events = _join(
            f'{{"ph":"X","pid":{pid},"tid":', part["tid"].cast(pa.string()),
            ',"name":', _json(part["name"]), ',"cat":', _json(part["cat"]),
            ',"ts":', _microseconds(part["start_ns"]), ',"dur":', _microseconds(part["dur_ns"]),
            ',"args":{', args, "}}",
        )  # fmt: skip
        yield ",\n".join(events.to_pylist())


def _arguments(columns: pa.Table) -> pa.ChunkedArray:
    """Write the columns of each row as JSON members; nulls and what is not so are left out."""
    members = []
    for name in columns.column_names:
        text = _json(columns[name])
        if pa.types.is_boolean(columns.schema.field(name).type):
            text = pc.if_else(columns[name], "true", pa.scalar(None, pa.string()))
        members.append(_join(f'"{name}":', text))
    return pc.binary_join_element_wise(*members, ",", null_handling="skip")


def _join(*parts: Any) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(*parts, "")


def _json(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write values as JSON; each distinct text is escaped once."""
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.string())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    texts = [
        pa.array([json.dumps(v) for v in c.dictionary.to_pylist()], pa.string()).take(c.indices)
        for c in column.chunks
    ]
    return pa.chunked_array(texts, pa.string())


def _microseconds(ns: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write nanoseconds as microseconds with three decimals; no float is involved."""
    size = pc.abs(ns)
    whole = pc.divide(size, 1000)
    rest = pc.utf8_lpad(pc.subtract(size, pc.multiply(whole, 1000)).cast(pa.string()), 3, "0")
    sign = pc.if_else(pc.less(ns, 0), "-", "")
    return _join(sign, whole.cast(pa.string()), ".", rest)

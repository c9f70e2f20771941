"""Nsight Systems recordings, exported with ``nsys export --type sqlite``, 2020 to now."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers import nsys_ranges
from chopper_jupyter.core.importers.event_tables import (
    NO_TIME,
    below,
    dimensions,
    durations,
    names_of,
    nullable,
    numbered,
    rank_events,
)
from chopper_jupyter.core.importers.sqlite_columns import (
    columns_of,
    integers,
    opened,
    pairs,
    rows_in,
    tables_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.core.events import RankEvents
    from chopper_jupyter.core.importers.event_tables import Ints

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
DEVICE_TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH)
STRINGS = "StringIds"

MARKS = ("StringIds", "TARGET_INFO_SESSION_START_TIME", "META_DATA_EXPORT", "EXPORT_META_DATA")
"""Tables that every export has one or more of."""

UNUSED = {
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "synchronisation rows (their calls are read)",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "CUDA event rows",
    "OSRT_API": "calls of the operating system",
    "GPU_METRICS": "samples of GPU metrics",
}

COPY = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
        9: "HtoH", 10: "PtoP", 11: "UVM HtoD", 12: "UVM DtoH", 13: "UVM DtoD"}  # fmt: skip
MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static",
          6: "Managed Static"}  # fmt: skip
"""CUPTI's numbers in the words that PyTorch's traces use."""

NO_STREAM = 1 << 40
"""Stream of work that has none (unified memory); high, so that it is no real stream's."""

GRAPH_NOTE = (
    "graph launches are recorded as wholes: their kernels are one each; record with "
    "--cuda-graph-trace=node to see them"
)
PROCESS_SHIFT = 24
"""A globalTid holds the process above and the thread below this bit."""

_VERSION = re.compile(r"_v\d+(?:_ptsz|_ptds)?$|_ptsz$|_ptds$")
_RANK = re.compile(r"(?:MPI )?rank[ _:#]*(\d+)", re.IGNORECASE)


@dataclass
class _File:
    """One open export, its texts and its counts."""

    db: sqlite3.Connection
    source: str
    strings: dict[int, str]
    origin: int
    skipped: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def named(self, ids: Ints, *others: Ints) -> pa.DictionaryArray:
        """Look names up by number, in others where the first number means nothing."""
        number, distinct = numbered(ids)
        words: list[str | None] = [self.strings.get(one) for one in distinct.tolist()]
        absent = np.array([word is None for word in words], bool)
        if absent.any() and others:
            lost = absent[number]
            return self.named(np.where(lost, others[0], ids), *others[1:])
        if absent.any():
            self.repairs["events whose name is not in the file: named by number"] += int(
                absent[number].sum()
            )
        said = [w or f"name {i}" for w, i in zip(words, distinct.tolist(), strict=True)]
        return names_of(number, said)


def is_nsys(tables: Sequence[str]) -> bool:
    """Say whether a database with such tables is an export of Nsight Systems."""
    return any(mark in tables for mark in MARKS)


def read_ranks(path: Path) -> list[RankEvents]:
    """Read an export: one rank for each process that used a GPU.

    Parameters
    ----------
    path : pathlib.Path
        SQLite file.

    Returns
    -------
    list of RankEvents
        Times are Unix nanoseconds. Rank numbers are those that MPI's NVTX ranges name; else
        the processes are numbered by their first device, then by process id; a lone process
        has none.

    Raises
    ------
    TraceFormatError
        If the file is damaged, or holds no GPU activity; the message says how to record it.
    """
    with opened(path) as db:
        tables = tables_of(db)
        if not any(name in tables for name in DEVICE_TABLES):
            raise TraceFormatError(_nothing(path, tables))
        origin, dated = _origin(db)
        file = _File(db, path.name, pairs(db, STRINGS, "id", "value"), origin)
        if not dated:
            file.notes.append("the recording does not say when it began: times start at 0")
        device, launches = _device(file), _launches(file)
        if not len(device["start_ns"]):
            raise TraceFormatError(_nothing(path, tables))
        ranges = nsys_ranges.read(db, file.strings, file.origin, file.skipped, file.repairs)
        unused = {why: rows_in(db, name) for name, why in UNUSED.items() if name in tables}
        file.skipped.update({why: count for why, count in unused.items() if count})
        return _split(file, ranges, launches, device)


def _nothing(path: Path, tables: Sequence[str]) -> str:
    found = ", ".join(sorted(name for name in tables if name.isupper() or "_" in name)[:6])
    return (
        f"{path.name} is an export of Nsight Systems but holds no kernels (found {found}): record "
        "with `nsys profile --trace=cuda,nvtx` and export with `nsys export --type sqlite`"
    )


def _origin(db: sqlite3.Connection) -> tuple[int, bool]:
    found = integers(db, "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": 0})["utcEpochNs"]
    return (int(found[0]), True) if len(found) and found[0] > 0 else (0, False)


# --- What ran on the device -----------------------------------------------------------------


def _device(file: _File) -> dict[str, Any]:
    """Return kernels, copies, fills and whole graphs as columns, with their process."""
    made = below(_kernels(file), _copies(file), _fills(file), _graphs(file))
    start = made["start_ns"].to_numpy()
    usable = (start != 0) | (made["dur_ns"].to_numpy() != 0)
    if not usable.all():
        file.skipped[NO_TIME] += int((~usable).sum())
    kept = {name: values.filter(pa.array(usable)) for name, values in made.items()}
    kept["start_ns"] = pa.array(kept["start_ns"].to_numpy() + file.origin)
    return kept


def _activities(
    file: _File, table: str, kind: str, more: dict[str, int]
) -> tuple[dict[str, Any], dict[str, Ints]]:
    """Read what all device tables share, and further columns."""
    wanted = {"start": 0, "end": -1, "deviceId": 0, "streamId": NO_STREAM, "correlationId": 0,
              "globalPid": -1}  # fmt: skip
    raw = integers(file.db, table, wanted | more)
    start = raw["start"]
    return {
        "kind": names_of(np.zeros(len(start), np.int64), [kind]),
        "device": raw["deviceId"].astype(np.int32),
        "stream": raw["streamId"],
        "start_ns": start,
        "dur_ns": durations(start, raw["end"], file.repairs),
        "correlation_id": nullable(raw["correlationId"]),
        "process": raw["globalPid"] >> PROCESS_SHIFT,
    }, raw


def _kernels(file: _File) -> dict[str, Any]:
    axes = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
    more = {"demangledName": -1, "shortName": -1, **dict.fromkeys(axes, 0)}
    columns, raw = _activities(file, KERNEL, "kernel", more)
    return columns | {
        "name": file.named(raw["demangledName"], raw["shortName"]),
        "grid": dimensions(*(raw[axis] for axis in axes[:3])),
        "block": dimensions(*(raw[axis] for axis in axes[3:])),
    }


def _copies(file: _File) -> dict[str, Any]:
    more = {"bytes": -1, "copyKind": 0, "srcKind": -1, "dstKind": -1}
    columns, raw = _activities(file, MEMCPY, "memcpy", more)
    keys = (raw["copyKind"] << 16) | ((raw["srcKind"] & 255) << 8) | (raw["dstKind"] & 255)
    number, distinct = numbered(keys)
    words = [
        f"Memcpy {COPY.get(key >> 16, 'unknown')} "
        f"({MEMORY.get(key >> 8 & 255, 'Unknown')} -> {MEMORY.get(key & 255, 'Unknown')})"
        for key in distinct.tolist()
    ]
    return columns | {"name": names_of(number, words), "bytes": nullable(raw["bytes"], -1)}


def _fills(file: _File) -> dict[str, Any]:
    columns, raw = _activities(file, MEMSET, "memset", {"bytes": -1, "memKind": -1})
    number, distinct = numbered(raw["memKind"])
    words = [f"Memset ({MEMORY.get(kind, 'Unknown')})" for kind in distinct.tolist()]
    return columns | {"name": names_of(number, words), "bytes": nullable(raw["bytes"], -1)}


def _graphs(file: _File) -> dict[str, Any]:
    columns, raw = _activities(file, GRAPH, "kernel", {"graphId": 0})
    number, distinct = numbered(raw["graphId"])
    if len(number):
        file.notes.append(f"{len(number):,} {GRAPH_NOTE}")
    return columns | {"name": names_of(number, [f"CUDA graph {one}" for one in distinct.tolist()])}


# --- What the host did ----------------------------------------------------------------------


def _launches(file: _File) -> dict[str, Any]:
    wanted = {"start": 0, "end": -1, "globalTid": 0, "correlationId": 0, "nameId": -1}
    raw = integers(file.db, RUNTIME, wanted)
    names = file.named(raw["nameId"])
    words = [_VERSION.sub("", word) for word in names.dictionary.to_pylist()]
    driver = np.array([word.startswith("cu") and not word.startswith("cuda") for word in words])
    codes = np.asarray(names.indices.to_numpy(), np.int64)
    is_driver = driver[codes].astype(np.int64) if words else codes
    return {
        "name": names_of(codes, words),
        "kind": names_of(is_driver, ["runtime", "driver"]),
        "tid": raw["globalTid"],
        "start_ns": raw["start"] + file.origin,
        "dur_ns": durations(raw["start"], raw["end"], file.repairs),
        "correlation_id": nullable(raw["correlationId"]),
        "pid": np.zeros(len(codes), np.int64),
        "process": raw["globalTid"] >> PROCESS_SHIFT,
    }


# --- Ranks ----------------------------------------------------------------------------------


def _split(
    file: _File, ranges: nsys_ranges.Ranges, launches: dict[str, Any], device: dict[str, Any]
) -> list[RankEvents]:
    """Make a rank of each process that has device activity."""
    of_device = np.asarray(device.pop("process").to_numpy(), np.int64)
    of_launch, of_range = launches.pop("process"), ranges.process
    processes = np.unique(of_device).tolist()
    if processes == [-1]:  # exports of old versions do not say the process of an activity
        of_launch, of_range = np.full_like(of_launch, -1), np.full_like(of_range, -1)
    other = int((~np.isin(of_launch, processes)).sum() + (~np.isin(of_range, processes)).sum())
    if other:
        file.skipped["calls and ranges of processes without GPU work"] += other
    first = {p: int(device["device"].to_numpy()[of_device == p].min()) for p in processes}
    order = sorted(processes, key=lambda process: (first[process], process))
    ranks = _ranks(file, ranges.labels, order)
    order.sort(key=lambda process: ranks.get(process, 0))
    host, products = _host(file.db), _products(file.db)
    made = []
    for process in order:
        here = {"ranges": of_range == process, "launches": of_launch == process,
                "device": of_device == process}  # fmt: skip
        counts = sum(int(mask.sum()) for mask in here.values())
        made.append(rank_events(
            _picked(ranges.columns, here["ranges"]), _picked(launches, here["launches"]),
            _picked(device, here["device"]),
            rank=ranks.get(process), host=host,
            devices=products.get(process & 0xFFFFFF, products.get(None, {})),
            events_read=counts + (sum(file.skipped.values()) if process == order[0] else 0),
            source=file.source, meta={"notes": tuple(file.notes)},
            skipped=dict(file.skipped) if process == order[0] else {},
            repairs=dict(file.repairs) if process == order[0] else {},
        ))  # fmt: skip
    return made


def _picked(columns: dict[str, Any], mask: Any) -> dict[str, Any]:
    chosen = pa.array(mask)
    return {
        name: values.filter(chosen) if isinstance(values, pa.Array) else values[mask]
        for name, values in columns.items()
    }


def _ranks(file: _File, labels: dict[int, list[str]], order: list[int]) -> dict[int, int]:
    """Return the rank of each process: as its NVTX labels say, else its place."""
    said = {}
    for process in order:
        found = [int(m[1]) for label in labels.get(process, []) if (m := _RANK.fullmatch(label))]
        if found:
            said[process] = found[0]
    if len(said) == len(order) and len(set(said.values())) == len(order):
        return said
    if len(order) == 1:
        return {}
    file.notes.append(
        f"{file.source} holds {len(order)} processes: ranks are numbered by their first device, "
        "then by process id"
    )
    return {process: rank for rank, process in enumerate(order)}


def _host(db: sqlite3.Connection) -> str | None:
    if not {"name", "value"} <= columns_of(db, "TARGET_INFO_SYSTEM_ENV"):
        return None
    found = db.execute(
        "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'"
    ).fetchone()
    return str(found[0]) if found and found[0] else None


def _products(db: sqlite3.Connection) -> dict[int | None, dict[int, str]]:
    """Return the product name by device number, of each process, and of none in particular."""
    names = pairs(db, "TARGET_INFO_GPU", "id", "name")
    raw = integers(db, "TARGET_INFO_GPU", {"id": -1, "cuDevice": -1})
    found: dict[int | None, dict[int, str]] = {None: dict(names)}
    for gpu, device in zip(raw["id"].tolist(), raw["cuDevice"].tolist(), strict=True):
        if device >= 0 and gpu in names:
            found[None][device] = names[gpu]
    known = integers(db, "TARGET_INFO_CUDA_DEVICE", {"gpuId": -1, "cudaId": -1, "pid": -1})
    for gpu, device, pid in zip(*(column.tolist() for column in known.values()), strict=True):
        if gpu in names:
            found.setdefault(pid, {})[device] = names[gpu]
    return found

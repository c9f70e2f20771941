"""Counters of rocprofv3 in its database format, rocpd (``.db``), the default since ROCm 7.0."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counter_agents import agents_of
from chopper_jupyter.core.importers.counter_parts import (
    UNKNOWN,
    Agents,
    LongRows,
    Part,
    part_of_rows,
)
from chopper_jupyter.core.importers.rocpd_trace import runs_of
from chopper_jupyter.core.importers.sqlite_columns import columns_of, opened, quoted, tables_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection
    from pathlib import Path

VIEW = "counters_collection"
"""The tool's own view; it drops kernels whose thread or symbol is not known."""

EVENTS = "rocpd_pmc_event"
_COLUMNS = (
    "process", "stream", "order", "work_items", "group_items", "start", "end", "agent", "name",
    "counter", "value",
)  # fmt: skip
_FROM_VIEW = {
    "process": ("pid",), "stream": ("stream_id", "queue_id"), "order": ("dispatch_id",),
    "work_items": ("grid_size",), "group_items": ("workgroup_size",), "start": ("start",),
    "end": ("end",), "agent": ("agent_type_index", "agent_abs_index"), "name": ("kernel_name",),
    "counter": ("counter_name",), "value": ("value",),
}  # fmt: skip


def read_parts(path: Path) -> list[Part]:
    """Read a database: one part for each run in it.

    Instances of a counter are added up, as in the CSV of rocprofv3.

    Raises
    ------
    TraceFormatError
        If it is damaged, of another tool, or holds no counters.
    """
    with opened(path) as db:
        tables = set(tables_of(db))
        runs = [run for run in runs_of(tables) if EVENTS + run in tables]
        found = [(_of_run(db, run), _agents(db, run, tables)) for run in runs]
        if not runs and VIEW in tables:
            found = [(_of_view(db, path), Agents())]
    parts = [_part(rows, agents, path) for rows, agents in found if rows]
    if not parts:
        raise TraceFormatError(_refusal(path, tables))
    return parts


def _refusal(path: Path, tables: Collection[str]) -> str:
    if any(name.startswith("compute_metric") for name in tables):
        return (
            f"{path.name} holds no counters of kernels: it is an analysis of rocprof-compute, with "
            "metrics that it derived. Read the folder of its workload, with pmc_perf.csv"
        )
    if "StringIds" in tables or any(name.startswith("CUPTI_") for name in tables):
        return f"{path.name} holds no counters: it is a trace of Nsight Systems"
    if any(name.startswith("rocpd_") for name in tables):
        return f"{path.name} holds no counters: it was recorded without `--pmc`"
    names = ", ".join(sorted(tables)[:6]) or "no tables"
    return f"{path.name} holds no counters: it is a database of no known tool (found {names})"


def _of_run(db: sqlite3.Connection, run: str) -> list[tuple[Any, ...]]:
    """Read a run's tables; kernels without a symbol or a process are kept."""

    def table(name: str) -> str:
        return quoted(f"rocpd_{name}{run}")

    needed = {"event_id", "dispatch_id", "kernel_id", "workgroup_size_x", "grid_size_x"}
    if not needed <= columns_of(db, f"rocpd_kernel_dispatch{run}"):
        return []
    same = {
        letter: f" AND {letter}.guid = K.guid" if not run and "guid" in columns else ""
        for letter, columns in (
            ("V", columns_of(db, EVENTS)), ("C", columns_of(db, "rocpd_info_pmc")),
            ("S", columns_of(db, "rocpd_info_kernel_symbol")),
            ("P", columns_of(db, "rocpd_info_process")),
        )
    }  # fmt: skip
    named = columns_of(db, f"rocpd_info_process{run}")
    process, join = ("P.pid", f"LEFT JOIN {table('info_process')} P ON P.id = K.pid{same['P']}")
    if "pid" not in named:
        process, join = "K.pid", ""
    query = (
        f"SELECT COALESCE({process}, K.pid), COALESCE(K.stream_id, K.queue_id), K.dispatch_id, "  # noqa: S608  quoted
        "K.grid_size_x * K.grid_size_y * K.grid_size_z, "
        "K.workgroup_size_x * K.workgroup_size_y * K.workgroup_size_z, K.start, K.end, K.agent_id, "
        "COALESCE(S.display_name, S.kernel_name), C.name, V.value "
        f"FROM {table('pmc_event')} V "
        f"JOIN {table('kernel_dispatch')} K ON K.event_id = V.event_id{same['V']} "
        f"JOIN {table('info_pmc')} C ON C.id = V.pmc_id{same['C']} "
        f"LEFT JOIN {table('info_kernel_symbol')} S ON S.id = K.kernel_id{same['S']} {join}"
    )
    return db.execute(query).fetchall()


def _of_view(db: sqlite3.Connection, path: Path) -> list[tuple[Any, ...]]:
    there = columns_of(db, VIEW)
    terms = []
    for column in _COLUMNS:
        found = [quoted(name) for name in _FROM_VIEW[column] if name in there]
        if not found and column in ("order", "name", "counter", "value"):
            msg = f"{path.name}: {VIEW} lacks {_FROM_VIEW[column][0]}"
            raise TraceFormatError(msg)
        terms.append(found[0] if found else "NULL")
    return db.execute(f"SELECT {', '.join(terms)} FROM {VIEW}").fetchall()  # noqa: S608  quoted


def _part(rows: list[tuple[Any, ...]], agents: Agents, path: Path) -> Part:
    try:
        long = _long_rows(rows)
    except (ValueError, TypeError, OverflowError) as error:
        msg = f"{path.name} is a database of rocprofv3 with counters that cannot be read ({error})"
        raise TraceFormatError(msg) from error
    part = part_of_rows(long, "rocprofv3", path, summed=True)
    part.form, part.agents = "rocpd", agents
    return part


def _long_rows(rows: list[tuple[Any, ...]]) -> LongRows:
    columns = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
    absent = dict.fromkeys(_COLUMNS, UNKNOWN) | {"start": 0, "end": 0}
    numbers = {
        name: np.array([absent[name] if v is None else v for v in columns[name]], np.int64)
        for name in _COLUMNS[:7]
    }
    texts = {
        name: pa.array([None if v is None else str(v) for v in columns[name]], pa.string())
        for name in ("agent", "name")
    }
    return LongRows(
        {**numbers, **texts},
        pa.array(columns["counter"], pa.string()),
        pa.array(columns["value"], pa.float64()),
    )


def _agents(db: sqlite3.Connection, run: str, tables: Collection[str]) -> Agents:
    name = f"rocpd_info_agent{run}"
    if name not in tables:
        return Agents()
    there = columns_of(db, name)
    wanted = ("id", "absolute_index", "logical_index", "type_index", "name", "product_name",
              "extdata", "type")  # fmt: skip
    terms = ", ".join(quoted(column) if column in there else "NULL" for column in wanted)
    rows = db.execute(f"SELECT {terms} FROM {quoted(name)}").fetchall()  # noqa: S608  quoted
    gpus = []
    for number, absolute, logical, index, arch, product, extra, kind in rows:
        if kind not in (None, "GPU"):
            continue
        place = absolute if absolute is not None else index
        gpus.append(_details(extra) | {
            "label": str(number), "node_id": place, "logical_node_id": logical, "name": arch,
            "product_name": product,
        })  # fmt: skip
    return agents_of(gpus)


def _details(text: Any) -> dict[str, Any]:
    """Return what stands in the column of further data, if it can be read."""
    try:
        found = json.loads(text or "{}")
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

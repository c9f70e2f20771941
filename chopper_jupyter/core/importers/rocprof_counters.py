"""Counters of rocprofv3 (``counter_collection.csv``) and rocprof-compute (``pmc_perf*.csv``)."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counter_tables import (
    NO_KERNEL,
    CountedFile,
    Ints,
    dense,
    first_rows,
    with_durations,
)
from chopper_jupyter.core.importers.csv_columns import (
    TextColumns,
    filled,
    read_columns,
    real_numbers,
    whole_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LONG = ("dispatch_id", "kernel_name", "counter_name", "counter_value")
WIDE = ("dispatch_id", "gpu_id", "kernel_name", "grid_size", "workgroup_size")
V1 = ("kernelname", "gpu-id", "queue-id", "grd", "wgr")

MERGED = re.compile(r"pmc_perf\.csv$")
"""Where rocprof-compute has joined its passes: the times are means over them."""

_NOT_COUNTERS = re.compile(
    r"(?:guid|correlation_id|dispatch_id|agent_id|gpu_id|node_id|queue[_-](?:id|index)|pid|tid|process_id"
    r"|thread_id|grid_size|workgroup_size|kernel_id|kernel_name|lds_.*|scratch_.*|.*vgpr.*|sgpr.*"
    r"|wave_size.*|start_timestamp|end_timestamp|graph_.*|fbar|sig|obj|index|(?:dispatch|begin|end|complete|duration)ns|arch_vgpr|accum_vgpr)(?:_\d+)?"
)
_AGENT = {
    "num_xcc": "num_xcc", "cu_count": "cu_count", "simd_per_cu": "simd_per_cu",
    "max_engine_clk_fcompute": "max_clock_mhz", "location_id": "location_id",
}  # fmt: skip


def is_long(header: list[str]) -> bool:
    """Say whether a file with this header is rocprofv3's, a row per counter."""
    return set(LONG) <= set(header)


def is_wide(header: list[str]) -> bool:
    """Say whether it is rocprof-compute's, a row per kernel."""
    return set(WIDE) <= set(header) and not is_long(header)


def read_long(path: Path) -> CountedFile:
    """Read a ``counter_collection.csv``.

    Raises
    ------
    TraceFormatError
        If it is empty or no CSV.
    """
    table = read_columns(path)
    dispatch, value = table.whole("dispatch_id"), real_numbers(table.text("counter_value"))
    name, counter = table.text("kernel_name"), table.text("counter_name")
    good = pc.and_(pc.is_valid(dispatch), pc.is_valid(value))
    for text in (name, counter):
        good = pc.and_(good, pc.fill_null(pc.not_equal(text, ""), fill_value=False))
    rows = np.flatnonzero(good.to_numpy(zero_copy_only=False))
    process = filled(table.whole("process_id"), 0)[rows]
    first, kernel = _kernels(process, filled(dispatch)[rows])
    agents, device = _devices(path, table.text("agent_id").take(pa.array(rows)))
    at = pa.array(rows[first])
    made = CountedFile(
        _counted(table, at, device[first]),
        kernel,
        counter.take(pa.array(rows)),
        np.asarray(value.to_numpy(zero_copy_only=False), np.float64)[rows],
        agents,
        _left_out(table.rows - len(rows)),
        Counter(table.repairs),
    )
    return with_durations(made, *_times(table, at))


def _kernels(process: Ints, dispatch: Ints) -> tuple[Ints, Ints]:
    """Return the first row of each kernel, in order, and which kernel each row is of."""
    _, of_process = np.unique(process, return_inverse=True)
    return first_rows(of_process.reshape(-1) * (int(dispatch.max(initial=0)) + 1) + dispatch)


def _left_out(rows: int) -> Counter[str]:
    return Counter({NO_KERNEL: rows} if rows else {})


def _counted(table: TextColumns, at: pa.Array, device: Ints) -> Mapping[str, pa.Array]:
    process = table.whole("process_id")
    process = table.whole("pid") if process.null_count == len(process) else process
    return {
        "process": process.take(at),
        "device": pa.array(device),
        "stream": table.whole("queue_id").take(at),
        "order": table.whole("dispatch_id").take(at),
        "name": table.text("kernel_name").take(at),
        "work_items": table.whole("grid_size").take(at),
        "group_items": table.whole("workgroup_size").take(at),
    }


def _times(table: TextColumns, at: pa.Array) -> tuple[Ints, Ints, Any]:
    start, end = (table.whole(f"{n}_timestamp").take(at) for n in ("start", "end"))
    known = pc.and_(pc.is_valid(start), pc.is_valid(end)).to_numpy(zero_copy_only=False)
    return filled(start, 0), filled(end, 0), known


def _devices(path: Path, agent: pa.Array) -> tuple[dict[int, dict[str, Any]], Ints]:
    """Return the GPUs numbered from 0: by the list of agents beside the file, or as they appear."""
    known = _agent_info(path)
    if not known:
        return {}, dense(agent)
    encoded = agent.cast(pa.string()).fill_null("").dictionary_encode()
    relative = [text.lower().startswith("agent") for text in encoded.dictionary.to_pylist()]
    number = whole_numbers(pc.replace_substring_regex(encoded.dictionary, r"\D", "")).to_pylist()
    place = []
    for is_relative, wanted in zip(relative, number, strict=True):
        key = "logical_node_id" if is_relative else "node_id"
        found = [i for i, one in enumerate(known) if one[key] == wanted]
        place.append(found[0] if found else -1)
    if -1 in place:  # the list is of another machine
        return {}, dense(agent)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return dict(enumerate(known)), np.array([*place, 0], np.int64)[codes]


def _agent_info(path: Path) -> list[dict[str, Any]]:
    """Return what the list of agents beside a file says of each GPU, by node."""
    files = sorted(path.parent.glob("*agent_info.csv"))
    mine = [p for p in files if p.name.split("_")[0] == path.name.split("_")[0]] or files
    if not mine:
        return []
    try:
        table = read_columns(mine[0])
    except TraceFormatError:
        return []
    gpus = [i for i, kind in enumerate(table.text("agent_type").to_pylist()) if kind == "GPU"]
    found = []
    for i in gpus:
        facts: dict[str, Any] = {"name": table.text("product_name")[i].as_py() or None}
        facts["arch"] = table.text("name")[i].as_py() or None
        names = {**_AGENT, "node_id": "node_id", "logical_node_id": "logical_node_id"}
        found.append(facts | {words: table.whole(c)[i].as_py() for c, words in names.items()})
    return sorted(found, key=lambda one: one["node_id"] or 0)


def read_wide(path: Path) -> CountedFile:
    """Read a ``pmc_perf*.csv`` of rocprof-compute; of joined passes the times are not used.

    Raises
    ------
    TraceFormatError
        If it is empty, no CSV, or holds no counters.
    """
    table = read_columns(path)
    names = [name for name in table.columns if not _NOT_COUNTERS.fullmatch(name)]
    if not names:
        msg = f"{path.name} holds kernels but no counters"
        raise TraceFormatError(msg)
    good = pc.and_(
        pc.is_valid(table.whole("dispatch_id")),
        pc.fill_null(pc.not_equal(table.text("kernel_name"), ""), fill_value=False),
    )
    rows = np.flatnonzero(good.to_numpy(zero_copy_only=False))
    spelled = _spelled(path)
    kernel, counter, values = [], [], []
    for name in names:
        column = real_numbers(table.text(name)).to_numpy(zero_copy_only=False)[rows]
        there = np.flatnonzero(~np.isnan(column.astype(np.float64)))
        kernel.append(there)
        counter.append(pa.array(np.full(len(there), spelled.get(name, name), object), pa.string()))
        values.append(column[there].astype(np.float64))
    at = pa.array(rows)
    made = CountedFile(
        _counted(table, at, dense(table.text("gpu_id").take(at))),
        np.concatenate(kernel),
        pa.concat_arrays(counter),
        np.concatenate(values),
        {},
        _left_out(table.rows - len(rows)),
        Counter(table.repairs),
    )
    if MERGED.search(path.name):
        return made
    return with_durations(made, *_times(table, at))


def _spelled(path: Path) -> dict[str, str]:
    """Return the headers as the file spells them, by lower case."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        names = [name.strip().strip('"') for name in file.readline().split(",")]
    return {name.lower(): name for name in reversed(names)}

"""Traces of rocprofv3 in CSV: ``kernel_trace``, API, marker and copy traces of one process."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.csv_columns import (
    TextColumns,
    filled,
    header_of,
    read_columns,
    whole_numbers,
)
from chopper_jupyter.core.importers.rocprof_events import (
    AXES,
    NO_STREAM,
    Records,
    device_of_copy,
    events_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.core.events import RankEvents
    from chopper_jupyter.core.importers.event_tables import Ints, Mask

    Files = dict[str, list[tuple[Path, TextColumns]]]

KERNELS, CALLS, COPIES, AGENTS = "kernels", "calls", "copies", "agents"

_TRACES = (
    r"kernel|marker_api|marker|memory_copy|memory_allocation|scratch_memory|hip\w*|hsa\w*|rccl\w*|"
    r"rocdecode\w*|rocjpeg\w*"
)
_FILE = re.compile(rf"(?P<process>.*?)_?(?:(?:{_TRACES})_trace|counter_collection|agent_info)\.csv")
NO_CORRELATION = 0
EMPTY = TextColumns({}, 0)
LOST_TIMES = "rows without a usable time: left out"


def kind_of(path: Path) -> str | None:
    """Say what a CSV file of rocprofv3 holds, by its header; None for what is none of a trace."""
    names = set(header_of(path))
    if {"start_timestamp", "end_timestamp"} <= names and "counter_name" not in names:
        if {"kind", "kernel_name", "correlation_id"} <= names:
            return KERNELS
        if {"domain", "function", "correlation_id"} <= names:
            return CALLS
        if {"direction", "correlation_id"} <= names:
            return COPIES
    return AGENTS if {"node_id", "agent_type", "cu_count"} <= names else None


def is_counters(path: Path) -> bool:
    """Say whether a CSV file holds counters of rocprofv3."""
    return {"counter_name", "counter_value"} <= set(header_of(path))


def is_part(path: Path) -> bool:
    """Say whether a file is, by its name and header, one of those of a process."""
    return path.suffix.lower() == ".csv" and kind_of(path) is not None


def process_of(path: Path) -> tuple[Path, str]:
    """Return what the files of one process share: the folder and the start of the name.

    Examples
    --------
    >>> from pathlib import Path
    >>> process_of(Path("out/node1/77_kernel_trace.csv"))[1], process_of(Path("x.csv"))[1]
    ('77', 'x')
    """
    match = _FILE.fullmatch(path.name)
    if match is None:
        return path.parent, path.stem
    return path.parent, match["process"]


def read_process(paths: Sequence[Path]) -> list[RankEvents]:
    """Read the CSV files that rocprofv3 wrote for one process.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        ``*_kernel_trace.csv`` and those of ``*_hip_api_trace.csv``, ``*_hsa_api_trace.csv``,
        ``*_marker_api_trace.csv``, ``*_rccl_api_trace.csv``, ``*_memory_copy_trace.csv``,
        ``*_agent_info.csv`` that there are; of ROCm 6.2 to 7.x, or made from a rocpd database.

    Returns
    -------
    list of RankEvents
        One, or one for each process of a converted database (column ``Guid``). The device is
        the number of the GPU on its host where ``agent_info`` tells it, else the agent's.

    Raises
    ------
    TraceFormatError
        If there are no kernels, or it cannot be told which process they are of.
    """
    found: Files = {}
    for path in paths:
        kind = kind_of(path)
        if kind is not None:
            found.setdefault(kind, []).append((path, read_columns(path)))
    if KERNELS not in found and COPIES not in found:
        raise TraceFormatError(_no_kernels(paths))
    guids = sorted({guid for kind in (KERNELS, COPIES) for _, file in found.get(kind, ())
                    for guid in pc.unique(file.text("guid")).to_pylist() if guid})  # fmt: skip
    if len(guids) > 1:
        return [_process({k: _only(v, guid) for k, v in found.items()}) for guid in guids]
    return [_process(found)]


def _no_kernels(paths: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in paths)
    if any("counter_name" in header_of(path) for path in paths):
        return (
            f"{names} holds counters, whose run is slowed down and serialised, not a trace: open "
            "the trace of the timed run and add the counters to it"
        )
    return (
        f"{names} holds no kernels that are known: a trace is read from `rocprofv3 --kernel-trace "
        "--hip-trace --marker-trace --output-format csv` (its *_kernel_trace.csv)"
    )


def _only(files: list[tuple[Path, TextColumns]], guid: str) -> list[tuple[Path, TextColumns]]:
    """Keep the rows of one process."""
    kept = []
    for path, file in files:
        mask = pc.fill_null(pc.equal(file.text("guid"), guid), "guid" not in file.columns)
        columns = {name: values.filter(mask) for name, values in file.columns.items()}
        rows = pc.sum(mask).as_py() or 0
        kept.append((path, type(file)(columns, rows, file.repairs)))
    return kept


def _process(found: Files) -> RankEvents:
    first = next(path for kind in (KERNELS, COPIES) for path, _ in found.get(kind, ()))
    agents = _Agents([file for _, file in found.get(AGENTS, ())])
    skipped: Counter[str] = Counter()
    found = _of_one_process(found, first, skipped)
    records = Records(
        kernels=_below([_kernels(f, agents) for _, f in found.get(KERNELS, [(first, EMPTY)])]),
        copies=_below([_copies(file, agents) for _, file in found.get(COPIES, ())]),
        calls=_below([_calls(file) for _, file in found.get(CALLS, ())]),
        devices=agents.products, source=first.name, skipped=skipped,
    )  # fmt: skip
    for files in found.values():
        for _, file in files:
            records.repairs.update(file.repairs)
    for name in ("kernels", "copies", "calls"):
        setattr(records, name, _timed(getattr(records, name), records.repairs))
    return events_of(records)


def _below(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Put the columns of several files below each other."""
    if len(parts) < 2:  # noqa: PLR2004  nothing to join
        return parts[0] if parts else {}
    return {
        name: pa.concat_arrays([part[name] for part in parts])
        if isinstance(parts[0][name], pa.Array)
        else np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }


def _timed(columns: dict[str, Any], repairs: Counter[str]) -> dict[str, Any]:
    """Leave out rows whose times cannot be read."""
    if not columns:
        return columns
    good = (columns["start"] >= 0) & (columns["end"] >= 0)
    if good.all():
        return columns
    repairs[LOST_TIMES] += int((~good).sum())
    chosen = pa.array(good)
    return {
        name: values.filter(chosen) if isinstance(values, pa.Array) else values[good]
        for name, values in columns.items()
    }


def _of_one_process(found: Files, first: Path, skipped: Counter[str]) -> Files:
    """Leave out files of other processes: their correlation ids mean other calls.

    The API traces say their process, the kernel trace only the threads that launched.

    Raises
    ------
    TraceFormatError
        If it cannot be told which of several processes the kernels belong to.
    """
    pids = {path: _values(file, "process_id") for path, file in found.get(CALLS, [])}
    everyone: set[int] = set().union(*pids.values())
    threads = {t for _, file in found.get(KERNELS, []) for t in _values(file, "thread_id")}
    if not everyone or {process_of(first)[1]} == {str(pid) for pid in everyone}:
        return found
    if not threads and len(everyone) == 1:
        return found
    fitting = {pid for path, file in found[CALLS] if _values(file, "thread_id") & threads
               for pid in pids[path]}  # fmt: skip
    if not threads or len(fitting) > 1:
        names = ", ".join(sorted(path.name for files in found.values() for path, _ in files))
        msg = (
            f"{names} are of several processes ({', '.join(map(str, sorted(everyone)))}), so that "
            "their correlation ids cannot be joined: give the files of one process, as rocprofv3 "
            "writes them (<process>_kernel_trace.csv, <process>_hip_api_trace.csv, ...)"
        )
        raise TraceFormatError(msg)
    if everyone == fitting:
        return found
    kept = [(path, file) for path, file in found[CALLS] if pids[path] <= fitting]
    unsure = len(found[CALLS]) - len(kept) + len(found.get(COPIES, []))
    skipped["files of other processes beside the kernel trace: left out"] += unsure
    return {KERNELS: found[KERNELS], CALLS: kept, AGENTS: found.get(AGENTS, [])}


def _values(file: TextColumns, name: str) -> set[int]:
    """Return the distinct numbers of a column; 0 stands for ranges that belong to no thread."""
    return set(pc.unique(file.whole(name)).drop_null().to_pylist()) - {0}


def _kernels(file: TextColumns, agents: _Agents) -> dict[str, Any]:
    stream = file.whole("stream_id") if "stream_id" in file.columns else file.whole("queue_id")
    sizes = {f"{of}_{axis}": filled(file.whole(f"{column}_{axis}"), 0) for of, column in
             (("grid", "grid_size"), ("group", "workgroup_size")) for axis in AXES}  # fmt: skip
    return {
        "name": pc.fill_null(file.text("kernel_name"), ""),
        "device": agents.devices(file.text("agent_id")),
        "stream": filled(stream, 0),
        **_times(file),
        **sizes,
    }


def _copies(file: TextColumns, agents: _Agents) -> dict[str, Any]:
    direction = pc.fill_null(file.text("direction"), "")
    ends = [agents.devices(file.text(f"{end}_agent_id")) for end in ("source", "destination")]
    return {
        "direction": direction,
        "device": device_of_copy(direction, *ends),
        "stream": filled(file.whole("stream_id"), NO_STREAM),
        **_times(file),
        "bytes": np.full(file.rows, -1, np.int64),
    }


def _calls(file: TextColumns) -> dict[str, Any]:
    return {
        "domain": file.text("domain"),
        "name": pc.fill_null(file.text("function"), ""),
        "tid": filled(file.whole("thread_id"), 0),
        **_times(file),
    }


def _times(file: TextColumns) -> dict[str, Ints]:
    return {
        "start": filled(file.whole("start_timestamp")),
        "end": filled(file.whole("end_timestamp")),
        "correlation": filled(file.whole("correlation_id"), NO_CORRELATION),
    }


class _Agents:
    """Device numbers and product names of agents, from ``agent_info`` where there is one."""

    def __init__(self, files: list[TextColumns]) -> None:
        self.products: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        for file in files[:1]:
            gpu = np.asarray(pc.equal(file.text("agent_type"), "GPU").to_numpy(False), bool)  # noqa: FBT003
            node, logical = filled(file.whole("node_id")), filled(file.whole("logical_node_id"))
            index = filled(file.whole("logical_node_type_id"))
            place = np.where(index >= 0, index, _places(node, gpu))
            names = file.text("product_name").to_pylist()
            for row in np.flatnonzero(gpu).tolist():
                number = int(place[row])
                self._numbers |= {str(node[row]): number, f"Agent {logical[row]}": number,
                                  f"GPU {number}": number}  # fmt: skip
                if names[row]:
                    self.products[number] = names[row]

    def devices(self, agent: pa.Array) -> Ints:
        """Return the device number of each agent; the agent's own where nothing tells it."""
        encoded = pc.fill_null(agent, "").dictionary_encode()
        words = encoded.dictionary.to_pylist()
        digits = whole_numbers(pc.struct_field(
            pc.extract_regex(encoded.dictionary, r"(?P<n>\d{1,9})\s*$"), "n"))  # fmt: skip
        own = filled(digits, 0)
        known = [self._numbers.get(word, int(own[i])) for i, word in enumerate(words)]
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        return np.array(known, np.int64)[codes] if known else np.zeros(0, np.int64)


def _places(node: Ints, gpu: Mask) -> Ints:
    """Return the place of each GPU among the GPUs, by node."""
    place = np.full(len(node), -1, np.int64)
    rows = np.flatnonzero(gpu)
    place[rows[np.argsort(node[rows], kind="stable")]] = np.arange(len(rows))
    return place

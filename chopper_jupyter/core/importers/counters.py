"""Reads hardware counters of any known tool; content says which tool, not names of files."""

from __future__ import annotations

import codecs
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers import (
    ncu_csv,
    rocpd,
    rocprof_compute,
    rocprof_csv,
    rocprof_json,
    rocprof_trace,
)
from chopper_jupyter.core.importers.counter_agents import is_agents, read_agents
from chopper_jupyter.core.importers.counter_parts import Agents, Part
from chopper_jupyter.core.importers.counter_passes import numbered, without_copies
from chopper_jupyter.core.importers.counter_tables import run_of
from chopper_jupyter.core.importers.csv_columns import header_of
from chopper_jupyter.core.importers.json_values import head_of
from chopper_jupyter.core.importers.recordings import OTHER_FORMATS
from chopper_jupyter.core.importers.rocprof_json_trace import is_rocprof
from chopper_jupyter.core.importers.sqlite_columns import is_sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from chopper_jupyter.core.counter_events import CounterRun

    Reader = Callable[[Path], list[Part]]
    PathLike = str | os.PathLike[str]

SUFFIXES = (".csv", ".json", ".gz", ".db", ".sqlite", ".txt", ".log", "")
"""Endings of files that are looked into where a folder is read."""

_SEPARATORS = (";", "\t", "|")
"""What tables that were saved by other programs have between their fields instead of commas."""

_FEWEST = 5

V1 = {"kernelname", "gpu-id", "queue-id"}


def read_counters(path: PathLike | Iterable[PathLike]) -> list[CounterRun]:
    """Read the counters in a file or anywhere below a folder.

    Parameters
    ----------
    path : path or several paths
        A file, the folder of a pass, of a tool or of several tools, or ``counters`` of a run
        folder. In folders, files that hold no counters are passed over.

    Returns
    -------
    list of CounterRun
        One for each tool, in order of their names, with all its passes. Files of a folder that
        are damaged are in ``skipped``, each with the reason.

    Raises
    ------
    TraceFormatError
        If nothing holds counters; the message says why.
    FileNotFoundError
        If a path does not exist.
    """
    given = [Path(path)] if isinstance(path, (str, os.PathLike)) else [Path(one) for one in path]
    if not given:
        msg = "no file or folder of counters was given"
        raise TraceFormatError(msg)
    skipped: Counter[str] = Counter()
    parts: dict[Path, list[Part]] = {}
    for file, chosen in _files_of(given):
        read = _reader(file, chosen=chosen)
        if read is None:
            continue
        try:
            parts[file] = read(file)
        except TraceFormatError as error:
            if chosen and len(given) == 1:
                raise
            skipped[str(error)] += 1
    if not parts:
        raise TraceFormatError(_nothing(given, skipped))
    return _runs([part for found in parts.values() for part in found], given, skipped)


def _files_of(given: Iterable[Path]) -> list[tuple[Path, bool]]:
    """List files, each with whether it was named itself."""
    found: dict[Path, bool] = {}
    for one in given:
        if not one.exists():
            msg = f"no such file or folder: {one}"
            raise FileNotFoundError(msg)
        if one.is_file():
            found[one] = True
            continue
        for file in sorted(one.rglob("*")):
            if file.is_file() and file.suffix.lower() in SUFFIXES:
                found.setdefault(file, False)
    return list(found.items())


def _nothing(given: Iterable[Path], skipped: Mapping[str, int]) -> str:
    where = ", ".join(str(one) for one in given)
    if skipped:
        return f"{where} holds no counters that can be read: {'; '.join(skipped)}"
    return (
        f"{where} holds no counters: no output of `rocprofv3 --pmc`, rocprof-compute or `ncu --csv`"
    )


def _reader(path: Path, *, chosen: bool) -> Reader | None:
    """Return what reads a file; None for a file of a folder that holds no counters.

    Raises
    ------
    TraceFormatError
        If a file that was named itself holds none; the message says what it is.
    """
    if path.suffix.lower() in OTHER_FORMATS:
        reason = f"{path.name} cannot be read as it is: {OTHER_FORMATS[path.suffix.lower()]}"
        return _refused(reason, chosen=chosen)
    head = head_of(path, 1 << 20)
    if is_sqlite(head):
        return rocpd.read_parts if chosen or b"rocpd_" in head else None
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _refused(f"{path.name} is UTF-16 text: save it as UTF-8", chosen=chosen)
    text = head.decode("utf-8-sig", "replace").lstrip()
    if text[:1] in ("{", "["):
        return rocprof_json.read_parts if chosen or is_rocprof(head) else None
    header = header_of(path) if text else []
    lost = not text and "counter_collection" in path.name  # the tool died, or the disk was full
    return _table_reader(path, text, header) or _refused(
        _no_counters(path, header), chosen=chosen or lost
    )


def _table_reader(path: Path, text: str, header: list[str]) -> Reader | None:
    """Return what reads a table of text; None if it is of no counter tool."""
    if ncu_csv.is_ncu(text):
        return lambda file: [ncu_csv.read_part(file)]
    if {"counter_name", "counter_value"} <= set(header):
        return lambda file: [rocprof_csv.read_part(file)]
    if rocprof_compute.is_wide(header) and path.name != rocprof_compute.TIMES:
        return lambda file: [rocprof_compute.read_part(file)]
    if set(header) >= V1:
        reason = f"{path.name} is of rocprof v1, which is not supported: count with rocprofv3"
        return _refused(reason, chosen=True)
    return None


def _refused(reason: str, *, chosen: bool) -> Reader | None:
    """Return a reader that says why a file cannot be read; None if nobody asked for it."""

    def refuse(_: Path) -> list[Part]:
        raise TraceFormatError(reason)

    return refuse if chosen else None


def _no_counters(path: Path, header: list[str]) -> str:
    if not header:
        return f"{path.name} is empty"
    unread = _unreadable(header)
    if unread:
        return f"{path.name} {unread}"
    return f"{path.name} holds no counters: {_what_it_is(path, header)}"


def _unreadable(header: list[str]) -> str:
    """Say why a first line is none of a table with commas; empty if it may be one."""
    first = ",".join(header)
    for separator in _SEPARATORS:
        if first.count(separator) > max(first.count(","), _FEWEST):
            return f"separates its fields by {separator!r}: write it with commas"
    letters = "".join("".join(header).split())
    return "" if letters.isprintable() else "is no text"


def _what_it_is(path: Path, header: list[str]) -> str:
    if path.name == rocprof_compute.TIMES:
        return "it is the run of rocprof-compute that only timed"
    kind = rocprof_trace.kind_of(path)
    if kind == rocprof_trace.AGENTS:
        return "it lists the devices of a host"
    if kind is not None:
        return "it is a trace of rocprofv3"
    return f"its columns are {', '.join(header[:8])}"


def _runs(parts: list[Part], given: list[Path], skipped: Counter[str]) -> list[CounterRun]:
    by_tool: dict[str, list[Part]] = defaultdict(list)
    lists = _agent_lists(parts, given)
    for part in parts:
        by_tool[part.tool].append(part)
    found = []
    for tool, own in sorted(by_tool.items()):
        lost = Counter(skipped) if tool == min(by_tool) else Counter()
        passes = numbered(without_copies(own, lost))
        found.append(run_of(tool, passes, [_agents(part, lists) for _, part in passes], lost))
    return found


def _agent_lists(parts: Iterable[Part], given: Iterable[Path]) -> dict[Path, Agents]:
    """Read the lists of devices beside the files, and anywhere below the folders."""
    folders = {part.source.parent for part in parts if part.tool == "rocprofv3"}
    files = {file for folder in folders for file in folder.glob("*.csv")}
    files |= {file for one in given if one.is_dir() for file in one.rglob("*agent_info*.csv")}
    return {file: read_agents(file) for file in sorted(files) if is_agents(file)}


def _agents(part: Part, lists: Mapping[Path, Agents]) -> Agents:
    """Return the devices of a part's host: of its process, its folder, or its host in any pass."""
    if part.agents.devices or part.tool != "rocprofv3":
        return part.agents
    start, folder = part.source.name.split("_")[0], part.source.parent

    def nearness(file: Path) -> tuple[bool, bool]:
        return file.parent == folder and file.name.startswith(f"{start}_"), file.parent == folder

    near = [file for file in lists if file.parent == folder or file.parent.name == folder.name]
    return lists[max(near, key=nearness)] if near else Agents()

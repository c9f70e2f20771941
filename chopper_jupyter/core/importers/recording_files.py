"""Which files of a folder belong together, and which of them are recordings at all."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers import rocprof_trace
from chopper_jupyter.core.importers.json_values import head_of
from chopper_jupyter.core.importers.recordings import DATABASES, tool_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from chopper_jupyter.core.importers.recordings import Tool

JSON = (".json", ".json.gz")
OF_PROFILER: tuple[Tool, ...] = ("nsys", "rocpd", "rocprof-json", "rocprof-csv")
"""Tools beside PyTorch's profiler. Of a run that was written in several formats one is read."""


@dataclass(frozen=True)
class Found:
    """The recordings of a folder.

    Parameters
    ----------
    jobs : list of lists of pathlib.Path
        The files of each recording.
    left_out : int
        Further recordings that were not chosen, being of another tool or format.
    counter_runs : int
        Traces of runs that counted: slowed down and serialised, so that they are not chosen.
    """

    jobs: list[list[Path]]
    left_out: int = 0
    counter_runs: int = 0


def recordings_of(files: Iterable[Path]) -> list[list[Path]]:
    """Group files that were named one by one; beside a kernel trace its other traces are found.

    Parameters
    ----------
    files : iterable of pathlib.Path
        Any files; what they are is not judged here.
    """
    jobs: dict[object, list[Path]] = {}
    for path in files:
        part = path.is_file() and rocprof_trace.is_part(path)
        jobs.setdefault(rocprof_trace.process_of(path) if part else path, []).append(path)
    return [_with_others(paths) for paths in jobs.values()]


def _with_others(paths: list[Path]) -> list[Path]:
    """Add the other CSV files of the process to a kernel trace that was named alone."""
    path = paths[0]
    if len(paths) > 1 or not path.is_file() or path.suffix.lower() != ".csv":
        return _kernels_first(paths) if len(paths) > 1 else paths
    if rocprof_trace.kind_of(path) != rocprof_trace.KERNELS:
        return paths
    key = rocprof_trace.process_of(path)
    beside = (p for p in path.parent.glob("*.csv") if rocprof_trace.process_of(p) == key)
    return _kernels_first(p for p in beside if rocprof_trace.is_part(p))


def _kernels_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda p: (rocprof_trace.kind_of(p) != rocprof_trace.KERNELS, p.name))


def recordings_in(folder: Path, pattern: str | None = None) -> Found:
    """Find the recordings of a folder; counters and telemetry beside them are none.

    Parameters
    ----------
    folder : pathlib.Path
        PyTorch's traces are looked for in the folder itself; where there are none, exports
        and output of other tools also in its subfolders, as rocprofv3 makes them.
    pattern : str, optional
        Glob; only files that match it are looked at.
    """
    if pattern is not None:
        return _matching(sorted(folder.glob(pattern)))
    top = sorted(path for path in folder.iterdir() if path.name.endswith(JSON))
    kineto = [path for path in top if _tool(path) == "kineto"]
    others, counter_runs = _by_tool(folder, top)
    if any(_is_kineto(path) for path in kineto) or not any(others.values()):
        left_out = sum(len(jobs) for jobs in others.values())
        return Found([[path] for path in kineto], left_out, counter_runs)
    chosen = next(jobs for tool in OF_PROFILER if (jobs := others.get(tool, [])))
    left_out = sum(len(jobs) for jobs in others.values()) - len(chosen)
    return Found(chosen, left_out, counter_runs)


def _matching(files: Sequence[Path]) -> Found:
    alone = [[path] for path in files if path.name.endswith((*JSON, *DATABASES))]
    processes, _ = _processes(p for p in files if p.suffix.lower() == ".csv")
    return Found([*alone, *processes])


def _by_tool(folder: Path, top: Sequence[Path]) -> tuple[dict[Tool, list[list[Path]]], int]:
    """Find the recordings of tools other than PyTorch's profiler, below a folder too."""
    found: dict[Tool, list[list[Path]]] = defaultdict(list)
    names = [*(f"*{suffix}" for suffix in DATABASES), "*_results.json", "*_results.json.gz"]
    paths = {path for name in names for path in folder.rglob(name)} | set(top)
    for path in sorted(paths, key=_natural):
        tool = _tool(path)
        if tool is not None and tool != "kineto":
            found[tool].append([path])
    processes, counter_runs = _processes(folder.rglob("*.csv"))
    if processes:
        found["rocprof-csv"] = processes
    return found, counter_runs


def _processes(files: Iterable[Path]) -> tuple[list[list[Path]], int]:
    """Group CSV files by process; count apart those that have counters among them."""
    groups: dict[object, list[Path]] = defaultdict(list)
    for path in files:
        groups[rocprof_trace.process_of(path)].append(path)
    timed, counted = [], 0
    for paths in groups.values():
        parts = _kernels_first(path for path in paths if rocprof_trace.is_part(path))
        if not parts or rocprof_trace.kind_of(parts[0]) != rocprof_trace.KERNELS:
            continue
        if any(rocprof_trace.is_counters(path) for path in paths):
            counted += 1
        else:
            timed.append(parts)
    return sorted(timed, key=lambda paths: _natural(paths[0])), counted


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort numbers in names by value: rank 2 stands before rank 10."""
    parts = re.findall(r"\d+|\D+", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _tool(path: Path) -> Tool | None:
    try:
        return tool_of(path)
    except TraceFormatError:
        return None


def _is_kineto(path: Path) -> bool:
    """Say whether a JSON file is PyTorch's, by its beginning or its name."""
    if "trace" in path.name.lower() or not path.is_file():
        return True
    return b'"traceEvents"' in head_of(path, 1 << 20)

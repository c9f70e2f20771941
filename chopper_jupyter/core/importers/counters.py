"""Reads hardware counters of any supported tool: told apart by content, joined by pass."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers import rocprof_counters
from chopper_jupyter.core.importers.counter_databases import read_json, read_rocpd
from chopper_jupyter.core.importers.counter_tables import run_of
from chopper_jupyter.core.importers.csv_columns import header_of
from chopper_jupyter.core.importers.ncu_csv import is_ncu, read_ncu
from chopper_jupyter.core.importers.sqlite_columns import is_sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chopper_jupyter.core.counter_events import CounterRun
    from chopper_jupyter.core.importers.counter_tables import CountedFile

    Reader = tuple[str, Callable[[Path], CountedFile]]

HEAD = 1 << 14
SUFFIXES = (".csv", ".db", ".json", ".json.gz", ".txt", ".log")
_COUNTER_FILES = ("*counter_collection*.csv", "pmc_perf_*.csv", "pmc_perf.csv", "*ncu*.csv", "*.db")
_PASS = re.compile(r"(?:pass|pmc|pmc_perf)_?(\d+)")


def read_counters(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[CounterRun]:
    """Read the counters in a file or below a folder.

    Parameters
    ----------
    path : path or several paths
        A file, the folder of one pass, of one tool or of several, or ``counters`` in a run
        folder.

    Returns
    -------
    list of CounterRun
        One per tool, with all its passes.

    Raises
    ------
    TraceFormatError
        If there are no counters, or a file that should hold some cannot be read.
    FileNotFoundError
        If the path does not exist.
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    files = [file for one in given for file in _files_of(Path(one))]
    found: dict[str, list[tuple[str, Path, CountedFile]]] = defaultdict(list)
    for file in files:
        tool, read = _reader(file)
        found[tool].append((_pass_of(file), file, read(file)))
    if not found:
        where = ", ".join(str(one) for one in given)
        msg = f"{where} holds no counters: no {', '.join(_COUNTER_FILES)} below it"
        raise TraceFormatError(msg)
    return [_joined(tool, parts) for tool, parts in sorted(found.items())]


def _files_of(root: Path) -> list[Path]:
    if not root.exists():
        msg = f"no such file or folder: {root}"
        raise FileNotFoundError(msg)
    return [root] if root.is_file() else _files_below(root)


def _files_below(root: Path) -> list[Path]:
    """Return the files with counters; of rocprof-compute the passes rather than their join."""
    files = sorted({path for pattern in _COUNTER_FILES for path in root.rglob(pattern)})
    with_passes = {path.parent for path in files if re.match(r"pmc_perf_\d+\.csv", path.name)}
    return [p for p in files if p.name != "pmc_perf.csv" or p.parent not in with_passes]


def _reader(path: Path) -> Reader:
    """Choose the reader of a file by its content.

    Raises
    ------
    TraceFormatError
        If it holds no counters that can be read; the message says what it is.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    if is_sqlite(head):
        return "rocprofv3", read_rocpd
    text = head.decode("utf-8", "replace").lstrip("\ufeff")
    if head[:2] == b"\x1f\x8b" or text.lstrip().startswith("{"):
        return "rocprofv3", read_json
    if is_ncu(text):
        return "ncu", read_ncu
    header = header_of(path) if text.strip() else []
    if rocprof_counters.is_long(header):
        return "rocprofv3", rocprof_counters.read_long
    if rocprof_counters.is_wide(header):
        return "rocprof-compute", rocprof_counters.read_wide
    raise TraceFormatError(_refusal(path, header))


def _refusal(path: Path, header: Sequence[str]) -> str:
    if not header:
        return f"{path.name} is empty"
    if set(rocprof_counters.V1) <= set(header):
        return f"{path.name} is of rocprof v1, which is not supported: record with rocprofv3"
    return f"{path.name} holds no counters: its columns are {', '.join(header[:8])}"


def _pass_of(path: Path) -> str:
    """Return what names the pass of a file: its folder without host and process."""
    if re.match(r"pmc_perf_\d+\.csv", path.name):
        return path.as_posix()
    folder = path.parent
    if folder.name.isdigit():  # <host>/<pid>/<pid>_counter_collection.csv
        folder = folder.parent
    inside = re.match(r"\d+_", path.name) and not _PASS.search(folder.name)
    return (folder.parent if inside else folder).as_posix()


def _joined(tool: str, parts: Sequence[tuple[str, Path, CountedFile]]) -> CounterRun:
    names = sorted({name for name, _, _ in parts}, key=_natural)
    number = {name: i for i, name in enumerate(names)}
    ordered = sorted(parts, key=lambda part: (number[part[0]], part[1].as_posix()))
    return run_of(tool, [(number[name], path.name, one) for name, path, one in ordered])


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(p), "") if i % 2 else (-1, p) for i, p in enumerate(re.split(r"(\d+)", text))]

"""The layout of a run folder: shared by those who write one and those who read one.

``run.json`` describes the run, ``rank_<r>.json.gz`` holds one rank's Kineto trace in the
process's own words. What is recorded is on disk when the recorded window closes.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Literal

from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT_VERSION = 1
RUN_FILE = "run.json"
TELEMETRY_DIR = "telemetry"
COUNTERS_DIR = "counters"
CACHE_DIR = "cache"

TELEMETRY_COLUMNS = ("monotonic_ns", "wall_ns", "device", "core", "metric", "value")
"""Columns of a telemetry file: both clocks of a sample, its GPU or processor core, the reading."""

RankState = Literal["complete", "partial", "missing"]

_TELEMETRY_FILE = re.compile(r"(?P<host>.+)\.(?P<source>[^.]+)\.(?P<part>\d+)\.parquet$")
_RANK_FILE = re.compile(r"rank_(\d+)(?:\.(\d+))?\.json(?:\.gz)?$")


def rank_file(folder: Path, rank: int, segment: int = 0) -> Path:
    """Return the path of one rank's trace; further segments of the same rank are numbered.

    Examples
    --------
    >>> from pathlib import Path
    >>> rank_file(Path("run"), 3).name, rank_file(Path("run"), 3, 1).name
    ('rank_3.json.gz', 'rank_3.1.json.gz')
    """
    suffix = f".{segment}" if segment else ""
    return folder / f"rank_{rank}{suffix}.json.gz"


def rank_files(folder: Path) -> list[tuple[int, int, Path]]:
    """List (rank, segment, path) of every rank file in a run folder, in order."""
    found = []
    for path in folder.iterdir():
        match = _RANK_FILE.fullmatch(path.name)
        if match:
            found.append((int(match[1]), int(match[2] or 0), path))
    return sorted(found)


def telemetry_file(folder: Path, host: str, source: str, part: int = 0) -> Path:
    """Return the path of one part of what a host's sampler wrote; parts are numbered.

    Examples
    --------
    >>> from pathlib import Path
    >>> telemetry_file(Path("run"), "node1", "nvml", 2).as_posix()
    'run/telemetry/node1.nvml.2.parquet'
    """
    return folder / TELEMETRY_DIR / f"{host}.{source}.{part}.parquet"


def telemetry_files(folder: Path) -> list[tuple[str, str, int, Path]]:
    """List (host, source, part, path) of the telemetry files in a run folder, in order."""
    found = []
    for path in (folder / TELEMETRY_DIR).glob("*.parquet"):
        match = _TELEMETRY_FILE.fullmatch(path.name)
        if match:
            found.append((match["host"], match["source"], int(match["part"]), path))
    return sorted(found)


def pass_folder(folder: Path, tool: str, number: int) -> Path:
    """Return where one replay with a counter tool puts its output.

    Examples
    --------
    >>> from pathlib import Path
    >>> pass_folder(Path("run"), "rocprofv3", 0).as_posix()
    'run/counters/rocprofv3/pass_0'
    """
    return folder / COUNTERS_DIR / tool / f"pass_{number}"


def is_run_folder(folder: Path) -> bool:
    """Say whether a folder is a run folder (it holds ``run.json``)."""
    return (folder / RUN_FILE).is_file()


def write_run(folder: Path, run: dict[str, Any]) -> None:
    """Write ``run.json`` in one step, so that a reader never sees half of it."""
    text = json.dumps({"format_version": FORMAT_VERSION, **run}, indent=1, sort_keys=True)
    partial = folder / (RUN_FILE + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, folder / RUN_FILE)  # noqa: PTH105  atomic on every platform


def read_run(folder: Path) -> dict[str, Any]:
    """Read ``run.json``.

    Raises
    ------
    TraceFormatError
        If it is no JSON object, or written by a newer version of the package.
    """
    path = folder / RUN_FILE
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        msg = f"{path} is not valid JSON ({error}); the rank files beside it can be read one by one"
        raise TraceFormatError(msg) from error
    version = run.get("format_version") if isinstance(run, dict) else None
    if not isinstance(version, int) or version > FORMAT_VERSION:
        msg = f"{path} has format_version {version!r}; this version reads up to {FORMAT_VERSION}"
        raise TraceFormatError(msg)
    return dict(run)

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

RankState = Literal["complete", "partial", "missing"]

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

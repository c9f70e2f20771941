"""The layout of a run folder: shared by those who write one and those who read one.

``run.json`` describes the run, ``rank_<r>.json.gz`` holds one rank's Kineto trace in the
process's own words. What is recorded is on disk when the recorded window closes.

Where several processes record, each writes files of its own and none of another's:
``rank_<r>.status.json`` says what became of it. A process that belongs to no distributed job has
no rank; it writes ``process_<start>_<pid>`` instead of ``rank_<r>``, and readers number it after
the ranks, in order of start.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT_VERSION = 1
RUN_FILE = "run.json"
TELEMETRY_DIR = "telemetry"
COUNTERS_DIR = "counters"
CACHE_DIR = "cache"
NOTES_DIR = "notes"
"""What processes could not say otherwise: text files, one sentence a line."""

TELEMETRY_COLUMNS = ("monotonic_ns", "wall_ns", "device", "core", "metric", "value")
"""Columns of a telemetry file: both clocks of a sample, its GPU or processor core, the reading."""

PASS_NOTES = ("pass.json", "output.txt")
"""What a replay notes of a pass beside the counters: how it ended, and all it said."""

RankState = Literal["complete", "partial", "missing"]

_TELEMETRY_FILE = re.compile(r"(?P<host>.+)\.(?P<source>[^.]+)\.(?P<part>\d+)\.parquet$")
_STEM = r"(?P<stem>rank_(?P<rank>\d+)|process_\d+_\d+)"
_RANK_FILE = re.compile(_STEM + r"(?:\.(?P<segment>\d+))?\.json(?:\.gz)?")
_STATUS_FILE = re.compile(_STEM + r"\.status\.json")


def rank_stem(rank: int) -> str:
    """Return how the names of one rank's files begin."""
    return f"rank_{rank}"


def process_stem(started_ns: int, pid: int) -> str:
    """Return how the names of the files of a process without a rank begin.

    Examples
    --------
    >>> process_stem(7, 42)
    'process_00000000000000000007_42'
    """
    return f"process_{started_ns:020d}_{pid}"


def part_file(folder: Path, stem: str, segment: int = 0) -> Path:
    """Return the path of one process's trace; further segments are numbered."""
    suffix = f".{segment}" if segment else ""
    return folder / f"{stem}{suffix}.json.gz"


def rank_file(folder: Path, rank: int, segment: int = 0) -> Path:
    """Return the path of one rank's trace; further segments of the same rank are numbered.

    Examples
    --------
    >>> from pathlib import Path
    >>> rank_file(Path("run"), 3).name, rank_file(Path("run"), 3, 1).name
    ('rank_3.json.gz', 'rank_3.1.json.gz')
    """
    return part_file(folder, rank_stem(rank), segment)


def rank_files(folder: Path) -> list[tuple[int, int, Path]]:
    """List (rank, segment, path) of every trace in a run folder, in order.

    Processes without a rank are numbered after the ranks.
    """
    numbers = process_numbers(folder)
    found = []
    for path in folder.iterdir():
        match = _RANK_FILE.fullmatch(path.name)
        if match:
            found.append((numbers[match["stem"]], int(match["segment"] or 0), path))
    return sorted(found)


def process_numbers(folder: Path) -> dict[str, int]:
    """Return the rank of each process that left a trace or a status, by its files' stem."""
    ranks: dict[str, int] = {}
    others: set[str] = set()
    for path in folder.iterdir():
        match = _RANK_FILE.fullmatch(path.name) or _STATUS_FILE.fullmatch(path.name)
        if match and match["rank"] is not None:
            ranks[match["stem"]] = int(match["rank"])
        elif match:
            others.add(match["stem"])
    if not others:
        return ranks
    taken = [int(read_status(folder, stem).get("world_size") or 0) for stem in ranks]
    first = max([*taken, *(rank + 1 for rank in ranks.values())], default=0)
    return ranks | {stem: first + i for i, stem in enumerate(sorted(others))}


def status_file(folder: Path, stem: str) -> Path:
    """Return where a process says what became of its recording."""
    return folder / f"{stem}.status.json"


def write_status(folder: Path, stem: str, status: dict[str, Any]) -> None:
    """Write what became of one process, in one step."""
    _write_at_once(status_file(folder, stem), status)


def read_status(folder: Path, stem: str) -> dict[str, Any]:
    """Read what became of one process; empty if it said nothing, or nothing readable."""
    try:
        status = json.loads(status_file(folder, stem).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(status) if isinstance(status, dict) else {}


def statuses(folder: Path) -> dict[int, dict[str, Any]]:
    """Return what each process said of itself, by rank; empty for a run of one process."""
    found = {n: read_status(folder, stem) for stem, n in process_numbers(folder).items()}
    return {number: status for number, status in sorted(found.items()) if status}


def add_note(folder: Path, sentence: str) -> None:
    """Leave a sentence for the reader of the run; where that fails, nobody hears of it."""
    with suppress(OSError):
        (folder / NOTES_DIR).mkdir(exist_ok=True)
        with (folder / NOTES_DIR / f"{os.getpid()}.txt").open("a", encoding="utf-8") as file:
            file.write(" ".join(sentence.split()) + "\n")


def notes(folder: Path) -> list[str]:
    """Return the sentences that processes left, each once."""
    files = sorted((folder / NOTES_DIR).glob("*.txt"))
    lines = [
        line
        for file in files
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    return list(dict.fromkeys(line for line in lines if line.strip()))


def description_files(folder: Path) -> list[Path]:
    """List the files that say what the run is, besides the traces themselves."""
    statuses_ = (path for path in folder.iterdir() if _STATUS_FILE.fullmatch(path.name))
    return sorted([folder / RUN_FILE, *statuses_, *(folder / NOTES_DIR).glob("*.txt")])


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
    _write_at_once(folder / RUN_FILE, {"format_version": FORMAT_VERSION, **run})


def _write_at_once(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, sort_keys=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)  # noqa: PTH105  atomic on every platform
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def read_run(folder: Path) -> dict[str, Any]:
    """Read ``run.json``, and into it what the processes of the run said of themselves.

    Returns
    -------
    dict
        ``ranks`` and ``world_size`` cover all processes; ``notes`` names those that are missing
        or partial.

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
    told = notes(folder)
    if told:
        run["notes"] = list(dict.fromkeys([*(run.get("notes") or ()), *told]))
    return fold(dict(run), statuses(folder))


PARTIAL = "rank {} is partial: its loop ended with an error or was ended from outside"
MISSING = "rank {} is missing: its process ended before its recording was saved"
SILENT = "rank {} is missing: it recorded nothing"


def fold(run: dict[str, Any], processes: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Put what the processes of a run said of themselves into the description of the run.

    Parameters
    ----------
    run : dict
        What ``run.json`` holds.
    processes : dict of int to dict
        What each rank said; none for a run of one process, which ``run.json`` describes.

    Examples
    --------
    >>> folded = fold({"notes": []}, {1: {"state": "complete", "world_size": 2}})
    >>> folded["ranks"], folded["world_size"], folded["notes"]
    ({'0': 'missing', '1': 'complete'}, 2, ['rank 0 is missing: it recorded nothing'])
    """
    if not processes:
        return run
    sizes = [int(status.get("world_size") or 0) for status in processes.values()]
    world_size = max(*sizes, *(rank + 1 for rank in processes), 1)
    states = {r: processes.get(r, {}).get("state", "missing") for r in range(world_size)}
    sentences = list(run.get("notes") or ())
    for rank, state in states.items():
        status = processes.get(rank, {})
        sentences += [f"rank {rank}: {note}" for note in status.get("notes") or ()]
        if state == "partial":
            sentences.append(PARTIAL.format(rank))
        elif state == "missing":
            sentences.append((MISSING if status else SILENT).format(rank))
    first = next(iter(sorted(processes)))
    own = {
        key: processes[first][key]
        for key in ("profiler_cost", "versions", "device_kind")
        if processes[first].get(key) is not None
    }
    counted = [s["recorded_iterations"] for s in processes.values() if "recorded_iterations" in s]
    return {
        **run,
        **own,
        "world_size": world_size,
        "ranks": {str(rank): state for rank, state in states.items()},
        "recorded_iterations": max(counted, default=run.get("recorded_iterations")),
        "notes": list(dict.fromkeys(sentences)),
    }

"""Opens recordings: a file, several files, a folder, a run folder or a saved Trace."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core import run_folder, storage
from chopper_jupyter.core.align.link import link
from chopper_jupyter.core.align.merge import merge
from chopper_jupyter.core.errors import PartialTraceWarning, TraceFormatError
from chopper_jupyter.core.importers.kineto import read_rank
from chopper_jupyter.core.trace import Trace, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chopper_jupyter.core.events import RankEvents

PathLike = str | os.PathLike[str]

SUFFIXES = (".json", ".json.gz")
MAX_LOST_SHARE = 0.01
"""A warning is issued when more of the events than this could not be used."""

MAX_UNLINKED_SHARE = 0.1
"""A warning is issued when more of the kernel time than this has no launch."""

_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_.]?(\d+)", re.IGNORECASE)


def read_trace(path: PathLike | Iterable[PathLike], *, pattern: str | None = None) -> Trace:
    """Read a recording of any supported kind into one Trace.

    Parameters
    ----------
    path : path or several paths
        A trace file of the PyTorch profiler (``.json``, ``.json.gz``), several of them (one a
        rank), a folder of them, a run folder, or a folder that ``Trace.save`` wrote.
    pattern : str, optional
        Glob that picks the files of a folder, for instance ``"rank*.json.gz"``. Needed where
        a folder holds several recordings.

    Returns
    -------
    Trace
        All ranks; every kernel with its gpu, iteration, phase, layer and op as far as the
        recording tells. ``trace.quality`` says what was read, skipped, linked and repaired.

    Raises
    ------
    TraceFormatError
        If nothing readable is found, or files claim the same rank or hold the same kernels.
    FileNotFoundError
        If the path does not exist.

    Warns
    -----
    PartialTraceWarning
        If a noticeable part of a file was damaged, or of the kernel time has no launch.

    Notes
    -----
    The rank of a file is what the file says, else what its name says (``rank3``,
    ``worker_3``), else its place in the sorted list; the quality record notes which.

    Examples
    --------
    >>> read_trace("runs/fsdp2")  # doctest: +SKIP
    >>> read_trace("traces", pattern="ddp_rank*.json.gz")  # doctest: +SKIP
    """
    if isinstance(path, (str, os.PathLike)):
        one = Path(path)
        if not one.exists():
            msg = f"no such file or folder: {one}"
            raise FileNotFoundError(msg)
        if one.is_dir():
            return _read_folder(one, pattern)
        return _join(_read_files([one]), TraceInfo(name=_stem(one)))
    files = sorted(Path(p) for p in path)  # the order in which they are given means nothing
    if not files:
        msg = "no files given"
        raise TraceFormatError(msg)
    return _join(_read_files(files), TraceInfo(name=_stem(files[0])))


def _read_folder(folder: Path, pattern: str | None) -> Trace:
    if pattern is None and storage.is_saved_trace(folder):
        return Trace.open(folder)
    if pattern is None and run_folder.is_run_folder(folder):
        return _read_run(folder)
    found = sorted(p for p in folder.glob(pattern or "*") if p.name.endswith(SUFFIXES))
    if not found:
        what = f"matching {pattern!r}" if pattern else f"ending in {' or '.join(SUFFIXES)}"
        msg = f"{folder} holds no trace files {what}, no run.json and no trace.json"
        raise TraceFormatError(msg)
    return _join(_read_files(found, skip_others=pattern is None), TraceInfo(name=folder.name))


def _read_run(folder: Path) -> Trace:
    """Read a run folder: ``run.json`` and all segments of all ranks."""
    run = run_folder.read_run(folder)
    segments: dict[int, list[RankEvents]] = defaultdict(list)
    for rank, _, path in run_folder.rank_files(folder):
        segments[rank].append(read_rank(path))
    if not segments:
        msg = f"{folder} holds {run_folder.RUN_FILE} but no rank files; nothing was recorded"
        raise TraceFormatError(msg)
    ranks = [replace(_concatenate(parts), rank=rank) for rank, parts in segments.items()]
    options = run.get("options") or {}
    info = TraceInfo(
        name=folder.name,
        world_size=run.get("world_size"),
        warmup=_warmup(run, options),
        tokens_per_iteration=options.get("tokens"),
        simulated=bool(run.get("simulated")),
        run=run,
    )
    return _join([_Read(r, "run") for r in ranks], info, tuple(run.get("notes") or ()))


def _warmup(run: dict[str, Any], options: dict[str, Any]) -> int:
    """Return the warm-up iterations to leave out: none if nothing else was recorded."""
    warmup, recorded = int(options.get("warmup") or 0), run.get("recorded_iterations")
    return warmup if recorded is None or int(recorded) > warmup else 0


@dataclass(frozen=True)
class _Read:
    """One rank's events and how its rank was found: file, name, order, single or run."""

    events: RankEvents
    rank_from: str


def _read_files(files: Sequence[Path], *, skip_others: bool = False) -> list[_Read]:
    reads: list[RankEvents] = []
    others: list[str] = []
    for path in files:
        try:
            reads.append(read_rank(path))
        except TraceFormatError as error:  # noqa: PERF203  a file is far slower than a try
            if not skip_others:
                raise
            others.append(f"{path.name}: {error}")
    if not reads:
        msg = "no file could be read as a trace:\n  " + "\n  ".join(others)
        raise TraceFormatError(msg)
    ranked = _ranked(reads)
    _refuse_duplicates(ranked)
    if others:
        note = f"{len(others)} files beside the traces are no traces and were left out"
        first = ranked[0]
        skipped = {**first.events.skipped, note: len(others)}
        ranked[0] = replace(first, events=replace(first.events, skipped=skipped))
    return ranked


def _ranked(reads: list[RankEvents]) -> list[_Read]:
    """Give every file a rank: its own word, else its name's, else its place in the list."""
    if len(reads) == 1 and reads[0].rank is None:
        return [_single(reads[0])]
    result = []
    taken = {r.rank for r in reads if r.rank is not None}
    free = (n for n in range(len(reads) + len(taken)) if n not in taken)
    for events in reads:
        if events.rank is not None:
            result.append(_Read(events, "file"))
            continue
        match = _RANK_IN_NAME.search(events.source)
        rank = int(match[1]) if match else next(free)
        result.append(_Read(replace(events, rank=rank), "name" if match else "order"))
    return result


def _single(events: RankEvents) -> _Read:
    """Rank a lone file: by its name, else 0; unknown if several processes wrote into it."""
    match = _RANK_IN_NAME.search(events.source)
    if match:
        return _Read(replace(events, rank=int(match[1])), "name")
    devices = len(events.device["device"].unique())
    processes = len(events.launches["pid"].unique())
    if devices > 1 and processes > 1:
        return _Read(events, "fused")
    return _Read(replace(events, rank=0), "single")


def _refuse_duplicates(reads: list[_Read]) -> None:
    by_rank: dict[int | None, list[str]] = defaultdict(list)
    by_content: dict[bytes, list[str]] = defaultdict(list)
    for read in reads:
        by_rank[read.events.rank].append(read.events.source)
        for key in _fingerprints(read.events):
            by_content[key].append(read.events.source)
    hint = "choose the files of one recording with pattern=, for instance pattern='rank*.json.gz'"
    for rank, sources in sorted(by_rank.items(), key=str):
        if len(sources) > 1:
            msg = f"{len(sources)} files claim to be rank {rank}: {', '.join(sources)}; {hint}"
            raise TraceFormatError(msg)
    for sources in by_content.values():
        if len(sources) > 1:
            msg = f"{len(sources)} files hold the same kernels: {', '.join(sources)}; {hint}"
            raise TraceFormatError(msg)


def _fingerprints(events: RankEvents) -> set[bytes]:
    """Hash the times of what ran, one hash a device; a fused file may repeat another's device."""
    table = events.device if events.device.num_rows else events.ranges
    if not table.num_rows:
        return set()
    start, dur = (table[column].to_numpy() for column in ("start_ns", "dur_ns"))
    devices = table["device"].to_numpy() if events.device.num_rows else np.zeros(len(start))
    found = set()
    for device in np.unique(devices):
        rows = np.flatnonzero(devices == device)
        rows = rows[np.lexsort((dur[rows], start[rows]))]
        digest = hashlib.sha1(usedforsecurity=False)
        digest.update(start[rows].tobytes())
        digest.update(dur[rows].tobytes())
        found.add(digest.digest())
    return found


def _concatenate(parts: list[RankEvents]) -> RankEvents:
    """Join the segments of one rank; their threads are the same where their numbers are."""
    if len(parts) == 1:
        return parts[0]
    tables = {
        name: pa.concat_tables([getattr(p, name) for p in parts]).unify_dictionaries()
        for name in ("ranges", "launches", "device", "flows")
    }
    return replace(
        parts[0],
        **tables,
        skipped=dict(sum((Counter(p.skipped) for p in parts), Counter())),
        repairs=dict(sum((Counter(p.repairs) for p in parts), Counter())),
        events_read=sum(p.events_read for p in parts),
    )


NOTES = {
    "name": "rank taken from the file name",
    "order": "rank taken from the order of the files: they do not say it",
    "single": "the file does not say its rank: taken as rank 0",
    "fused": "the file holds several ranks and does not say which: their ranks are unknown",
}


def _join(reads: list[_Read], info: TraceInfo, notes: tuple[str, ...] = ()) -> Trace:
    reads = sorted(reads, key=lambda r: (r.events.rank is None, r.events.rank or 0))
    linked = [link(read.events) for read in reads]
    found = {read.events.rank for read in reads}
    sizes = [r.events.world_size for r in reads if r.events.world_size]
    world_size = max([*sizes, info.world_size or 0]) or None
    missing = tuple(r for r in range(world_size or 0) if r not in found)
    told = [NOTES[r.rank_from] for r in reads if r.rank_from in NOTES]
    trace = merge(
        linked,
        replace(info, world_size=world_size, missing_ranks=missing if None not in found else ()),
        tuple(dict.fromkeys([*notes, *told])),
    )
    _warn_of_losses(trace)
    _warn_of_unlinked(trace)
    return trace


def _warn_of_unlinked(trace: Trace) -> None:
    linked = trace.quality.linked.get("launch", 1.0)
    if linked < 1 - MAX_UNLINKED_SHARE:
        msg = (
            f"{trace.info.name}: {100 * (1 - linked):.1f} % of the kernel time has no launch in "
            "the recording (its window opened after them, or the profiler lost events); it keeps "
            "its time but has no iteration, phase, layer or op"
        )
        warnings.warn(msg, PartialTraceWarning, stacklevel=4)


def _warn_of_losses(trace: Trace) -> None:
    lost = sum(
        n for what, n in trace.quality.repairs.items() if "cut short" in what or "left out" in what
    )
    unusable = sum(n for what, n in trace.quality.skipped.items() if "usable" in what)
    total = trace.quality.events_read + lost
    if lost or (total and unusable / total > MAX_LOST_SHARE):
        details = "; ".join(f"{what}: {count}" for what, count in {**trace.quality.repairs}.items())
        msg = (
            f"{trace.info.name}: part of the input is damaged "
            f"({lost + unusable} of {total} events lost; {details})"
        )
        warnings.warn(msg, PartialTraceWarning, stacklevel=4)


def _stem(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".json", ".trace", ".pt"):
        name = name.removesuffix(suffix)
    return name

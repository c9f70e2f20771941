"""Opens recordings: a file, several files, a folder, a run folder or a saved Trace."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core import cache as run_cache
from chopper_jupyter.core import run_folder, storage
from chopper_jupyter.core.align.link import of_rank, shifted_ranks
from chopper_jupyter.core.align.merge import merge
from chopper_jupyter.core.attach import attach_all, attached_files
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.freed_memory import WORTH_IT, give_back
from chopper_jupyter.core.importers.recording_files import recordings_in, recordings_of
from chopper_jupyter.core.losses import FAILED_RANKS, failure_note, warn_of_losses
from chopper_jupyter.core.progress import progress_of
from chopper_jupyter.core.rank_of_file import (
    NOTES,
    Found,
    looks_like_a_rank,
    ranks_of,
    refuse_duplicates,
    refuse_several_runs,
)
from chopper_jupyter.core.rank_pool import file_size, load_all
from chopper_jupyter.core.trace import Trace, TraceInfo, altered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chopper_jupyter.core.rank_pool import Outcome

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class _How:
    """The options of one reading."""

    cache: bool
    workers: int | None
    progress: bool | None

    def load(self, jobs: Sequence[Sequence[Path]]) -> list[Outcome]:
        """Load ranks, each from its files, showing progress."""
        total = sum(file_size(job) for job in jobs)
        with progress_of(total, len(jobs), show=self.progress) as progress:
            loaded = load_all(jobs, self.workers, progress)
        if total >= WORTH_IT:
            give_back()
        return loaded


def read_trace(
    path: PathLike | Iterable[PathLike],
    *,
    pattern: str | None = None,
    cache: bool = True,
    workers: int | None = None,
    progress: bool | None = None,
) -> Trace:
    """Read a recording of any supported kind into one Trace.

    Parameters
    ----------
    path : path or several paths
        A trace file of the PyTorch profiler (``.json``, ``.json.gz``), several of them (one a
        rank), a folder of them, a run folder, or a folder that ``Trace.save`` wrote. Also an
        export of Nsight Systems (``nsys export --type sqlite``), and what ``rocprofv3`` wrote:
        a folder, a ``kernel_trace.csv`` (its API, marker and copy traces are found beside it),
        JSON, or a rocpd database. The content decides, not the name. Counters and telemetry in
        a run folder are added; elsewhere ``add_counters`` and ``add_telemetry`` do it.
    pattern : str, optional
        Glob that picks the files of a folder, for instance ``"rank*.json.gz"``. Needed where
        a folder holds several recordings.
    cache : bool, optional
        Keep what was read in the ``cache`` folder of a run folder and reopen it from there as
        long as the recording is unchanged. That folder may be removed at any time. False
        neither reads nor writes it; other folders are never written into.
    workers : int, optional
        Processes that read ranks at the same time. By default as many as there are processors
        and memory for, if the files are large enough to be worth it, else none but this one.
    progress : bool, optional
        Show a progress bar. By default only in a terminal or notebook, after two seconds.

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
    ValueError
        If ``workers`` is less than one.

    Warns
    -----
    PartialTraceWarning
        If ranks of a folder could not be read (``trace.info.missing_ranks`` and
        ``trace.quality`` name them), a noticeable part of a file was damaged, or of the
        kernel time has no launch, or counters or telemetry of a run do not fit it.
    ClockWarning
        If ranks of several hosts share no collectives, so that their clocks could not be
        aligned, or clocks are more than a second apart.

    Notes
    -----
    The rank of a file is what the file says, else what its name says (``rank3``,
    ``worker_3``), else its place in the sorted list; the quality record notes which.

    Examples
    --------
    >>> read_trace("runs/fsdp2")  # doctest: +SKIP
    >>> read_trace("traces", pattern="ddp_rank*.json.gz")  # doctest: +SKIP
    """
    if workers is not None and workers < 1:
        msg = f"workers must be at least 1, not {workers}"
        raise ValueError(msg)
    trace = _read(path, pattern, _How(cache, workers, progress))
    warn_of_losses(trace, stacklevel=2)
    return trace


def _read(path: PathLike | Iterable[PathLike], pattern: str | None, how: _How) -> Trace:
    if not isinstance(path, (str, os.PathLike)):
        files = sorted(Path(p) for p in path)  # the order in which they are given means nothing
        if not files:
            msg = "no files given"
            raise TraceFormatError(msg)
        return _read_named(files, how)
    one = Path(path)
    if not one.exists():
        msg = f"no such file or folder: {one}"
        raise FileNotFoundError(msg)
    if not one.is_dir():
        return _read_named([one], how)
    if pattern is None and storage.is_saved_trace(one):
        return Trace.open(one)
    if pattern is None and run_folder.is_run_folder(one):
        return _read_run(one, how)
    return _read_folder(one, pattern, how)


def _read_named(files: list[Path], how: _How) -> Trace:
    """Read files that were named one by one: all of them are wanted."""
    outcomes = how.load(recordings_of(files))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return _join(ranks_of(outcomes), TraceInfo(name=_stem(files[0])))


def _read_folder(folder: Path, pattern: str | None, how: _How) -> Trace:
    """Read the files of a folder: what is no trace is left out, what is a damaged one missing."""
    found = recordings_in(folder, pattern)
    if not found.jobs:
        raise TraceFormatError(_nothing_in(folder, pattern, found.counter_runs))
    outcomes = how.load(found.jobs)
    _refuse_nothing(outcomes)
    ranks, others = [], 0
    for outcome in outcomes:
        if outcome.loaded or pattern or looks_like_a_rank(outcome.paths[0].name):
            ranks.append(outcome)
        else:
            others += 1
    skipped = {
        f"{others} files beside the traces are no traces and were left out": others,
        "recordings of other tools beside the traces left out": found.left_out,
        "traces of runs that counted left out (they are slowed down)": found.counter_runs,
    }
    skipped = {reason: count for reason, count in skipped.items() if count}
    ranked = ranks_of(ranks)
    if not pattern:
        refuse_several_runs(ranked)
    return _join(ranked, TraceInfo(name=folder.name), skipped=skipped)


def _nothing_in(folder: Path, pattern: str | None, counter_runs: int) -> str:
    if counter_runs:
        return (
            f"{folder} holds only runs that counted, whose times are not those of training: "
            "open the trace of the timed run and add the counters to it"
        )
    what = f" matching {pattern!r}" if pattern else ""
    return (
        f"{folder} holds no trace files{what} (of PyTorch, Nsight Systems or rocprofv3), no "
        "run.json and no trace.json"
    )


def _read_run(folder: Path, how: _How) -> Trace:
    """Read a run folder: its cache, or ``run.json`` and all segments of all ranks."""
    run = run_folder.read_run(folder)
    segments: dict[int, list[Path]] = defaultdict(list)
    for rank, _, path in run_folder.rank_files(folder):
        segments[rank].append(path)
    if not segments:
        told = "".join(f"; {note}" for note in run.get("notes") or ())
        msg = f"{folder} holds {run_folder.RUN_FILE} but no rank files; nothing was recorded{told}"
        raise TraceFormatError(msg)
    traces = [path for paths in segments.values() for path in paths]
    recorded = [*run_folder.description_files(folder), *traces]
    key = run_cache.key_of([*recorded, *attached_files(folder)]) if how.cache else None
    kept = run_cache.opened(folder, key) if key else None
    if kept is not None:
        return altered(kept, info=replace(kept.info, folder=str(folder)))
    outcomes = how.load(list(segments.values()))
    _refuse_nothing(outcomes)
    found = [Found(rank, o, "run") for rank, o in zip(segments, outcomes, strict=True)]
    trace = _join(found, _run_info(folder, run), notes=tuple(run.get("notes") or ()))
    trace = attach_all(trace, folder)
    if key and all(outcome.loaded for outcome in outcomes):  # else the next attempt may succeed
        run_cache.write(folder, key, trace)
    return trace


def _run_info(folder: Path, run: dict[str, Any]) -> TraceInfo:
    options = run.get("options") or {}
    return TraceInfo(
        name=folder.name,
        world_size=run.get("world_size"),
        warmup=_warmup(run, options),
        tokens_per_iteration=options.get("tokens"),
        simulated=bool(run.get("simulated")),
        folder=str(folder),
        run=run,
    )


def _warmup(run: dict[str, Any], options: dict[str, Any]) -> int:
    """Return the warm-up iterations to leave out: none if nothing else was recorded."""
    warmup, recorded = int(options.get("warmup") or 0), run.get("recorded_iterations")
    return warmup if recorded is None or int(recorded) > warmup else 0


def _refuse_nothing(outcomes: Sequence[Outcome]) -> None:
    """Raise what went wrong if it went wrong everywhere."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if len(failed) < len(outcomes):
        return
    if len(failed) == 1 and failed[0].error is not None:
        raise failed[0].error
    reasons = "\n  ".join(f"{outcome.paths[0].name}: {outcome.error}" for outcome in failed)
    msg = f"no file could be read as a trace:\n  {reasons}"
    raise TraceFormatError(msg) from failed[0].error


def _join(
    found: Sequence[Found],
    info: TraceInfo,
    *,
    notes: tuple[str, ...] = (),
    skipped: dict[str, int] | None = None,
) -> Trace:
    """Join the ranks that loaded and name those that did not."""
    refuse_duplicates([one for one in found if one.rank_from != "run"])
    good = [(one, one.outcome.loaded) for one in found if one.outcome.loaded is not None]
    good.sort(key=lambda pair: _place(pair[0]))
    bad = [one for one in found if one.outcome.loaded is None]
    present = {rank for one, _ in good for rank in one.ranks}
    sizes = [loaded.world_size or 0 for _, loaded in good]
    world_size = max([*sizes, info.world_size or 0]) or None
    expected = {*range(world_size or 0), *(one.rank for one in bad if one.rank is not None)}
    missing = () if None in present else tuple(sorted(expected - present))
    told = [NOTES[one.rank_from] for one, _ in good if one.rank_from in NOTES]
    failures = [failure_note(one.rank, one.outcome.paths[0], one.outcome.error) for one in bad]
    linked = [
        shifted_ranks(loaded.linked, one.shift)
        if one.rank in (None, loaded.rank)
        else of_rank(loaded.linked, one.rank)
        for one, loaded in good
    ]
    trace = merge(
        linked,
        replace(info, world_size=world_size, missing_ranks=missing),
        tuple(dict.fromkeys([*notes, *told, *failures])),
    )
    repairs = {FAILED_RANKS: len(bad)} if bad else {}
    quality = replace(
        trace.quality,
        skipped={**trace.quality.skipped, **(skipped or {})},
        repairs={**trace.quality.repairs, **repairs},
    )
    return replace(trace, quality=quality)


def _place(one: Found) -> tuple[bool, int]:
    """Sort by rank; a file of unknown ranks stands last."""
    known = [rank for rank in one.ranks if rank is not None]
    return not known, min(known, default=0)


def _stem(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".json", ".trace", ".pt", ".sqlite", ".db", ".csv"):
        name = name.removesuffix(suffix)
    return name

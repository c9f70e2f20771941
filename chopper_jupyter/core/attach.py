"""Adds to a Trace what was recorded beside it: hardware counters and telemetry."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core import run_folder
from chopper_jupyter.core.align.counter_rows import averaged, counter_rows
from chopper_jupyter.core.align.match import match
from chopper_jupyter.core.align.match_rates import PASSES_KEY, rates, refuse_poor
from chopper_jupyter.core.align.telemetry_rows import refuse_elsewhere, telemetry_rows
from chopper_jupyter.core.errors import AlignmentError, TraceFormatError
from chopper_jupyter.core.importers.telemetry import read_telemetry
from chopper_jupyter.core.losses import UNUSED
from chopper_jupyter.core.quality import OPS
from chopper_jupyter.core.trace import Trace, altered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chopper_jupyter.core.counter_events import CounterRun

PathLike = str | os.PathLike[str]


def add_counters(
    trace: Trace,
    source: PathLike | Iterable[PathLike],
    *,
    min_rate: float = 0.9,
    partial: bool = False,
    gpus: Mapping[int | tuple[int, int], int] | None = None,
) -> Trace:
    """Tie hardware counters of other runs of the same program to the kernels of a trace.

    A counting run executes its kernels one by one, under another tool, often several times. Its
    ids and times mean nothing here: kernels are matched by name, size and their place in the
    sequence of their stream, so that warm-up and missing or extra kernels do no harm.

    Parameters
    ----------
    trace : Trace
        The timed run.
    source : path or several paths
        What rocprofv3, rocprof-compute or Nsight Compute wrote: a file, several, or a folder,
        also a run folder. Each pass has counters of its own.
    min_rate : float, optional
        Share of kernel time, on each GPU in each pass, that must match.
    partial : bool, optional
        Keep what matched, however little it is.
    gpus : mapping, optional
        GPU of the trace for each process id of the counting runs, or (process id, device). By
        default processes are GPUs in the order of their numbers, unless the kernels they ran
        say otherwise; the quality record says so.

    Returns
    -------
    Trace
        With the rows of ``trace.counters``: ``kernel_id``, ``counter``, ``value`` (in base
        units), ``pass`` and ``matched_by``. What was counted in several passes has its mean,
        on the row of the first one; ``counted_duration_ns``, how long the kernel ran while it
        was counted, has a row per pass. Kernels without a match have no rows, never zeros, nor
        have communication and copies. ``trace.quality`` holds the match rates by pass and GPU
        and by op, and how well repeated counters agree.

    Raises
    ------
    AlignmentError
        If too little matched; the message gives the rate found and needed, and the first kernel
        without a partner.
    TraceFormatError
        If nothing readable is found.
    FileNotFoundError
        If the path does not exist.
    ValueError
        If ``min_rate`` is not between 0 and 1.

    Notes
    -----
    Cycles over ``counted_duration_ns`` of the same pass are the clock in that pass, not the
    clock of the timed run. Where a pass was limited to some iterations, ``min_rate`` is asked
    of these.

    Examples
    --------
    >>> trace = add_counters(trace, "runs/fsdp2-rocprof")  # doctest: +SKIP
    >>> trace.counters.to_pandas()  # doctest: +SKIP
    """
    if not 0 <= min_rate <= 1:
        msg = f"min_rate is a share between 0 and 1, not {min_rate}"
        raise ValueError(msg)
    from chopper_jupyter.core.importers.counters import (  # noqa: PLC0415  most traces have none
        read_counters,
    )

    runs = read_counters(_counters_of(source))
    return with_counters(trace, runs, min_rate=0.0 if partial else min_rate, gpus=gpus)


def _counters_of(source: PathLike | Iterable[PathLike]) -> PathLike | Iterable[PathLike]:
    """Return the folder of counters of a run folder; anything else as it is."""
    if isinstance(source, (str, os.PathLike)):
        inside = Path(source) / run_folder.COUNTERS_DIR
        if run_folder.is_run_folder(Path(source)) and inside.is_dir():
            return inside
    return source


def with_counters(
    trace: Trace,
    runs: Sequence[CounterRun],
    *,
    min_rate: float = 0.9,
    gpus: Mapping[int | tuple[int, int], int] | None = None,
) -> Trace:
    """Tie counting runs that were read to the kernels of a trace; see ``add_counters``."""
    kernels = trace.all_kernels  # a filtered trace has holes that no counting run has
    tables, notes = [trace.counters], []
    counted: dict[str, Mapping[str, float]] = dict(trace.quality.counted)
    skipped, repairs = Counter(trace.quality.skipped), Counter(trace.quality.repairs)
    passes = _next_pass(trace)
    for one in runs:
        run = _numbered_from(one, passes)
        passes = max(passes, int(pc.max(run.counted["pass"]).as_py() or 0) + 1)
        matches = match(kernels, run, gpus=gpus)
        found = rates(kernels, matches, run.counted)
        if min_rate > 0:
            refuse_poor(kernels, run.counted, matches, found, min_rate)
        record = found.record(matches)
        lowest = {
            op: min(share, counted.get(OPS, {}).get(op, 1.0)) for op, share in found.op.items()
        }
        counted |= {**record, OPS: {**counted.get(OPS, {}), **lowest}}
        tables.append(counter_rows(kernels, run, matches))
        notes += [*run.notes, *matches.notes, *_coverage(trace, matches.devices, found.iterations)]
        skipped.update(_prefixed(run_folder.COUNTERS_DIR, run.skipped))
        repairs.update(_prefixed(run_folder.COUNTERS_DIR, run.repairs))
    table, agreement = averaged(tables)
    if trace.unfiltered is not None:
        table = table.filter(
            pc.is_in(table["kernel_id"], trace.kernels["kernel_id"].combine_chunks())
        )
    quality = replace(
        trace.quality,
        counted=counted,
        skipped=dict(skipped),
        repairs=dict(repairs),
        notes=tuple(dict.fromkeys([*trace.quality.notes, *notes, *agreement])),
    )
    return altered(trace, counters=table, quality=quality)


def _next_pass(trace: Trace) -> int:
    """Return the first number that no pass has; means stand on the row of their first pass."""
    numbers = [int(name.removeprefix(PASSES_KEY)) for name in trace.quality.counted if name != OPS]
    last = pc.max(trace.counters["pass"]).as_py()
    return max([*numbers, -1 if last is None else int(last)]) + 1


def _prefixed(what: str, counts: Mapping[str, int]) -> Counter[str]:
    return Counter({f"{what}: {name}": count for name, count in counts.items()})


def _numbered_from(run: CounterRun, first: int) -> CounterRun:
    """Let the passes of a run follow those that were there before."""
    lowest = pc.min(run.counted["pass"]).as_py()
    if not first or lowest is None or lowest >= first:
        return run
    at = run.counted.schema.get_field_index("pass")
    field = run.counted.schema.field(at)
    moved = pc.add(run.counted["pass"], pa.scalar(first - lowest, pa.int32()))
    return replace(run, counted=run.counted.set_column(at, field, moved))


def _coverage(
    trace: Trace, devices: Sequence[object], covered: Sequence[tuple[int, ...]]
) -> list[str]:
    """Say which iterations have counters, where it is not all of them."""
    every = set(trace.iterations)
    numbers = sorted({n for iterations in covered for n in iterations})
    if not numbers or not devices or every <= set(numbers):
        return []
    return [f"of {len(every)} iterations, {', '.join(map(str, numbers))} have counters"]


def add_telemetry(
    trace: Trace,
    source: PathLike | Iterable[PathLike],
    *,
    timezone: str | None = None,
    host: str | None = None,
) -> Trace:
    """Put samples of sensors on the clock and the GPUs of a trace.

    Parameters
    ----------
    trace : Trace
        The recorded run.
    source : path or several paths
        What this package's sampler wrote, or CSV or JSON of nvidia-smi, amd-smi, rocm-smi, DCGM
        and CPU samplers: a file, several, a folder, or a run folder.
    timezone : str, optional
        Zone of times that name none, for instance ``"Europe/Berlin"``; UTC by default.
    host : str, optional
        Host of the sensors where a file does not say it.

    Returns
    -------
    Trace
        With the rows of ``trace.telemetry``, added to those it had: ``source``, ``host``,
        ``gpu`` (null for sensors of a host), ``core``, ``time_ns``, ``metric`` (its unit is
        its suffix), ``value``. Samples of other GPUs and hosts are left out and counted.

    Raises
    ------
    AlignmentError
        If all samples lie more than ten seconds before or after the trace.
    TraceFormatError
        If nothing readable is found.
    FileNotFoundError
        If the path does not exist.

    Examples
    --------
    >>> trace = add_telemetry(trace, "power.csv", timezone="Europe/Berlin")  # doctest: +SKIP
    """
    run = read_telemetry(source, timezone=timezone, host=host)
    placed = telemetry_rows(run.table, trace.gpus, trace.info.origin_ns)
    refuse_elsewhere(placed.table, *_window(trace))
    skipped = Counter(trace.quality.skipped)
    repairs = Counter(trace.quality.repairs)
    for counts in (run.skipped, placed.skipped):
        skipped.update(_prefixed(run_folder.TELEMETRY_DIR, counts))
    repairs.update(_prefixed(run_folder.TELEMETRY_DIR, run.repairs))
    notes = (*trace.quality.notes, *run.notes, *placed.notes)
    quality = replace(
        trace.quality,
        skipped=dict(skipped),
        repairs=dict(repairs),
        notes=tuple(dict.fromkeys(notes)),
    )
    table = pa.concat_tables([trace.telemetry, placed.table]).unify_dictionaries()
    info = replace(trace.info, simulated=trace.info.simulated or run.simulated)
    return altered(trace, telemetry=table, quality=quality, info=info)


def _window(trace: Trace) -> tuple[int, int]:
    """Return when the first kernel of a trace began and the last one ended."""
    kernels = trace.all_kernels
    if not kernels.num_rows:
        return 0, 0
    start, dur = (np.asarray(kernels[c].to_numpy(), np.int64) for c in ("start_ns", "dur_ns"))
    return int(start.min()), int((start + dur).max())


def attach_all(trace: Trace, folder: Path) -> Trace:
    """Add the counters and the telemetry that lie in a run folder.

    What cannot be used does not keep the trace from being read: the quality record says why.
    """
    for name, add in (
        (run_folder.TELEMETRY_DIR, add_telemetry),
        (run_folder.COUNTERS_DIR, add_counters),
    ):
        if not attached_files(folder, name):
            continue
        try:
            trace = add(trace, folder / name)
        except (AlignmentError, TraceFormatError) as error:
            trace = _without(trace, name, str(error).replace(f"{folder}{os.sep}", ""))
    return trace


def attached_files(folder: Path, *names: str) -> list[Path]:
    """List the files of a run folder that hold counters or telemetry.

    Parameters
    ----------
    folder : pathlib.Path
        A run folder.
    *names : str
        Folders inside it; by default those of counters and of telemetry.
    """
    wanted = names or (run_folder.COUNTERS_DIR, run_folder.TELEMETRY_DIR)
    files = sorted(path for name in wanted for path in (folder / name).rglob("*") if path.is_file())
    return [path for path in files if path.name not in run_folder.PASS_NOTES]


def _without(trace: Trace, what: str, why: str) -> Trace:
    note = f"the {what} of the run could not be used: {why}"
    quality = replace(
        trace.quality,
        repairs={**trace.quality.repairs, UNUSED.format(what): 1},
        notes=(*trace.quality.notes, note),
    )
    return altered(trace, quality=quality)

"""Counters of rocprof-compute: its passes (``SQ_*.csv``, ``pmc_perf_*.csv``) and their join."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.hardware import known, named
from chopper_jupyter.core.importers.counter_parts import (
    NO_KERNEL,
    UNKNOWN,
    Agents,
    Part,
    codes_of,
    kernels_at,
    same_rows,
    usable,
)
from chopper_jupyter.core.importers.csv_columns import (
    OPEN_ROW,
    TextColumns,
    filled,
    header_of,
    read_columns,
    real_numbers,
)
from chopper_jupyter.core.importers.rocprof_csv import OPEN_LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from chopper_jupyter.core.importers.event_tables import Ints, Mask

WIDE = {"dispatch_id", "gpu_id", "kernel_name", "grid_size", "workgroup_size"}
_TIMES = ("start_timestamp", "end_timestamp")
_ABOUT = {
    *WIDE, *_TIMES, "queue_id", "queue-id", "queue-index", "pid", "tid", "lds_per_workgroup",
    "scratch_per_workitem", "arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "sig", "obj",
    "correlation_id", "kernel_id", "xcc_index", "dispatchns", "completens", "node_id",
}  # fmt: skip
"""What is known of a kernel besides counters; joined files repeat some with a number behind."""

_REPEATED = re.compile(r"(.+)_\d+")
_CHANNEL = re.compile(r"(.+)\[(\d+)\]")
SYSTEM, TIMES = "sysinfo.csv", "timestamps.csv"
ACCUMULATED = "sq_accum_prev_hires"

PARTIAL = "counters of single channels that are not all there: left out"
ADDED = "{}: counters of single channels are added up"
JOINED = "{} joins several passes: times in it are of none of them and not used"
COPIED = "kernels whose times are of another run: duration left out"
CONTRADICTED = "{} tells of {} compute units, but GPUs of {} have {}: not used"


def is_wide(header: Collection[str]) -> bool:
    """Say whether a CSV file with this header is of rocprof-compute, or of rocprof v2."""
    return set(header) >= WIDE and "counter_name" not in header


def read_part(path: Path) -> Part:
    """Read one file: one row for each kernel.

    Parameters
    ----------
    path : pathlib.Path
        A pass or the join of passes. The files beside it say what the device is and whether
        the times are of this pass.

    Returns
    -------
    Part
        Channels (``TCC_HIT[0]``, ``TCC_HIT[1]``, ...) are added up to ``TCC_HIT_sum``. Counters
        of a pass that accumulates a level (``SQ_ACCUM_PREV_HIRES``) are named by that level.

    Raises
    ------
    TraceFormatError
        If it holds no counters, or is of rocprof v2.
    """
    spelled = header_of(path, lower=False)
    _refuse_other_tools(path, spelled)
    file = _without_open_row(read_columns(path))
    counters = [name for name in dict.fromkeys(spelled) if not _is_about(name.lower())]
    if not counters:
        msg = f"{path.name} holds no counters, only kernels"
        raise TraceFormatError(msg)
    if not file.rows:
        msg = f"{path.name} holds no counted kernels"
        raise TraceFormatError(msg)
    form = "pass" if {"pid", "queue_id", "queue-id"} & set(file.columns) else "merged"
    part = Part(
        "rocprof-compute", path, _kernels(file), np.zeros(0, np.int64),
        pa.array([], pa.string()).dictionary_encode(), np.zeros(0), form=form,
    )  # fmt: skip
    part.repairs.update(file.repairs)
    system = _system(path)
    part.agents = _agents(system, part)
    _add_values(part, file, counters, system)
    _check_times(part, path)
    return _with_names(part)


def _refuse_other_tools(path: Path, spelled: Sequence[str]) -> None:
    names = {name.lower() for name in spelled}
    theirs = "queue_id" not in names or "kernel_id" in names
    if not theirs and not (path.parent / SYSTEM).is_file():
        msg = (
            f"{path.name} is of rocprof v2, which is not supported: count with rocprofv3. (If it "
            f"is a pass of rocprof-compute, read it in its folder, beside {SYSTEM})"
        )
        raise TraceFormatError(msg)


def _is_about(name: str) -> bool:
    repeated = _REPEATED.fullmatch(name)
    return name in _ABOUT or bool(repeated and repeated[1] in _ABOUT)


def _without_open_row(file: TextColumns) -> TextColumns:
    """Leave out a last row without a line end: its last number may be cut."""
    if not file.repairs[OPEN_ROW] or not file.rows:
        return file
    repairs = file.repairs - type(file.repairs)({OPEN_ROW: 1})
    repairs[OPEN_LEFT_OUT] += 1
    columns = {name: values.slice(0, file.rows - 1) for name, values in file.columns.items()}
    return TextColumns(columns, file.rows - 1, repairs)


def _kernels(file: TextColumns) -> dict[str, Any]:
    queue = file.whole("queue_id" if "queue_id" in file.columns else "queue-id")
    numbers = {
        "process": filled(file.whole("pid"), UNKNOWN),
        "stream": filled(queue, UNKNOWN),
        "order": filled(file.whole("dispatch_id"), UNKNOWN),
        "work_items": filled(file.whole("grid_size"), UNKNOWN),
        "group_items": filled(file.whole("workgroup_size"), UNKNOWN),
        "start": filled(file.nanoseconds(_TIMES[0]), 0),
        "end": filled(file.nanoseconds(_TIMES[1]), 0),
    }
    texts = {"agent": file.text("gpu_id"), "name": file.text("kernel_name")}
    return numbers | {name: text.dictionary_encode() for name, text in texts.items()}


def _add_values(
    part: Part, file: TextColumns, counters: Sequence[str], system: dict[str, Any]
) -> None:
    channels: dict[str, dict[int, str]] = defaultdict(dict)
    columns: list[tuple[str, np.ndarray[Any, Any]]] = []
    for name in counters:
        channel = _CHANNEL.fullmatch(name)
        if channel:
            channels[channel[1]][int(channel[2])] = name
        else:
            columns.append((_named(name, counters), _numbers(file, name)))
    known = {name for name, _ in columns}
    for name, members in channels.items():
        if f"{name}_sum" in known:
            continue
        if sorted(members) != list(range(_count(system, "total_l2_chan") or len(members))):
            part.skipped[PARTIAL] += len(members) * part.size
            continue
        total = np.sum([_numbers(file, member) for member in members.values()], axis=0)
        columns.append((f"{name}_sum", total))
    if channels:
        part.notes.append(ADDED.format(part.source.name))
    values = np.stack([column for _, column in columns], axis=1).reshape(-1)
    there = usable(part, values, sum(_no_numbers(file, name) for name in counters))
    part.row = np.repeat(np.arange(part.size), len(columns))[there]
    code = np.tile(np.arange(len(columns), dtype=np.int32), part.size)[there]
    part.counter = pa.DictionaryArray.from_arrays(code, [name for name, _ in columns])
    part.value = values[there]


def _named(name: str, counters: Sequence[str]) -> str:
    """Name what accumulates a level by the level: it is another one in each pass."""
    levels = [other for other in counters if other.startswith("SQ_") and "_LEVEL" in other]
    if name.lower() == ACCUMULATED and len(levels) == 1:
        return f"{levels[0]}_ACCUM"
    return name


def _numbers(file: TextColumns, name: str) -> np.ndarray[Any, Any]:
    return np.asarray(real_numbers(file.text(name)).to_numpy(zero_copy_only=False), np.float64)


def _no_numbers(file: TextColumns, name: str) -> int:
    """Count the texts in a column of counts that are no numbers, but for ``nan`` and none."""
    texts = file.text(name)
    words = pc.utf8_lower(texts.filter(pc.is_null(real_numbers(texts))))
    return int(pc.sum(pc.invert(pc.is_in(words, pa.array(["", "nan"])))).as_py() or 0)


def _system(path: Path) -> dict[str, Any]:
    """Return what rocprof-compute says about the machine, beside its files."""
    beside = path.parent / SYSTEM
    if not beside.is_file():
        return {}
    try:
        table = read_columns(beside)
    except TraceFormatError:
        return {}
    return {name: values[0].as_py() for name, values in table.columns.items() if len(values)}


def _count(system: dict[str, Any], name: str) -> int | None:
    text = str(system.get(name) or "")
    number = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0
    return int(number) or None


def _agents(system: dict[str, Any], part: Part) -> Agents:
    """Give devices numbers; all are of the one kind that the machine is said to have."""
    words = sorted(set(pc.unique(part.kernels["agent"]).to_pylist()) - {None}, key=_natural)
    model = str(system.get("gpu_model") or "").strip()
    arch = str(system.get("gpu_arch") or "").strip()
    facts: dict[str, Any] = {
        "product_name": model, "architecture": arch,
        "num_xcc": _count(system, "num_xcd"), "cu_count": _count(system, "cu_per_gpu"),
        "simd_per_cu": _count(system, "simd_per_cu"), "max_clock_mhz": _count(system, "max_sclk"),
    }  # fmt: skip
    rows = [row for row in map(named, known()) if row.arch == arch]
    units = {row.units for row in rows}
    partitioned = str(system.get("compute_partition") or "SPX") not in ("SPX", "NA")
    if units and facts["cu_count"] not in (None, *units) and not partitioned:
        part.notes.append(CONTRADICTED.format(SYSTEM, facts["cu_count"], arch, sorted(units)))
        facts["cu_count"] = None
    kept = {name: value for name, value in facts.items() if value}
    return Agents({word: n for n, word in enumerate(words)}, dict.fromkeys(range(len(words)), kept))


def _natural(text: str) -> tuple[int, str]:
    digits = re.sub(r"\D", "", text)
    return int(digits or 0), text


def _check_times(part: Part, path: Path) -> None:
    """Leave out times that are not of the pass: joined ones, and those of the timing run."""
    if part.form == "merged":
        part.notes.append(JOINED.format(path.name))
        foreign = np.ones(part.size, bool)
    else:
        foreign = _in_timing_run(part, path.parent / TIMES)
        if foreign.any():
            part.repairs[COPIED] += int(foreign.sum())
    for name in ("start", "end"):
        part.kernels[name] = np.where(foreign, 0, part.kernels[name])


def _in_timing_run(part: Part, timing: Path) -> Mask:
    """Say which kernels have times of the run that only timed, whose times older files copy."""
    if not timing.is_file() or timing == part.source:
        return np.zeros(part.size, bool)
    try:
        file = read_columns(timing)
    except TraceFormatError:
        return np.zeros(part.size, bool)
    both = [
        np.concatenate([part.kernels[own], filled(file.nanoseconds(name), UNKNOWN)])
        for own, name in zip(("start", "end"), _TIMES, strict=True)
    ]
    number, _ = same_rows(both)
    return np.isin(number[: part.size], number[part.size :])


def _with_names(part: Part) -> Part:
    """Leave out rows without a number or a name."""
    code, words = codes_of(part.kernels["name"])
    good = np.array([bool(word) for word in words])[code] & (part.kernels["order"] >= 0)
    kept: Ints = np.flatnonzero(good)
    if not len(kept):
        msg = f"{part.source.name} holds no counted kernels"
        raise TraceFormatError(msg)
    if len(kept) < part.size:
        part.skipped[NO_KERNEL] += part.size - len(kept)
        place = np.cumsum(good) - 1
        at = np.flatnonzero(good[part.row])
        part.row, part.value = place[part.row[at]], part.value[at]
        part.counter = part.counter.take(pa.array(at))
        part.kernels = kernels_at(part.kernels, kept)
    return part

"""Metrics of Nsight Compute: the raw and the details page, as CSV."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counter_parts import (
    UNKNOWN,
    Agents,
    LongRows,
    Part,
    codes_of,
    kernels_at,
    part_of_rows,
    same_rows,
)
from chopper_jupyter.core.importers.csv_columns import CUT_ROW, filled, parsed_rows, whole_numbers
from chopper_jupyter.core.importers.ncu_numbers import exponent_of, is_time, numbers_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.core.importers.event_tables import Ints

FIRST = '"ID",'
SAID = ("==ERROR==", "==WARNING==", "==PROF==")
DURATION = "gpu__time_duration.sum"
SHOWN_DURATION = "GPU Speed Of Light Throughput / Duration"
_ABOUT = {
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
    "Stream", "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name",
    "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description",
    "Estimated Speedup Type", "Estimated Speedup",
}  # fmt: skip
_RANGES = ("Push/Pop_Range", "Start/Stop_Range")
_DEVICE, _TOOL = "device__attribute_", "profiler__"
_FACTS = {
    "display_name": "product_name", "multiprocessor_count": "cu_count",
    "clock_rate": "max_clock_mhz",
}  # fmt: skip
_SCALE = {"clock_rate": 1000}  # kHz

OTHER = "lines of other output between the rows: left out"
NO_UNIT = "times of an unknown unit: left out"
TEXTS = "metrics whose value is no number: left out"
DOUBLED = "details pages of kernels whose raw page is there: left out"
AGAIN = "kernels that the file has twice: left out"
ROUNDED = (
    "{} is a details page: its values are rounded and have names of their own; the raw page "
    "(`--page raw`) has what is counted"
)
REPORTED = "Nsight Compute says in {}: {}"


def is_ncu(head: str) -> bool:
    """Say whether a file that begins like this is a page or log of Nsight Compute."""
    return any(line.startswith((FIRST, *SAID)) for line in head.splitlines())


def read_part(path: Path) -> Part:
    """Read a page or log; of several tables in it, all.

    Parameters
    ----------
    path : pathlib.Path
        What ``ncu --csv`` printed, with whatever the program printed before it.

    Returns
    -------
    Part
        Values in base units: nanoseconds, bytes, hertz, per second. Metrics of a details page
        are named ``section / metric``. What only describes the device is in ``agents``.

    Raises
    ------
    TraceFormatError
        If it holds no kernels, quoting what the tool says about it; or numbers in two styles.
    """
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    said = [line for line in lines if line.startswith(SAID[:2])]
    heads = [i for i, line in enumerate(lines) if line.startswith(FIRST)]
    if not heads:
        reason = "; ".join(said) or "no kernel was profiled"
        msg = f"{path.name} holds no counters: Nsight Compute says {reason!r}"
        raise TraceFormatError(msg)
    repairs: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    tables = [
        _table(path, lines[at:end], repairs, skipped)
        for at, end in zip(heads, [*heads[1:], len(lines)], strict=True)
    ]
    tables = _without_rounded([one for one in tables if len(one.kernels["id"])], skipped)
    if not tables:
        msg = f"{path.name} holds no counters: it has a header but no kernels"
        raise TraceFormatError(msg)
    part = _joined(path, tables, skipped)
    part.repairs.update(+repairs)
    part.skipped.update(+skipped)
    part.notes += [REPORTED.format(path.name, line) for line in dict.fromkeys(said)]
    return part


@dataclass
class _Table:
    """One table: its kernels, and of each metric the kernel, name, text and power of its unit."""

    raw: bool
    kernels: dict[str, Any]
    row: Ints
    name: pa.Array
    text: pa.Array
    power: Ints


def _table(
    path: Path, lines: Sequence[str], repairs: Counter[str], skipped: Counter[str]
) -> _Table:
    header = next(csv.reader(lines[:1]))
    missing = sorted({"Kernel Name", "Process ID"} - set(header))
    if missing:
        msg = f"{path.name} has a table of Nsight Compute without {missing[0]!r}"
        raise TraceFormatError(msg)
    rows = [line for line in lines[1:] if line.startswith('"')]
    skipped[OTHER] += sum(bool(x.strip()) and not x.startswith(('"', *SAID)) for x in lines[1:])
    if rows and (not rows[-1].rstrip().endswith('"') or rows[-1].count('"') % 2):
        rows.pop()  # cut within a field
        repairs[CUT_ROW] += 1
    details = "Metric Value" in header
    least = header.index("Metric Value") + 1 if details else len(header)
    columns, cut = parsed_rows(path, "\n".join(rows), header, repairs, least=least)
    repairs[CUT_ROW] += cut
    if not details and len(columns["ID"]) and columns["ID"][0].as_py():
        msg = f"{path.name} has no row of units below its header: nobody knows what it counts in"
        raise TraceFormatError(msg)
    return (_details if details else _raw)(columns, repairs)


def _raw(columns: dict[str, pa.Array], repairs: Counter[str]) -> _Table:
    """Read a page with a row for each kernel; its first row holds the units."""
    with_units = len(columns["ID"]) and not columns["ID"][0].as_py()
    units = {name: values[0].as_py() if with_units else "" for name, values in columns.items()}
    columns = {name: values[1:] if with_units else values for name, values in columns.items()}
    kernels = _kernels(columns)
    _, first = same_rows([kernels["process"], kernels["id"]])
    repairs[AGAIN] += len(kernels["id"]) - len(first)
    metrics = [
        name for name in columns
        if name not in _ABOUT and not any(word in name for word in _RANGES)
    ]  # fmt: skip
    timeless = [name for name in metrics if name == DURATION and not is_time(units[name])]
    repairs[NO_UNIT] += len(timeless)
    metrics = [name for name in metrics if name not in timeless]
    at = pa.array(first)
    code = np.repeat(np.arange(len(metrics), dtype=np.int32), len(first))
    empty = pa.array([], pa.string())
    return _Table(
        True, kernels_at(kernels, first),  # noqa: FBT003
        np.tile(np.arange(len(first)), len(metrics)),
        pa.DictionaryArray.from_arrays(code, pa.array(metrics, pa.string())),
        pa.concat_arrays([empty, *(columns[name].take(at) for name in metrics)]),
        np.array([exponent_of(units[name]) for name in metrics], np.int64)[code],
    )  # fmt: skip


def _details(columns: dict[str, pa.Array], _: Counter[str]) -> _Table:
    """Read a page with a row for each metric; rows of rules have none."""
    kernels = _kernels(columns)
    number, first = same_rows([kernels["process"], kernels["id"]])
    absent = pa.array([""] * len(number), pa.string())
    section, metric, unit = (
        columns.get(name, absent) for name in ("Section Name", "Metric Name", "Metric Unit")
    )
    rows = np.flatnonzero(np.asarray(pc.not_equal(metric, ""), bool))
    at = pa.array(rows)
    code, units = codes_of(unit.take(at))
    return _Table(
        False, kernels_at(kernels, first), number[rows],  # noqa: FBT003
        pc.binary_join_element_wise(section, metric, " / ").take(at).dictionary_encode(),
        columns["Metric Value"].take(at),
        np.array([exponent_of(word) for word in units], np.int64)[code],
    )  # fmt: skip


def _kernels(columns: dict[str, pa.Array]) -> dict[str, Any]:
    absent = pa.array([""] * len(columns["ID"]), pa.string())

    def whole(name: str) -> Ints:
        digits = pc.replace_substring_regex(columns.get(name, absent), r"\D", "")
        return filled(whole_numbers(digits), UNKNOWN)

    block, grid = (_sizes(columns.get(name, absent)) for name in ("Block Size", "Grid Size"))
    device = pc.if_else(
        pc.equal(columns.get("Device", absent), ""), "0", columns.get("Device", absent)
    )
    return {
        "process": whole("Process ID"), "id": whole("ID"), "stream": whole("Stream"),
        "work_items": np.where((block > 0) & (grid > 0), block * grid, UNKNOWN),
        "group_items": block, "agent": device.dictionary_encode(),
        "name": columns["Kernel Name"].dictionary_encode(),
    }  # fmt: skip


def _sizes(text: pa.Array) -> Ints:
    """Read ``(256, 1, 1)`` as the number of threads or blocks."""
    code, words = codes_of(text)
    found = [[int(number) for number in re.findall(r"\d+", word)] for word in words]
    return np.array([math.prod(n) if n else UNKNOWN for n in found], np.int64)[code]


def _without_rounded(tables: list[_Table], skipped: Counter[str]) -> list[_Table]:
    """Leave out the details of kernels that are on a raw page of the same file, too."""
    keys = [_identities(one) for one in tables]
    exact = {key for one, own in zip(tables, keys, strict=True) if one.raw for key in own}
    kept = [one for one, own in zip(tables, keys, strict=True) if one.raw or not set(own) <= exact]
    skipped[DOUBLED] += len(tables) - len(kept)
    return kept


def _identities(one: _Table) -> list[tuple[Any, ...]]:
    columns = (one.kernels[name].tolist() for name in ("process", "id", "name"))
    return list(zip(*columns, strict=True))


def _joined(path: Path, tables: list[_Table], skipped: Counter[str]) -> Part:
    before = np.cumsum([0, *(len(one.kernels["id"]) for one in tables)])
    kernels = {name: _below([one.kernels[name] for one in tables]) for name in tables[0].kernels}
    table = np.repeat(np.arange(len(tables)), np.diff(before))
    row = np.concatenate([one.row + n for one, n in zip(tables, before, strict=False)])
    name = _below([one.name for one in tables])
    text = pa.concat_arrays([one.text for one in tables])
    try:
        value = numbers_of(text, np.concatenate([one.power for one in tables]))
    except TraceFormatError as error:
        msg = f"{path.name} holds {error}"
        raise TraceFormatError(msg) from error
    order = np.empty(len(table), np.int64)
    order[np.lexsort((kernels.pop("id"), table))] = np.arange(len(table))
    agents = _agents(kernels["agent"], row, name, text, value)
    at = _counted(name, text, value, skipped)
    row, name, value = row[at], name.take(pa.array(at)), value.take(pa.array(at))
    duration = _durations(row, name, value, len(table))
    times = dict.fromkeys(("start", "end"), np.zeros(len(table), np.int64))
    full = {**kernels, **times, "order": order}
    part = part_of_rows(LongRows(kernels_at(full, row), name, value), "ncu", path)
    part.kernels["dur"] = duration[np.argsort(order)][part.kernels["order"]]
    part.form = "raw" if any(one.raw for one in tables) else "details"
    part.agents = agents
    if not all(one.raw for one in tables):
        part.notes.append(ROUNDED.format(path.name))
    return part


def _below(columns: list[Any]) -> Any:
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    return pa.chunked_array(columns).unify_dictionaries().combine_chunks()


def _counted(
    name: pa.DictionaryArray, text: pa.Array, value: pa.Array, skipped: Counter[str]
) -> Ints:
    """Return the rows that count something, not describe the device or the tool's own doing."""
    code, words = codes_of(name)
    counts = np.array([not word.startswith((_DEVICE, _TOOL)) for word in words])[code]
    good = np.isfinite(np.asarray(value.to_numpy(zero_copy_only=False), np.float64))
    lost = counts & ~good & np.asarray(pc.not_equal(text, ""), bool)
    skipped[TEXTS] += int(lost.sum())
    return np.flatnonzero(counts & good)


def _durations(row: Ints, name: pa.DictionaryArray, value: pa.Array, kernels: int) -> Any:
    """Return how long each kernel ran; NaN where it is not said."""
    found = np.full(kernels, np.nan)
    code, words = codes_of(name)
    for metric in (SHOWN_DURATION, DURATION):
        at = np.flatnonzero(np.array([word == metric for word in words])[code])
        found[row[at]] = np.asarray(value)[at]
    return np.where(found > 0, found, np.nan)


def _agents(
    agent: pa.Array, row: Ints, name: pa.DictionaryArray, text: pa.Array, value: pa.Array
) -> Agents:
    """Return what is said of each device: name, number of processors, highest clock."""
    code, words = codes_of(name)
    device, labels = codes_of(agent)
    devices = {label: int(re.sub(r"\D", "", label) or 0) for label in labels if label}
    facts: dict[int, dict[str, Any]] = {number: {} for number in devices.values()}
    for attribute, fact in _FACTS.items():
        if _DEVICE + attribute not in words:
            continue
        at = np.flatnonzero(code == words.index(_DEVICE + attribute))
        _, first = same_rows([device[row[at]]])
        for i in at[first].tolist():
            said = text[i].as_py() if fact == "product_name" else value[i].as_py()
            if said:
                whole = said if isinstance(said, str) else int(said) // _SCALE.get(attribute, 1)
                facts[devices[labels[device[row[i]]]]][fact] = whole
    return Agents(devices, facts)

"""Metrics of Nsight Compute: the raw and the details page, as CSV."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counter_tables import CountedFile
from chopper_jupyter.core.importers.ncu_numbers import base_unit, number_reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FIRST = '"ID",'
DURATION = "gpu__time_duration.sum"
DETAILS, VALUE = "Metric Name", "Metric Value"
_IDENTITY = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit",
    "Metric Value", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type",
    "Estimated Speedup",
)  # fmt: skip
_CUT = "rows cut short: left out"
_TEXT = "metrics whose value is no number: left out"


def is_ncu(head: str) -> bool:
    """Say whether a file that begins like this is a log of Nsight Compute."""
    return head.lstrip().startswith(("==PROF==", "==ERROR==", "==WARNING==", FIRST)) or any(
        line.startswith(FIRST) for line in head.splitlines()
    )


def read_ncu(path: Path) -> CountedFile:
    """Read a log or page of Nsight Compute.

    Raises
    ------
    TraceFormatError
        If it holds no kernels; what the tool says about it is quoted.
    """
    text = Path(path).read_text(encoding="utf-8-sig", errors="replace")
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith(FIRST)), None)
    if start is None:
        said = [line for line in lines if line.startswith(("==ERROR==", "==WARNING=="))]
        reason = "; ".join(said) or "nothing was profiled"
        msg = f"{path.name} holds no kernels: Nsight Compute says {reason!r}"
        raise TraceFormatError(msg)
    rows = csv.reader(line for line in lines[start:] if not line.startswith("=="))
    header = next(rows)
    skipped: Counter[str] = Counter()
    needed = header.index(VALUE) + 1 if VALUE in header else len(header)
    whole: list[Sequence[str]] = [
        [*row, *[""] * (len(header) - len(row))] for row in _whole(rows, needed, skipped)
    ]
    if not whole:
        msg = f"{path.name} holds a header but no kernels"
        raise TraceFormatError(msg)
    read = _details if DETAILS in header else _raw
    return read(header, whole, skipped)


def _whole(
    rows: Iterable[Sequence[str]], fields: int, skipped: Counter[str]
) -> Iterator[Sequence[str]]:
    for row in rows:
        if len(row) >= fields:
            yield row
        elif row:
            skipped[_CUT] += 1


def _raw(header: list[str], rows: list[Sequence[str]], skipped: Counter[str]) -> CountedFile:
    """Read a page with a row per kernel; its first row holds the units."""
    units = rows[0] if not rows[0][0] else [""] * len(header)
    kernels = rows if rows[0][0] else rows[1:]
    metrics = [
        i for i, name in enumerate(header) if name not in _IDENTITY and "Push/Pop" not in name
        and "Start/Stop" not in name
    ]  # fmt: skip
    number = number_reader(row[i] for row in kernels for i in metrics)
    kernel, names, values = [], [], []
    for i in metrics:
        factor = base_unit(units[i])
        for at, row in enumerate(kernels):
            value = number(row[i])
            if value is None:
                skipped[_TEXT] += bool(row[i].strip())
                continue
            kernel.append(at)
            names.append(header[i])
            values.append(value * factor)
    return _file(header, kernels, kernel, names, values, skipped)


def _details(header: list[str], rows: list[Sequence[str]], skipped: Counter[str]) -> CountedFile:
    """Read a page with a row per metric; rows of rules have none."""
    place = {name: i for i, name in enumerate(header)}
    number = number_reader(row[place["Metric Value"]] for row in rows)
    at: dict[str, int] = {}
    kernels: list[Sequence[str]] = []
    kernel, names, values = [], [], []
    for row in rows:
        key = row[place["ID"]]
        if key not in at:
            at[key] = len(kernels)
            kernels.append(row)
        if not row[place["Metric Name"]]:
            continue
        value = number(row[place["Metric Value"]])
        if value is None:
            skipped[_TEXT] += 1
            continue
        kernel.append(at[key])
        names.append(row[place["Metric Name"]])
        values.append(value * base_unit(row[place["Metric Unit"]]))
    return _file(header, kernels, kernel, names, values, skipped)


def _file(
    header: list[str],
    kernels: list[Sequence[str]],
    kernel: list[int],
    names: list[str],
    values: list[float],
    skipped: Counter[str],
) -> CountedFile:
    place = {name: i for i, name in enumerate(header)}

    def column(name: str) -> list[str]:
        return [row[place[name]] if name in place else "" for row in kernels]

    block, grid = ([_size(text) for text in column(n)] for n in ("Block Size", "Grid Size"))
    work = [None if b is None or g is None else b * g for b, g in zip(block, grid, strict=True)]
    durations = [(k, v) for k, n, v in zip(kernel, names, values, strict=True) if n == DURATION]
    dur: list[int | None] = [None] * len(kernels)
    for at, value in durations:
        dur[at] = round(value)
    counted = {
        "process": pa.array([_whole_number(t) for t in column("Process ID")], pa.int64()),
        "device": pa.array([_whole_number(t) or 0 for t in column("Device")], pa.int64()),
        "stream": pa.array([_whole_number(t) for t in column("Stream")], pa.int64()),
        "order": pa.array([_whole_number(t) or 0 for t in column("ID")], pa.int64()),
        "name": pa.array(column("Kernel Name"), pa.string()),
        "work_items": pa.array(work, pa.int64()),
        "group_items": pa.array(block, pa.int64()),
        "dur_ns": pa.array(dur, pa.int64()),
    }
    extra = [at for at, _ in durations]
    return CountedFile(
        counted,
        np.array([*kernel, *extra], np.int64),
        pa.array([*names, *[COUNTED_DURATION] * len(extra)], pa.string()),
        np.array([*values, *(v for _, v in durations)], np.float64),
        {},
        skipped,
    )


def _size(text: str) -> int | None:
    """Read ``(256, 1, 1)`` as the number of threads or blocks."""
    digits = [int(number) for number in re.findall(r"\d+", text)]
    return int(np.prod(digits)) if digits else None


def _whole_number(text: str) -> int | None:
    digits = re.sub(r"\D", "", text)
    return int(digits) if digits else None

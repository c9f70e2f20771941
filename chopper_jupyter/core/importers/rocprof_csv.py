"""Counters of rocprofv3 in CSV: ``counter_collection.csv`` of ROCm 6.2 to 7.x."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counter_parts import UNKNOWN, LongRows, Part, part_of_rows
from chopper_jupyter.core.importers.csv_columns import (
    OPEN_ROW,
    TextColumns,
    filled,
    header_of,
    read_columns,
    real_numbers,
)

if TYPE_CHECKING:
    from pathlib import Path

NEEDED = ("dispatch_id", "kernel_name", "counter_name", "counter_value")
_CODED = (
    "agent_id", "queue_id", "process_id", "grid_size", "workgroup_size", "kernel_name",
    "counter_name",
)  # fmt: skip
_TIMES = ("start_timestamp", "end_timestamp")
OPEN_LEFT_OUT = "last row without a line end: left out, it may be cut"


def is_counters(path: Path) -> bool:
    """Say whether a CSV file holds counters of rocprofv3."""
    return {"counter_name", "counter_value"} <= set(header_of(path))


def read_part(path: Path) -> Part:
    """Read one file: one row for each kernel and counter.

    Parameters
    ----------
    path : pathlib.Path
        The file. Columns are found by name, in any case; unknown ones are ignored.

    Returns
    -------
    Part
        Repeated counts of a kernel are averaged. A last row that may be cut is left out.

    Raises
    ------
    TraceFormatError
        If a needed column is missing, or there are no rows.
    """
    header = header_of(path)
    missing = sorted(set(NEEDED) - set(header))
    if missing:
        msg = f"{path.name} holds counters but no column {missing[0]!r}"
        raise TraceFormatError(msg)
    file = read_columns(path, only={*NEEDED, *_CODED, *_TIMES}, coded=_CODED)
    file = _without_open_row(file, header[-1])
    numbers = {
        "process": filled(file.whole("process_id"), UNKNOWN),
        "stream": filled(file.whole("queue_id"), UNKNOWN),
        "order": filled(file.whole("dispatch_id"), UNKNOWN),
        "work_items": filled(file.whole("grid_size"), UNKNOWN),
        "group_items": filled(file.whole("workgroup_size"), UNKNOWN),
        "start": filled(file.nanoseconds("start_timestamp"), 0),
        "end": filled(file.nanoseconds("end_timestamp"), 0),
    }
    rows = LongRows(
        {**numbers, "agent": file.text("agent_id"), "name": file.text("kernel_name")},
        file.text("counter_name"),
        real_numbers(file.text("counter_value")),
    )
    part = part_of_rows(rows, "rocprofv3", path)
    part.repairs.update(file.repairs)
    return part


def _without_open_row(file: TextColumns, last: str) -> TextColumns:
    """Leave out a last row without a line end, unless its end shows that it is whole.

    A cut row may end within its last number. If that is the end of the kernel, it must have as
    many digits as the start, and not lie before it.
    """
    if not file.repairs[OPEN_ROW] or not file.rows:
        return file
    repairs = file.repairs - type(file.repairs)({OPEN_ROW: 1})
    start, end = (file.whole(name)[-1].as_py() for name in _TIMES)
    if last == _TIMES[1] and start and end and len(str(start)) == len(str(end)) and end >= start:
        return TextColumns(file.columns, file.rows, repairs)
    repairs[OPEN_LEFT_OUT] += 1
    columns = {name: values.slice(0, file.rows - 1) for name, values in file.columns.items()}
    return TextColumns(columns, file.rows - 1, repairs)

"""Reads a recording of any known tool; its content says which, not its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers import (
    kineto,
    nsys_sqlite,
    rocpd_trace,
    rocprof_json_trace,
    rocprof_trace,
)
from chopper_jupyter.core.importers.json_values import head_of
from chopper_jupyter.core.importers.sqlite_columns import is_sqlite, opened, tables_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.core.events import RankEvents

Tool = Literal["kineto", "nsys", "rocpd", "rocprof-json", "rocprof-csv"]

DATABASES = (".sqlite", ".sqlite3", ".db")
OTHER_FORMATS = {
    ".nsys-rep": "export it with `nsys export --type sqlite`",
    ".qdrep": "export it with `nsys export --type sqlite`",
    ".ncu-rep": "it holds counters: export them with `ncu --import ... --csv --page raw`",
    ".pftrace": "record with `rocprofv3 --output-format csv`",
    ".otf2": "record with `rocprofv3 --output-format csv`",
}
"""What to do with files that only their vendor's tools read."""


def tool_of(path: Path) -> Tool:
    """Say which tool wrote a file; a file that looks like nothing known counts as Kineto's.

    Raises
    ------
    TraceFormatError
        If it is a database or a vendor's format that cannot be read.
    """
    if path.suffix.lower() in OTHER_FORMATS:
        msg = f"{path.name} cannot be read as it is: {OTHER_FORMATS[path.suffix.lower()]}"
        raise TraceFormatError(msg)
    if not path.is_file():
        return "kineto"  # a pipe can be read only once
    head = head_of(path)
    if is_sqlite(head):
        return _database(path)
    if rocprof_json_trace.is_rocprof(head):
        return "rocprof-json"
    is_csv = path.suffix.lower() == ".csv" and head.lstrip()[:1] not in (b"{", b"[")
    return "rocprof-csv" if is_csv and head.strip() else "kineto"


def _database(path: Path) -> Tool:
    with opened(path) as db:
        tables = tables_of(db)
    if rocpd_trace.is_rocpd(tables):
        return "rocpd"
    if nsys_sqlite.is_nsys(tables):
        return "nsys"
    found = ", ".join(sorted(tables)[:6]) or "no tables"
    msg = (
        f"{path.name} is a database but neither an export of Nsight Systems nor of rocprofv3 "
        f"(found {found})"
    )
    raise TraceFormatError(msg)


def read_ranks(paths: Sequence[Path], *, more_text: int = 0) -> list[RankEvents]:
    """Read the files of one recording.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        One file, or the CSV files that rocprofv3 wrote for one process.
    more_text : int, optional
        See ``kineto.read_rank``.

    Returns
    -------
    list of RankEvents
        One, or one for each process of a file that holds several.

    Raises
    ------
    TraceFormatError
        If a file is damaged or no recording; the message says why, and what to do.
    """
    tool = tool_of(paths[0])
    if tool == "rocprof-csv":
        return rocprof_trace.read_process(paths)
    if tool == "nsys":
        return nsys_sqlite.read_ranks(paths[0])
    if tool == "rocpd":
        return rocpd_trace.read_ranks(paths[0])
    if tool == "rocprof-json":
        return rocprof_json_trace.read_ranks(paths[0])
    return [kineto.read_rank(paths[0], more_text=more_text)]

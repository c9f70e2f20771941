"""Reads whole columns of SQLite databases into arrays."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from chopper_jupyter.core.importers.event_tables import Ints

MAGIC = b"SQLite format 3\x00"


def is_sqlite(head: bytes) -> bool:
    """Say whether a file that begins like this is an SQLite database."""
    return head.startswith(MAGIC)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading; nothing beside it is written.

    Raises
    ------
    TraceFormatError
        If it is damaged, then or while it is read.
    """
    log = path.with_name(path.name + "-wal")
    mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode={mode}", uri=True)
        ) as db:
            db.text_factory = _text
            yield db
    except sqlite3.Error as error:
        msg = f"{path.name} is damaged or cut short: SQLite says {str(error)!r}"
        raise TraceFormatError(msg) from error


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def tables_of(db: sqlite3.Connection) -> list[str]:
    """Return the names of the tables and views."""
    found = db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    return [name for (name,) in found]


def columns_of(db: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns; empty if there is no such table."""
    return {name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def rows_in(db: sqlite3.Connection, table: str) -> int:
    """Return the number of rows."""
    (count,) = db.execute(f"SELECT COUNT(*) FROM {quoted(table)}").fetchone()  # noqa: S608  quoted
    return int(count)


def integers(db: sqlite3.Connection, table: str, wanted: Mapping[str, int]) -> dict[str, Ints]:
    """Read integer columns.

    Parameters
    ----------
    db : sqlite3.Connection
        Database.
    table : str
        Name of the table.
    wanted : mapping of str to int
        Columns, each with what stands for null; a column that is absent is null everywhere.

    Returns
    -------
    dict of str to int64 array
        In the order of the table's rows.
    """
    have = columns_of(db, table)
    if not have:
        return {name: np.zeros(0, np.int64) for name in wanted}
    terms = [
        f"CAST(COALESCE({quoted(name)}, {int(default)}) AS INTEGER)" if name in have
        else str(int(default))
        for name, default in wanted.items()
    ]  # fmt: skip
    query = f"SELECT {', '.join(terms)} FROM {quoted(table)} ORDER BY rowid"  # noqa: S608  quoted
    return selected(db, query, list(wanted))


def selected(db: sqlite3.Connection, query: str, names: Sequence[str]) -> dict[str, Ints]:
    """Read the result of a query that gives integers only, as columns with these names."""
    flat = np.fromiter(chain.from_iterable(db.execute(query)), np.int64)
    matrix = flat.reshape(-1, len(names))
    return {name: np.ascontiguousarray(matrix[:, i]) for i, name in enumerate(names)}


def texts(db: sqlite3.Connection, table: str, column: str) -> pa.Array:
    """Read a text column in the order of the table's rows; all null if it is absent."""
    if column not in columns_of(db, table):
        return pa.nulls(rows_in(db, table), pa.string())
    query = f"SELECT CAST({quoted(column)} AS TEXT) FROM {quoted(table)} ORDER BY rowid"  # noqa: S608
    return pa.array(list(chain.from_iterable(db.execute(query))), pa.string())


def pairs(db: sqlite3.Connection, table: str, key: str, value: str) -> dict[int, str]:
    """Read a table of numbered texts; empty if it is absent."""
    if not {key, value} <= columns_of(db, table):
        return {}
    found = db.execute(f"SELECT {quoted(key)}, {quoted(value)} FROM {quoted(table)}")  # noqa: S608
    return {number: str(text) for number, text in found if text is not None}


def quoted(name: str) -> str:
    """Return a name of a table or column as SQL writes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'

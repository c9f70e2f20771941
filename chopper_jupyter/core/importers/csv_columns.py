"""Reads a CSV file into columns of text, whole or damaged, and text into numbers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BOM = b"\xef\xbb\xbf"
BLOCK = 16 << 20
CUT_ROW = "rows cut short: left out"
OPEN_ROW = "last row without a line end: read, though it may be cut"
LONG_ROW = "rows with more fields than the header: left out"
PADDED_ROW = "rows without their last fields: read without them"

_WHOLE = r"^\s*[+-]?\d{1,18}(?:\.0*)?\s*$"
_REAL = r"^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*$"


@dataclass(frozen=True)
class TextColumns:
    """The fields of a CSV file as text, by header.

    Parameters
    ----------
    columns : mapping of str to pyarrow.Array
        Text without blanks around it, by the header in lower case.
    rows : int
        Rows that were read.
    repairs : collections.Counter
        Counts by reason.
    """

    columns: Mapping[str, pa.Array]
    rows: int
    repairs: Counter[str] = field(default_factory=Counter)

    def whole(self, name: str) -> pa.Array:
        """Return a column as int64; null where it is absent or no whole number."""
        return whole_numbers(self.text(name))

    def text(self, name: str) -> pa.Array:
        """Return a column as text; all null where it is absent."""
        found = self.columns.get(name.lower())
        return pa.nulls(self.rows, pa.string()) if found is None else found


def header_of(path: Path) -> list[str]:
    """Return the fields of the first line that is not empty, in lower case; [] if there is none.

    Examples
    --------
    >>> from pathlib import Path
    >>> header_of(Path("missing.csv"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'missing.csv'
    """
    with path.open("rb") as file:
        head = file.read(1 << 16).removeprefix(BOM)
    line = head.lstrip().split(b"\n", 1)[0]
    return _fields(line.decode("utf-8", "replace"))


def _fields(line: str) -> list[str]:
    parts = re.findall(r'"((?:[^"]|"")*)"|([^,]+)|(?<=,)(?=,|$)', line.strip())
    return [(quoted.replace('""', '"') or plain).strip().lower() for quoted, plain in parts]


def read_columns(path: Path, *, pad: bool = False) -> TextColumns:
    """Read a CSV file: quoted, unquoted or mixed, any line ends, with a header.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    pad : bool, optional
        Read rows that lack their last fields without them; else they are left out. Both are
        counted.

    Raises
    ------
    TraceFormatError
        If the file is empty or no CSV.
    """
    data = path.read_bytes().removeprefix(BOM)
    repairs: Counter[str] = Counter()
    names = header_of(path)
    if not names:
        msg = f"{path.name} is empty"
        raise TraceFormatError(msg)
    if b"\x00" in data[:BLOCK]:
        msg = f"{path.name} is no CSV: it holds zero bytes"
        raise TraceFormatError(msg)
    body = data.lstrip().partition(b"\n")[2]
    table, short = _parse(path, _utf8(body, repairs), names, repairs)
    if body.strip() and not body.endswith(b"\n") and not short:
        repairs[OPEN_ROW] += 1
    if short and pad:
        repairs[PADDED_ROW] += len(short)
        padded = "".join(f"{row}{',' * (len(names) - count)}\n" for count, row in short)
        table = pa.concat_tables([table, _parse(path, padded.encode(), names, repairs)[0]])
    elif short:
        repairs[CUT_ROW] += len(short)
    columns: dict[str, pa.Array] = {}
    for number, name in enumerate(names):  # of columns with the same header the first one counts
        columns.setdefault(name, _stripped(table.column(number)))
    return TextColumns(columns, table.num_rows, repairs)


def _utf8(data: bytes, repairs: Counter[str]) -> bytes:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", errors="replace")
        repairs["bytes that are not UTF-8 replaced"] += max(text.count("\ufffd"), 1)
        return text.encode()
    return data


def _parse(
    path: Path, data: bytes, names: list[str], repairs: Counter[str]
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Parse rows; return them and those that are too short, each with its number of fields."""
    numbered = [str(number) for number in range(len(names))]
    empty = pa.table({name: pa.array([], pa.string()) for name in numbered})
    short: list[tuple[int, str]] = []
    if not data.strip():
        return empty, short

    def odd(row: csv.InvalidRow) -> str:
        if row.actual_columns < row.expected_columns:
            short.append((row.actual_columns, row.text))
        else:
            repairs[LONG_ROW] += 1
        return "skip"

    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=numbered, block_size=BLOCK),
            parse_options=csv.ParseOptions(invalid_row_handler=odd),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(numbered, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        msg = f"{path.name} cannot be read as CSV ({error})"
        raise TraceFormatError(msg) from error
    return table, short


def _stripped(column: pa.ChunkedArray) -> pa.Array:
    text = column.combine_chunks()
    if isinstance(text, pa.ChunkedArray):  # an empty column has no chunk to combine
        return pa.array([], pa.string())
    return pc.utf8_trim_whitespace(text)


def whole_numbers(text: pa.Array) -> pa.Array:
    """Read whole numbers; null for what is none.

    Examples
    --------
    >>> whole_numbers(pa.array(["17", " 3.0", "x", ""])).to_pylist()
    [17, 3, None, None]
    """
    known = pc.fill_null(pc.match_substring_regex(text, _WHOLE), fill_value=False)
    digits = pc.replace_substring_regex(pc.if_else(known, text, None), r"[\s+]|\.0*\s*$", "")
    return digits.cast(pa.int64())


def real_numbers(text: pa.Array) -> pa.Array:
    """Read decimal numbers as float64; null for what is none.

    Examples
    --------
    >>> real_numbers(pa.array(["1.5", "2e3", "N/A"])).to_pylist()
    [1.5, 2000.0, None]
    """
    known = pc.fill_null(pc.match_substring_regex(text, _REAL), fill_value=False)
    plain = pc.replace_substring_regex(pc.if_else(known, text, None), r"[\s+]", "")
    return plain.cast(pa.float64())


def filled(numbers: pa.Array, default: int = -1) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return whole numbers as an int64 array with ``default`` for null."""
    return np.asarray(pc.fill_null(numbers, default).to_numpy(zero_copy_only=False), np.int64)

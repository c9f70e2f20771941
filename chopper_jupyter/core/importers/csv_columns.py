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
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

BOM = b"\xef\xbb\xbf"
BLOCK = 16 << 20
CODED = pa.dictionary(pa.int32(), pa.string())
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
        Text without blanks around it, by the header in lower case; coded as a dictionary for
        columns that were asked for so.
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
        text = self.text(name)
        if isinstance(text, pa.DictionaryArray):
            return whole_numbers(text.dictionary).take(text.indices)
        return whole_numbers(text)

    def nanoseconds(self, name: str) -> pa.Array:
        """Return a column of times as int64, without fractions; null for what is no number."""
        text = self.text(name)
        if pc.any(pc.match_substring(text, ".")).as_py():
            text = pc.replace_substring_regex(text, r"\.\d*\s*$", "")
        return whole_numbers(text)

    def text(self, name: str) -> pa.Array:
        """Return a column as text; all null where it is absent."""
        found = self.columns.get(name.lower())
        return pa.nulls(self.rows, pa.string()) if found is None else found


def header_of(path: Path, *, lower: bool = True) -> list[str]:
    """Return the fields of the first line that is not empty; [] if there is none.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    lower : bool, optional
        In lower case; else as they are spelled.

    Examples
    --------
    >>> from pathlib import Path
    >>> header_of(Path("missing.csv"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'missing.csv'
    """
    with path.open("rb") as file:
        head = file.read(1 << 20).removeprefix(BOM)
    line = head.lstrip().split(b"\n", 1)[0]
    names = _fields(line.decode("utf-8", "replace"))
    return [name.lower() for name in names] if lower else names


def _fields(line: str) -> list[str]:
    parts = re.findall(r'"((?:[^"]|"")*)"|([^,]+)|(?<=,)(?=,|$)', line.strip())
    return [(quoted.replace('""', '"') or plain).strip() for quoted, plain in parts]


def read_columns(
    path: Path,
    *,
    pad: bool = False,
    only: Collection[str] | None = None,
    coded: Collection[str] = (),
) -> TextColumns:
    """Read a CSV file: quoted, unquoted or mixed, any line ends, with a header.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    pad : bool, optional
        Read rows that lack their last fields without them; else they are left out. Both are
        counted.
    only : collection of str, optional
        The columns to read, in lower case; by default all of them.
    coded : collection of str, optional
        Columns to read as dictionaries: of few, long or repeated texts.

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
    wanted = {
        str(number): CODED if name in coded else pa.string()
        for number, name in enumerate(names)
        if only is None or name in only
    }
    table, short = _parse(path, body, names, wanted, repairs)
    if body and not body.isspace() and not body.endswith(b"\n"):
        repairs[OPEN_ROW] += not (short and body.endswith(short[-1][1].encode()))
    if short and pad:
        repairs[PADDED_ROW] += len(short)
        padded = "".join(f"{row}{',' * (len(names) - count)}\n" for count, row in short)
        more, _ = _parse(path, padded.encode(), names, wanted, repairs)
        table = pa.concat_tables([table, more])
    elif short:
        repairs[CUT_ROW] += len(short)
    return TextColumns(_by_name(table, names), table.num_rows, +repairs)


def _by_name(table: pa.Table, names: Sequence[str]) -> dict[str, pa.Array]:
    """Name columns that are numbered; of those with the same header the first one counts."""
    columns: dict[str, pa.Array] = {}
    for number in table.column_names:
        columns.setdefault(names[int(number)], _stripped(table[number]))
    return columns


def parsed_rows(
    path: Path, text: str, header: Sequence[str], repairs: Counter[str], *, least: int
) -> tuple[dict[str, pa.Array], int]:
    """Parse rows of text that stand below a header.

    Parameters
    ----------
    path : pathlib.Path
        Where they are from, for messages.
    text : str
        The rows.
    header : sequence of str
        Names of the fields; of equal ones the first counts.
    repairs : collections.Counter
        Is told of rows that are too long.
    least : int
        Rows with fewer fields are left out; others that are short are filled up.

    Returns
    -------
    columns : dict of str to pyarrow.Array
        Texts without blanks around them.
    cut : int
        Rows that were left out for being short.
    """
    names = list(header)
    wanted = dict.fromkeys(map(str, range(len(names))), pa.string())
    table, short = _parse(path, text.encode(), names, wanted, repairs)
    whole = [(count, row.rstrip()) for count, row in short if count >= least]
    padded = "".join(f"{row}{',' * (len(names) - count)}\n" for count, row in whole)
    more, _ = _parse(path, padded.encode(), names, wanted, repairs)
    table = pa.concat_tables([table, more])
    return _by_name(table, names), len(short) - len(whole)


def _utf8(data: bytes, repairs: Counter[str]) -> bytes:
    if data.isascii():  # far faster than to decode it
        return data
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", errors="replace")
        repairs["bytes that are not UTF-8 replaced"] += max(text.count("\ufffd"), 1)
        return text.encode()
    return data


def _parse(
    path: Path,
    data: bytes,
    names: list[str],
    wanted: Mapping[str, pa.DataType],
    repairs: Counter[str],
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Parse rows; return them and those that are too short, each with its number of fields."""
    short: list[tuple[int, str]] = []
    if not data or data.isspace():
        return pa.table({name: pa.array([], kind) for name, kind in wanted.items()}), short
    long: list[int] = []

    def odd(row: csv.InvalidRow) -> str:
        if row.actual_columns < row.expected_columns:
            short.append((row.actual_columns, row.text))
        else:
            long.append(row.actual_columns)
        return "skip"

    try:
        table = csv.read_csv(
            pa.BufferReader(_utf8(data, repairs)),
            read_options=csv.ReadOptions(
                column_names=[str(number) for number in range(len(names))], block_size=BLOCK
            ),
            parse_options=csv.ParseOptions(invalid_row_handler=odd),
            convert_options=csv.ConvertOptions(
                include_columns=list(wanted), column_types=wanted, strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        msg = f"{path.name} cannot be read as CSV ({error})"
        raise TraceFormatError(msg) from error
    repairs[LONG_ROW] += len(long)
    return table, short


def _stripped(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return _stripped_words(column)
    text = column.combine_chunks()
    if isinstance(text, pa.ChunkedArray):  # an empty column has no chunk to combine
        return pa.array([], pa.string())
    return pc.utf8_trim_whitespace(text)


def _stripped_words(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if not column.num_chunks:
        return pa.array([], CODED)
    coded = column.unify_dictionaries().combine_chunks()
    words = pc.utf8_trim_whitespace(coded.dictionary)
    if words.equals(coded.dictionary):
        return coded
    distinct = words.dictionary_encode()  # words that differed in blanks only are one word
    return pa.DictionaryArray.from_arrays(distinct.indices.take(coded.indices), distinct.dictionary)


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

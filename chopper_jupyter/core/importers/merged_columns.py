"""Columns of scanned values, with those of the plain reader put among them, in Arrow.

Few events need the plain reader, but they may lie anywhere. Their values are put into places
left for them before there is an Arrow column, which could only be copied as a whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


class Column(NamedTuple):
    """One column.

    Parameters
    ----------
    values : array
        Numbers, or codes into ``words``.
    missing : bool array or None
        Where there is no value; None: nowhere.
    words : list of str or None
        Texts by code, each once.
    """

    values: npt.NDArray[Any]
    missing: Mask | None = None
    words: list[str] | None = None


def arrow(kind: pa.DataType, column: Column) -> pa.Array:
    """Make an Arrow array, which keeps the memory of the values as it is."""
    values, missing, words = column
    index = kind if words is None else kind.index_type
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    array = pa.Array.from_buffers(index, len(values), [valid, pa.py_buffer(values)])
    if words is None:
        return array
    return pa.DictionaryArray.from_arrays(array, pa.array(words, pa.string()))


def filled(column: Column, more: pa.ChunkedArray, among: Mask) -> Column:
    """Put values into the places that are left for them in a column, which changes it.

    Parameters
    ----------
    column : Column
        The values that are there.
    more : pyarrow.ChunkedArray
        The values for the other places, in their order.
    among : bool array
        Marks these places.
    """
    other = _column_of(more)
    values, missing, words = column
    further = other.values
    if words is not None and other.words is not None:
        numbers = {word: code for code, word in enumerate(words)}
        to = [numbers.setdefault(word, len(numbers)) for word in other.words]
        words = list(numbers)
        further = np.array([*to, -1])[further]
    values[among] = further
    if missing is None and other.missing is not None:
        missing = np.zeros(len(among), bool)
    if missing is not None:
        missing[among] = False if other.missing is None else other.missing
    return Column(values, missing, words)


def _column_of(column: pa.ChunkedArray) -> Column:
    array = column.combine_chunks()
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_dictionary(array.type):
        codes = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False)
        return Column(codes, missing, array.dictionary.to_pylist())
    return Column(pc.fill_null(array, 0).to_numpy(zero_copy_only=False), missing)


def absent(kind: pa.DataType, more: pa.ChunkedArray, among: Mask) -> pa.Array:
    """Return a column of nulls with further values among them."""
    if more.null_count == len(more):
        return pa.nulls(len(among), kind)
    if not pa.types.is_string(kind):
        values = np.zeros(len(among), kind.to_pandas_dtype())
        return arrow(kind, filled(Column(values, ~among), more, among))
    index = np.zeros(len(among), np.int32)
    index[among] = np.arange(1, len(more) + 1)
    return pa.concat_arrays([pa.nulls(1, kind), *more.chunks]).take(
        arrow(pa.int32(), Column(index))
    )

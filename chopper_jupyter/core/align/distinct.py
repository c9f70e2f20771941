"""Distinct combinations of codes, in time that grows with the rows and not with their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints

DENSE = 1 << 16
"""Up to this many possible combinations, or two a row, a table of all is faster than hashing."""

LARGEST = 2**62


def distinct(*columns: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the combinations of values that occur, in ascending order, and which each row has.

    ``numpy.unique`` compares whole rows of several columns, which is twenty times slower.

    Parameters
    ----------
    *columns : int64 arrays
        Columns of the same length; values from -1 up.

    Examples
    --------
    >>> found, of_row = distinct(np.array([3, -1, 3, 3]), np.array([0, 7, 0, 1]))
    >>> found, of_row.tolist()
    ([(-1, 7), (3, 0), (3, 1)], [1, 0, 1, 2])
    """
    rows = len(columns[0])
    first, number = np.zeros(min(rows, 1), np.int64), np.zeros(rows, np.int64)
    for column in columns:
        base = int(column.max(initial=-1)) + 2
        if len(first) * base >= LARGEST:
            msg = f"codes up to {base:,} are too large to combine"
            raise OverflowError(msg)
        first, number = renumber(number * base + (column + 1), len(first) * base)
    return list(zip(*(column[first].tolist() for column in columns), strict=True)), number


def dense(rows: int) -> int:
    """Return up to how many possible combinations of so many rows a table of all is faster."""
    return max(DENSE, 2 * rows)


def renumber(keys: npt.NDArray[Any], size: int) -> tuple[Ints, Ints]:
    """Give the keys that occur, all below ``size``, ascending numbers from 0.

    Returns
    -------
    tuple of numpy.ndarray of int64
        A row that has each key, and the number of each row.
    """
    if size <= dense(len(keys)):
        row = np.full(size, -1, np.int64)
        row[keys] = np.arange(len(keys))
        present = np.flatnonzero(row >= 0)
        number = np.empty(size, np.int64)
        number[present] = np.arange(len(present))
        return row[present], number[keys]
    encoded = pa.array(keys).dictionary_encode()
    index = encoded.indices.to_numpy()
    order = np.argsort(encoded.dictionary.to_numpy())
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    row = np.empty(len(order), np.int64)
    row[index] = np.arange(len(keys))
    return row[order], number[index]

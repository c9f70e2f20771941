"""Exact group-by on integer codes: which group each row is in, and int64 sums per group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_DENSE = 1 << 16
"""Up to this many possible groups, or two a row, a table of all is faster than a search."""

_NARROW = 1 << 31
"""Fewer possible groups than this are numbered in four bytes a row."""


@dataclass(frozen=True)
class Key:
    """One column to group by, as codes.

    Parameters
    ----------
    name : str
        The level, or other column.
    values : tuple
        Distinct values in reading order.
    codes : numpy.ndarray of int32
        Position in ``values`` of each row's value; -1 is null.
    """

    name: str
    values: tuple[Any, ...]
    codes: Codes


@dataclass(frozen=True)
class Groups:
    """Rows put into groups; groups are in the order of their codes, null last.

    Parameters
    ----------
    of_row : numpy.ndarray of int64
        Group of each row.
    codes : tuple of numpy.ndarray of int32
        Per key, the code of each group.
    count : int
        Number of groups.
    member : numpy.ndarray of int64
        One row of each group.
    """

    of_row: Ints
    codes: tuple[Codes, ...]
    count: int
    member: Ints

    def sum(self, measures: Mapping[str, Ints]) -> dict[str, Ints]:
        """Sum measures per group, exactly."""
        return {name: self.sum_of(values) for name, values in measures.items()}

    def sum_of(self, values: Ints) -> Ints:
        """Sum one measure per group, exactly (floats of a weighted bincount would round)."""
        total = np.zeros(self.count, np.int64)
        np.add.at(total, self.of_row, values)
        return total


def group(keys: Sequence[Key], rows: int) -> Groups:
    """Put rows that agree in every key into one group; without keys all rows are one group.

    Examples
    --------
    >>> key = Key("phase", ("forward", "backward"), np.array([1, 0, -1, 1], np.int32))
    >>> groups = group([key], 4)
    >>> groups.codes[0].tolist(), groups.of_row.tolist()
    ([0, 1, -1], [1, 0, 2, 1])
    """
    if not keys:
        return Groups(np.zeros(rows, np.int64), (), 1, np.zeros(1, np.int64))
    of_row, member = _numbered(*_joint(keys, rows))
    return Groups(of_row, tuple(key.codes[member] for key in keys), len(member), member)


def _joint(keys: Sequence[Key], rows: int) -> tuple[npt.NDArray[Any], int]:
    """Join the codes of each row into one number; return also how many numbers there may be.

    The numbers are in the order of the codes, null last.
    """
    size = math.prod(len(key.values) + 1 for key in keys)
    if size <= max(_DENSE, 2 * rows) or len(keys) == 1:
        joint: npt.NDArray[Any] = np.zeros(rows, _integer(size))
        for key in keys:
            null = len(key.values)
            joint *= null + 1
            some = rows and key.codes.min() < 0
            joint += np.where(key.codes < 0, null, key.codes) if some else key.codes
        return joint, size
    half = len(keys) // 2
    first, some = _numbered(*_joint(keys[:half], rows))
    second, others = _numbered(*_joint(keys[half:], rows))
    first *= len(others)
    first += second
    return first, len(some) * len(others)


def _integer(size: int) -> npt.DTypeLike:
    return np.int32 if size < _NARROW else np.int64


def _numbered(joint: npt.NDArray[Any], size: int) -> tuple[Ints, Ints]:
    """Give the numbers that occur new ones from 0, in order; return also one row of each."""
    if size > max(_DENSE, 2 * len(joint)):
        return _numbered_few(joint)
    member = np.full(size, -1, np.int64)
    member[joint] = np.arange(len(joint))
    found = np.flatnonzero(member >= 0)
    place = np.empty(size, np.int64)
    place[found] = np.arange(len(found))
    return place[joint], member[found]


def _numbered_few(joint: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Do the same where a table of all possible values would be too large."""
    encoded = pa.array(joint).dictionary_encode()  # several times faster than numpy.unique
    order = np.argsort(encoded.dictionary.to_numpy())
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    of_row = place[encoded.indices.to_numpy()]
    member = np.empty(len(order), np.int64)
    member[of_row] = np.arange(len(of_row))
    return of_row, member

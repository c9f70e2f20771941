"""Exact group-by on integer codes: which group each row is in, and int64 sums per group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.align.distinct import dense, renumber

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

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
    member, of_row = renumber(*_joint(keys, rows))
    return Groups(of_row, tuple(key.codes[member] for key in keys), len(member), member)


def _joint(keys: Sequence[Key], rows: int) -> tuple[npt.NDArray[Any], int]:
    """Join the codes of each row into one number; return also how many numbers there may be.

    The numbers are in the order of the codes, null last.
    """
    size = math.prod(len(key.values) + 1 for key in keys)
    if size <= dense(rows) or len(keys) == 1:
        joint: npt.NDArray[Any] = np.zeros(rows, _integer(size))
        for key in keys:
            null = len(key.values)
            joint *= null + 1
            some = rows and key.codes.min() < 0
            joint += np.where(key.codes < 0, null, key.codes) if some else key.codes
        return joint, size
    half = len(keys) // 2
    some, first = renumber(*_joint(keys[:half], rows))
    others, second = renumber(*_joint(keys[half:], rows))
    first *= len(others)
    first += second
    return first, len(some) * len(others)


def _integer(size: int) -> npt.DTypeLike:
    return np.int32 if size < _NARROW else np.int64

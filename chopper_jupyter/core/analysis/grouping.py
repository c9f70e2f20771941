"""Exact group-by on integer codes: which group each row is in, and int64 sums per group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_DENSE = 1 << 23
"""Up to this many possible groups a lookup table is faster than sorting."""


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
    of_row = np.zeros(rows, np.int64)
    size = 1
    for key in keys:
        base = len(key.values) + 1
        if size * base > _DENSE:
            of_row, size = _compress(of_row, size)
        of_row = of_row * base + np.where(key.codes < 0, base - 1, key.codes)
        size *= base
    if keys:
        of_row, size = _compress(of_row, size)
    member = np.zeros(size, np.int64)  # one row of each group tells its codes
    member[of_row] = np.arange(rows)
    return Groups(of_row, tuple(key.codes[member] for key in keys), size, member)


def _compress(of_row: Ints, size: int) -> tuple[Ints, int]:
    """Renumber the groups that exist from 0, in the same order; return also how many."""
    if size > _DENSE:
        ids, inverse = np.unique(of_row, return_inverse=True)
        return inverse.reshape(-1).astype(np.int64), len(ids)
    present = np.zeros(size, bool)
    present[of_row] = True
    rank = np.cumsum(present) - 1
    return rank[of_row], int(np.count_nonzero(present))

"""Exact group-by on integer codes: which group each row is in, and int64 sums per group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.analysis.numbering import numbered, pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
    of_row : numpy.ndarray of integers
        Group of each row.
    codes : tuple of numpy.ndarray of int32
        Per key, the code of each group.
    count : int
        Number of groups.
    """

    of_row: Ints
    codes: tuple[Codes, ...]
    count: int

    @property
    def member(self) -> Ints:
        """One row of each group."""
        found = np.zeros(self.count, np.int64)
        for piece in pieces(len(self.of_row)):
            found[self.of_row[piece]] = np.arange(piece.start, piece.stop)
        return found

    def sum(self, measures: Mapping[str, Ints]) -> dict[str, Ints]:
        """Sum measures per group, exactly."""
        return {name: self.sum_of(values) for name, values in measures.items()}

    def sum_of(self, values: Ints) -> Ints:
        """Sum one measure per group, exactly (floats of a weighted bincount would round)."""
        total = np.zeros(self.count, np.int64)
        for piece in pieces(len(self.of_row)):
            np.add.at(total, self.of_row[piece].astype(np.int64, copy=False), values[piece])
        return total


def group(keys: Sequence[Key], rows: int, *, narrow: bool = False) -> Groups:
    """Put rows that agree in every key into one group; without keys all rows are one group.

    Parameters
    ----------
    keys : sequence of Key
        What rows are told apart by.
    rows : int
        How many there are.
    narrow : bool
        Number the groups of the rows in as few bytes as hold them, to be kept; else in int64, to
        be reckoned with.

    Examples
    --------
    >>> key = Key("phase", ("forward", "backward"), np.array([1, 0, -1, 1], np.int32))
    >>> groups = group([key], 4)
    >>> groups.codes[0].tolist(), groups.of_row.tolist()
    ([0, 1, -1], [1, 0, 2, 1])
    """
    if not keys:
        return Groups(np.zeros(rows, np.uint8 if narrow else np.int64), (), 1)
    return Groups(*numbered(keys, rows, narrow=narrow))

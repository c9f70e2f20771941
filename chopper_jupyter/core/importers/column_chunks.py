"""Columns that grow while a file is read, in memory that goes back to the system when let go.

What C libraries free they mostly keep; of a file of a gigabyte, several hundred megabytes. So
columns live in pages of their own: in chunks while they grow, each in one piece afterwards.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

FIRST, LAST, GROWTH = 1 << 12, 1 << 18, 4
"""Rows of the first chunk of a table and of the largest ones; how much more each next one has."""

OWN_PAGES = 1 << 16
"""Bytes from which an array gets pages of its own."""

LARGE_PAGE = 1 << 21
"""Bytes of a large page: the system hands it out as fast as a dozen small ones."""


def empty(shape: int | tuple[int, int], kind: Any) -> Array:
    """Make an array whose memory goes back to the system with it; its values are anything."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    if size < OWN_PAGES:
        return np.empty(shape, kind)
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows, which knows no other kind
        return np.frombuffer(mmap.mmap(-1, size), kind).reshape(shape)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= LARGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system built without large pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, kind).reshape(shape)


class Chunks:
    """The columns of one table.

    Parameters
    ----------
    columns : dict of str to int
        The column of the scanner's rows that each comes from.
    wide : set of str
        Which of them take eight bytes; the others take four.
    """

    def __init__(self, columns: Mapping[str, int], wide: AbstractSet[str]) -> None:
        self.rows = 0
        self._room = 0
        self._size = FIRST // GROWTH
        self._kept = [
            (kind, [name for name in columns if (name in wide) == (kind is np.int64)])
            for kind in (np.int64, np.int32)
        ]
        self._from = [[columns[name] for name in names] for _, names in self._kept]
        self._chunks: list[list[Array]] = []

    def add(self, lines: Array) -> None:
        """Append rows of the scanner, which come as one line a column."""
        while lines.shape[1]:
            left = self._room - self.rows
            if not left:
                left = self._size = min(self._size * GROWTH, LAST)
                self._room += left
                self._chunks.append([empty((len(names), left), k) for k, names in self._kept])
            part = lines[:, :left]
            count = part.shape[1]
            for chunk, columns in zip(self._chunks[-1], self._from, strict=True):
                used = chunk.shape[1] - left
                for line, column in zip(chunk, columns, strict=True):
                    line[used : used + count] = part[column]
            self.rows += count
            lines = lines[:, left:]

    def column(self, name: str, among: Mask) -> Array:
        """Return a column in one piece.

        Parameters
        ----------
        name : str
            Which.
        among : bool array
            Marks, of all rows of the result, those that are none of these; they get -1.
        """
        group = 0 if name in self._kept[0][1] else 1
        kind, names = self._kept[group]
        line = names.index(name)
        column = empty(len(among), kind)
        places = None if len(among) == self.rows else np.flatnonzero(~among)
        if places is not None:
            column[among] = -1
        start = 0
        for chunk in self._chunks:
            part = chunk[group][line][: self.rows - start]
            to = slice(start, start + len(part))
            column[to if places is None else places[to]] = part
            start += len(part)
        return column

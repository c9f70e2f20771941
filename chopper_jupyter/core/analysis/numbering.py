"""One number for each combination of codes that occurs, in pieces of rows that stay in cache.

A temporary array of ten million rows costs more in fresh memory than in arithmetic.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.align.distinct import dense, renumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chopper_jupyter.core.analysis.grouping import Codes, Ints, Key

PIECE = 1 << 17
"""Rows that are worked on at once."""

_NARROW = 1 << 31
"""Numbers below this are kept in four bytes."""

_LARGER = 4
"""A table here takes five bytes a number: it may be as large as ``dense`` says of more rows."""


class _Numbers(NamedTuple):
    """How combinations of codes are numbered: in the order of the codes, null last.

    Parameters
    ----------
    size : int
        Numbers are below this.
    at : function
        Returns the numbers of a piece of rows, in an array that may be changed.
    decode : function
        Returns the codes, by key, that numbers stand for.
    """

    size: int
    at: Callable[[slice], Ints]
    decode: Callable[[Ints], tuple[Codes, ...]]


def pieces(rows: int) -> Iterator[slice]:
    """Cut rows into pieces that stay in cache.

    Examples
    --------
    >>> [piece.stop - piece.start for piece in pieces(PIECE + 5)] == [PIECE, 5]
    True
    """
    return (slice(low, min(low + PIECE, rows)) for low in range(0, rows, PIECE))


def counted(codes: npt.NDArray[Any], size: int) -> Ints:
    """Count how often each number below ``size`` occurs.

    Examples
    --------
    >>> counted(np.array([2, 0, 2]), 4).tolist()
    [1, 0, 2, 0]
    """
    found = np.zeros(size, np.int64)
    for piece in pieces(len(codes)):
        found += np.bincount(codes[piece], minlength=size)
    return found


def ranks(values: Ints) -> Ints:
    """Return the place of each value among those that occur, as ``numpy.unique`` does by sorting.

    Examples
    --------
    >>> ranks(np.array([7, -1, 7, 3])).tolist()
    [2, 0, 2, 1]
    """
    low = int(values.min(initial=0))
    return renumber(values - low, int(values.max(initial=0)) - low + 1)[1]


def looked_up(
    table: npt.NDArray[Any], places: npt.NDArray[Any], kind: npt.DTypeLike | None = None
) -> npt.NDArray[Any]:
    """Return ``table[places]``, as some kind of number; -1 is the last place of the table.

    Examples
    --------
    >>> looked_up(np.array([5, 7]), np.array([1, 1, 0])).tolist()
    [7, 7, 5]
    """
    found = np.empty(len(places), kind or table.dtype)
    for piece in pieces(len(places)):
        found[piece] = table.take(places[piece], mode="wrap")  # else every place is checked first
    return found


def numbered(
    keys: Sequence[Key], rows: int, *, narrow: bool
) -> tuple[npt.NDArray[Any], tuple[Codes, ...], int]:
    """Give numbers to the combinations of codes that occur.

    Parameters
    ----------
    keys : sequence of Key
        One at least.
    rows : int
        Length of their codes.
    narrow : bool
        Keep the numbers of the rows in as few bytes as hold them, else in int64.

    Returns
    -------
    of_row : array of integers
        Number of each row.
    codes : tuple of numpy.ndarray of int32
        By key, the codes that each number stands for.
    count : int
        Number of combinations.
    """
    if not rows:
        return np.zeros(0, np.int64), tuple(key.codes[:0] for key in keys), 0
    joint = _joint(keys, rows)
    every = np.empty(rows, np.int32 if joint.size < _NARROW else np.int64)
    seen = np.zeros(joint.size if _few(joint, rows) else 0, bool)
    for piece in pieces(rows):
        every[piece] = number = joint.at(piece)
        if len(seen):
            seen[number] = True
    if len(seen):
        found = np.flatnonzero(seen)
        place: Ints | Codes = _places(found, joint.size)
        at = every
    else:
        member, at = renumber(every, joint.size)
        found = every[member].astype(np.int64)
        place = np.arange(len(found))
    codes = tuple(np.empty(len(found), np.int32) for _ in keys)
    for piece in pieces(len(found)):
        for column, some in zip(codes, joint.decode(found[piece]), strict=True):
            column[piece] = some
    kind = np.min_scalar_type(len(found)) if narrow else np.int64
    return looked_up(place, at, kind), codes, len(found)


def _joint(keys: Sequence[Key], rows: int) -> _Numbers:
    """Give numbers to all possible combinations or, if these are many, to pairs of halves."""
    size = math.prod(len(key.values) + 1 for key in keys)
    if size <= dense(rows) or len(keys) == 1:
        return _digits(keys, size)
    half = len(keys) // 2
    first, second = (_present(_joint(some, rows), rows) for some in (keys[:half], keys[half:]))

    def at(piece: slice) -> Ints:
        number = first.at(piece)
        number *= second.size
        number += second.at(piece)
        return number

    def decode(number: Ints) -> tuple[Codes, ...]:
        high = number // second.size
        return first.decode(high) + second.decode(number - high * second.size)

    return _Numbers(first.size * second.size, at, decode)


def _digits(keys: Sequence[Key], size: int) -> _Numbers:
    """Take codes for the digits of a number."""
    kind = np.int32 if size < _NARROW else np.int64
    with_null = [bool(key.codes.min() < 0) for key in keys]

    def at(piece: slice) -> Ints:
        number = np.zeros(piece.stop - piece.start, kind)
        for key, some in zip(keys, with_null, strict=True):
            null, codes = len(key.values), key.codes[piece]
            number *= null + 1
            number += np.where(codes < 0, null, codes) if some else codes
        return number.astype(np.int64)

    def decode(number: Ints) -> tuple[Codes, ...]:
        found: list[Codes] = []
        for key in reversed(keys):
            null = len(key.values)
            higher = number // (null + 1)
            code: Codes = (number - higher * (null + 1)).astype(np.int32)
            code[code == null] = -1
            found.append(code)
            number = higher
        return tuple(reversed(found))

    return _Numbers(size, at, decode)


def _present(whole: _Numbers, rows: int) -> _Numbers:
    """Give numbers, in the same order, to those numbers that occur."""
    if not _few(whole, rows):
        every = np.concatenate([whole.at(piece) for piece in pieces(rows)])
        member, of_row = renumber(every, whole.size)
        codes = whole.decode(every[member])
        return _Numbers(
            len(member), lambda piece: of_row[piece].copy(), lambda n: tuple(c[n] for c in codes)
        )
    seen = np.zeros(whole.size, bool)
    for piece in pieces(rows):
        seen[whole.at(piece)] = True
    found = np.flatnonzero(seen)
    place, codes = _places(found, whole.size).astype(np.int64), whole.decode(found)
    return _Numbers(
        len(found), lambda piece: place[whole.at(piece)], lambda n: tuple(c[n] for c in codes)
    )


def _few(numbers: _Numbers, rows: int) -> bool:
    return numbers.size <= dense(_LARGER * rows)


def _places(found: Ints, size: int) -> npt.NDArray[np.int32]:
    """Return, for each number below ``size``, its place among those found; 0 for others."""
    place = np.zeros(size, np.int32)
    place[found] = np.arange(len(found), dtype=np.int32)
    return place

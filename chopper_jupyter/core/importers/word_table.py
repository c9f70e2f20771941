"""A compiled dictionary of byte strings: equal bytes get equal codes, in order of first use."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.importers.raw_bytes import PADDING, compiled, lowest, word

FULL = -1

_START, _PRIME = np.uint64(14695981039346656037), np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


ENTRY = 4
"""Numbers of an entry: hash, length, offset and code of a word, in one line of the cache."""


class WordTable(NamedTuple):
    """The arrays of the dictionary; ``counts`` holds the number of words and of bytes used.

    ``places`` has an entry for each of twice as many places as there may be words; a code of -1
    is an empty place.
    """

    places: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    arena: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]


def new_table(words: int = 1 << 14, size: int = 1 << 20) -> WordTable:
    """Make an empty dictionary with room for so many words and bytes."""
    return WordTable(
        np.full(words * 2 * ENTRY, -1, np.int64),
        np.zeros(words + 1, np.int64),
        np.zeros(size, np.uint8),
        np.zeros(2, np.int64),
    )


def grown(table: WordTable, need: int) -> WordTable:
    """Return a copy with twice the room, and room for ``need`` more bytes."""
    words, used = len(table.offsets) - 1, int(table.counts[1])
    bigger = new_table(words * 2, max(len(table.arena) * 2, used + 2 * need))
    for name in ("offsets", "arena", "counts"):
        old = getattr(table, name)
        getattr(bigger, name)[: len(old)] = old
    _move(table.places, bigger.places)
    return bigger


def words_of(table: WordTable) -> list[bytes]:
    """Return all words by code."""
    count, used = table.counts.tolist()
    data, edges = table.arena[:used].tobytes(), table.offsets[: count + 1].tolist()
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def seed(table: WordTable, words: list[bytes]) -> None:
    """Give the words codes 0, 1, 2, ... in an empty dictionary."""
    for text in words:
        code(table, np.frombuffer(text + bytes(PADDING), np.uint8), 0, len(text))


@compiled
def _move(places: Any, bigger: Any) -> None:
    mask = len(bigger) // ENTRY - 1
    for at in range(0, len(places), ENTRY):
        if places[at + 3] >= 0:
            to = (places[at] & mask) * ENTRY
            while bigger[to + 3] >= 0:
                to = (to + ENTRY) % len(bigger)
            for k in range(ENTRY):
                bigger[to + k] = places[at + k]


@compiled
def _mixed(h: Any, w: Any) -> Any:
    h = (h ^ w) * _PRIME
    return h ^ (h >> _HALF)


@compiled
def hashed(buf: Any, a: Any, n: Any) -> Any:
    """Hash ``n`` bytes, eight at a time; the last eight may overlap those before."""
    h = _START ^ np.uint64(n)
    if n < 8:
        return _mixed(h, word(buf, a) & lowest(n))
    last = a + n - 8
    while a < last:
        h = _mixed(h, word(buf, a))
        a += 8
    return _mixed(h, word(buf, last))


@compiled
def _same(one: Any, o: Any, other: Any, a: Any, n: Any) -> Any:
    """Say whether ``n`` bytes are the same in two buffers."""
    if n < 8:
        return (word(one, o) ^ word(other, a)) & lowest(n) == 0
    last = n - 8
    k = 0
    while k < last:
        if word(one, o + k) != word(other, a + k):
            return False
        k += 8
    return word(one, o + last) == word(other, a + last)


@compiled
def code(table: Any, buf: Any, a: Any, b: Any) -> Any:
    """Return the code of ``buf[a:b]``; FULL if there is no room for a new word."""
    n = b - a
    h = np.int64(hashed(buf, a, n))
    places = table.places
    at = (h & (len(places) // ENTRY - 1)) * ENTRY
    while places[at + 3] >= 0:
        if (
            places[at] == h
            and places[at + 1] == n
            and _same(table.arena, places[at + 2], buf, a, n)
        ):
            return places[at + 3]
        at = (at + ENTRY) % len(places)
    count, used = table.counts[0], table.counts[1]
    if count + 1 >= len(table.offsets) or used + n + PADDING > len(table.arena):
        return np.int64(FULL)
    for k in range(n):
        table.arena[used + k] = buf[a + k]
    places[at], places[at + 1], places[at + 2], places[at + 3] = h, n, used, count
    table.counts[0], table.counts[1] = count + 1, used + n
    table.offsets[count + 1] = used + n
    return count

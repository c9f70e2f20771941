"""A compiled dictionary of byte strings: equal bytes get equal codes, in order of first use."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

FULL = -1


class WordTable(NamedTuple):
    """The arrays of the dictionary; ``counts`` holds the number of words and of bytes used."""

    slots: npt.NDArray[np.int32]
    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    arena: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]


def new_table(words: int = 1 << 14, size: int = 1 << 20) -> WordTable:
    """Make an empty dictionary with room for so many words and bytes."""
    return WordTable(
        np.full(words * 2, -1, np.int32),
        np.zeros(words, np.uint64),
        np.zeros(words, np.int64),
        np.zeros(words, np.int32),
        np.zeros(size, np.uint8),
        np.zeros(2, np.int64),
    )


def grown(table: WordTable, need: int) -> WordTable:
    """Return a copy with twice the room, and room for ``need`` more bytes."""
    count, used = (int(n) for n in table.counts)
    bigger = new_table(len(table.hashes) * 2, max(len(table.arena) * 2, used + 2 * need))
    for name in ("hashes", "offsets", "lengths"):
        getattr(bigger, name)[:count] = getattr(table, name)[:count]
    bigger.arena[:used] = table.arena[:used]
    bigger.counts[:] = table.counts
    _rebuild(bigger.slots, bigger.hashes, count)
    return bigger


def words_of(table: WordTable) -> list[bytes]:
    """Return all words by code."""
    data = table.arena.tobytes()
    count = int(table.counts[0])
    return [
        data[o : o + n]
        for o, n in zip(table.offsets[:count].tolist(), table.lengths[:count].tolist(), strict=True)
    ]


def seed(table: WordTable, words: list[bytes]) -> None:
    """Give the words codes 0, 1, 2, ... in an empty dictionary."""
    for word in words:
        code(table, np.frombuffer(word, np.uint8), 0, len(word))


@njit(cache=True, nogil=True)
def _rebuild(slots: Any, hashes: Any, count: Any) -> None:
    mask = len(slots) - 1
    for k in range(count):
        at = np.int64(hashes[k] & np.uint64(mask))
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = k


@njit(cache=True, nogil=True)
def _hash(buf: Any, a: Any, b: Any) -> Any:
    """Hash bytes by four interleaved multiplications, which do not wait for each other."""
    prime = np.uint64(1099511628211)
    h0 = np.uint64(14695981039346656037) ^ np.uint64(b - a)
    h1, h2, h3 = h0 + prime, h0 ^ prime, ~h0
    k = a
    while k + 4 <= b:
        h0 = (h0 ^ np.uint64(buf[k])) * prime
        h1 = (h1 ^ np.uint64(buf[k + 1])) * prime
        h2 = (h2 ^ np.uint64(buf[k + 2])) * prime
        h3 = (h3 ^ np.uint64(buf[k + 3])) * prime
        k += 4
    while k < b:
        h0 = (h0 ^ np.uint64(buf[k])) * prime
        k += 1
    h0 = (h0 ^ (h1 >> np.uint64(7))) * prime
    h0 = (h0 ^ (h2 >> np.uint64(13))) * prime
    h0 = (h0 ^ (h3 >> np.uint64(19))) * prime
    return h0 ^ (h0 >> np.uint64(29))


@njit(cache=True, nogil=True)
def code(table: Any, buf: Any, a: Any, b: Any) -> Any:
    """Return the code of ``buf[a:b]``; FULL if there is no room for a new word."""
    h = _hash(buf, a, b)
    slots = table.slots
    mask = len(slots) - 1
    at = np.int64(h & np.uint64(mask))
    n = b - a
    while slots[at] >= 0:
        w = slots[at]
        if table.hashes[w] == h and table.lengths[w] == n:
            o = table.offsets[w]
            different = np.uint8(0)
            for k in range(n):  # without an early exit it compiles to wide comparisons
                different |= table.arena[o + k] ^ buf[a + k]
            if different == 0:
                return np.int64(w)
        at = (at + 1) & mask
    count = table.counts[0]
    used = table.counts[1]
    if count >= len(table.hashes) or used + n > len(table.arena):
        return np.int64(FULL)
    for k in range(n):
        table.arena[used + k] = buf[a + k]
    table.hashes[count] = h
    table.offsets[count] = used
    table.lengths[count] = n
    table.counts[0] = count + 1
    table.counts[1] = used + n
    slots[at] = count
    return np.int64(count)

"""Compiled: events that repeat an earlier one in everything but their numbers.

A profiler writes the same few hundred events again and again, in much the same order. Such an
event needs no parsing: where its text equals that of an event that was understood before, up to
plain numbers in the places of plain numbers, it means the same with these numbers.

Which event comes next is guessed from those before it; a wrong guess costs a few comparisons,
and the event is parsed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chopper_jupyter.core.importers.event_layout import (
    C_DUR,
    C_TS,
    COLUMNS,
    COLUMNS_OF,
    HOLES,
    MEMORY,
    NULL,
    NUMBERS_OF,
    SLOTS,
    TABLE_OF,
    WORDS,
)
from chopper_jupyter.core.importers.event_rows import in_range
from chopper_jupyter.core.importers.event_values import nanoseconds
from chopper_jupyter.core.importers.json_scan import NINE, ZERO, number
from chopper_jupyter.core.importers.raw_bytes import BLOCK, PADDING, byte, differing, inlined
from chopper_jupyter.core.importers.word_table import hashed

_BITS = 11
PLACES = 1 << _BITS
"""Events that are remembered; a new one displaces what its place held."""

WIDTH = 1 << 10
"""Longest text that is remembered."""

STRIDE = WIDTH + 64
"""From one text to the next; were it a power of two, they would compete for the same lines of
the processor's cache."""

_GUESS_BITS = 14

COUNTED = -1
"""Role of an event that is counted and has no row."""

HASH, LENGTH, COUNT, ROLE, TYPE, CATEGORY = range(6)
FIRST, BEHIND, COLUMN = range(3)

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_TO_PLACE, _TO_GUESS = np.uint64(64 - _BITS), np.uint64(64 - _GUESS_BITS)
_BYTE, _LOWEST, _ALL = np.uint64(8), np.uint64(255), np.uint64(64)
_LITERAL = np.isin(np.arange(SLOTS), WORDS)


class Repeats(NamedTuple):
    """The remembered events, by place, and what came behind what.

    ``holes`` lists the numbers of an event: where its text has them (``FIRST``, ``BEHIND``),
    and the column that takes them, -1 if none does. ``rows`` holds the row of an event;
    ``facts`` the numbers that ``HASH`` and the following name. ``far`` holds the guess by the
    last eight events, ``near`` by the last one alone; ``past`` has these events, a byte of the
    place of each, and the place of the last.
    """

    text: Any
    holes: Any
    facts: Any
    rows: Any
    near: Any
    far: Any
    past: Any


def new_repeats() -> Repeats:
    """Make room, with nothing remembered: a byte that no event begins with in every place."""
    facts = np.zeros((PLACES, 6), np.int64)
    facts[:, LENGTH] = 1
    return Repeats(
        text=np.zeros(PLACES * STRIDE + PADDING, np.uint8),
        holes=np.zeros((PLACES, HOLES, 3), np.int16),
        facts=facts,
        rows=np.zeros((PLACES, COLUMNS), np.int64),
        near=np.zeros(1 << _BITS, np.int16),
        far=np.zeros(1 << _GUESS_BITS, np.int16),
        past=np.zeros(2, np.uint64),
    )


@inlined
def _far(past: Any) -> Any:
    """Return where the guess by the last eight events is."""
    return np.int64((past[0] * _FACTOR) >> _TO_GUESS)


@inlined
def _equal(text: Any, p: Any, buf: Any, i: Any, n: Any) -> Any:
    """Say whether ``n`` bytes are the same, at least one."""
    while n > BLOCK:
        if differing(text, p, buf, i) != 0:
            return False
        p += BLOCK
        i += BLOCK
        n -= BLOCK
    return differing(text, p, buf, i) << (_ALL - np.uint64(n)) == 0


@inlined
def _taken(column: Any, whole: Any, thousandths: Any) -> Any:
    """Return what a column takes of a number as ``number`` read it; NULL if it is not plain."""
    if column in (C_TS, C_DUR):
        return nanoseconds(whole, thousandths)
    return whole if thousandths < 0 else np.int64(NULL)


@inlined
def _fill(repeats: Any, known: Any, buf: Any, i: Any, end: Any, row: Any) -> Any:
    """Read an event as a repetition of a known one; return the position behind it, or -1."""
    text, holes, count = repeats.text, repeats.holes, repeats.facts[known, COUNT]
    p = start = known * STRIDE
    for h in range(count + 1):
        until = np.int64(holes[known, h, FIRST]) if h < count else repeats.facts[known, LENGTH]
        n = start + until - p
        if i + n >= end or not _equal(text, p, buf, i, n):
            break
        i += n
        if h == count:
            return i
        if not ZERO <= byte(buf, i) <= NINE:
            break
        i, whole, thousandths = number(buf, i, end)
        if i < 0:
            break
        column = np.int64(holes[known, h, COLUMN])
        if column >= 0:
            row[column] = _taken(column, whole, thousandths)
            if row[column] == NULL:
                break
        p = start + holes[known, h, BEHIND]
    return np.int64(-1)


@inlined
def repeated(repeats: Any, buf: Any, i: Any, end: Any, rows: Any, used: Any) -> Any:
    """Read an event as a repetition, into the next row of its table.

    Returns
    -------
    tuple
        (the position behind it, what it repeats), or (-1, -1).
    """
    known = np.int64(repeats.far[_far(repeats.past)])
    for attempt in range(2):
        role = repeats.facts[known, ROLE]
        table = TABLE_OF[max(role, 0)]
        row = rows[table, :, used[table]]
        k = 0
        while role != COUNTED and COLUMNS_OF[table, k] >= 0:
            column = COLUMNS_OF[table, k]
            row[column] = repeats.rows[known, column]
            k += 1
        behind = _fill(repeats, known, buf, i, end, row)
        if behind >= 0 and (role == COUNTED or in_range(role, row)):
            return behind, known
        other = np.int64(repeats.near[repeats.past[1]])
        if attempt or other == known:
            break
        known = other
    return np.int64(-1), np.int64(-1)


@inlined
def follow(repeats: Any, known: Any) -> None:
    """Note that an event came, so that it is guessed the next time."""
    past = repeats.past
    repeats.near[past[1]] = known
    repeats.far[_far(past)] = known
    past[0] = (past[0] << _BYTE) | (np.uint64(known) & _LOWEST)
    past[1] = np.uint64(known)


@inlined
def _columns(role: Any, notes: Any) -> Any:
    """Note the column of each slot that is a number of the row, -1 for the others."""
    column = notes.column
    for slot in range(SLOTS):
        column[slot] = -1
    k = 0
    while COUNTED < role <= MEMORY and NUMBERS_OF[role, k, 0] >= 0:
        slot = NUMBERS_OF[role, k, 0]
        if notes.kind[slot] == 0:
            slot = NUMBERS_OF[role, k, 2]
        column[slot] = NUMBERS_OF[role, k, 1]
        k += 1


@inlined
def remember(
    repeats: Any, buf: Any, start: Any, behind: Any, notes: Any, role: Any, rows: Any,
    used: Any,
) -> Any:  # fmt: skip
    """Remember an event that was parsed; return its place, which may hold it already, or -1.

    A place is known by a hash alone: what it holds is compared when it is used.
    """
    length, count = behind - start, notes.count[0]
    if length > WIDTH or count > HOLES:
        return np.int64(-1)
    kept = np.int64(0)
    mixed = np.uint64(0)
    p = start
    for h in range(count):
        if notes.hole[h, 2] >= 0 and _LITERAL[notes.hole[h, 2]]:
            continue  # it is kept as it is written
        for k in range(3):
            notes.hole[kept, k] = notes.hole[h, k]
        mixed = (mixed ^ hashed(buf, p, notes.hole[h, 0] - p)) * _FACTOR
        p = notes.hole[h, 1]
        kept += 1
    mixed = (mixed ^ hashed(buf, p, behind - p)) * _FACTOR
    known = np.int64(mixed >> _TO_PLACE)
    facts = repeats.facts
    if facts[known, HASH] == np.int64(mixed):
        return known
    _columns(role, notes)
    for h in range(kept):
        slot = notes.hole[h, 2]
        latest = slot >= 0 and notes.start[slot] == notes.hole[h, 0]  # of a key that comes twice
        repeats.holes[known, h, FIRST] = notes.hole[h, 0] - start
        repeats.holes[known, h, BEHIND] = notes.hole[h, 1] - start
        repeats.holes[known, h, COLUMN] = notes.column[slot] if latest else -1
    for k in range(length):
        repeats.text[known * STRIDE + k] = buf[start + k]
    facts[known, HASH], facts[known, LENGTH] = np.int64(mixed), length
    facts[known, COUNT], facts[known, ROLE] = kept, role
    facts[known, TYPE], facts[known, CATEGORY] = notes.counted[0], notes.counted[1]
    if role != COUNTED:
        row = rows[TABLE_OF[role], :, used[TABLE_OF[role]]]
        for k in range(COLUMNS):
            repeats.rows[known, k] = row[k]
    return known

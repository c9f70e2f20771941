"""What the compiled scanner knows of an event: its keys, and the columns of a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NULL = np.iinfo(np.int64).min
MAX_MICROSECONDS = 2_300_000_000_000_000
"""Times up to the year 2042; in nanoseconds they stay below 2**61."""

# Keys of an event, then keys of its ``args``: each has a slot for its latest value.
TOP_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args")
ARG_KEYS = (
    "External id", "external id", "correlation", "Sequence number", "Fwd thread id", "device",
    "stream", "grid", "block", "bytes", "Input Dims", "Input dims", "Input type",
    "Collective name", "Concrete Inputs", "Bytes", "Device Type", "Device Id", "Total Allocated",
    "Total Reserved",
)  # fmt: skip
PH, CAT, NAME, PID, TID, TS, DUR, ID, ARGS = range(9)
# fmt: off
(EXTERNAL, EXTERNAL_OLD, CORRELATION, SEQ, FWD, DEVICE, STREAM, GRID, BLOCK, BYTES, DIMS,
 DIMS_OLD, TYPES, COLLECTIVE, CONCRETE, SIZE, DEVICE_TYPE, DEVICE_ID, ALLOCATED,
 RESERVED) = range(9, 29)
# fmt: on
SLOTS = 29

# Columns of a row.
COLUMNS = 20
# fmt: off
(C_ROLE, C_CAT, C_NAME, C_PID, C_TID, C_TS, C_DUR, C_EXTERNAL, C_CORRELATION, C_SEQ,
 C_FWD, C_DEVICE, C_STREAM, C_GRID, C_BLOCK, C_BYTES, C_DIMS, C_TYPES, C_ID,
 C_CONCRETE) = range(COLUMNS)
# fmt: on
C_DEVICE_TYPE, C_ALLOCATED, C_RESERVED = C_STREAM, C_SEQ, C_FWD  # of memory, which has no such

# What a category means, by its code in the word table (the categories are seeded first).
RANGE, STACK, LAUNCH, ACTIVITY, FLOW, MEMORY, DROP, UNKNOWN = range(8)
FLOW_START, FLOW_END = 10, 11

TABLE_OF = np.array([0, 0, 1, 2, 3, 4])
"""Table of each role that has rows: ranges, launches, device activities, arrows, memory."""

TABLES = 5

_HOST = (RANGE, STACK)
_ANY = (*_HOST, LAUNCH, ACTIVITY)
_NUMBERS = (  # slot, column, older slot of the same, roles that have it
    (TS, C_TS, TS, (*_ANY, FLOW, MEMORY)),
    (DUR, C_DUR, DUR, _ANY),
    (ID, C_ID, ID, (FLOW,)),
    (EXTERNAL, C_EXTERNAL, EXTERNAL_OLD, _ANY),
    (CORRELATION, C_CORRELATION, CORRELATION, (LAUNCH, ACTIVITY)),
    (SEQ, C_SEQ, SEQ, _HOST),
    (FWD, C_FWD, FWD, _HOST),
    (DEVICE, C_DEVICE, DEVICE, (ACTIVITY,)),
    (STREAM, C_STREAM, STREAM, (ACTIVITY,)),
    (BYTES, C_BYTES, BYTES, (ACTIVITY,)),
    (SIZE, C_BYTES, SIZE, (MEMORY,)),
    (DEVICE_ID, C_DEVICE, DEVICE_ID, (MEMORY,)),
    (DEVICE_TYPE, C_DEVICE_TYPE, DEVICE_TYPE, (MEMORY,)),
    (ALLOCATED, C_ALLOCATED, ALLOCATED, (MEMORY,)),
    (RESERVED, C_RESERVED, RESERVED, (MEMORY,)),
)
_WRITTEN = (
    (DIMS, C_DIMS, DIMS_OLD, _HOST),
    (TYPES, C_TYPES, TYPES, _HOST),
    (CONCRETE, C_CONCRETE, CONCRETE, _HOST),
    (GRID, C_GRID, GRID, (ACTIVITY,)),
    (BLOCK, C_BLOCK, BLOCK, (ACTIVITY,)),
)


def _by_role(fields: Any) -> Any:
    """List slot, column and older slot of each role's fields, -1 behind the last one."""
    found = np.full((MEMORY + 1, len(fields) + 1, 3), -1, np.int64)
    for role, lines in enumerate(found):
        for line, field in zip(lines, (f[:3] for f in fields if role in f[3]), strict=False):
            line[:] = field
    return found


NUMBERS_OF, WRITTEN_OF = _by_role(_NUMBERS), _by_role(_WRITTEN)
"""Integer fields of each role, and those that are coded as they are written."""


def _by_table() -> Any:
    """List the columns that rows of each table have, -1 behind the last one."""
    found = np.full((TABLES, COLUMNS + 1), -1, np.int64)
    for table, line in enumerate(found):
        roles = np.flatnonzero(table == TABLE_OF)
        fields = np.concatenate(
            [NUMBERS_OF[roles][..., 1].ravel(), WRITTEN_OF[roles][..., 1].ravel()]
        )
        columns = {C_ROLE, C_CAT, C_NAME, C_PID, C_TID, *fields[fields >= 0].tolist()}
        line[: len(columns)] = sorted(columns)
    return found


COLUMNS_OF = _by_table()
"""Columns of the rows of each table."""

WORDS = (
    PH, CAT, NAME, PID, TID, ARGS, COLLECTIVE, *(f[0] for f in _WRITTEN), *(f[2] for f in _WRITTEN)
)  # fmt: skip
"""Slots whose values count as they are written, even where they are numbers."""

HOLES = 24
"""Most numbers of an event that is remembered."""


class Scratch(NamedTuple):
    """What the scanner notes of one event, by slot; it allocates nothing itself.

    ``start``, ``stop``, ``kind`` and ``number`` tell of a value where it lies, its type, and
    its plain number. ``words``, ``length`` and ``code`` tell of a text what it was last time.
    The first ``count`` lines of ``hole`` are the numbers of the event: start, stop, slot.
    ``counted`` is the type and category of an event that has no row. ``column`` is for the
    columns of its numbers.
    """

    start: Any
    stop: Any
    kind: Any
    number: Any
    words: Any
    length: Any
    code: Any
    hole: Any
    count: Any
    counted: Any
    column: Any


def new_scratch() -> Scratch:
    """Make room for the notes of an event."""
    start, stop, kind, number, column = (np.zeros(SLOTS, np.int64) for _ in range(5))
    length, code = (np.full(SLOTS, -1, np.int64) for _ in range(2))
    words = np.zeros(2 * SLOTS, np.uint64)
    hole, count, counted = (
        np.zeros((HOLES, 3), np.int64),
        np.zeros(1, np.int64),
        np.zeros(2, np.int64),
    )
    return Scratch(
        start, stop, kind, number, words, length, code, hole, count, counted, column
    )  # fmt: skip


# How a scan ended.
DONE, NEED_MORE, INVALID, NO_ROOM, NO_WORDS = range(5)


KEY_BYTES = 16
"""Longest key that the table of keys can hold: two words, its closing quote among them."""

KEY_PLACES = 256
KEY_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def key_place(first: int, second: int) -> int:
    """Return where a key of two words is first looked for, as the scanner computes it."""
    a, b = KEY_FACTORS
    return ((first ^ (second * b)) * a % 2**64) >> 56


def key_table() -> tuple[Any, Any, Any, Any]:
    """Return the two words, the length and the slot of all keys by place; -1 is an empty place.

    Examples
    --------
    >>> first, second, length, slot = key_table()
    >>> int(slot[key_place(int.from_bytes(b"ts", "little"), 0)]) == TS
    True
    """
    first, second = (np.zeros(KEY_PLACES, np.uint64) for _ in range(2))
    length, slots = (np.full(KEY_PLACES, -1, np.int64) for _ in range(2))
    for slot, key in enumerate(k.encode() for k in (*TOP_KEYS, *ARG_KEYS)):
        words = [int.from_bytes(part, "little") for part in (key[:8], key[8:])]
        at = key_place(*words)
        while slots[at] >= 0:
            at = (at + 1) % KEY_PLACES
        first[at], second[at], length[at], slots[at] = *words, len(key), slot
    return first, second, length, slots

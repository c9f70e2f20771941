"""What the compiled scanner knows of an event: its keys, and the columns of a row."""

from __future__ import annotations

from typing import Any

import numpy as np

NULL = np.iinfo(np.int64).min
MAX_MICROSECONDS = 2_300_000_000_000_000
"""Times up to the year 2042; in nanoseconds they stay below 2**61."""

# Keys of an event, then keys of its ``args``: each has a slot for its latest value.
TOP_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args")
ARG_KEYS = (
    "External id", "external id", "correlation", "Sequence number", "Fwd thread id", "device",
    "stream", "grid", "block", "bytes", "Input Dims", "Input dims", "Input type",
    "Collective name", "Concrete Inputs",
)  # fmt: skip
PH, CAT, NAME, PID, TID, TS, DUR, ID, ARGS = range(9)
# fmt: off
(EXTERNAL, EXTERNAL_OLD, CORRELATION, SEQ, FWD, DEVICE, STREAM, GRID, BLOCK, BYTES, DIMS,
 DIMS_OLD, TYPES, COLLECTIVE, CONCRETE) = range(9, 24)
# fmt: on
SLOTS = 24

# Columns of a row.
COLUMNS = 21
# fmt: off
(C_EVENT, C_ROLE, C_CAT, C_NAME, C_PID, C_TID, C_TS, C_DUR, C_EXTERNAL, C_CORRELATION, C_SEQ,
 C_FWD, C_DEVICE, C_STREAM, C_GRID, C_BLOCK, C_BYTES, C_DIMS, C_TYPES, C_ID,
 C_CONCRETE) = range(COLUMNS)
# fmt: on

# What a category means, by its code in the word table (the categories are seeded first).
RANGE, STACK, LAUNCH, ACTIVITY, FLOW, DROP, UNKNOWN = range(7)
FLOW_START, FLOW_END, ODD = 10, 11, 12

# How a field is read.
TIME, INTEGER, TEXT, RAW, RAW_OF_SOME = range(5)

_HOST = 1 << RANGE | 1 << STACK
_ANY = _HOST | 1 << LAUNCH | 1 << ACTIVITY
FIELDS = np.array(
    [  # slot, column, how, roles that have it, older slot
        (TS, C_TS, TIME, _ANY | 1 << FLOW, -1),
        (DUR, C_DUR, TIME, _ANY, -1),
        (PID, C_PID, TEXT, _ANY | 1 << FLOW, -1),
        (TID, C_TID, TEXT, _ANY | 1 << FLOW, -1),
        (NAME, C_NAME, TEXT, _ANY, -1),
        (ID, C_ID, INTEGER, 1 << FLOW, -1),
        (EXTERNAL, C_EXTERNAL, INTEGER, _ANY, EXTERNAL_OLD),
        (CORRELATION, C_CORRELATION, INTEGER, 1 << LAUNCH | 1 << ACTIVITY, -1),
        (SEQ, C_SEQ, INTEGER, _HOST, -1),
        (FWD, C_FWD, INTEGER, _HOST, -1),
        (DIMS, C_DIMS, RAW, _HOST, DIMS_OLD),
        (TYPES, C_TYPES, RAW, _HOST, -1),
        (CONCRETE, C_CONCRETE, RAW_OF_SOME, _HOST, -1),
        (DEVICE, C_DEVICE, INTEGER, 1 << ACTIVITY, -1),
        (STREAM, C_STREAM, INTEGER, 1 << ACTIVITY, -1),
        (BYTES, C_BYTES, INTEGER, 1 << ACTIVITY, -1),
        (GRID, C_GRID, RAW, 1 << ACTIVITY, -1),
        (BLOCK, C_BLOCK, RAW, 1 << ACTIVITY, -1),
    ],
    np.int64,
)

# How a scan ended.
DONE, NEED_MORE, INVALID, NO_ROOM, NO_WORDS = range(5)


def key_table() -> tuple[Any, Any, Any]:
    """Return the bytes, offsets and lengths of all keys, by slot."""
    words = [k.encode() for k in (*TOP_KEYS, *ARG_KEYS)]
    offsets = np.cumsum([0] + [len(w) for w in words])[:-1].astype(np.int64)
    lengths = np.array([len(w) for w in words], np.int64)
    return np.frombuffer(b"".join(words), np.uint8), offsets, lengths

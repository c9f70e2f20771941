"""The compiled scanner: Kineto events as rows of integers, straight from the bytes.

It understands the events that the profiler writes by the million. Any other event that is
valid JSON is reported as odd and goes through the plain reader one by one; text that is no
valid JSON ends the scan, and the plain reader takes the whole file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from chopper_jupyter.core.importers.event_layout import (
    ACTIVITY,
    ARGS,
    C_CAT,
    C_DEVICE,
    C_EVENT,
    C_ROLE,
    C_STREAM,
    C_TS,
    CAT,
    COLLECTIVE,
    DONE,
    DROP,
    DUR,
    FIELDS,
    FLOW,
    FLOW_END,
    FLOW_START,
    ID,
    INTEGER,
    INVALID,
    LAUNCH,
    NAME,
    NEED_MORE,
    NO_ROOM,
    NO_WORDS,
    NULL,
    PH,
    RANGE,
    RAW_OF_SOME,
    SLOTS,
    STACK,
    TEXT,
    TIME,
    TS,
    UNKNOWN,
)
from chopper_jupyter.core.importers.event_values import (
    has_arguments,
    read_field,
    read_nanoseconds,
    read_raw,
    read_text,
)
from chopper_jupyter.core.importers.json_scan import (
    BAD,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    MORE,
    NUMBER,
    OBJECT,
    OPEN_OBJECT,
    QUOTE,
    STRING,
    blank,
    string,
    value,
)
from chopper_jupyter.core.importers.word_table import FULL, code


@njit(cache=True, nogil=True)
def _slot(buf: Any, a: Any, b: Any, keys: Any, lo: Any, hi: Any) -> Any:
    """Return the slot of the key ``buf[a:b]`` among slots ``lo`` to ``hi``, -1 if it has none."""
    n = b - a
    for k in range(lo, hi):
        if keys[2][k] == n:
            o = keys[1][k]
            same = True
            for j in range(n):
                if keys[0][o + j] != buf[a + j]:
                    same = False
                    break
            if same:
                return k
    return -1


@njit(cache=True, nogil=True)
def _event(buf: Any, i: Any, end: Any, keys: Any, at: Any, to: Any, kind: Any) -> Any:
    """Read one event: where the value of each known key lies, and its type.

    ``kind[ARGS]`` becomes -1 for an event that only the plain reader can be sure of: an
    escaped key may spell a known one, and args that come twice may differ.
    """
    kind[:] = 0
    inside = False  # in the args object
    doubtful = False
    fresh = True  # right behind an opening brace, where the object may end
    i = blank(buf, i + 1, end)
    while True:
        if i >= end:
            return MORE
        closed = buf[i] == CLOSE_OBJECT
        if closed:
            if not fresh:
                return BAD
            i += 1
        else:
            if buf[i] != QUOTE:
                return BAD
            a = i + 1
            i, odd = string(buf, i, end)
            if i < 0:
                return i
            lo, hi = (ARGS + 1, SLOTS) if inside else (0, ARGS + 1)
            slot = _slot(buf, a, i - 1, keys, lo, hi) if odd == STRING else -1
            doubtful |= odd != STRING
            i = blank(buf, i, end)
            if i >= end:
                return MORE
            if buf[i] != COLON:
                return BAD
            i = blank(buf, i + 1, end)
            if i >= end:
                return MORE
            if slot == ARGS:
                doubtful |= kind[ARGS] != 0
                if buf[i] == OPEN_OBJECT:
                    kind[ARGS] = OBJECT
                    inside, fresh = True, True
                    i = blank(buf, i + 1, end)
                    continue
            start = i
            i, what = value(buf, i, end)
            if i < 0:
                return i
            if slot >= 0:
                at[slot], to[slot], kind[slot] = start, i, what
        while True:  # close what ends here, up to the comma before the next member
            if closed:
                if not inside:
                    if doubtful:
                        kind[ARGS] = -1
                    return i
                inside = False
            i = blank(buf, i, end)
            if i >= end:
                return MORE
            closed = buf[i] == CLOSE_OBJECT
            if not closed:
                break
            i += 1
        if buf[i] != COMMA:
            return BAD
        i = blank(buf, i + 1, end)
        fresh = False


@njit(cache=True, nogil=True)
def _is(buf: Any, a: Any, b: Any, first: Any) -> Any:
    """Say whether a quoted string is the one given character."""
    return b - a == 3 and buf[a + 1] == first


@njit(cache=True, nogil=True)
def _row(table: Any, buf: Any, role: Any, at: Any, to: Any, kind: Any, row: Any, ok: Any) -> Any:
    """Fill the row of one event; False if there was no room for its words.

    Loops over a list of fields instead of naming each: one call site compiles much faster.
    """
    row[:] = NULL
    ok[0] &= kind[TS] == NUMBER
    if role != FLOW:
        ok[0] &= kind[NAME] == STRING and kind[DUR] == NUMBER
        ok[0] &= (kind[ARGS] == 0 or kind[ARGS] == OBJECT) and kind[COLLECTIVE] == 0
    for f in range(len(FIELDS)):
        if not ok[0]:
            return True
        if not FIELDS[f, 3] & (1 << role):
            continue
        slot, column, how = FIELDS[f, 0], FIELDS[f, 1], FIELDS[f, 2]
        if how == RAW_OF_SOME and not has_arguments(buf, at[NAME] + 1, to[NAME] - 1):
            continue
        if FIELDS[f, 4] >= 0 and kind[slot] == 0:  # an older spelling of the same key
            slot = FIELDS[f, 4]
        if how == TIME:
            found = read_nanoseconds(buf, at[slot], to[slot])
            ok[0] &= found != NULL
        elif how == INTEGER:
            found = read_field(buf, slot, at, to, kind, ok)
        elif how == TEXT:
            found = read_text(table, buf, slot, at, to, kind, ok)
        else:
            found = read_raw(table, buf, slot, at, to, kind)
        if found == FULL and how >= TEXT:
            return False
        row[column] = found
    if role == FLOW:
        ok[0] &= kind[ID] != 0
    if role == ACTIVITY:
        ok[0] &= 0 <= row[C_DEVICE] < 2**31 and row[C_STREAM] != NULL and row[C_TS] > 0
    return True


@njit(cache=True, nogil=True)
def scan(
    buf: Any, i: Any, end: Any, keys: Any, roles: Any, stack: Any, table: Any, rows: Any,
    odd: Any, drops: Any, state: Any,
) -> Any:  # fmt: skip
    """Scan events from ``i`` on, which is where an event or the array's end must be.

    Parameters
    ----------
    buf, i, end : bytes and range
        The text that is there.
    keys : tuple of arrays
        What ``key_table`` returned.
    roles : int array
        Meaning of the seeded categories by code.
    stack : bytes
        How the names of nn.Module rows begin.
    table : WordTable
        The dictionary, categories first.
    rows, odd : int arrays
        Output: rows of understood events; (event number, start, end) of odd ones.
    drops : int array
        Output: dropped events counted by type character and category code (last column: none).
    state : int array
        In and out: events so far, rows used, odd ones used, 1 if a comma was just read.

    Returns
    -------
    tuple
        (how it ended, position): where to go on.
    """
    at, to = np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.int64)
    kind = np.zeros(SLOTS, np.int64)
    ok = np.ones(1, np.bool_)
    known = len(roles)
    while True:
        i = blank(buf, i, end)
        if i >= end:
            return NEED_MORE, i
        if buf[i] == CLOSE_ARRAY:
            return (INVALID if state[3] else DONE), i + 1
        if state[0] > 0 and not state[3]:
            return INVALID, i
        if state[1] >= len(rows) or state[2] >= len(odd):
            return NO_ROOM, i
        start = i
        if buf[i] != OPEN_OBJECT:
            i, _ = value(buf, i, end)
            kind[:] = 0
            plain = False
        else:
            i = _event(buf, i, end, keys, at, to, kind)
            plain = True
        if i == MORE:
            return NEED_MORE, start
        if i == BAD:
            return INVALID, start
        after = blank(buf, i, end)
        if after >= end:  # whether a comma follows is not known yet
            return NEED_MORE, start
        row = rows[state[1]]
        ok[0] = plain and kind[PH] == STRING and to[PH] - at[PH] == 3 and kind[CAT] in (0, STRING)
        ok[0] &= kind[ARGS] != -1
        role = UNKNOWN
        category = np.int64(-1)
        if ok[0]:
            if kind[CAT] == STRING:
                category = code(table, buf, at[CAT] + 1, to[CAT] - 1)
                if category == FULL:
                    return NO_WORDS, start
                role = roles[category] if category < known else UNKNOWN
            complete = _is(buf, at[PH], to[PH], 88)
            if role == STACK and complete:
                ok[0] &= kind[NAME] == STRING
                if ok[0]:
                    is_module = to[NAME] - at[NAME] - 2 >= len(stack)
                    for k in range(len(stack)):
                        is_module = is_module and buf[at[NAME] + 1 + k] == stack[k]
                    if not is_module:
                        role = DROP
            flow = role == FLOW and not complete
            keep = (complete and role in (RANGE, STACK, LAUNCH, ACTIVITY)) or (
                flow and (_is(buf, at[PH], to[PH], 115) or _is(buf, at[PH], to[PH], 102))
            )
            if ok[0] and not keep:
                if (role == FLOW and complete) or (role == UNKNOWN and (complete or category >= 0)):
                    ok[0] = False  # rare: the plain reader counts it by its own words
                else:
                    last = drops.shape[1] - 1
                    drops[buf[at[PH] + 1], category if category >= 0 else last] += 1
            elif ok[0]:
                if not _row(table, buf, FLOW if flow else role, at, to, kind, row, ok):
                    return NO_WORDS, start
                if ok[0]:
                    row[C_EVENT] = state[0]
                    row[C_CAT] = category
                    row[C_ROLE] = role
                    if flow:
                        row[C_ROLE] = FLOW_START if _is(buf, at[PH], to[PH], 115) else FLOW_END
                    state[1] += 1
        if not ok[0]:
            odd[state[2], 0], odd[state[2], 1], odd[state[2], 2] = state[0], start, i
            state[2] += 1
        state[0] += 1
        i = after
        state[3] = 0
        if buf[i] == COMMA:
            state[3] = 1
            i += 1
        elif buf[i] != CLOSE_ARRAY:
            return INVALID, i

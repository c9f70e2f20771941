"""The compiled scanner: Kineto events as rows of integers, straight from the bytes.

It understands the events that the profiler writes by the million. Any other event that is
valid JSON is reported as odd and goes through the plain reader one by one; text that is no
valid JSON ends the scan, and the plain reader takes the whole file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chopper_jupyter.core.importers.event_layout import (
    ACTIVITY,
    ARGS,
    C_CAT,
    C_ROLE,
    CAT,
    DONE,
    DROP,
    DUR,
    FLOW,
    FLOW_END,
    FLOW_START,
    HOLES,
    INVALID,
    KEY_BYTES,
    KEY_FACTORS,
    KEY_PLACES,
    MEMORY,
    NAME,
    NEED_MORE,
    NO_ROOM,
    NO_WORDS,
    NULL,
    PH,
    SLOTS,
    STACK,
    TABLE_OF,
    TABLES,
    TS,
    UNKNOWN,
)
from chopper_jupyter.core.importers.event_repeats import (
    CATEGORY,
    COUNTED,
    ROLE,
    TYPE,
    follow,
    remember,
    repeated,
)
from chopper_jupyter.core.importers.event_rows import fill_row
from chopper_jupyter.core.importers.event_values import (
    nanoseconds,
    same_as_before,
    signed_integer,
)
from chopper_jupyter.core.importers.json_scan import (
    BAD,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    MORE,
    NINE,
    NUMBER,
    OBJECT,
    OPEN_OBJECT,
    QUOTE,
    STRING,
    ZERO,
    blank,
    number,
    string,
    value,
)
from chopper_jupyter.core.importers.raw_bytes import (
    BACKSLASHES,
    QUOTES,
    byte,
    compiled,
    equal_to,
    first,
    inlined,
    lowest,
    word,
)
from chopper_jupyter.core.importers.word_table import FULL

EVENTS, ODD_USED, COMMA_READ, USED = range(4)
"""Where the state has what; rows used by table come last."""

IS_ODD, NO_PLACE = -2, -3
"""Roles of events that the plain reader must see, and of those there is no room for, yet."""

_FACTOR_1, _FACTOR_2 = (np.uint64(f) for f in KEY_FACTORS)
_TO_PLACE = np.uint64(56)


@inlined
def _slot(keys: Any, w: Any, v: Any, n: Any) -> Any:
    """Return the slot of a key of ``n`` bytes in two words, -1 if it has none."""
    at = np.int64(((w ^ (v * _FACTOR_2)) * _FACTOR_1) >> _TO_PLACE)
    while keys[3][at] >= 0:
        if keys[0][at] == w and keys[1][at] == v and keys[2][at] == n:
            return keys[3][at]
        at = (at + 1) % KEY_PLACES
    return np.int64(-1)


@inlined
def _key(buf: Any, i: Any, end: Any, keys: Any) -> Any:
    """Step over a key whose text begins at ``i``; return (behind it, slot, type)."""
    w, v = word(buf, i), np.uint64(0)
    found = equal_to(w, QUOTES) | equal_to(w, BACKSLASHES)
    n = first(found)
    if n < 8:
        w &= lowest(n)
    else:
        v = word(buf, i + 8)
        found = equal_to(v, QUOTES) | equal_to(v, BACKSLASHES)
        n = first(found)
        if n < 8:
            v &= lowest(n)
        n += 8
    if n < KEY_BYTES and byte(buf, i + n) == QUOTE:  # so it is not behind the end
        return i + n + 1, _slot(keys, w, v, n), STRING
    i, what = string(buf, i - 1, end)
    return i, np.int64(-1), what


@inlined
def _event(buf: Any, i: Any, end: Any, keys: Any, notes: Any) -> Any:
    """Read one event: where the value of each known key lies, its type, and plain numbers.

    ``kind[ARGS]`` becomes -1 for an event that only the plain reader can be sure of: an
    escaped key may spell a known one, and args that come twice may differ.
    """
    at, to, kind, number_of = notes.start, notes.stop, notes.kind, notes.number
    hole, numbers = notes.hole, np.int64(0)
    for k in range(SLOTS):
        kind[k] = 0
    inside = False  # in the args object
    doubtful = False
    i = blank(buf, i + 1, end)
    closing = byte(buf, i) == CLOSE_OBJECT  # an object that ends right behind its brace
    while True:
        if not closing:
            if byte(buf, i) != QUOTE:
                return MORE if i >= end else BAD
            i, slot, what = _key(buf, i + 1, end, keys)
            if i < 0:
                return i
            doubtful |= what != STRING
            if slot >= 0 and inside != (slot > ARGS):
                slot = np.int64(-1)
            if byte(buf, i) != COLON:
                i = blank(buf, i, end)
                if byte(buf, i) != COLON:
                    return MORE if i >= end else BAD
            i += 1
            if byte(buf, i) <= 32:
                i = blank(buf, i, end)
            if i >= end:
                return MORE
            c = byte(buf, i)
            if slot == ARGS:
                doubtful |= kind[ARGS] != 0
                if c == OPEN_OBJECT:
                    kind[ARGS] = OBJECT
                    inside = True
                    i = blank(buf, i + 1, end)
                    closing = byte(buf, i) == CLOSE_OBJECT
                    continue
            start = i
            if ZERO <= c <= NINE:
                i, whole, thousandths = number(buf, i, end)
                what = NUMBER
                if slot in (TS, DUR):
                    number_of[slot] = nanoseconds(whole, thousandths)
                elif slot >= 0:
                    number_of[slot] = whole if thousandths < 0 else NULL
                if numbers < HOLES:
                    hole[numbers, 0], hole[numbers, 1], hole[numbers, 2] = start, i, slot
                numbers += 1
            else:
                i, what = value(buf, i, end)
                if what == NUMBER and slot >= 0:
                    number_of[slot] = NULL
                    if i >= 0 and slot not in (TS, DUR):
                        number_of[slot] = signed_integer(buf, start, i)
            if i < 0:
                return i
            if slot >= 0:
                at[slot], to[slot], kind[slot] = start, i, what
        closing = False
        while True:  # close what ends here, up to the comma before the next member
            c = byte(buf, i)
            if c == COMMA:
                i += 1
                if byte(buf, i) <= 32:
                    i = blank(buf, i, end)
                break
            if c == CLOSE_OBJECT:
                i += 1
                if not inside:
                    if doubtful:
                        kind[ARGS] = -1
                    notes.count[0] = numbers
                    return i
                inside = False
                continue
            before = i
            i = blank(buf, i, end)
            if i >= end:
                return MORE
            if i == before:
                return BAD


@inlined
def _begins(buf: Any, a: Any, b: Any, text: Any) -> Any:
    """Say whether ``buf[a:b]`` begins with a text."""
    if b - a < len(text):
        return False
    same = True
    for k in range(len(text)):
        same &= byte(buf, a + k) == text[k]
    return same


@inlined
def _is(buf: Any, a: Any, b: Any, text: Any) -> Any:
    """Say whether ``buf[a:b]`` is a text."""
    return b - a == len(text) and _begins(buf, a, b, text)


@inlined
def _row_of(
    buf: Any, roles: Any, stack: Any, memory: Any, table: Any, notes: Any, rows: Any, used: Any,
) -> Any:  # fmt: skip
    """Turn what was noted of an event into a row.

    Returns
    -------
    int
        The role of the row; COUNTED if the event has none, and ``notes.counted`` says what it
        was; IS_ODD if the plain reader must see it; NO_PLACE if the words were too many.
    """
    at, to, kind = notes.start, notes.stop, notes.kind
    if (
        kind[PH] != STRING or to[PH] - at[PH] != 3
        or (kind[CAT] != 0 and kind[CAT] != STRING) or kind[ARGS] == -1
    ):  # fmt: skip
        return IS_ODD
    role, category = UNKNOWN, np.int64(-1)
    if kind[CAT] == STRING:
        category = same_as_before(table, buf, at[CAT] + 1, to[CAT] - 1, CAT, notes)
        if category == FULL:
            return NO_PLACE
        role = roles[category] if category < len(roles) else UNKNOWN
    ph = byte(buf, at[PH] + 1)
    if role == STACK and ph == 88:
        if kind[NAME] != STRING:
            return IS_ODD
        if not _begins(buf, at[NAME] + 1, to[NAME] - 1, stack):
            role = DROP
    if ph == 105 and (role == MEMORY or category < 0):
        if kind[NAME] != STRING:
            return IS_ODD
        allocation = _is(buf, at[NAME] + 1, to[NAME] - 1, memory)
        role = MEMORY if allocation else DROP if role == MEMORY else role
    elif role == MEMORY:
        role = DROP
    flow = role == FLOW and (ph == 115 or ph == 102)
    if flow or role == MEMORY or (ph == 88 and role <= ACTIVITY):
        row = rows[TABLE_OF[role], :, used[TABLE_OF[role]]]
        how = fill_row(table, buf, role, notes, row)
        if how <= 0:
            return NO_PLACE if how < 0 else IS_ODD
        row[C_CAT] = category
        row[C_ROLE] = role
        if flow:
            row[C_ROLE] = FLOW_START if ph == 115 else FLOW_END
        return role
    # what is rare the plain reader counts by its own words
    if (role == UNKNOWN and (ph == 88 or category >= 0)) or (role == FLOW and ph == 88):
        return IS_ODD
    notes.counted[0], notes.counted[1] = ph, category
    return COUNTED


@compiled
def scan(
    buf: Any, i: Any, end: Any, keys: Any, roles: Any, stack: Any, memory: Any, table: Any,
    rows: Any, odd: Any, drops: Any, state: Any, notes: Any, repeats: Any,
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
    stack, memory : bytes
        How the names of nn.Module rows begin, and the name of allocations.
    table : WordTable
        The dictionary, categories first.
    rows, odd : int arrays
        Output: rows of understood events by table, a line for each column; start and end of
        odd ones, and the rows of each table before.
    drops : int array
        Output: dropped events counted by type character and category code (last column: none).
    state : int array
        In and out: events so far, odd ones used, 1 if a comma was just read, then the rows
        used of each table.
    notes : Scratch
        Room for what is noted of one event.
    repeats : Repeats
        The events that were understood before.

    Returns
    -------
    tuple
        (how it ended, position): where to go on.
    """
    used = state[USED:]
    full = False
    for kind in range(TABLES):
        full |= used[kind] >= rows.shape[2]
    while True:
        i = blank(buf, i, end)
        if i >= end:
            return NEED_MORE, i
        if byte(buf, i) == CLOSE_ARRAY:
            return (INVALID if state[COMMA_READ] else DONE), i + 1
        if state[EVENTS] > 0 and not state[COMMA_READ]:
            return INVALID, i
        if full or state[ODD_USED] >= len(odd):
            return NO_ROOM, i
        start = i
        role, known = IS_ODD, np.int64(-1)
        is_event = byte(buf, start) == OPEN_OBJECT
        if is_event:
            i, known = repeated(repeats, buf, start, end, rows, used)
        if known < 0:
            i = _event(buf, start, end, keys, notes) if is_event else value(buf, start, end)[0]
            if i == MORE:
                return NEED_MORE, start
            if i == BAD:
                return INVALID, start
        after = blank(buf, i, end)
        if after >= end:  # whether a comma follows is not known yet
            return NEED_MORE, start
        if known < 0 and is_event:
            role = _row_of(buf, roles, stack, memory, table, notes, rows, used)
            if role == NO_PLACE:
                return NO_WORDS, start
            if role != IS_ODD:
                known = remember(repeats, buf, start, i, notes, role, rows, used)
        elif known >= 0:
            role = repeats.facts[known, ROLE]
            notes.counted[0] = repeats.facts[known, TYPE]
            notes.counted[1] = repeats.facts[known, CATEGORY]
        if known >= 0:
            follow(repeats, known)
        if role >= 0:
            kind = TABLE_OF[role]
            used[kind] += 1
            full = used[kind] >= rows.shape[2]
        elif role == COUNTED:
            category = notes.counted[1]
            drops[notes.counted[0], category if category >= 0 else drops.shape[1] - 1] += 1
        else:
            line = state[ODD_USED]
            odd[line, 0], odd[line, 1] = start, i
            for kind in range(TABLES):
                odd[line, 2 + kind] = used[kind]
            state[ODD_USED] += 1
        state[EVENTS] += 1
        i = after
        state[COMMA_READ] = 0
        if byte(buf, i) == COMMA:
            state[COMMA_READ] = 1
            i += 1
        elif byte(buf, i) != CLOSE_ARRAY:
            return INVALID, i

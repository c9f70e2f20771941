"""Compiled readers of single values: times, integers and texts from their bytes.

Each says "not plain" for a form that Python's own way of reading might see differently.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chopper_jupyter.core.importers.event_layout import MAX_MICROSECONDS, NULL
from chopper_jupyter.core.importers.json_scan import MINUS, NINE, NOT_PLAIN, ZERO
from chopper_jupyter.core.importers.raw_bytes import byte, compiled, inlined, lowest, word
from chopper_jupyter.core.importers.word_table import FULL, code

REMEMBERED = 16
"""Length of a text up to which it is compared with the one before, at two words."""


@inlined
def nanoseconds(whole: Any, thousandths: Any) -> Any:
    """Return decimal microseconds, as ``number`` read them, as whole nanoseconds, or NULL."""
    if whole == NOT_PLAIN or whole > MAX_MICROSECONDS:
        return np.int64(NULL)
    return whole * 1000 + max(thousandths, 0)


@compiled
def signed_integer(buf: Any, a: Any, b: Any) -> Any:
    """Read an integer that may be negative; NULL for forms that are not plain."""
    i = a
    negative = byte(buf, i) == MINUS
    if negative:
        i += 1
    if i == b or b - i > 18:
        return np.int64(NULL)
    result = np.int64(0)
    while i < b:
        c = byte(buf, i)
        if not ZERO <= c <= NINE:
            return np.int64(NULL)
        result = result * 10 + (c - ZERO)
        i += 1
    return -result if negative else result


@inlined
def same_as_before(table: Any, buf: Any, a: Any, b: Any, slot: Any, notes: Any) -> Any:
    """Code a short text that is mostly the one before, as processes, threads and categories are."""
    n = b - a
    if n > REMEMBERED:
        return code(table, buf, a, b)
    w, v = word(buf, a), np.uint64(0)
    if n < 8:
        w &= lowest(n)
    elif n < 16:
        v = word(buf, a + 8) & lowest(n - 8)
    else:
        v = word(buf, a + 8)
    before = notes.words
    if n == notes.length[slot] and w == before[2 * slot] and v == before[2 * slot + 1]:
        return notes.code[slot]
    found = code(table, buf, a, b)
    if found != FULL:
        before[2 * slot], before[2 * slot + 1] = w, v
        notes.length[slot], notes.code[slot] = n, found
    return found


@compiled
def has_arguments(buf: Any, a: Any, b: Any) -> Any:
    """Say as ``kineto_args.has_arguments`` whether an operator's written arguments matter."""
    for i in range(a + 1, b - 1):
        c = buf[i]
        if c == 116 and buf[i - 1] == 116:  # attn, attention
            if buf[i + 1] == 110:
                return True
            if i + 3 < b and buf[i + 1] == 101 and buf[i + 2] == 110 and buf[i + 3] == 116:
                return True
        if c == 110 and buf[i + 1] == 118 and buf[i - 1] == 111 and i - 2 >= a and buf[i - 2] == 99:
            return True  # conv
    return False

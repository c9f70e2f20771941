"""Compiled readers of single values: times, integers, lists and texts from their bytes.

Each says "not plain" for a form that Python's own way of reading might see differently.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from chopper_jupyter.core.importers.event_layout import MAX_MICROSECONDS, NULL
from chopper_jupyter.core.importers.json_scan import (
    DOT,
    MINUS,
    NINE,
    NUMBER,
    STRING,
    ZERO,
)
from chopper_jupyter.core.importers.word_table import code


@njit(cache=True, nogil=True)
def read_nanoseconds(buf: Any, a: Any, b: Any) -> Any:
    """Read decimal microseconds as whole nanoseconds; NULL for forms that are not plain."""
    whole = np.int64(0)
    i = a
    while i < b and ZERO <= buf[i] <= NINE:
        whole = whole * 10 + (buf[i] - ZERO)
        i += 1
    if i == a or i - a > 16 or whole > MAX_MICROSECONDS:
        return NULL
    result = whole * 1000
    if i == b:
        return result
    if buf[i] != DOT:
        return NULL
    scale = np.int64(100)
    i += 1
    digits = 0
    while i < b and ZERO <= buf[i] <= NINE:
        if digits < 3:
            result += (buf[i] - ZERO) * scale
            scale //= 10
        elif digits == 3 and buf[i] >= 53:
            result += 1
        digits += 1
        i += 1
    return result if i == b else NULL


@njit(cache=True, nogil=True)
def read_integer(buf: Any, a: Any, b: Any) -> Any:
    """Read an integer; NULL for forms that are not plain."""
    i = a
    negative = buf[i] == MINUS
    if negative:
        i += 1
    if i == b or b - i > 18:
        return NULL
    result = np.int64(0)
    while i < b:
        if not ZERO <= buf[i] <= NINE:
            return NULL
        result = result * 10 + (buf[i] - ZERO)
        i += 1
    return -result if negative else result


@njit(cache=True, nogil=True)
def read_field(buf: Any, slot: Any, at: Any, to: Any, kind: Any, ok: Any) -> Any:
    """Read an integer field: its value, or NULL where it is absent; ``ok[0]`` says if plain."""
    if kind[slot] == 0:
        return NULL
    if kind[slot] != NUMBER:
        ok[0] = False
        return NULL
    result = read_integer(buf, at[slot], to[slot])
    if result == NULL:
        ok[0] = False
    return result


@njit(cache=True, nogil=True)
def read_raw(table: Any, buf: Any, slot: Any, at: Any, to: Any, kind: Any) -> Any:
    """Code a value as it is written; what it means is asked once for each distinct text."""
    if kind[slot] == 0:
        return NULL
    return code(table, buf, at[slot], to[slot])


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def read_text(table: Any, buf: Any, slot: Any, at: Any, to: Any, kind: Any, ok: Any) -> Any:
    """Code a process, thread or name: a plain string's text, or an integer's digits."""
    if kind[slot] == STRING:
        return code(table, buf, at[slot] + 1, to[slot] - 1)
    if kind[slot] == NUMBER and buf[at[slot]] != MINUS:
        return code(table, buf, at[slot], to[slot])
    ok[0] = False
    return NULL

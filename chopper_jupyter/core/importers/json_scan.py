"""Compiled steps over JSON text: exactly the grammar of Python's ``json``, without objects.

Every step takes the buffer, a position and the end of what is there, and returns the position
behind what it read, or ``MORE`` if the buffer ends too early, or ``BAD`` if this is no JSON.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

MORE = -1
BAD = -2
MAX_DEPTH = 60
MAX_DIGITS = 640
"""Python may refuse to read longer integers, by a limit that cannot be set lower."""

STRING, STRING_ODD, NUMBER, OBJECT, ARRAY, CONSTANT = 1, 2, 3, 4, 5, 6
"""Types of values; an odd string holds escapes, so its text is not its bytes."""

QUOTE, BACKSLASH, COMMA, COLON, MINUS, DOT, ZERO, NINE = 34, 92, 44, 58, 45, 46, 48, 57
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = 123, 125, 91, 93


@njit(cache=True, nogil=True)
def blank(buf: Any, i: Any, end: Any) -> Any:
    """Step over white space."""
    while i < end and (buf[i] == 32 or buf[i] == 10 or buf[i] == 13 or buf[i] == 9):
        i += 1
    return i


@njit(cache=True, nogil=True)
def string(buf: Any, i: Any, end: Any) -> Any:
    """Step over a string that starts at ``i``; return (behind it, type)."""
    i += 1
    kind = STRING
    while i < end:
        while i < end and buf[i] != QUOTE and buf[i] != BACKSLASH:
            i += 1
        if i >= end:
            break
        c = buf[i]
        if c == QUOTE:
            return i + 1, kind
        if c == BACKSLASH:
            kind = STRING_ODD
            if i + 1 >= end:
                return MORE, kind
            c = buf[i + 1]
            if c == 117:
                if i + 6 > end:
                    return MORE, kind
                for k in range(i + 2, i + 6):
                    h = buf[k]
                    if not (48 <= h <= 57 or 65 <= h <= 70 or 97 <= h <= 102):
                        return BAD, kind
                i += 6
                continue
            # one of "\/bfnrt
            if c not in (34, 92, 47, 98, 102, 110, 114, 116):
                return BAD, kind
            i += 2
    return MORE, kind


@njit(cache=True, nogil=True)
def _digit(c: Any) -> Any:
    return ZERO <= c <= NINE


@njit(cache=True, nogil=True)
def number(buf: Any, i: Any, end: Any) -> Any:
    """Step over a number; the byte behind it must be there to know that it ended."""
    if buf[i] == MINUS:
        i += 1
        if i >= end:
            return MORE
    if buf[i] == ZERO:
        i += 1
    elif _digit(buf[i]):
        start = i
        while i < end and _digit(buf[i]):
            i += 1
        if i - start > MAX_DIGITS:
            return BAD
    else:
        return BAD
    if i < end and buf[i] == DOT:
        i += 1
        if i >= end:
            return MORE
        if not _digit(buf[i]):
            return BAD
        while i < end and _digit(buf[i]):
            i += 1
    if i < end and (buf[i] == 101 or buf[i] == 69):
        i += 1
        if i < end and (buf[i] == 43 or buf[i] == MINUS):
            i += 1
        if i >= end:
            return MORE
        if not _digit(buf[i]):
            return BAD
        while i < end and _digit(buf[i]):
            i += 1
    return i if i < end else MORE


@njit(cache=True, nogil=True)
def _word(buf: Any, i: Any, end: Any, word: Any) -> Any:
    if i + len(word) > end:
        for k in range(end - i):
            if buf[i + k] != word[k]:
                return BAD
        return MORE
    for k in range(len(word)):
        if buf[i + k] != word[k]:
            return BAD
    return i + len(word)


_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)
_NAN = np.frombuffer(b"NaN", np.uint8)
_INFINITY = np.frombuffer(b"Infinity", np.uint8)
_MINUS_INFINITY = np.frombuffer(b"-Infinity", np.uint8)


@njit(cache=True, nogil=True)
def scalar(buf: Any, i: Any, end: Any) -> Any:
    """Step over a value that is no object and no array; return (behind it, type)."""
    c = buf[i]
    if c == QUOTE:
        return string(buf, i, end)
    if _digit(c):
        return number(buf, i, end), NUMBER
    if c == MINUS:
        if i + 1 >= end:
            return MORE, NUMBER
        if buf[i + 1] == 73:
            return _word(buf, i, end, _MINUS_INFINITY), CONSTANT
        return number(buf, i, end), NUMBER
    if c == 116:
        return _word(buf, i, end, _TRUE), CONSTANT
    if c == 102:
        return _word(buf, i, end, _FALSE), CONSTANT
    if c == 110:
        return _word(buf, i, end, _NULL), CONSTANT
    if c == 78:
        return _word(buf, i, end, _NAN), CONSTANT
    if c == 73:
        return _word(buf, i, end, _INFINITY), CONSTANT
    return BAD, CONSTANT


@njit(cache=True, nogil=True)
def value(buf: Any, i: Any, end: Any) -> Any:
    """Step over any value; return (behind it, type). Nesting beyond ``MAX_DEPTH`` is BAD."""
    c = buf[i]
    if c not in (OPEN_OBJECT, OPEN_ARRAY):
        return scalar(buf, i, end)
    kind = OBJECT if c == OPEN_OBJECT else ARRAY
    depth = 0
    objects = np.int64(c == OPEN_OBJECT)  # one bit a level, the innermost lowest
    i += 1
    first = True
    while True:
        i = blank(buf, i, end)
        if i >= end:
            return MORE, kind
        c = buf[i]
        if c == (CLOSE_OBJECT if objects & 1 else CLOSE_ARRAY):
            # a comma before the closing bracket was refused where it was read
            i += 1
            depth -= 1
            objects >>= 1
            if depth < 0:
                return i, kind
        else:
            if not first:
                return BAD, kind
            if objects & 1:
                if c != QUOTE:
                    return BAD, kind
                i, _ = string(buf, i, end)
                if i < 0:
                    return i, kind
                i = blank(buf, i, end)
                if i >= end:
                    return MORE, kind
                if buf[i] != COLON:
                    return BAD, kind
                i = blank(buf, i + 1, end)
                if i >= end:
                    return MORE, kind
                c = buf[i]
            if c in (OPEN_OBJECT, OPEN_ARRAY):
                depth += 1
                if depth >= MAX_DEPTH:
                    return BAD, kind
                objects = (objects << 1) | np.int64(c == OPEN_OBJECT)
                i += 1
                first = True
                continue
            i, _ = scalar(buf, i, end)
            if i < 0:
                return i, kind
        # behind an element: a comma and another one, or the end of the container
        i = blank(buf, i, end)
        if i >= end:
            return MORE, kind
        first = False
        if buf[i] == COMMA:
            i = blank(buf, i + 1, end)
            if i >= end:
                return MORE, kind
            if buf[i] in (CLOSE_OBJECT, CLOSE_ARRAY):
                return BAD, kind
            first = True

"""Compiled steps over JSON text: exactly the grammar of Python's ``json``, without objects.

Every step takes the buffer, a position and the end of what is there, and returns the position
behind what it read, or ``MORE`` if the buffer ends too early, or ``BAD`` if this is no JSON.
Behind the end there are zero bytes (``raw_bytes.PADDING``), so that eight may be read at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chopper_jupyter.core.importers.raw_bytes import (
    BACKSLASHES,
    QUOTES,
    byte,
    compiled,
    decimal,
    digits,
    equal_to,
    first,
    fraction,
    inlined,
    word,
)

MORE = -1
BAD = -2
MAX_DEPTH = 60
MAX_DIGITS = 640
"""Python may refuse to read longer integers, by a limit that cannot be set lower."""

NOT_PLAIN = np.int64(np.iinfo(np.int64).min)
_POWERS = np.array([10**n for n in range(9)], np.int64)

STRING, STRING_ODD, NUMBER, OBJECT, ARRAY, CONSTANT = 1, 2, 3, 4, 5, 6
"""Types of values; an odd string holds escapes, so its text is not its bytes."""

QUOTE, BACKSLASH, COMMA, COLON, MINUS, DOT, ZERO, NINE = 34, 92, 44, 58, 45, 46, 48, 57
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = 123, 125, 91, 93


@inlined
def blank(buf: Any, i: Any, end: Any) -> Any:
    """Step over white space."""
    while i < end:
        c = byte(buf, i)
        if c > 32 or not (c == 32 or c == 10 or c == 13 or c == 9):
            break
        i += 1
    return i


@compiled
def string(buf: Any, i: Any, end: Any) -> Any:
    """Step over a string that starts at ``i``; return (behind it, type)."""
    i += 1
    kind = STRING
    while i < end:
        w = word(buf, i)
        found = equal_to(w, QUOTES) | equal_to(w, BACKSLASHES)
        if found == 0:
            i += 8
            continue
        i += first(found)
        if i >= end:
            break
        if byte(buf, i) == QUOTE:
            return i + 1, kind
        kind = STRING_ODD
        if i + 1 >= end:
            return MORE, kind
        c = byte(buf, i + 1)
        if c == 117:
            if i + 6 > end:
                return MORE, kind
            for k in range(i + 2, i + 6):
                h = byte(buf, k)
                if not (48 <= h <= 57 or 65 <= h <= 70 or 97 <= h <= 102):
                    return BAD, kind
            i += 6
            continue
        # one of "\/bfnrt
        if c not in (34, 92, 47, 98, 102, 110, 114, 116):
            return BAD, kind
        i += 2
    return MORE, kind


@compiled
def number(buf: Any, i: Any, end: Any) -> Any:
    """Read a number; the byte behind it must be there to know that it ended.

    Returns
    -------
    tuple
        (behind it, whole part, thousandths): the whole part is NOT_PLAIN for a number with a
        sign, an exponent or more than 18 digits; the thousandths are rounded half up, up to
        1000, and -1 where there is no decimal point.
    """
    whole, thousandths = np.int64(0), np.int64(-1)
    signed = byte(buf, i) == MINUS
    if signed:
        i += 1
        if i >= end:
            return MORE, whole, thousandths
    start = i
    n = digits(word(buf, i))
    if n == 0 or (n > 1 and byte(buf, i) == ZERO):
        return BAD, whole, thousandths
    whole = decimal(word(buf, i), n)
    i += n
    while n == 8:
        w = word(buf, i)
        n = digits(w)
        if n > 0:
            whole = whole * _POWERS[n] + decimal(w, n)  # may overflow: then it is not plain
            i += n
        if i >= end:
            return MORE, whole, thousandths
    if i - start > MAX_DIGITS:
        return BAD, whole, thousandths
    if signed or i - start > 18:
        whole = NOT_PLAIN
    if byte(buf, i) == DOT:
        i += 1
        w = word(buf, i)
        n = digits(w)
        if n == 0:
            return (MORE if i >= end else BAD), whole, thousandths
        thousandths = (fraction(w, n) // 10_000 + 5) // 10  # by the fourth digit alone
        i += n
        while n == 8:
            n = digits(word(buf, i))
            i += n
            if i >= end:
                break
    c = byte(buf, i)
    if c == 101 or c == 69:
        whole = NOT_PLAIN
        i += 1
        if byte(buf, i) == 43 or byte(buf, i) == MINUS:
            i += 1
        n = digits(word(buf, i))
        if n == 0:
            return (MORE if i >= end else BAD), whole, thousandths
        i += n
        while n == 8 and i < end:
            n = digits(word(buf, i))
            i += n
    return (i if i < end else MORE), whole, thousandths


@compiled
def _word(buf: Any, i: Any, end: Any, letters: Any) -> Any:
    if i + len(letters) > end:
        for k in range(end - i):
            if buf[i + k] != letters[k]:
                return BAD
        return MORE
    for k in range(len(letters)):
        if buf[i + k] != letters[k]:
            return BAD
    return i + len(letters)


_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)
_NAN = np.frombuffer(b"NaN", np.uint8)
_INFINITY = np.frombuffer(b"Infinity", np.uint8)
_MINUS_INFINITY = np.frombuffer(b"-Infinity", np.uint8)


@compiled
def scalar(buf: Any, i: Any, end: Any) -> Any:
    """Step over a value that is no object and no array; return (behind it, type)."""
    c = byte(buf, i)
    if c == QUOTE:
        return string(buf, i, end)
    if ZERO <= c <= NINE:
        return number(buf, i, end)[0], NUMBER
    if c == MINUS:
        if i + 1 >= end:
            return MORE, NUMBER
        if byte(buf, i + 1) == 73:
            return _word(buf, i, end, _MINUS_INFINITY), CONSTANT
        return number(buf, i, end)[0], NUMBER
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


@compiled
def value(buf: Any, i: Any, end: Any) -> Any:
    """Step over any value; return (behind it, type). Nesting beyond ``MAX_DEPTH`` is BAD."""
    c = byte(buf, i)
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
        c = byte(buf, i)
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
                if byte(buf, i) != COLON:
                    return BAD, kind
                i = blank(buf, i + 1, end)
                if i >= end:
                    return MORE, kind
                c = byte(buf, i)
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
        if byte(buf, i) == COMMA:
            i = blank(buf, i + 1, end)
            if i >= end:
                return MORE, kind
            if byte(buf, i) in (CLOSE_OBJECT, CLOSE_ARRAY):
                return BAD, kind
            first = True

"""Exact nanoseconds from the decimal microseconds of a Chrome trace."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

INT64_MAX = 2**63 - 1


def nanoseconds(value: Any) -> int | None:
    """Convert microseconds, as an int or as decimal text, to whole nanoseconds.

    Digits beyond the nanosecond are rounded half up. None if the value is no number or does
    not fit into int64.

    Examples
    --------
    >>> nanoseconds("5136886850441.038"), nanoseconds(12), nanoseconds("4.1239999999")
    (5136886850441038, 12000, 4124)
    >>> nanoseconds("soon") is None
    True
    """
    if type(value) is int:
        result = value * 1000
        return result if -INT64_MAX <= result <= INT64_MAX else None
    if type(value) is float:
        value = repr(value)
    if type(value) is not str:
        return None
    head, _, tail = value.partition(".")
    if head.isdecimal() and head.isascii() and (not tail or (tail.isdecimal() and tail.isascii())):
        result = int(head) * 1000 + int((tail + "000")[:3])
        if len(tail) > 3 and tail[3] >= "5":  # noqa: PLR2004  the digit after the nanosecond
            result += 1
        return result if result <= INT64_MAX else None
    return _general(value)


def _general(text: str) -> int | None:
    """Signs, exponents and blanks: rare, so by the slow exact way."""
    try:
        number = Decimal(text.strip()) * 1000
        result = int(number.to_integral_value(ROUND_HALF_UP))
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return result if -INT64_MAX <= result <= INT64_MAX else None

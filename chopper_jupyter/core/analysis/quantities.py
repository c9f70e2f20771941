"""Numbers as sentences say them: three digits and the unit that suits the size."""

from __future__ import annotations

import math

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_DIGITS = 3


def number(value: float) -> str:
    """Write a number with three significant digits, whole if it is large.

    Examples
    --------
    >>> number(785.96), number(5.6251), number(0.01234), number(47_731), number(0)
    ('786', '5.63', '0.0123', '47,731', '0')
    """
    if value == 0:
        return "0"
    decimals = _DIGITS - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(decimals, 0)}f}"


def duration(ns: float) -> str:
    """Write a time given in nanoseconds.

    Examples
    --------
    >>> duration(785_960_000), duration(1_500), duration(12), duration(-2e9)
    ('786 ms', '1.50 µs', '12.0 ns', '-2.00 s')
    """
    return _scaled(ns, _TIMES, "ns")


def time_range(low_ns: float, high_ns: float) -> str:
    """Write two times, their unit once if it is the same.

    Examples
    --------
    >>> time_range(359e6, 361e6), time_range(359e3, 1.2e6)
    ('359 to 361 ms', '359 µs to 1.20 ms')
    """
    low, high = duration(low_ns), duration(high_ns)
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{low} to {high}"


def size(count: float) -> str:
    """Write a number of bytes.

    Examples
    --------
    >>> size(1_250_000), size(12)
    ('1.25 MB', '12.0 B')
    """
    return _scaled(count, _SIZES, "B")


def percent(share: float) -> str:
    """Write a share of 1 as a percentage with one decimal.

    Examples
    --------
    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"


def counted(count: int, noun: str) -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> counted(1, "GPU"), counted(1200, "kernel")
    ('1 GPU', '1,200 kernels')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _scaled(value: float, units: tuple[tuple[float, str], ...], smallest: str) -> str:
    for factor, unit in units:
        if abs(value) >= factor * 0.9995:  # what rounds up to the unit is written in it
            return f"{number(value / factor)} {unit}"
    return f"{number(value)} {smallest}"

"""Numbers and units as Nsight Compute writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_TIMES = {
    "ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6,
    "s": 1e9, "second": 1e9,
}  # fmt: skip
_SCALED = re.compile(r"([KMGTP]?)(byte|hz|Hz|inst)", re.IGNORECASE)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def base_unit(unit: str) -> float:
    """Return the factor to base units: nanoseconds, bytes, hertz; others are what they are.

    Examples
    --------
    >>> base_unit("us"), base_unit("Mbyte"), base_unit("Tbyte/s"), base_unit("%")
    (1000.0, 1000000.0, 1000000000000.0, 1.0)
    """
    above = unit.strip().split("/")[0]
    if "/" not in unit and above.lower() in _TIMES:
        return _TIMES[above.lower()]
    found = _SCALED.fullmatch(above)
    return _PREFIXES[found[1].lower()] if found else 1.0


def number_reader(texts: Iterable[str]) -> Callable[[str], float | None]:
    """Return a function that reads numbers the way these texts write them.

    Where any text can only be read with a decimal comma (``762,6`` or ``1.234.567``), all are.

    Examples
    --------
    >>> number_reader(["1,236,950", "762.656"])("1,236,950")
    1236950.0
    >>> number_reader(["1.236.950", "762,656"])("762,656")
    762.656
    >>> number_reader([])("n/a") is None
    True
    """
    swapped = any(_swapped(text.strip()) for text in texts)

    def number(text: str) -> float | None:
        plain = text.strip()
        plain = plain.replace(".", "").replace(",", ".") if swapped else plain.replace(",", "")
        try:
            return float(plain)
        except ValueError:
            return None

    return number


def _swapped(text: str) -> bool:
    """Say whether a text is a number only if its comma is the decimal one."""
    if not re.fullmatch(r"[+-]?\d[\d.,]*", text) or _GROUPED.fullmatch(text):
        return False
    if text.count(".") > 1:
        return True
    return "," in text and (text.count(",") == 1 or text.rfind(",") > text.rfind("."))

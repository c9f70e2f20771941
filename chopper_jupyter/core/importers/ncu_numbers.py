"""Numbers and units as Nsight Compute writes them."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError

_PREFIX = {"": 0, "k": 3, "m": 6, "g": 9, "t": 12, "p": 15, "e": 18}
_SECOND = {"s": 0, "second": 0, "ms": -3, "msecond": -3, "us": -6, "usecond": -6, "ns": -9,
           "nsecond": -9}  # fmt: skip
_SCALED = re.compile(
    r"([kmgtpe]?)(?:byte|hz|inst|cycle|warp|sector|request|thread|block|sample)s?", re.IGNORECASE
)
_TO_NANOSECONDS = 9

_DECIMAL = r"\d+{0}(?:\d{{1,2}}|\d{{4,}})|0+{0}\d+|\d{{4,}}{0}\d+|\d{{1,3}}(?:{1}\d{{3}})+{0}\d+"
_GROUPS = r"\d{{1,3}}(?:{1}\d{{3}}){{2,}}"
_PROOF = r"^[+-]?(?:" + _DECIMAL + "|" + _GROUPS + r")(?:[eE][+-]?\d+)?$"
_POINT, _COMMA = _PROOF.format(r"\.", ","), _PROOF.format(",", r"\.")
_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_INSTANCES = r"\s*\(.*\)$"
_BLANKS = "[\\s'\u2019\u00a0\u202f]"


def exponent_of(unit: str) -> int:
    """Return the power of ten that takes a unit to its base.

    Bases are nanoseconds, bytes, hertz, and per second for rates; percent stay percent.

    Examples
    --------
    >>> [exponent_of(unit) for unit in ("us", "Mbyte", "Ghz", "Tbyte/s", "sector/ns", "%")]
    [3, 6, 9, 12, 9, 0]
    """
    above, _, below = unit.strip().partition("/")
    if not below:
        power = _SECOND.get(above.strip().lower())
        return _prefix(above) if power is None else power + _TO_NANOSECONDS
    return _prefix(above) - _SECOND.get(below.strip().lower(), _prefix(below))


def is_time(unit: str) -> bool:
    """Say whether a unit is one of time.

    Examples
    --------
    >>> is_time("usecond"), is_time("")
    (True, False)
    """
    return unit.strip().lower() in _SECOND


def _prefix(unit: str) -> int:
    found = _SCALED.fullmatch(unit.strip())
    return _PREFIX[found[1].lower()] if found else 0


def numbers_of(text: pa.Array, exponents: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Read numbers of one file, times powers of ten; null for what is none.

    A file may write ``1,236,950`` and ``762.656000`` next to each other, or, in other locales,
    ``1.236.950`` and ``762,656``. Which of the two separates decimals is told by the numbers
    that can only be read in one way; if there are none, it is the point.

    Parameters
    ----------
    text : pyarrow.Array of text
        As printed; the values of instances behind a number, in parentheses, are ignored.
    exponents : int64 array
        Power of ten of each.

    Raises
    ------
    TraceFormatError
        If some numbers need the point and some the comma as decimal separator.

    Examples
    --------
    >>> zeros = np.zeros(2, np.int64)
    >>> numbers_of(pa.array(["1,236,950", "762.656000"]), zeros).to_pylist()
    [1236950.0, 762.656]
    >>> numbers_of(pa.array(["1.236.950", "762,656000"]), zeros + 3).to_pylist()
    [1236950000.0, 762656.0]
    """
    coded = text.dictionary_encode()
    words = pc.replace_substring_regex(coded.dictionary, _BLANKS, "")
    words = pc.replace_substring_regex(words, _INSTANCES, "")
    point, comma = (_first_match(words, pattern) for pattern in (_POINT, _COMMA))
    if point and comma:
        msg = f"numbers with decimal points ({point}) and with decimal commas ({comma})"
        raise TraceFormatError(msg)
    group, decimal = (".", ",") if comma else (",", ".")
    words = pc.replace_substring(pc.replace_substring(words, group, ""), decimal, ".")
    words = pc.if_else(pc.match_substring_regex(words, _NUMBER), words, None)
    return _scaled(words.take(coded.indices), exponents)


def _first_match(words: pa.Array, pattern: str) -> str | None:
    found = words.filter(pc.match_substring_regex(words, pattern))
    return found[0].as_py() if len(found) else None


def _scaled(words: pa.Array, exponents: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Read numbers times powers of ten, rounded once: 198.767104 Mbyte is a whole number."""
    powers, place = np.unique(exponents, return_inverse=True)
    suffix = pa.array([f"e{power}" for power in powers.tolist()], pa.string())
    plain = pc.invert(pc.match_substring_regex(words, "[eE]"))
    added = suffix.take(pa.array(place.reshape(-1))) if len(powers) else words
    exact = pc.binary_join_element_wise(pc.if_else(plain, words, None), added, "")
    rest = pc.multiply(pc.if_else(plain, None, words).cast(pa.float64()), pa.array(10.0**exponents))
    return pc.coalesce(exact.cast(pa.float64()), rest)

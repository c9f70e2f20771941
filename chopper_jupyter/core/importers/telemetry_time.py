"""Times of telemetry files, as text, to Unix nanoseconds."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError

_NUMBER = r"^\d{9,19}(?:\.\d*)?$"
_DATE = r"^\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?$"
_ZONED = r"(?:Z|[+-]\d\d:?\d\d)$"

UTC = "UTC"

PLACES = {11: 9, 14: 6, 17: 3, 19: 0}
"""Decimal places to nanoseconds by the most digits of a number: seconds to nanoseconds."""


def wall_ns(text: pa.Array, timezone: str | None) -> tuple[pa.Array, tuple[str, ...]]:
    """Turn times into Unix nanoseconds; null for what is no time.

    Parameters
    ----------
    text : pyarrow.Array
        Numbers since 1970 (seconds, milli-, micro- or nanoseconds, told apart by their size)
        or dates like ``2026/09/11 04:19:41.982`` and ``2026-09-11T04:19:41Z``.
    timezone : str or None
        Zone of dates that name none, for instance ``"Europe/Berlin"``. None takes them as UTC
        and says so.

    Returns
    -------
    int64 array, tuple of str
        Times, and notes on them.

    Raises
    ------
    TraceFormatError
        If there is no such zone.

    Examples
    --------
    >>> wall_ns(pa.array(["1754585903", "2025-08-07T16:58:23Z", "soon"]), None)[0].to_pylist()
    [1754585903000000000, 1754585903000000000, None]
    """
    numeric = pc.fill_null(pc.match_substring_regex(text, _NUMBER), fill_value=False)
    dated = pc.fill_null(pc.match_substring_regex(text, _DATE), fill_value=False)
    by_number = _from_numbers(pc.if_else(numeric, text, None))
    zoned = pc.and_(dated, pc.fill_null(pc.match_substring_regex(text, _ZONED), fill_value=False))
    local = pc.and_(dated, pc.invert(zoned))
    by_zone = _dates(pc.if_else(zoned, text, None), UTC)
    by_clock = _local(pc.if_else(local, text, None), timezone)
    return pc.coalesce(by_number, by_zone, by_clock), _notes(text, numeric, local, timezone)


def _from_numbers(text: pa.Array) -> pa.Array:
    """Read numbers exactly: a float64 of seconds resolves only 0.2 us."""
    parts = pc.extract_regex(text, r"^0*(?P<whole>\d+)(?:\.(?P<rest>\d*))?$")
    whole, rest = (pc.struct_field(parts, name) for name in ("whole", "rest"))
    digits = pc.utf8_length(whole)
    result = pa.nulls(len(text), pa.int64())
    for most, places in PLACES.items():
        here = pc.and_(pc.less_equal(digits, most), pc.greater(digits, most - 3))
        scaled = pc.multiply(pc.if_else(here, whole, None).cast(pa.int64()), 10**places)
        if places:
            tail = pc.utf8_slice_codeunits(pc.utf8_rpad(rest, places, "0"), 0, places)
            scaled = pc.add(scaled, pc.if_else(here, tail, None).cast(pa.int64()))
        result = pc.coalesce(result, scaled)
    return result


def _dates(text: pa.Array, zone: str | None) -> pa.Array:
    plain = pc.replace_substring(pc.replace_substring(text, "/", "-"), ",", ".")
    plain = pc.replace_substring_regex(plain, r"(\.\d{9})\d+", r"\1")
    kind = pa.timestamp("ns", tz=zone) if zone else pa.timestamp("ns")
    try:
        return plain.cast(kind).cast(pa.int64()) if zone else plain.cast(kind)
    except pa.ArrowInvalid as error:
        msg = f"no such time: {error}"
        raise TraceFormatError(msg) from error


def _local(text: pa.Array, timezone: str | None) -> pa.Array:
    naive = _dates(text, None)
    try:
        aware = pc.assume_timezone(
            naive, timezone or UTC, ambiguous="earliest", nonexistent="earliest"
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        msg = f"no such time zone: {timezone!r} (names are like 'Europe/Berlin')"
        raise TraceFormatError(msg) from error
    return aware.cast(pa.int64())


def _notes(
    text: pa.Array, numeric: pa.Array, local: pa.Array, timezone: str | None
) -> tuple[str, ...]:
    notes = []
    if pc.any(local).as_py():
        zone = f"taken as {timezone}" if timezone else "taken as UTC; give their zone as timezone="
        notes.append(f"its times are local and name no time zone: {zone}")
    seconds = pc.if_else(numeric, text, None)
    whole = pc.all(pc.less_equal(pc.utf8_length(seconds), len("1754585903"))).as_py()
    if whole and pc.any(numeric).as_py():
        notes.append("its times are whole seconds: too coarse for single kernels and operations")
    return tuple(notes)

"""Parts between theoretical and actual time as sums, each with why it is not known where it is not.

What ``overheads`` answers as a table, for displays that ask about one selection at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.clock_of_ops import NO_SENSOR, TOO_FEW
from chopper_jupyter.core.analysis.grouping import group
from chopper_jupyter.core.analysis.instance_parts import (
    NO_CLOCK_OF_PEAK,
    NOT_COUNTED,
    NOT_MODELLED,
)
from chopper_jupyter.core.analysis.measured_overheads import half_widths, times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chopper_jupyter.core.analysis.grouping import Codes, Floats, Ints
    from chopper_jupyter.core.analysis.taken_apart import TakenApart


@dataclass(frozen=True)
class OverheadPart:
    """A part between theoretical and actual time.

    Parameters
    ----------
    name, title, meaning : str
        Identity, word for a display, one line of explanation.
    """

    name: str
    title: str
    meaning: str


OVERHEAD_PARTS = (
    OverheadPart(
        "theoretical", "Theoretical", "useful operations at the peak, or bytes at full bandwidth"
    ),
    OverheadPart("instruction", "Instruction", "operations beyond the useful ones: padding, masks"),
    OverheadPart("utilization", "Utilisation", "cycles in which the matrix units did not work"),
    OverheadPart("overlap", "Overlap", "slower beside communication, by regression"),
    OverheadPart("frequency", "Frequency", "clock below that of the peak, as sensors saw it"),
    OverheadPart("waiting", "Waiting", "collectives that wait for the last rank"),
    OverheadPart("latency", "Latency", "of collectives, what does not depend on the bytes"),
    OverheadPart("unexplained", "Unexplained", "what the other parts leave, with its sign"),
    OverheadPart("not_modelled", "Not modelled", "kernels whose least time nobody knows"),
)
"""In reading order; together they are the actual time, where those not known count as zero."""

KNOWN, NOT_APPLICABLE = -1, -2
"""Instead of a reason: the part is known; it has no meaning for these kernels."""

NO_CALLS = "the ranks of these collectives, or the speed of the link, are not known"
ONE_SIZE = "latency not identifiable: every kind of collective moved messages of one size"
UNMODELLED = "the least time of these kernels is not known"
REASONS = (NO_CALLS, ONE_SIZE, UNMODELLED)

_OF_CALLS = {"waiting": NO_CALLS, "latency": ONE_SIZE}
_CLOCK = (NO_SENSOR, TOO_FEW, NO_CLOCK_OF_PEAK)


@dataclass(frozen=True)
class OverheadSums:
    """Sums over groups of kernels, in ns over all their iterations and GPUs.

    Parameters
    ----------
    codes : tuple of int32 array
        Per level asked for, the code of each group among the values of the taken-apart keys.
    actual : float64 array
        Kernel time.
    ns, half : dict of str to float64 array
        Each part, and half of its 95 % interval; NaN where not known, and half where it is exact.
    why : dict of str to int64 array
        ``KNOWN``, ``NOT_APPLICABLE``, or a position in ``reasons``.
    reasons : tuple of str
        Why parts are not known.
    """

    codes: tuple[Codes, ...]
    actual: Floats
    ns: dict[str, Floats]
    half: dict[str, Floats]
    why: dict[str, Ints]
    reasons: tuple[str, ...]


def overhead_sums(apart: TakenApart, levels: Sequence[str]) -> OverheadSums:
    """Sum the parts of every combination of level values that occurs.

    Parameters
    ----------
    apart : TakenApart
        Instances and collectives.
    levels : sequence of str
        Levels that instances have.
    """
    groups = group(apart.keys(levels), apart.rows)
    return _sums(apart, groups.of_row, groups.count, groups.codes)


def overhead_sums_of(apart: TakenApart, filters: Mapping[str, int]) -> OverheadSums:
    """Sum the parts of what passes all filters (level and code among the keys' values)."""
    outside = np.zeros(apart.rows, bool)
    for key in apart.keys(list(filters)):
        outside |= key.codes != filters[key.name]
    return _sums(apart, outside.astype(np.int64), 2, ())


def _sums(apart: TakenApart, of_row: Ints, count: int, codes: tuple[Codes, ...]) -> OverheadSums:
    found, parts, calls = apart.found, apart.parts, apart.calls
    of_op, of_call = of_row[: len(found)], of_row[len(found) :]
    ns = times(count, of_op, parts, of_call, calls)
    half = half_widths(count, of_op, found, parts)
    actual = ns.pop("actual")
    return OverheadSums(
        codes,
        actual,
        {part.name: ns[part.name] for part in OVERHEAD_PARTS},
        half,
        *_why(apart, of_op, of_call, count, ns),
    )


def _why(
    apart: TakenApart, of_op: Ints, of_call: Ints, count: int, ns: Mapping[str, Floats]
) -> tuple[dict[str, Ints], tuple[str, ...]]:
    """Say of each part and group whether it is known, and if not, why."""
    parts = apart.parts
    texts = (*parts.texts, *REASONS)
    held = _held(apart, of_op, count)
    collectives = np.bincount(of_call, minlength=count) > 0
    why = {}
    for name in (part.name for part in OVERHEAD_PARTS):
        if name in parts.applicable:
            some = np.bincount(of_op, parts.applicable[name], count) > 0
            missing = _main_reason(name, parts.texts, held, count)
        elif name in _OF_CALLS:
            some, missing = collectives, np.full(count, texts.index(_OF_CALLS[name]))
        else:
            some, missing = np.ones(count, bool), np.full(count, texts.index(UNMODELLED))
        known = np.isfinite(ns[name])
        why[name] = np.where(known, KNOWN, np.where(some, missing, NOT_APPLICABLE))
    return why, texts


def _held(apart: TakenApart, of_op: Ints, count: int) -> Floats:
    """Return the time of each group's instances for which each reason holds, by reason."""
    parts = apart.parts
    bits = range(len(parts.texts))
    time = [np.where(parts.reasons >> bit & 1, parts.actual, 0.0) for bit in bits]
    rows = [np.bincount(of_op, one, count) for one in time]
    return np.array(rows, np.float64).reshape(len(rows), count)


def _main_reason(name: str, texts: Sequence[str], held: Floats, count: int) -> Ints:
    """Return the reason that holds for most of the time, among those that concern the part."""
    of = {"instruction": (NOT_COUNTED,), "utilization": (NOT_COUNTED,), "frequency": _CLOCK}
    others = {NOT_COUNTED, NOT_MODELLED, *_CLOCK}
    mine = [i for i, t in enumerate(texts) if (t in of[name] if name in of else t not in others)]
    last = len(texts) + REASONS.index(UNMODELLED)
    if not mine:
        return np.full(count, last)
    best = np.array(mine)[np.argmax(held[mine], axis=0)]
    return np.where(held[mine].max(axis=0) > 0, best, last)

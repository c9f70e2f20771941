"""From theoretical to actual time, by any levels, as the explorer shows it.

Nothing is summed in the browser: intervals of sums are no sums of intervals. So there is a row
for every selection, embedded for the most common levels and asked of Python for the others.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.core.analysis.overhead_sums import (
    KNOWN,
    OVERHEAD_PARTS,
    OverheadSums,
    overhead_sums,
    overhead_sums_of,
)
from chopper_jupyter.widgets.extra_cubes import Levels, codes_listed
from chopper_jupyter.widgets.packing import packed_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.taken_apart import TakenApart
    from chopper_jupyter.widgets.members import Members
    from chopper_jupyter.widgets.sources import Sources

WISHES: tuple[Levels, ...] = (
    (), ("phase",), ("op",), ("phase", "op"), ("gpu",), ("iteration",), ("layer",),
    ("phase", "layer"), ("gpu", "phase"), ("gpu", "iteration"), ("iteration", "phase"),
    ("phase", "op", "layer"), ("gpu", "phase", "op"), ("iteration", "phase", "op"),
)  # fmt: skip
"""Levels that rows are embedded for, as many as fit."""

_NO_ROW = -9
"""A code that no value has."""


def embedded_overheads(sources: Sources, listed: Members, room: float) -> dict[str, Any] | None:
    """Describe the parts, and embed rows for as many levels as fit.

    Parameters
    ----------
    sources : Sources
        The trace and what was made from it.
    listed : dict
        Members that codes refer to.
    room : float
        Bytes for all of it, compressed.

    Returns
    -------
    dict or None
        ``parts``, ``reasons`` and ``tables``; None if the trace has no counters, or its
        theoretical time is not known.
    """
    apart = sources.apart
    if apart is None:
        return None
    made: dict[str, Any] = {"parts": [asdict(part) for part in OVERHEAD_PARTS], "tables": []}
    for levels in WISHES:
        sums = overhead_sums(apart, levels)
        made["reasons"] = list(sums.reasons)
        one = _table(levels, sums, _codes(sources, apart, sums, levels, listed))
        tried = made | {"tables": [*made["tables"], one]}
        if packed_size(tried) <= room:
            made = tried
    return made


def overheads_of(sources: Sources, filters: Iterable[tuple[str, int]]) -> dict[str, Any] | None:
    """Return the row of one selection, its levels fixed to codes of ``sources.codes``."""
    apart = sources.apart
    if apart is None:
        return None
    wanted = dict(filters)
    keys = {key.name: key for key in apart.keys(list(wanted))}
    own = {}
    for level, code in wanted.items():
        value = None if code < 0 else sources.codes.dictionaries[level][code]
        values = keys[level].values
        own[level] = -1 if code < 0 else values.index(value) if value in values else _NO_ROW
    sums = overhead_sums_of(apart, own)
    return _table(tuple(wanted), sums, [[code] for code in wanted.values()], rows=1)


def _codes(
    sources: Sources, apart: TakenApart, sums: OverheadSums, levels: Levels, listed: Members
) -> list[list[int]]:
    """Turn codes among the values of taken-apart keys into codes among the listed members."""
    turned = []
    for key, column in zip(apart.keys(levels), sums.codes, strict=True):
        places = {v: i for i, v in enumerate(sources.codes.dictionaries[key.name])}
        to_code = np.array([*(places[value] for value in key.values), -1], np.int64)
        to_listed = codes_listed(sources.members[key.name], listed[key.name])
        turned.append(to_listed[to_code[column]].tolist())
    return turned


def _table(
    levels: Levels, sums: OverheadSums, codes: list[list[int]], rows: int | None = None
) -> dict[str, Any]:
    return {
        "levels": list(levels),
        "codes": codes,
        "actual": np.rint(sums.actual[:rows]).astype(np.int64).tolist(),
        "ns": {n: _whole(v[:rows], sums.why[n][:rows]) for n, v in sums.ns.items()},
        "half": {n: _whole(v[:rows], sums.why[n][:rows]) for n, v in sums.half.items()},
        "why": {name: why[:rows].tolist() for name, why in sums.why.items()},
    }


def _whole(values: Floats, why: Ints) -> list[int | None]:
    """Round to whole ns; None where the part is not known."""
    known = why == KNOWN
    return [
        round(value) if is_known else None
        for value, is_known in zip(values.tolist(), known.tolist(), strict=True)
    ]

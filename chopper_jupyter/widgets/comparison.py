"""Another trace beside the explored one: its sums by phase, op and layer, and what is unmatched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.core.analysis.cube import cube
from chopper_jupyter.widgets.extra_cubes import Levels, matched_cubes
from chopper_jupyter.widgets.wording import clip, printable

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.cube import LevelCodes
    from chopper_jupyter.widgets.members import Members
    from chopper_jupyter.widgets.sources import Sources

WISHES: tuple[tuple[Levels, ...], ...] = (
    (("phase", "op", "layer"), ("phase", "op"), ("phase",), ()),
    (("op", "layer"), ("op",), ()),
)
MATCHED: Levels = ("phase", "layer", "op")
"""Levels that parts of the two traces are matched by."""

_MOST_UNMATCHED = 12
_LONGEST_NAME = 120

METRICS: list[dict[str, Any]] = [
    {
        "name": "change",
        "title": "Change",
        "unit": "%",
        "numerator": {"time_each_ns": 1.0, "other_time_each_ns": -1.0},
        "denominator": {"other_time_each_ns": 1.0},
        "meaning": "time per iteration and GPU against the other trace",
        "needs": None,
        "diverging": True,
    },
    {
        "name": "difference",
        "title": "Difference",
        "unit": "ms",
        "numerator": {"time_each_ns": 1e-6, "other_time_each_ns": -1e-6},
        "denominator": {"one": 1.0},
        "meaning": "time per iteration and GPU less that of the other trace",
        "needs": None,
        "diverging": True,
    },
]
"""Metrics that need the other trace. ``time_each_ns`` and ``other_time_each_ns`` are the times of
a part per iteration and GPU in the explored and in the other trace."""


def comparison_of(
    other: Sources, explored: Sources, listed: Members, room: float
) -> dict[str, Any]:
    """Describe the other trace for the front end.

    Parameters
    ----------
    other, explored : Sources
        The other trace, and the explored one.
    listed : dict
        Members that codes refer to.
    room : float
        Bytes for the sums of the other trace.
    """
    included = other.codes.included
    return {
        "title": clip(printable(other.trace.info.name), _LONGEST_NAME),
        "instances": {
            "gpus": max(1, len(included.gpus)),
            "iterations": included.instances_of(["gpu"]),
        },
        "cubes": matched_cubes(other.codes, other.members, listed, WISHES, room),
        "only_here": _unmatched(explored, other),
        "only_there": _unmatched(other, explored),
    }


def _unmatched(one: Sources, other: Sources) -> dict[str, Any]:
    """List the parts of one trace that the other lacks, longest first, per iteration and GPU."""
    known = {_labels(row, other.members) for row in _cells(other.codes)}
    codes, members = one.codes, one.members
    each = max(1, codes.included.instances)
    found: list[tuple[int, tuple[str | None, ...]]] = []
    for row, time in zip(_cells(codes), _times(codes), strict=True):
        labels = _labels(row, members)
        if labels not in known:
            found.append((time, labels))
    found.sort(key=lambda one: (-one[0], one[1][-1] or ""))
    return {
        "count": len(found),
        "ns": sum(time for time, _ in found) // each,
        "rows": [
            {
                "label": " · ".join(label or "none" for label in labels),
                "ns": time // each,
                "selection": [[level, v] for level, v in zip(MATCHED, labels, strict=True)],
            }
            for time, labels in found[:_MOST_UNMATCHED]
        ],
    }


def _cells(codes: LevelCodes) -> list[list[int]]:
    return np.array(cube(codes, MATCHED).codes).T.tolist()  # type: ignore[no-any-return]


def _times(codes: LevelCodes) -> list[int]:
    return cube(codes, MATCHED).measures["time_ns"].tolist()  # type: ignore[no-any-return]


def _labels(row: list[int], members: Members) -> tuple[str | None, ...]:
    return tuple(
        members[level][code]["label"] if code >= 0 else None
        for level, code in zip(MATCHED, row, strict=True)
    )

"""Sums beside the explorer's own: parts of wall time, and another trace's; matched by label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.core.analysis.cube import LevelCodes, cube
from chopper_jupyter.widgets.embedding import cube_json
from chopper_jupyter.widgets.packing import packed_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.widgets.members import Members

Levels = tuple[str, ...]

UNMATCHED = -3
"""Code of what the explorer has no member for; no question ever asks for it."""

MERGED = "small members are merged to keep the notebook small"


def matched_cubes(
    codes: LevelCodes,
    members: Members,
    listed: Members,
    wishes: Sequence[Sequence[Levels]],
    room: float,
) -> list[dict[str, Any]]:
    """Sum some kernels over the first of each wish's levels that fit, in a given list of members.

    Parameters
    ----------
    codes : LevelCodes
        The kernels.
    members : dict
        Members of each level by the codes of these kernels.
    listed : dict
        Members that the codes of the result shall refer to, found by their label; what is not
        among them has the code ``UNMATCHED``.
    wishes : sequence of sequence of tuple of str
        Per wish, the levels to try, finest first.
    room : float
        Bytes for all of them, compressed.
    """
    made: list[dict[str, Any]] = []
    for candidates in wishes:
        for levels in candidates:
            one = _matched(codes, members, listed, levels)
            if sum(map(packed_size, [*made, one])) <= room:
                made.append(one)
                break
    return made


def _matched(
    codes: LevelCodes, members: Members, listed: Members, levels: Levels
) -> dict[str, Any]:
    sums = cube_json(cube(codes, levels))
    targets = [codes_listed(members[level], listed[level]) for level in levels]
    sums["codes"] = [
        target[column].tolist() for target, column in zip(targets, sums["codes"], strict=True)
    ]
    lost = any(UNMATCHED in column for column in sums["codes"])
    return sums | {"coarse": MERGED if lost else None}


def codes_listed(
    members: list[dict[str, Any]], listed: list[dict[str, Any]]
) -> np.ndarray[Any, Any]:
    """Return the listed code of each member; the last entry serves code -1: null stays null."""
    known = {member["label"]: code for code, member in enumerate(listed)}
    return np.array([*(known.get(m["label"], UNMATCHED) for m in members), -1], np.int64)

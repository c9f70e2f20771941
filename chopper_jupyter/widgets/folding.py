"""Merging the small members of a level into one, so that a saved notebook stays small.

Nothing is dropped: the merged member holds the exact sums of what went into it. It is a
further member of its level, marked ``folded``; null keeps meaning "not known".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.cube import LevelCodes, cube
from chopper_jupyter.core.analysis.grouping import Key
from chopper_jupyter.core.schema import LEVELS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from chopper_jupyter.core.analysis.grouping import Codes, Ints
    from chopper_jupyter.widgets.members import Member, Members

FOLDABLE = ("kernel", "op", "layer")

_WEIGHT = {"kernel": 1.0, "op": 1.0, "layer": 1 / 6}
"""How readily a level is merged: layers last, since alike layers are few and are the story."""

_PLURALS = {"kernel": "kernels", "op": "ops", "layer": "layers"}
_STEP = 0.7


@dataclass(frozen=True)
class Cells:
    """Summed kernels whose codes are positions in lists of members.

    Parameters
    ----------
    codes : LevelCodes
        The encoded levels and measures.
    members : dict
        Members of each level; some may have no rows.
    merged : mapping of str to int
        How many members were merged, for each level where some were.
    """

    codes: LevelCodes
    members: Members
    merged: Mapping[str, int] = field(default_factory=dict)

    def sentence(self, levels: Collection[str]) -> str | None:
        """Say what was merged among these levels; None if nothing was."""
        merged = {v: self.merged[v] for v in FOLDABLE if v in levels and v in self.merged}
        parts = [f"{count:,} small {_PLURALS[level]}" for level, count in merged.items()]
        if not parts:
            return None
        return f"{' and '.join(parts)} are merged to keep the notebook small; totals are exact"


def condense(cells: Cells, levels: tuple[str, ...] = LEVELS) -> Cells:
    """Sum what agrees in all given levels; the other levels become null."""
    sums = cube(cells.codes, levels)
    at = dict(zip(sums.levels, sums.codes, strict=True))
    none = np.full(len(sums), -1, np.int32)
    keys = {v: Key(v, cells.codes.keys[v].values, at.get(v, none)) for v in LEVELS}
    return replace(cells, codes=LevelCodes(keys, sums.measures, cells.codes.included))


def keep_counts(cells: Cells, levels: Collection[str], least: int) -> list[dict[str, int]]:
    """List how many members of some levels to keep: from all of them down to the least."""
    count = {v: max(1, int(np.count_nonzero(_rows(cells, v)))) for v in FOLDABLE if v in levels}
    steps = [dict(count)]
    while open_ := [level for level in count if count[level] > least]:
        level = max(open_, key=lambda v: count[v] * _WEIGHT[v])
        count[level] = max(least, int(count[level] * _STEP))
        steps.append(dict(count))
    return steps


def fold(cells: Cells, keep: Mapping[str, int]) -> Cells:
    """Keep the given number of members with the most time per level and merge the others.

    Merged members are appended to the members of their level; no other code changes.
    """
    for level, count in keep.items():
        cells = _fold_level(cells, level, count)
    return cells


def drop_unused(cells: Cells) -> Cells:
    """Forget the members of foldable levels that have no rows, and number the others anew."""
    for level in FOLDABLE:
        kept = np.flatnonzero(_rows(cells, level))
        members = [cells.members[level][code] for code in kept.tolist()]
        target = np.full(len(cells.members[level]) + 1, -1, np.int32)
        target[kept] = np.arange(len(kept), dtype=np.int32)
        cells = _recoded(cells, level, target, members)
    return cells


def _fold_level(cells: Cells, level: str, keep: int) -> Cells:
    small = _smallest(cells, level, keep)
    groups = _groups(cells.members[level], small)
    if not groups:
        return cells
    members = list(cells.members[level])
    target = np.arange(len(members) + 1, dtype=np.int32)
    target[-1] = -1  # null stays null
    count = 0
    for family, group in groups.items():
        inside = sum(members[code].get("folded", 1) for code in group)
        target[group] = _merged_member(members, level, family, inside)
        count += inside
    folded = _recoded(cells, level, target, members)
    return replace(folded, merged={**cells.merged, level: count})


def _smallest(cells: Cells, level: str, keep: int) -> list[int]:
    """Return the codes that have rows but are not among those with the most time."""
    key = cells.codes.keys[level]
    time: Ints = np.zeros(len(key.values) + 1, np.int64)
    np.add.at(time, key.codes, cells.codes.measures["time_ns"])
    present = np.flatnonzero(_rows(cells, level))
    longest = present[np.argsort(-time[present], kind="stable")]
    return sorted(longest[keep:].tolist())


def _rows(cells: Cells, level: str) -> Ints:
    key = cells.codes.keys[level]
    rows = np.bincount(key.codes[key.codes >= 0], minlength=len(key.values))
    return rows.astype(np.int64, copy=False)


def _groups(members: list[Member], small: list[int]) -> dict[str, list[int]]:
    """Group the codes to merge: kernels by family, so that families keep their exact times."""
    groups: dict[str, list[int]] = {}
    for code in small:
        groups.setdefault(members[code].get("family", ""), []).append(code)
    return {family: group for family, group in sorted(groups.items()) if len(group) > 1}


def _merged_member(members: list[Member], level: str, family: str, count: int) -> int:
    """Return the code of the merged member; equal counts of one level are equal members.

    Members are always merged in the order of their time, so the smallest n are the same ones
    in every cube.
    """
    label = f"{count:,} small {family + ' ' if family else ''}{_PLURALS[level]}"
    taken = {member["label"]: code for code, member in enumerate(members)}
    while label in taken and "folded" not in members[taken[label]]:
        label += " merged"  # the recording has a member of that very name
    if label in taken:
        return taken[label]
    member: Member = {"label": label, "folded": count}
    if level != "op":
        member["short"] = label
    if family:
        member["family"] = family
    members.append(member)
    return len(members) - 1


def _recoded(cells: Cells, level: str, target: Codes, members: list[Member]) -> Cells:
    values = tuple(member["label"] for member in members)
    key = Key(level, values, target[cells.codes.keys[level].codes])
    codes = replace(cells.codes, keys={**cells.codes.keys, level: key})
    return replace(cells, codes=codes, members={**cells.members, level: members})

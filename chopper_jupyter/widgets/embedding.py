"""Which sums of measures travel inside a notebook, so that it can be explored without Python.

All six levels at once if they are few rows; otherwise sums over fewer levels: where the time
goes (phase, op, layer, kernel) and how it varies (GPU, iteration and what fits beside them).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.cube import Cube, LevelCodes, cube
from chopper_jupyter.core.schema import LEVELS
from chopper_jupyter.widgets.folding import (
    FOLDABLE,
    Cells,
    condense,
    drop_unused,
    fold,
    keep_counts,
)
from chopper_jupyter.widgets.packing import packed_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chopper_jupyter.widgets.members import Members

Levels = tuple[str, ...]

WHERE: Levels = ("phase", "op", "layer", "kernel")


@dataclass(frozen=True)
class Wish:
    """Sums worth embedding.

    Parameters
    ----------
    share : float
        How much of what is left of the budget they may take.
    levels : tuple of tuple of str
        Levels to try, finest first.
    merge : bool
        Whether small members may be merged to make the first of them fit.
    """

    share: float
    levels: tuple[Levels, ...]
    merge: bool = False


WISHES = (
    Wish(0.25, (("phase", "op"), ("op",))),
    Wish(0.6, (("gpu", "iteration"), ("gpu", "phase"), ("gpu",))),
    Wish(0.8, (WHERE, WHERE[:3], WHERE[:2], WHERE[:1]), merge=True),
    Wish(0.7, (("gpu", "iteration", "phase", "layer"), ("gpu", "iteration", "phase"))),
    Wish(0.7, (("gpu", "iteration", "phase", "op"), ("gpu", "phase", "op")), merge=True),
    Wish(0.7, (("iteration", "phase", "op"), ("iteration", "phase"), ("iteration",))),
    Wish(0.8, (("gpu", "phase", "op", "layer"), ("gpu", "phase", "layer"), ("gpu", "phase"))),
    Wish(0.8, (("phase", "op", "kernel"), ("phase", "kernel"), ("kernel",))),
    Wish(0.8, (("phase", "layer"), ("layer",))),
    Wish(0.9, (("gpu", "iteration", "phase", "op", "layer"),)),
)  # fmt: skip
"""In the order of their worth: which ops, GPUs and iterations are slow, then finer sums."""

_MEMBERS_SHARE = 0.25
_LEAST_BYTES_PER_ROW = 3
_LEAST_KEPT = 4


@dataclass(frozen=True)
class Embedding:
    """What to embed.

    Parameters
    ----------
    members : dict
        Members of each level; codes of the cubes are positions in these.
    cubes : list of dict
        ``levels``, ``codes``, ``measures`` and ``coarse`` (None, or a sentence about what was
        merged), ready for JSON.
    """

    members: Members
    cubes: list[dict[str, Any]]


def embed(codes: LevelCodes, members: Members, budget: int, *, merge: bool = True) -> Embedding:
    """Choose the sums that fit into a number of bytes, finest first; sums are always exact.

    Parameters
    ----------
    codes : LevelCodes
        The encoded kernels.
    members : dict
        Members of each level, by code.
    budget : int
        Bytes for members and cubes together, compressed and as base64.
    merge : bool
        Whether small members may be merged. Where Python can be asked for more, levels are
        left out instead, so that every member stays selectable; the budget is then that of the
        cubes alone.
    """
    cells = condense(Cells(codes, members))
    room = budget - (packed_size(members) if merge else 0)
    few = len(cells.codes.measures["count"]) * _LEAST_BYTES_PER_ROW <= room
    whole = _fitting(cells, [LEVELS], room) if few else None
    if whole:
        return Embedding(members, [whole[0]])
    endless = _endless(members, budget) if merge else set()
    if merge:
        cells = _few_members(_without(cells, endless), budget)
    stock = _stock(cells)
    members = cells.members
    cubes: list[dict[str, Any]] = []
    for wish in WISHES:
        taken = sum(map(packed_size, cubes)) + (packed_size(members) if merge else 0)
        wanted = [v for v in wish.levels if not (endless & set(v) or _covered(v, cubes))]
        small = _with_members(_source(stock, wanted), members)
        made = _grant(small, wanted, wish.share * (budget - taken), merge=merge and wish.merge)
        if made:
            cube, members = made
            cubes = [*(c for c in cubes if not _covered(c["levels"], [cube])), cube]
    return Embedding(members, cubes)


def cube_json(sums: Cube, coarse: str | None = None) -> dict[str, Any]:
    """Turn a cube into plain JSON data."""
    return {
        "levels": list(sums.levels),
        "codes": [column.tolist() for column in sums.codes],
        "measures": {name: values.tolist() for name, values in sums.measures.items()},
        "coarse": coarse,
    }


def _endless(members: Members, budget: int) -> set[str]:
    """Return levels that cannot be merged and whose mere list of members is too long."""
    fixed = [level for level in LEVELS if level not in FOLDABLE]
    return {v for v in fixed if packed_size(members[v]) > _MEMBERS_SHARE * budget}


def _without(cells: Cells, levels: set[str]) -> Cells:
    if not levels:
        return cells
    members = {level: [] if level in levels else cells.members[level] for level in LEVELS}
    kept = tuple(level for level in LEVELS if level not in levels)
    return replace(condense(cells, kept), members=members)


def _few_members(cells: Cells, budget: int) -> Cells:
    """Merge as few members as needed for their names to take a modest part of the budget."""
    if packed_size(cells.members) <= _MEMBERS_SHARE * budget:
        return cells
    small = condense(cells, WHERE)
    keeps = keep_counts(small, WHERE, 1)

    def fits(at: int) -> bool:
        named = drop_unused(fold(small, keeps[at])).members
        return packed_size(named) <= _MEMBERS_SHARE * budget

    return drop_unused(fold(cells, keeps[min(_first(len(keeps), fits), len(keeps) - 1)]))


def _stock(cells: Cells) -> list[tuple[set[str], Cells]]:
    """Sum once what many cubes are made from: going through all rows each time is slow."""
    sums = (WHERE, ("gpu", "iteration", "phase", "layer"), ("gpu", "iteration", "phase", "op"))
    return [(set(LEVELS), cells), *((set(levels), condense(cells, levels)) for levels in sums)]


def _source(stock: list[tuple[set[str], Cells]], wanted: Iterable[Levels]) -> Cells:
    """Return the fewest rows that hold all levels wanted."""
    levels = {level for candidate in wanted for level in candidate}
    able = [cells for kept, cells in stock if levels <= kept]
    return min(able, key=lambda cells: len(cells.codes.measures["count"]))


def _grant(
    cells: Cells, wanted: Sequence[Levels], room: float, *, merge: bool
) -> tuple[dict[str, Any], Members] | None:
    """Return the finest wanted cube that fits and the members it refers to, or None."""
    made = _fitting(cells, wanted[:1], room)
    if made is None and merge and wanted:
        made = _fitting_merged(condense(cells, wanted[0]), wanted[0], room)
    return made or _fitting(cells, wanted[1:], room)


def _with_members(cells: Cells, members: Members) -> Cells:
    """Take over members that merging appended, so that later cubes number theirs after them."""
    for level, listed in members.items():
        if len(listed) > len(cells.members[level]):
            key = cells.codes.keys[level]
            longer = replace(key, values=tuple(member["label"] for member in listed))
            codes = replace(cells.codes, keys={**cells.codes.keys, level: longer})
            cells = replace(cells, codes=codes)
    return replace(cells, members=members)


def _covered(levels: Iterable[str], cubes: Iterable[dict[str, Any]]) -> bool:
    return any(set(levels) <= set(c["levels"]) and c["coarse"] is None for c in cubes)


def _fitting(
    cells: Cells, candidates: Iterable[Levels], room: float
) -> tuple[dict[str, Any], Members] | None:
    """Return the first of the candidates whose sums fit, or None."""
    for levels in candidates:
        sums = cube(cells.codes, levels)
        if len(sums) * _LEAST_BYTES_PER_ROW > room:
            continue
        made = cube_json(sums, cells.sentence(levels))
        if packed_size(made) <= room:
            return made, cells.members
    return None


def _fitting_merged(
    cells: Cells, levels: Levels, room: float
) -> tuple[dict[str, Any], Members] | None:
    """Merge as few small members as needed for the sums to fit.

    Where very little would be left to see, fewer levels say more: then None.
    """
    keeps = keep_counts(cells, levels, _LEAST_KEPT)

    def fits(at: int) -> bool:
        return _fitting(fold(cells, keeps[at]), [levels], room) is not None

    found = _first(len(keeps), fits)
    return _fitting(fold(cells, keeps[found]), [levels], room) if found < len(keeps) else None


def _first(count: int, fits: Callable[[int], bool]) -> int:
    """Return the first position that fits, if all after it fit as well; else ``count``."""
    return bisect_left(range(count), 1, key=fits)

"""Aligns pairs of long sequences that are alike: what was counted with what was timed.

First what is rare anchors a pair (``anchors``), then the stretches between anchors of all pairs
are aligned together (``banded``). Time and memory grow with the length, not with its square.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.align.anchors import anchors
from chopper_jupyter.core.align.banded import Stretches, aligned, cells_of, slack_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints = npt.NDArray[np.int64]
Pairs = tuple[Ints, Ints]

LARGEST = 1 << 24
"""Cells beyond which a stretch is divided further before it is aligned."""

PIECE = 4096
"""Elements that are aligned at a time where nothing anchors."""

POOR = 0.5
"""A stretch of which less matches than this is tried again in a wider band."""

NOTHING = np.zeros(0, np.int64)
_DEEPEST = 2


@dataclass(frozen=True)
class Pair:
    """Two sequences of codes: what was timed, what was counted, and how often it repeats."""

    timed: Ints
    counted: Ints
    repeats: int = 1


def align(pairs: Sequence[Pair]) -> list[Pairs]:
    """Align each pair.

    Parameters
    ----------
    pairs : sequence of Pair
        Codes from 0; equal codes match, negative ones match nothing. Either sequence may hold
        more at its ends than the other, and both may lack elements.

    Returns
    -------
    list of pair of int64 arrays
        Per pair the positions that belong together, increasing in both.

    Examples
    --------
    >>> warm_up, step = np.array([7, 7]), np.array([1, 2, 3, 2])
    >>> pair = Pair(step, np.concatenate([warm_up, step[:2], step[3:]]))
    >>> [positions.tolist() for positions in align([pair])[0]]
    [[0, 1, 3], [2, 3, 4]]
    """
    common = [_common(pair) for pair in pairs]
    found = _align([Pair(p.timed[i], p.counted[j], p.repeats) for p, i, j in common], 0)
    return [(i[a], j[b]) for (_, i, j), (a, b) in zip(common, found, strict=True)]


def _common(pair: Pair) -> tuple[Pair, Ints, Ints]:
    """Return the places of what occurs on both sides; the rest matches nothing."""
    size = int(max(pair.timed.max(initial=-1), pair.counted.max(initial=-1))) + 2
    on_both = np.ones(size, bool)
    on_both[-1] = False  # serves negative codes
    for values in (pair.timed, pair.counted):
        there = np.zeros(size, bool)
        there[values] = True
        on_both &= there
    on_both[-1] = False
    timed, counted = (np.maximum(v, -1) for v in (pair.timed, pair.counted))
    return pair, np.flatnonzero(on_both[timed]), np.flatnonzero(on_both[counted])


def _align(pairs: Sequence[Pair], depth: int) -> list[Pairs]:
    """Anchor each pair, align what lies between the anchors of all, divide what is too large."""
    matched: list[list[Pairs]] = []
    middle, ends = _Collected(), _Collected()
    for number, pair in enumerate(pairs):
        matched.append([])
        if not len(pair.timed) or not len(pair.counted):
            continue
        i, j, complete = anchors(pair.timed, pair.counted, pair.repeats)
        if not complete and not len(i):
            i, j = _from_the_end(pair.timed, pair.counted)
            complete = True
        matched[number].append((i, j))
        if not complete:
            middle.add(number, _between(i, j))
            ends.add(number, _outside(i, j, len(pair.timed), len(pair.counted)))
    _fill(pairs, matched, middle, depth, free=False)
    _fill(pairs, matched, ends, depth, free=True)
    return [_sorted(parts) for parts in matched]


class _Collected:
    """Stretches of several pairs."""

    def __init__(self) -> None:
        self.rows: list[Ints] = []

    def add(self, number: int, stretches: Ints) -> None:
        """Add stretches, given as rows of a0, a1, b0, b1, of a pair."""
        kept = stretches[(stretches[:, 1] > stretches[:, 0]) & (stretches[:, 3] > stretches[:, 2])]
        self.rows.append(np.column_stack([np.full(len(kept), number), kept]))

    def all(self) -> Ints:
        """Return rows of pair, a0, a1, b0, b1."""
        return np.concatenate(self.rows) if self.rows else np.zeros((0, 5), np.int64)


def _between(i: Ints, j: Ints) -> Ints:
    """Return the stretches between anchors."""
    return np.column_stack([i[:-1] + 1, i[1:], j[:-1] + 1, j[1:]])


def _outside(i: Ints, j: Ints, rows: int, columns: int) -> Ints:
    """Return the stretches before the first and after the last anchor.

    Of the longer side only what the other may reach; each has one end that is known.
    """
    before_a, before_b = int(i[0]), int(j[0])
    after_a, after_b = rows - int(i[-1]) - 1, columns - int(j[-1]) - 1
    before, after = _reach(before_a, before_b), _reach(after_a, after_b)
    a0, b0 = int(i[-1]) + 1, int(j[-1]) + 1
    return np.array(
        [
            [before_a - before[0], before_a, before_b - before[1], before_b],
            [a0, a0 + after[0], b0, b0 + after[1]],
        ],
        np.int64,
    )


def _reach(one: int, other: int) -> tuple[int, int]:
    """Limit each of two lengths to what fits the other."""
    return min(one, other + other // 4 + 64), min(other, one + one // 4 + 64)


def _fill(
    pairs: Sequence[Pair], matched: list[list[Pairs]], some: _Collected, depth: int, *, free: bool
) -> None:
    """Align collected stretches of all pairs and add what matches to each pair."""
    rows = some.all()
    if not len(rows):
        return
    starts_a = np.cumsum([0, *(len(pair.timed) for pair in pairs)])
    starts_b = np.cumsum([0, *(len(pair.counted) for pair in pairs)])
    a = np.concatenate([pair.timed for pair in pairs])
    b = np.concatenate([pair.counted for pair in pairs])
    number = rows[:, 0]
    whole = Stretches(
        *(rows[:, 1 + side] + starts_a[number] for side in (0, 1)),
        *(rows[:, 3 + side] + starts_b[number] for side in (0, 1)),
    )
    large = cells_of(whole, slack_of(*whole.sizes)) > LARGEST
    i, j = _aligned(a, b, whole.take(~large), free=free)
    for at in np.flatnonzero(large).tolist():
        more = _divided(a[whole.a0[at] : whole.a1[at]], b[whole.b0[at] : whole.b1[at]], depth)
        i = np.concatenate([i, more[0] + whole.a0[at]])
        j = np.concatenate([j, more[1] + whole.b0[at]])
    owner = np.searchsorted(starts_a, i, "right") - 1
    order = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[order], np.arange(1, len(pairs)))
    for pair, mine in enumerate(np.split(order, cuts)):
        matched[pair].append((i[mine] - starts_a[pair], j[mine] - starts_b[pair]))


def _divided(a: Ints, b: Ints, depth: int) -> Pairs:
    """Align a stretch that is too large: by anchors of its own, else piece by piece."""
    if depth >= _DEEPEST:
        return _from_the_end(a, b)
    pair, i, j = _common(Pair(a, b))
    ((one, other),) = _align([Pair(pair.timed[i], pair.counted[j])], depth + 1)
    return i[one], j[other]


def _aligned(a: Ints, b: Ints, stretches: Stretches, *, free: bool) -> Pairs:
    """Align stretches; equal ones by themselves, poor ones once more in a wider band."""
    same = np.zeros(len(stretches.a0), bool) if free else _equal(a, b, stretches)
    alike = stretches.take(same)
    i = _ranges(alike.a0, alike.a1)
    j = i - np.repeat(alike.a0 - alike.b0, alike.a1 - alike.a0)
    rest = stretches.take(~same)
    slack = slack_of(*rest.sizes)
    own, other = aligned(a, b, rest, slack, free_start=free, free_end=free)
    poor = _poor(rest, own, slack)
    if poor.any():
        kept = ~np.isin(_owner(rest, own), np.flatnonzero(poor))
        wider = aligned(a, b, rest.take(poor), 6 * slack[poor], free_start=free, free_end=free)
        own, other = np.append(own[kept], wider[0]), np.append(other[kept], wider[1])
    return np.append(i, own), np.append(j, other)


def _poor(stretches: Stretches, i: Ints, slack: Ints) -> npt.NDArray[np.bool_]:
    """Mark stretches of which too little matched, if a wider band is possible."""
    least = np.minimum(*stretches.sizes)
    count = np.bincount(_owner(stretches, i), minlength=len(least))
    wider = cells_of(stretches, 6 * slack)
    possible = (wider > cells_of(stretches, slack)) & (wider <= LARGEST)
    return np.asarray(possible & (count < POOR * least))


def _owner(stretches: Stretches, i: Ints) -> Ints:
    """Return the stretch of each position; stretches do not overlap."""
    order = np.argsort(stretches.a0, kind="stable")
    return np.asarray(order[np.searchsorted(stretches.a0[order], i, "right") - 1])


def _equal(a: Ints, b: Ints, stretches: Stretches) -> npt.NDArray[np.bool_]:
    """Mark the stretches whose two pieces are the same."""
    rows, columns = stretches.sizes
    same = rows == columns
    few = stretches.take(same)
    size = few.a1 - few.a0
    differs = a[_ranges(few.a0, few.a1)] != b[_ranges(few.b0, few.b1)]
    wrong = np.bincount(np.repeat(np.arange(len(size)), size), differs, minlength=len(size))
    same[same] = wrong == 0
    return np.asarray(same)


def _ranges(start: Ints, end: Ints) -> Ints:
    """Return all positions of several ranges, one after the other."""
    size = end - start
    before = np.cumsum(size) - size
    return np.asarray(np.arange(int(size.sum())) + np.repeat(start - before, size))


def _from_the_end(a: Ints, b: Ints) -> Pairs:
    """Align piece by piece from the end, where nothing tells one repetition from another."""
    own, other = [NOTHING], [NOTHING]
    last_a, last_b = len(a), len(b)
    while last_a > 0 and last_b > 0:
        rows, columns = min(last_a, PIECE), min(last_b, PIECE + PIECE // 4 + 64)
        ends = ([last_a - rows], [last_a], [last_b - columns], [last_b])
        piece = Stretches(*(np.array(end, np.int64) for end in ends))
        slack = slack_of(*piece.sizes)
        i, j = aligned(a, b, piece, slack, free_start=True)
        if len(own) == 1 and len(i) < POOR * min(rows, columns):  # the ends are not the same
            i, j = aligned(a, b, piece, slack, free_start=True, free_end=True)
        if not len(i):
            break
        own.append(i)
        other.append(j)
        last_a, last_b = min(int(i.min()), last_a - rows // 2), int(j.min())
    return np.concatenate(own), np.concatenate(other)


def _sorted(parts: Sequence[Pairs]) -> Pairs:
    i = np.concatenate([NOTHING, *(part[0] for part in parts)])
    j = np.concatenate([NOTHING, *(part[1] for part in parts)])
    order = np.argsort(i, kind="stable")
    return i[order], j[order]

"""Finds where a short sequence lies in a longer one that repeats itself: anchors for the rest.

Kernels of a training run repeat with every iteration and, within one, with every layer. What is
rare in an iteration (the loss, the optimizer) tells where the others are: only these are aligned
here, all with all, each match weighted by whether its neighbours agree as well.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.align.banded import MATCH

Ints = npt.NDArray[np.int64]

CELLS = 1 << 24
"""Cells of the recurrence for one pair of sequences, one byte each."""

EXACT = 1 << 21
"""Up to so many cells all elements are aligned, not only the rare ones."""

CONTEXT = 3
"""Elements before and after one that tell it from others of its kind."""

AGREES = 2
"""Score of a neighbourhood that agrees."""

CHANCE = 6
"""Three deviations of the score of n elements, of which one in twenty lacks its partner, over
the square root of n: what a wrong repetition may gain by chance."""

LESS_THAN_ONE = 0.4
"""Part of a repetition that two places which count as equally good may differ by."""

DEAREST = 16
"""Most that leaving out one element costs."""

_NEVER = np.int32(-(1 << 28))
_DIAGONAL, _UP, _LEFT = 1, 2, 0


def anchors(a: Ints, b: Ints, repeats: int) -> tuple[Ints, Ints, bool]:
    """Align what is rare in two sequences, of which one may hold the other several times.

    Parameters
    ----------
    a, b : int64 arrays
        Codes from 0, each of which both sequences hold.
    repeats : int
        How often ``a`` repeats itself, as far as is known; at least 1.

    Returns
    -------
    at_a, at_b : int64 arrays
        Increasing positions that belong together. Of several places that fit about equally,
        the last: runs begin differently and go on alike.
    complete : bool
        True if all elements were aligned, so that nothing is left to do.
    """
    complete = len(a) * len(b) <= EXACT
    if complete:
        rows, columns = np.arange(len(a)), np.arange(len(b))
    else:
        rare = _rare(a, b, repeats)
        rows, columns = np.flatnonzero(rare[a]), np.flatnonzero(rare[b])
    if not len(rows) or not len(columns):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), complete
    keys_a, keys_b = _keys(a, rows), _keys(b, columns)
    i, j = _path(keys_a, keys_b, repeats)
    at_a, at_b = rows[i], columns[j]
    if not complete:
        agree = (keys_a[1:, i] == keys_b[1:, j]).any(axis=0)
        at_a, at_b = _without_outliers(at_a[agree], at_b[agree])
    return at_a, at_b, complete


def _rare(a: Ints, b: Ints, repeats: int) -> npt.NDArray[np.bool_]:
    """Mark the codes that occur at most about twice per repetition, as many as can be aligned."""
    size = int(max(a.max(), b.max())) + 1
    in_a, in_b = np.bincount(a, minlength=size), np.bincount(b, minlength=size)
    present = (in_a > 0) & (in_b > 0)
    often = max(repeats, int(np.quantile(in_a[present], 0.1)))
    more = max(1.0, len(b) / len(a))
    candidates = np.flatnonzero(present & (in_a <= 2 * often) & (in_b <= 4 * often * more))
    candidates = candidates[np.argsort(in_a[candidates] + in_b[candidates], kind="stable")]
    cells = np.cumsum(in_a[candidates]) * np.cumsum(in_b[candidates])
    rare = np.zeros(size, bool)
    rare[candidates[cells <= CELLS]] = True
    return rare


def _keys(values: Ints, at: Ints) -> Ints:
    """Return the code at each place, and a number of the codes before and of those after it."""
    padded = np.concatenate([np.full(CONTEXT, -1), values, np.full(CONTEXT, -1)])
    before, after = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    with np.errstate(over="ignore"):
        for step in range(1, CONTEXT + 1):
            before = before * 1_000_003 + padded[at + CONTEXT - step]
            after = after * 1_000_003 + padded[at + CONTEXT + step]
    return np.stack([values[at], before, after])


def _path(a: Ints, b: Ints, repeats: int) -> tuple[Ints, Ints]:
    """Align all with all; leaving out beginnings and ends costs nothing."""
    rows, columns = a.shape[1], b.shape[1]
    gap = _gap(rows, repeats)
    lift = np.arange(columns + 1, dtype=np.int32) * gap
    score = np.zeros(columns + 1, np.int32)
    last = np.zeros(rows + 1, np.int64)
    steps = np.zeros((rows, columns), np.uint8)
    for i in range(rows):
        agree = (b[1] == a[1, i]).astype(np.int32) + (b[2] == a[2, i])
        worth = np.int32(MATCH) + np.int32(AGREES) * agree
        along = np.where(b[0] == a[0, i], score[:-1] + worth, _NEVER)
        best = np.concatenate([score[:1] * 0, np.maximum(along, score[1:] - gap)])
        score = np.maximum.accumulate(best + lift) - lift
        steps[i] = np.where(
            score[1:] == along, _DIAGONAL, np.where(score[1:] == best[1:], _UP, _LEFT)
        )
        last[i + 1] = score[-1]
    i, j = _end(score.astype(np.int64), last, repeats)
    return _walk_back(steps, i, j)


def _gap(rows: int, repeats: int) -> np.int32:
    """Return what leaving out an element costs.

    Leaving out a whole repetition must cost more than the next one may fit better by chance.
    """
    return np.int32(np.clip(np.ceil(CHANCE * repeats / np.sqrt(rows)), 1, DEAREST))


def _end(last_row: Ints, last_column: Ints, repeats: int) -> tuple[int, int]:
    """Choose where the path ends: the last place whose score is the best but for chance.

    What is missing here and there makes one repetition look a little better than another; a
    place counts as good as the best one within three deviations of that, unless it lacks a
    considerable part of a repetition.
    """
    rows, columns = len(last_column) - 1, len(last_row) - 1
    ends = last_row if last_row.max() >= last_column.max() else last_column
    best = int(ends.max())
    full = MATCH + 2 * AGREES
    lost = full + int(_gap(rows, repeats))  # by an element without a partner
    missed = max(0.0, (full * min(rows, columns) - best) / lost)
    chance = 3 * lost * np.sqrt(2 * missed + 4)  # the best one is best by chance: it missed less
    tolerance = min(chance, LESS_THAN_ONE * lost * rows / repeats)
    period = max(1, rows // (2 * repeats))
    peaks = [
        at
        for at in np.flatnonzero(ends >= max(best - tolerance, 1)).tolist()
        if ends[at] >= ends[max(0, at - period) : at + period + 1].max()
    ]
    at = max(peaks, default=0)
    return (rows, at) if ends is last_row else (at, columns)


def _walk_back(steps: npt.NDArray[np.uint8], i: int, j: int) -> tuple[Ints, Ints]:
    own, other = [], []
    while i > 0 and j > 0:
        step = int(steps[i - 1, j - 1])
        if step == _DIAGONAL:
            own.append(i - 1)
            other.append(j - 1)
        i -= step != _LEFT
        j -= step != _UP
    return np.array(own[::-1], np.int64), np.array(other[::-1], np.int64)


def _without_outliers(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Drop anchors that lie at another distance from both their neighbours in ``a`` and ``b``."""
    while len(a) > 2:  # noqa: PLR2004  one with two neighbours
        here, there = np.diff(a), np.diff(b)
        odd = np.abs(here - there) > 32 + 0.2 * np.maximum(here, there)
        drop = np.zeros(len(a), bool)
        drop[1:-1] = odd[:-1] & odd[1:]
        drop[1:] &= ~drop[:-1]  # of two beside each other, one at a time
        if not drop.any():
            break
        a, b = a[~drop], b[~drop]
    return a, b

"""Aligns many short stretches of two sequences at once, each within a band of diagonals.

Needleman and Wunsch's recurrence on the diagonals j - i: a step along both sequences stays on
its diagonal, so that a row of the recurrence is a few operations on whole arrays, over all
stretches of a batch and all diagonals of their band (Ukkonen 1985).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Grid = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

MATCH, GAP = 2, 1
"""Score of a match, cost of leaving out one element of either sequence."""

CELLS = 1 << 25
"""Cells of the recurrence that a batch may hold, one byte each."""

_NEVER = np.int32(-(1 << 28))
_WORTH = np.int32(MATCH)
_DIAGONAL, _UP, _LEFT = 1, 2, 0


@dataclass(frozen=True)
class Stretches:
    """Pieces [a0, a1) of one sequence, each with the piece [b0, b1) of another it lies in."""

    a0: Ints
    a1: Ints
    b0: Ints
    b1: Ints

    def take(self, rows: Ints | Mask) -> Stretches:
        """Return some of the stretches."""
        return Stretches(self.a0[rows], self.a1[rows], self.b0[rows], self.b1[rows])

    @property
    def sizes(self) -> tuple[Ints, Ints]:
        """Lengths of the pieces of both sequences."""
        return self.a1 - self.a0, self.b1 - self.b0


def slack_of(rows: Ints, columns: Ints) -> Ints:
    """Return how far the path of a stretch may leave the diagonals between its corners.

    What is missing or extra here and there adds up like a random walk: four deviations of one
    that changes its diagonal at every twentieth element, and a few more.
    """
    return (24 + 4 * np.sqrt(0.05 * np.maximum(rows, columns))).astype(np.int64)


def cells_of(stretches: Stretches, slack: Ints) -> Ints:
    """Return how many cells of the recurrence each stretch needs."""
    rows, columns = stretches.sizes
    low, high = _band(rows, columns, slack)
    return rows * (high - low + 1)


def aligned(
    a: Ints,
    b: Ints,
    stretches: Stretches,
    slack: Ints,
    *,
    free_start: bool = False,
    free_end: bool = False,
) -> tuple[Ints, Ints]:
    """Align every stretch; return positions in ``a`` and ``b`` that belong together.

    Parameters
    ----------
    a, b : int64 arrays
        Sequences of codes; equal codes match.
    stretches : Stretches
        What to align with what, none empty.
    slack : int64 array
        Diagonals beside those of the corners, per stretch.
    free_start, free_end : bool
        Leaving out the beginning or the end of either piece costs nothing.

    Returns
    -------
    pair of int64 arrays
        In no order; increasing together within a stretch.
    """
    rows, columns = stretches.sizes
    low, high = _band(rows, columns, slack)
    width = high - low + 1
    order = np.lexsort((width, rows))
    found: list[tuple[Ints, Ints]] = []
    at = 0
    while at < len(order):
        tall = max(int(rows[order[at]]) * 5 // 4, 16)
        end = at + int(np.searchsorted(rows[order[at:]], tall, "right"))
        wide = np.maximum.accumulate(width[order[at:end]])
        fits = wide * tall * np.arange(1, end - at + 1) <= CELLS
        end = at + max(1, int(np.count_nonzero(fits)))
        batch = _Batch(a, b, stretches.take(order[at:end]), low[order[at:end]])
        found.append(batch.align(int(wide[end - at - 1]), free_start, free_end))
        at = end
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])


def _band(rows: Ints, columns: Ints, slack: Ints) -> tuple[Ints, Ints]:
    """Return the lowest and highest diagonal of each stretch."""
    across = columns - rows
    low = np.maximum(np.minimum(0, across) - slack, -rows)
    high = np.minimum(np.maximum(0, across) + slack, columns)
    return low, high


class _Batch:
    """Stretches that are aligned at once, padded to the same size."""

    def __init__(self, a: Ints, b: Ints, stretches: Stretches, low: Ints) -> None:
        self.stretches, self.low = stretches, low
        self.rows, self.columns = stretches.sizes
        self.a, self.b = a, b

    def align(self, width: int, free_start: bool, free_end: bool) -> tuple[Ints, Ints]:  # noqa: FBT001
        """Fill the recurrence row by row, then walk back from the ends."""
        count, height = len(self.low), int(self.rows.max(initial=0))
        own = _padded(self.a, self.stretches.a0, self.rows, np.arange(height), -1)
        shifted = self.low[:, None] + np.arange(height + width)
        other = _padded(self.b, self.stretches.b0, self.columns, shifted, -2)
        diagonal = self.low[:, None] + np.arange(width)  # j - i
        lift = np.arange(width, dtype=np.int32) * GAP
        inside = (diagonal >= 0) & (diagonal <= self.columns[:, None])
        start = np.zeros(1, np.int32) if free_start else -diagonal.astype(np.int32) * GAP
        score = np.where(inside, start, _NEVER).astype(np.int32)
        steps = np.zeros((height, count, width), np.uint8)
        ends = _Ends(self.rows, self.columns, self.low, free=free_end)
        for i in range(1, height + 1):
            step = np.where(other[:, i - 1 : i - 1 + width] == own[:, i - 1 : i], _WORTH, _NEVER)
            along = score + step
            best = along.copy()
            np.maximum(best[:, :-1], score[:, 1:] - GAP, out=best[:, :-1])
            if free_start:
                _restart(best, -i - self.low)
            score = np.maximum.accumulate(best + lift, axis=1) - lift
            steps[i - 1] = np.where(score == along, _DIAGONAL, np.where(score == best, _UP, _LEFT))
            ends.look(i, score)
        return self._walk_back(steps, *ends.found())

    def _walk_back(self, steps: npt.NDArray[np.uint8], i: Ints, at: Ints) -> tuple[Ints, Ints]:
        """Follow the best path of each stretch; ``i`` and ``at`` are where they end."""
        i, at = i.copy(), at.copy()
        own, other = [], []
        live = np.arange(len(i))
        while True:
            live = live[(i[live] > 0) & (i[live] + self.low[live] + at[live] > 0)]
            if not len(live):
                break
            step = steps[i[live] - 1, live, at[live]]
            matched = live[step == _DIAGONAL]
            row = i[matched] - 1
            own.append(self.stretches.a0[matched] + row)
            other.append(self.stretches.b0[matched] + row + self.low[matched] + at[matched])
            i[live] -= step != _LEFT
            at[live] += (step == _UP).astype(np.int64) - (step == _LEFT)
        nothing = np.zeros(0, np.int64)
        return np.concatenate([nothing, *own]), np.concatenate([nothing, *other])


class _Ends:
    """Where the best path of each stretch ends: in its corner, or anywhere along its end."""

    def __init__(self, rows: Ints, columns: Ints, low: Ints, *, free: bool) -> None:
        self.rows, self.columns, self.low, self.free = rows, columns, low, free
        self.best = np.full(len(rows), _NEVER, np.int64)
        self.row = rows.copy()
        self.at = columns - rows - low

    def look(self, i: int, score: Grid) -> None:
        """Look at a row of scores that was just filled."""
        if not self.free:
            return
        last = self.columns - i - self.low  # where the other sequence ends
        there = np.flatnonzero((last >= 0) & (last < score.shape[1]) & (i <= self.rows))
        self._offer(there, i, last[there], score[there, last[there]])
        done = np.flatnonzero(self.rows == i)
        if len(done):
            diagonal = self.low[done, None] + np.arange(score.shape[1])
            usable = np.where(i + diagonal <= self.columns[done, None], score[done], _NEVER)
            at = usable.shape[1] - 1 - np.argmax(usable[:, ::-1], axis=1)  # the last of equals
            self._offer(done, i, at, usable[np.arange(len(done)), at])

    def _offer(self, which: Ints, i: int, at: Ints, score: npt.NDArray[np.int32]) -> None:
        better = score >= self.best[which]
        which = which[better]
        self.best[which], self.row[which], self.at[which] = score[better], i, at[better]

    def found(self) -> tuple[Ints, Ints]:
        """Return row and place in the band of each end."""
        return self.row, self.at


def _restart(score: Grid, first: Ints) -> None:
    """Let paths begin in any row, before the first element of the other sequence."""
    rows = np.flatnonzero((first >= 0) & (first < score.shape[1]))
    score[rows, first[rows]] = np.maximum(score[rows, first[rows]], 0)


def _padded(values: Ints, start: Ints, size: Ints, places: Ints, pad: int) -> Ints:
    """Return one row per piece: its values at the given places, ``pad`` outside of it."""
    inside = (places >= 0) & (places < size[:, None])
    at = np.where(inside, start[:, None] + places, 0)
    return np.where(inside, values[at], pad)

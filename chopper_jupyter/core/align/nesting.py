"""Which host range lies in which: one pass per thread over the ranges in time order."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

WORTH_COMPILING = 200_000
"""Number of ranges from which loading compiled code takes less time than it saves."""

TOLERANCE_NS = 1000
"""Old traces have whole microseconds: a child may end that much after its parent."""


@dataclass(frozen=True)
class Nesting:
    """The forest of host ranges, in order of thread and start; parents come before children.

    Parameters
    ----------
    order : int64 array
        Row of each position in the table the ranges came from.
    tid, start, end : int64 arrays
        Thread and times by position.
    parent : int64 array
        Position of the innermost range that contains the range, give or take the microsecond
        to which old clocks round; -1 at the top.
    container : int64 array
        Position of the innermost range that contains the whole range; -1 at the top.
    levels : list of int64 arrays
        Positions by depth, top first.
    crossing : int
        Ranges that end after the range they started in.
    """

    order: Ints
    tid: Ints
    start: Ints
    end: Ints
    parent: Ints
    container: Ints
    levels: list[Ints]
    crossing: int

    def nearest(self, mark: Mask) -> Ints:
        """Return the nearest marked range at or above each position; -1 where there is none."""
        found = np.where(mark, np.arange(len(mark)), -1)
        for level in self.levels[1:]:
            found[level] = np.where(mark[level], level, found[self.parent[level]])
        return found

    def outermost_below(self, scope: Mask, mark: Mask) -> Ints:
        """Return the outermost marked range at or above each position, below the nearest scope.

        A scope itself has none.
        """
        own = np.where(mark & ~scope, np.arange(len(mark)), -1)
        found = own.copy()
        for level in self.levels[1:]:
            above = found[self.parent[level]]
            found[level] = np.where(scope[level], -1, np.where(above >= 0, above, own[level]))
        return found

    def any_below(self, mark: Mask) -> Mask:
        """Mark the ranges that contain a marked one (not counting themselves)."""
        found = np.zeros(len(mark), bool)
        for level in reversed(self.levels[1:]):
            hit = level[mark[level] | found[level]]
            found[self.parent[hit]] = True
        return found

    def innermost_at(self, tid: Ints, at: Ints, tolerance: int = 0) -> Ints:
        """Return the innermost range of a thread that is open at a time; -1 if there is none."""
        position = np.full(len(tid), -1, np.int64)
        if not len(self.tid):
            return position
        threads, first, count = np.unique(self.tid, return_index=True, return_counts=True)
        for thread, lo, n in zip(threads, first, count, strict=True):
            rows = np.flatnonzero(tid == thread)
            index = np.searchsorted(self.start[lo : lo + n], at[rows] + tolerance, side="right")
            position[rows] = np.where(index > 0, lo + index - 1, -1)
        open_ = position >= 0
        while True:
            ended = open_ & (self.end[position] < at)
            if not ended.any():
                return position
            position[ended] = self.parent[position[ended]]
            open_ = position >= 0


def nest(tid: Ints, start: Ints, dur: Ints) -> Nesting:
    """Build the forest of host ranges.

    A range that ends after the one it started in crosses it: it is counted and belongs to the
    next one outside that contains it, so that nobody inherits from a range that had ended.

    Examples
    --------
    >>> forest = nest(np.array([0, 0, 0]), np.array([0, 1, 5]), np.array([10, 2, 9]))
    >>> forest.parent.tolist(), forest.container.tolist(), forest.crossing
    ([-1, 0, 0], [-1, 0, -1], 1)
    >>> nest(np.array([0, 0]), np.array([0, 5000]), np.array([9000, 9000])).parent.tolist()
    [-1, -1]
    """
    order = np.lexsort((-dur, start, tid))
    tid, start = tid[order], start[order]
    end = start + dur[order]
    parent, container, depth, crossing = _walk_all(tid, start, end)
    by_depth = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[by_depth], np.arange(depth.max(initial=0) + 2))
    levels = [by_depth[lo:hi] for lo, hi in itertools.pairwise(edges)]
    return Nesting(order, tid, start, end, parent, container, levels, crossing)


def _walk_all(tid: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, int]:
    """Return parent, container and depth of every range, and how many cross."""
    count = len(tid)
    parent, container = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    depth, stack = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if count >= WORTH_COMPILING and importlib.util.find_spec("numba"):
        crossing = _compiled_walk()(tid, start, end, parent, container, depth, stack)
        return parent, container, depth, int(crossing)
    # Plain Python is several times faster on lists than on arrays.
    lists = [a.tolist() for a in (tid, start, end, parent, container, depth, stack)]
    crossing = walk(*lists)
    made = (np.array(column, np.int64) for column in lists[3:6])
    return (*made, crossing)


@lru_cache(maxsize=1)
def _compiled_walk() -> Any:
    from numba import njit  # noqa: PLC0415  optional, the extra "fast"

    return njit(cache=True, nogil=True)(walk)


def walk(
    tid: Any, start: Any, end: Any, parent: Any, container: Any, depth: Any, stack: Any
) -> Any:
    """Fill parent, container and depth with a stack of open ranges; return how many cross.

    Runs as it is on lists, and compiled on arrays. A stack stays right where ranges cross.
    """
    crossing, height, thread = 0, 0, -1
    for i in range(len(tid)):
        if tid[i] != thread:
            thread, height = tid[i], 0
        at, until = start[i], end[i]
        while height > 0 and end[stack[height - 1]] <= at:
            height -= 1
        if height > 0:
            top = stack[height - 1]
            if end[top] < until:
                crossing += 1
            while top >= 0 and end[top] + TOLERANCE_NS < until:
                top = parent[top]
            parent[i] = top
            depth[i] = depth[top] + 1 if top >= 0 else 0
            while top >= 0 and end[top] < until:
                top = container[top]
            container[i] = top
        stack[height] = i
        height += 1
    return crossing

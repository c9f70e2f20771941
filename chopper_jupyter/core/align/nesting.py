"""Which host range lies in which: one pass per thread over the ranges in time order."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.align import walks

if TYPE_CHECKING:
    from collections.abc import Callable

Ints = npt.NDArray[np.signedinteger[Any]]
"""Integers of any width."""

Mask = npt.NDArray[np.bool_]

POSITION = np.int32
"""Positions and codes are kept in four bytes: linking holds a dozen of them for every range."""

JOINT_BITS = 62
"""Bits of a thread's number and a start together that one key can hold."""


@dataclass(frozen=True)
class Nesting:
    """The forest of host ranges, in order of thread and start; parents come before children.

    Parameters
    ----------
    order : int array
        Row of each position in the table the ranges came from.
    tid : int array
        Thread by position.
    start, end : int64 arrays
        Times by position.
    parent : int array
        Position of the innermost range that contains the range, give or take the microsecond
        to which old clocks round; -1 at the top.
    container : int array
        Position of the innermost range that contains the whole range; -1 at the top.
    depth : int array
        Number of ranges above each.
    crossing : int
        Ranges that end after the range they started in.
    """

    order: Ints
    tid: Ints
    start: Ints
    end: Ints
    parent: Ints
    container: Ints
    depth: Ints
    crossing: int

    @cached_property
    def levels(self) -> list[Ints]:
        """Positions by depth, top first."""
        by_depth = np.argsort(self.depth, kind="stable")
        edges = np.searchsorted(self.depth[by_depth], np.arange(self.depth.max(initial=0) + 2))
        return [by_depth[lo:hi] for lo, hi in itertools.pairwise(edges)]

    def nearest(self, mark: Mask) -> Ints:
        """Return the nearest marked range at or above each position; -1 where there is none."""
        if walks.is_worth(len(mark)):
            return self._walked(walks.nearest, mark)
        found = np.where(mark, np.arange(len(mark), dtype=POSITION), POSITION(-1))
        for level in self.levels[1:]:
            found[level] = np.where(mark[level], level, found[self.parent[level]])
        return found

    def outermost_below(self, scope: Mask, mark: Mask) -> Ints:
        """Return the outermost marked range at or above each position, below the nearest scope.

        A scope itself has none.
        """
        if walks.is_worth(len(mark)):
            return self._walked(walks.outermost_below, scope, mark)
        own = np.where(mark & ~scope, np.arange(len(mark), dtype=POSITION), POSITION(-1))
        found = own.copy()
        for level in self.levels[1:]:
            above = found[self.parent[level]]
            found[level] = np.where(scope[level], -1, np.where(above >= 0, above, own[level]))
        return found

    def enclosing(self, mark: Mask) -> Ints:
        """Return the nearest marked range that wholly contains each position, -1 at the top."""
        if walks.is_worth(len(mark)):
            found = np.empty(len(mark), POSITION)
            walks.compiled(walks.nearest_above)(self.container, mark, found)
            return found
        found = self.container.copy()
        open_ = (found >= 0) & ~mark[found]
        while open_.any():
            found[open_] = self.container[found[open_]]
            open_ = (found >= 0) & ~mark[found]
        return found

    def any_below(self, mark: Mask) -> Mask:
        """Mark the ranges that contain a marked one (not counting themselves)."""
        found = np.zeros(len(mark), bool)
        if walks.is_worth(len(mark)):
            walks.compiled(walks.any_below)(self.parent, mark, found)
            return found
        for level in reversed(self.levels[1:]):
            hit = level[mark[level] | found[level]]
            found[self.parent[hit]] = True
        return found

    def _walked(self, walk: Callable[..., Any], *masks: Mask) -> Ints:
        found = np.empty(len(self.parent), POSITION)
        walks.compiled(walk)(self.parent, *masks, found)
        return found

    def on_threads_of(self, mark: Mask) -> Mask:
        """Mark the ranges of all threads that have a marked one."""
        thread = np.zeros(int(self.tid.max(initial=-1)) + 1, bool)
        thread[self.tid[mark]] = True
        return thread[self.tid]

    def innermost_at(self, tid: Ints, at: Ints, tolerance: int = 0) -> Ints:
        """Return the innermost range of a thread that is open at a time; -1 if there is none."""
        position = np.full(len(tid), -1, POSITION)
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
    order = _by_start(tid, start, dur)
    tid, start = tid[order].astype(POSITION), start[order]
    end = start + dur[order]
    order = order.astype(POSITION)
    parent, container, depth, crossing = _walk_all(tid, start, end)
    return Nesting(order, tid, start, end, parent, container, depth, crossing)


def _by_start(tid: Ints, start: Ints, dur: Ints) -> Ints:
    """Sort by thread, then start, then the longest first.

    Recordings are almost in order, so one sort by a joint key, which notices that, is several
    times faster than a sort by three keys; the durations only matter where starts are equal.
    """
    if not len(tid):
        return np.zeros(0, POSITION)
    least, most = int(start.min()), int(start.max())
    bits = (most - least).bit_length()
    if tid.min() < 0 or bits + int(tid.max()).bit_length() > JOINT_BITS:
        return np.lexsort((-dur, start, tid))
    key = (tid << bits) + (start - least)
    order = np.argsort(key, kind="stable")
    key = key[order]
    same = key[1:] == key[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((-dur[rows], key[tied]))]
    return order


def _walk_all(tid: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, int]:
    """Return parent, container and depth of every range, and how many cross."""
    count = len(tid)
    parent, container = np.full(count, -1, POSITION), np.full(count, -1, POSITION)
    depth, stack = np.zeros(count, POSITION), np.zeros(count, POSITION)
    if walks.is_worth(count):
        made = (parent, container, depth)
        crossing = walks.compiled(walks.parents)(tid, start, end, *made, stack)
        return *made, int(crossing)
    # Plain Python is several times faster on lists than on arrays.
    lists = [a.tolist() for a in (tid, start, end, parent, container, depth, stack)]
    crossing = walks.parents(*lists)
    parent, container, depth = (np.array(column, POSITION) for column in lists[3:6])
    return parent, container, depth, crossing

"""Arithmetic of time intervals, exact in integers and vectorised.

Everything is by union: concurrent activities are never summed into more than the wall clock.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def frontier(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return what each interval adds to the union of all before it, and the gap it ends.

    Parameters
    ----------
    start, end : int64 arrays
        Intervals in the order of their start.

    Returns
    -------
    added : int64 array
        Length that the interval adds to the union of those before it.
    gap : int64 array
        Time between the latest end so far and this start; 0 for the first.

    Notes
    -----
    ``added.sum() + gap.sum()`` is exactly the span from the first start to the last end.

    Examples
    --------
    >>> added, gap = frontier(np.array([0, 5, 30]), np.array([10, 20, 40]))
    >>> added.tolist(), gap.tolist()
    ([10, 10, 10], [0, 0, 10])
    """
    if not len(start):
        return start[:0], start[:0]
    latest = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], latest[:-1]])
    return np.maximum(end - np.maximum(start, before), 0), np.maximum(start - before, 0)


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Merge intervals into disjoint ones in order of time.

    Examples
    --------
    >>> [a.tolist() for a in union(np.array([5, 0, 30]), np.array([20, 10, 40]))]
    [[0, 30], [20, 40]]
    """
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return start, end
    latest = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > latest[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], latest[last]


def covered(start: Ints, end: Ints, by_start: Ints, by_end: Ints) -> Ints:
    """Return how much of each interval lies under the union of others.

    Parameters
    ----------
    start, end : int64 arrays
        Intervals, in any order.
    by_start, by_end : int64 arrays
        Disjoint intervals in order, as ``union`` returns them.

    Examples
    --------
    >>> covered(np.array([0]), np.array([10]), np.array([2, 8]), np.array([4, 20])).tolist()
    [4]
    """
    if not len(by_start):
        return np.zeros(len(start), np.int64)
    lengths = np.concatenate([[0], np.cumsum(by_end - by_start)])

    def until(at: Ints) -> Ints:
        index = np.searchsorted(by_start, at, side="right")
        within = np.where(index > 0, by_end[np.maximum(index - 1, 0)], at)
        open_ = np.where(index > 0, np.maximum(within - at, 0), 0)
        return np.asarray(lengths[index] - open_, np.int64)

    length: Ints = np.maximum(until(np.maximum(end, start)) - until(start), 0)
    return length

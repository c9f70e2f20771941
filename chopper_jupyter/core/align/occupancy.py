"""Overlap, busy and idle time of every kernel of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.intervals import covered, frontier, union

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints

COMPUTE, COLLECTIVE, MEMCPY, MEMSET = 0, 1, 2, 3
"""Codes into ``schema.KERNEL_KINDS``."""


def occupancy(gpu: Ints, kind: Ints, start: Ints, dur: Ints) -> tuple[Ints, Ints, Ints]:
    """Return overlap, busy and idle time of every kernel.

    Parameters
    ----------
    gpu, kind, start, dur : int64 arrays
        One entry a kernel; ``kind`` is a code into ``schema.KERNEL_KINDS``.

    Returns
    -------
    overlap : int64 array
        Time under the union of the other kind: collectives for compute, compute for
        collectives, 0 for copies.
    busy : int64 array
        Wall time the kernel accounts for. Each instant at which the GPU is busy belongs to
        one kernel: to compute if any runs, else to a collective, else to a copy; within a
        kind to the one that was running first.
    idle : int64 array
        Idle time that the kernel ended.

    Notes
    -----
    On each GPU ``busy.sum() + idle.sum()`` is exactly the time from the first start to the
    last end.
    """
    overlap, busy, idle = (np.zeros(len(start), np.int64) for _ in range(3))
    for one in np.unique(gpu):
        rows = np.flatnonzero(gpu == one)
        rows = rows[np.lexsort((kind[rows], start[rows]))]
        begin, end = start[rows], start[rows] + dur[rows]
        _, idle[rows] = frontier(begin, end)
        classes = [kind[rows] == COMPUTE, kind[rows] == COLLECTIVE, kind[rows] >= MEMCPY]
        taken = union(begin[:0], end[:0])
        unions = [union(begin[mask], end[mask]) for mask in classes]
        for mask in classes:
            busy[rows[mask]] = _new_time(begin[mask], end[mask], taken)
            taken = union(
                np.concatenate([taken[0], begin[mask]]), np.concatenate([taken[1], end[mask]])
            )
        for mask, other in ((classes[0], unions[1]), (classes[1], unions[0])):
            overlap[rows[mask]] = covered(begin[mask], end[mask], *other)
    return overlap, busy, idle


def _new_time(start: Ints, end: Ints, taken: tuple[Ints, Ints]) -> Ints:
    """Return the part of each interval that neither earlier ones nor ``taken`` cover."""
    added, _ = frontier(start, end)
    return added - covered(end - added, end, *taken)

"""Overlap, busy and idle of kernels by cutting time into pieces: slow, and plainly right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

PRIORITY = {"compute": 0, "collective": 1, "memcpy": 2, "memset": 2}


def times(rows: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """(overlap, busy, idle) of each kernel of one GPU.

    Every piece of time between two neighbouring starts or ends belongs to one running kernel:
    compute before communication before copies, and of these the one that started first.
    A piece without a kernel is idle and belongs to the kernel that starts at its end.
    """
    start = np.array([r["start_ns"] for r in rows], np.int64)
    end = start + np.array([r["dur_ns"] for r in rows], np.int64)
    rank = np.array([PRIORITY[r["kind"]] for r in rows])
    order = sorted(range(len(rows)), key=lambda i: (rank[i], start[i], i))
    cuts = np.unique(np.concatenate([start, end]))
    overlap, busy, idle = (np.zeros(len(rows), np.int64) for _ in range(3))
    for lo, hi in itertools.pairwise(cuts):
        running = (start <= lo) & (end >= hi)
        if not running.any():
            idle[np.flatnonzero(start == hi)[0]] += hi - lo
            continue
        busy[next(i for i in order if running[i])] += hi - lo
        compute, collective = running & (rank == 0), running & (rank == 1)
        if compute.any() and collective.any():
            overlap[compute | collective] += hi - lo
    return list(zip(overlap.tolist(), busy.tolist(), idle.tolist(), strict=True))

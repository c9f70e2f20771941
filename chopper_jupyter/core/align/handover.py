"""Ties what communication threads run to the call that handed the work over.

Gloo and its like run a collective on threads of their own. Nothing there says which layer or
phase asked for it, and no id links it to the call; but calls are served in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.align.host import Host, pick
from chopper_jupyter.core.align.nesting import POSITION
from chopper_jupyter.core.names import collective_of

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints

WORKERS = ("gloo:", "ucc:", "mpi:")
CALLS = "c10d::"


def calls(host: Host) -> Ints:
    """Return the position of the call for everything that a communication thread ran.

    Parameters
    ----------
    host : Host
        Host ranges of one rank.

    Returns
    -------
    int array
        Position of the ``c10d`` call by position of the work; -1 for all other ranges and
        where the recording does not hold the call.

    Notes
    -----
    Where a window cut off some, the latest call of the kind before the work is taken.
    """
    forest = host.forest
    work = host.named(lambda w: w.startswith(WORKERS)) & (forest.parent < 0)
    call = host.named(lambda w: w.startswith(CALLS) and collective_of(w) is not None)
    found = np.full(len(work), -1, POSITION)
    if not work.any() or not call.any():
        return found
    inner = np.where(forest.parent >= 0, forest.nearest(call)[forest.parent], -1)
    call &= inner < 0
    kinds = [collective_of(word) for word in host.words]
    composed = not any(
        kind == "reduce_scatter" for word, kind in zip(host.words, kinds, strict=True)
        if word.startswith(WORKERS)
    )  # fmt: skip
    served = ["all_reduce" if composed and k == "reduce_scatter" else k for k in kinds]
    for kind in {k for k in served if k is not None}:
        same = pick(np.array([k == kind for k in served], bool), host.names)
        works, askers = (_by_start(host, mask & same) for mask in (work, call))
        found[works] = _match(forest.start[works], forest.start[askers], askers)
    nearest = forest.nearest(work)
    return np.where(nearest >= 0, found[nearest], -1)


def _by_start(host: Host, mask: np.ndarray) -> Ints:
    positions = np.flatnonzero(mask)
    return positions[np.argsort(host.forest.start[positions], kind="stable")]


def _match(work: Ints, call: Ints, positions: Ints) -> Ints:
    """Match in order if there are as many works as calls, else by time."""
    if len(work) == len(call) and (work >= call).all():
        return positions
    latest = np.searchsorted(call, work, side="right") - 1
    return np.where(latest >= 0, positions[np.maximum(latest, 0)] if len(positions) else -1, -1)

"""Finds the forward operator of every backward one.

First by the forward-backward arrows of the trace, then by (forward thread, sequence number);
gradient accumulation belongs to the backward node before it on its thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.align.distinct import distinct
from chopper_jupyter.core.align.host import pick
from chopper_jupyter.core.align.nesting import POSITION

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from chopper_jupyter.core.align.nesting import Ints, Mask, Nesting

ENGINE = "autograd::engine::evaluate_function"
ACCUMULATE = "AccumulateGrad"
_NODE = re.compile(r"[A-Z_]\w*Backward\d*")
"""Autograd nodes by name: recordings of 2021 have neither numbers nor engine ranges."""

TOLERANCE_NS = 1000
"""Old traces have whole microseconds: an arrow may start just before its range."""

MAX_CHAIN = 8
"""Gradients of gradients: a backward node's forward may itself be a backward node."""


@dataclass(frozen=True)
class Autograd:
    """What the autograd engine ran, by position in the forest.

    Parameters
    ----------
    engine, node : int arrays
        Nearest ``evaluate_function`` range and nearest autograd node at or above each
        position; -1 outside.
    forward : int array
        Position whose layer and op a backward position carries; -1 if unknown or not backward.
    partner : int array
        For the ranges that are autograd nodes: their forward range; -1 otherwise.
    backward : bool array
        Positions that run as part of a backward pass, recomputation included.
    recompute : bool array
        Positions that run a forward again inside the backward (activation checkpointing).
    is_forward : bool array
        Ranges that some backward node is the gradient of.
    ambiguous : int
        Nodes whose sequence number fits several forward threads: left without a forward.
    """

    engine: Ints
    node: Ints
    forward: Ints
    partner: Ints
    backward: Mask
    recompute: Mask
    is_forward: Mask
    ambiguous: int


@dataclass(frozen=True)
class Numbers:
    """Autograd's numbers by position, -1 where absent, and which range has which name.

    Parameters
    ----------
    seq, fwd_thread : int64 arrays
        Sequence number and ``Fwd thread id``.
    names : int array
        Name of each position as a code into ``words``.
    words : list of str
        Distinct names.
    """

    seq: Ints
    fwd_thread: Ints
    names: Ints
    words: list[str]

    def named(self, test: Callable[[str], bool]) -> Mask:
        """Mark the positions whose name passes a test."""
        return pick(np.array([test(word) for word in self.words], bool), self.names)


def match(forest: Nesting, numbers: Numbers, module: Ints, flows: pa.Table) -> Autograd:
    """Match backward nodes to forward operators.

    Parameters
    ----------
    forest : Nesting
        Host ranges.
    numbers : Numbers
        Sequence numbers, thread ids and names.
    module : int array
        Nearest module call at or above each position, -1 outside modules.
    flows : pyarrow.Table
        Forward-backward arrows.
    """
    seq, fwd_thread = numbers.seq, numbers.fwd_thread
    is_engine = numbers.named(lambda w: w.startswith(ENGINE))
    unnumbered = numbers.named(lambda w: "Backward" in w and not w.startswith(ENGINE))
    node = (seq >= 0) & ((fwd_thread > 0) | ((fwd_thread < 0) & unnumbered))
    engine, nearest = forest.nearest(is_engine), forest.nearest(node)
    unlinked = forest.nearest(numbers.named(lambda w: _NODE.fullmatch(w) is not None))
    partner = _by_flow(forest, flows, node, seq)
    partner, ambiguous = _by_number(forest, node, seq, fwd_thread, partner)
    accumulate = numbers.named(lambda w: w.startswith(ENGINE) and ACCUMULATE in w)
    of_engine = _partner_of_engine(forest, engine, is_engine, node, partner, accumulate)
    backward = (engine >= 0) | (nearest >= 0) | (unlinked >= 0)
    checkpoint = numbers.named(lambda w: w.startswith("CheckpointFunctionBackward"))
    again = (nearest >= 0) & (nearest > engine) & checkpoint[nearest]
    recompute = backward & (again | (module > np.maximum(engine, nearest)))
    forward = _forward(engine, nearest, partner, of_engine, recompute)
    is_forward = np.zeros(len(node), bool)
    is_forward[partner[partner >= 0]] = True
    return Autograd(engine, nearest, forward, partner, backward, recompute, is_forward, ambiguous)


def _by_flow(forest: Nesting, flows: pa.Table, node: Mask, seq: Ints) -> Ints:
    partner = np.full(len(node), -1, POSITION)
    if not flows.num_rows:
        return partner
    ends = [
        forest.innermost_at(_ints(flows[f"{side}_tid"]), _ints(flows[f"{side}_ns"]), TOLERANCE_NS)
        for side in ("forward", "backward")
    ]
    numbered = forest.nearest((seq >= 0) & ~node)
    nodes = forest.nearest(node)
    forward = np.where(ends[0] >= 0, numbered[ends[0]], -1)
    backward = np.where(ends[1] >= 0, nodes[ends[1]], -1)
    both = (forward >= 0) & (backward >= 0)
    partner[backward[both]] = forward[both]
    return partner


def _by_number(
    forest: Nesting, node: Mask, seq: Ints, fwd_thread: Ints, partner: Ints
) -> tuple[Ints, int]:
    """Fill in the nodes without an arrow by (forward thread, sequence number)."""
    open_ = np.flatnonzero(node & (partner < 0))
    forwards = np.flatnonzero((seq >= 0) & ~node)
    if not len(open_) or not len(forwards):
        return partner, 0
    nodes = np.flatnonzero(node)
    only = _only_thread(forest.tid[forwards], seq[forwards], seq[nodes])
    by_arrow = np.where(partner[nodes] >= 0, forest.tid[partner[nodes]], NONE)
    unpaired = partner[nodes] < 0
    thread = _thread_of_id(fwd_thread[nodes], by_arrow, only)[unpaired]
    only = only[unpaired]
    ambiguous = int(((thread < 0) & (only == SEVERAL)).sum())
    thread = np.where((thread < 0) & (only >= 0), only, thread)
    found = _latest_before(
        (forest.tid[forwards], seq[forwards], forest.start[forwards]),
        (thread, seq[open_], forest.start[open_]),
    )
    partner[open_[found >= 0]] = forwards[found[found >= 0]]
    return partner, ambiguous


NONE, SEVERAL = -1, -2
"""In place of a thread: no thread used the number, or more than one did."""


def _only_thread(tid: Ints, number: Ints, wanted: Ints) -> Ints:
    """Return for each wanted number the one thread whose forwards used it, NONE or SEVERAL."""
    order = np.lexsort((tid, number))
    number, tid = number[order], tid[order]
    new = np.concatenate([[True], (number[1:] != number[:-1]) | (tid[1:] != tid[:-1])])
    number, tid = number[new], tid[new]
    first = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    numbers, count = number[first], np.diff(np.append(first, len(number)))
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    thread = np.where(count[at] == 1, tid[first[at]], SEVERAL)
    return np.where(numbers[at] == wanted, thread, NONE)


def _thread_of_id(fwd_thread: Ints, by_arrow: Ints, only: Ints) -> Ints:
    """Learn which thread a ``Fwd thread id`` means, for every node; the file does not say it.

    Pairs known by arrow vote first, then numbers that only one thread used.
    """
    voters = np.flatnonzero((by_arrow >= 0) | (only >= 0))
    thread = np.where(by_arrow >= 0, by_arrow, only)[voters]
    weight = np.where(by_arrow[voters] >= 0, ARROW_WEIGHT, 1)
    ids, which = np.unique(fwd_thread, return_inverse=True)
    votes, of = distinct(which[voters], thread)
    tally = np.bincount(of, weights=weight, minlength=len(votes))
    winner = np.full(len(ids), -1, np.int64)
    for vote in np.argsort(tally, kind="stable").tolist():  # the strongest is written last
        winner[votes[vote][0]] = votes[vote][1]
    return winner[which]


ARROW_WEIGHT = 1000.0


def _latest_before(have: tuple[Ints, Ints, Ints], want: tuple[Ints, Ints, Ints]) -> Ints:
    """Find for each wanted (thread, number, time) the latest one had, not after the time.

    Of several forwards that share a number, the latest made it.
    """
    order = np.lexsort(have[::-1])
    times = np.sort(have[2])
    thread, number, time = (column[order] for column in have)
    new = np.concatenate([[True], (thread[1:] != thread[:-1]) | (number[1:] != number[:-1])])
    group = np.cumsum(new) - 1
    key = group * (len(times) + 1) + np.searchsorted(times, time, side="right")
    of_want = _group_of(thread[new], number[new], *want[:2])
    wanted = of_want * (len(times) + 1) + np.searchsorted(times, want[2], side="right")
    at = np.searchsorted(key, wanted, side="right") - 1
    hit = (of_want >= 0) & (at >= 0) & (group[np.maximum(at, 0)] == of_want)
    return np.where(hit, order[np.maximum(at, 0)], -1)


def _group_of(threads: Ints, numbers: Ints, thread: Ints, number: Ints) -> Ints:
    """Return the index of each (thread, number) among sorted distinct pairs, -1 where absent."""
    found = np.full(len(thread), -1, np.int64)
    for one in np.unique(threads):
        lo, hi = np.searchsorted(threads, [one, one + 1])
        rows = np.flatnonzero(thread == one)
        at = lo + np.searchsorted(numbers[lo:hi], number[rows])
        hit = (at < hi) & (numbers[np.minimum(at, hi - 1)] == number[rows])
        found[rows[hit]] = at[hit]
    return found


def _partner_of_engine(
    forest: Nesting, engine: Ints, is_engine: Mask, node: Mask, partner: Ints, accumulate: Mask
) -> Ints:
    """Give each ``evaluate_function`` the forward of its first node, by depth then time."""
    of_engine = np.full(len(node), -1, POSITION)
    nodes = np.flatnonzero(node & (engine >= 0) & (partner >= 0))
    nodes = nodes[np.lexsort((-nodes, -forest.depth[nodes]))]
    of_engine[engine[nodes]] = partner[nodes]  # shallower and earlier ones write last
    order = np.flatnonzero(is_engine)  # by thread, then start
    source = np.where(accumulate[order], -1, np.arange(len(order)))
    previous = np.maximum.accumulate(source) if len(order) else source
    ok = previous >= 0
    ok[ok] &= forest.tid[order[previous[ok]]] == forest.tid[order[ok]]
    fill = ok & accumulate[order]
    of_engine[order[fill]] = of_engine[order[previous[fill]]]
    return of_engine


def _forward(engine: Ints, nearest: Ints, partner: Ints, of_engine: Ints, recompute: Mask) -> Ints:
    """Choose for every backward position its nearest node, never above its engine call."""
    own = (nearest >= 0) & (nearest > engine)
    forward = np.where(own, partner[nearest], np.where(engine >= 0, of_engine[engine], -1))
    forward[recompute] = -1  # a recomputed forward stands for itself
    rows = np.flatnonzero(forward >= 0)
    for _ in range(MAX_CHAIN):
        rows = rows[forward[forward[rows]] >= 0]
        if not len(rows):
            break
        forward[rows] = forward[forward[rows]]
    return forward


def _ints(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), np.int64)

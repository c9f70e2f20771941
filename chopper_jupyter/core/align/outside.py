"""Work outside every module and outside the engine: loss, gradient clipping, or neither.

Such work has nothing around it that names it, so its place in time decides: after a forward
and before the backward it is part of the forward (the loss); after the backward and before
the optimizer's step it is part of the optimizer (clipping, unscaling).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.align.nesting import POSITION

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints, Mask

NEVER = 2**62

CLIP = (
    "aten::linalg_vector_norm", "aten::_foreach_norm", "aten::norm", "aten::stack",
    "aten::reciprocal", "aten::clamp", "aten::clamp_", "aten::mul", "aten::mul_",
    "aten::_foreach_mul_", "aten::_foreach_mul", "aten::add", "aten::div", "aten::cat",
    "aten::_foreach_clamp_max_", "aten::clamp_max", "aten::clamp_max_", "aten::sum", "aten::pow",
    "aten::sqrt", "aten::minimum", "aten::lt", "aten::full", "aten::ones", "aten::to",
)  # fmt: skip
"""Operators of which PyTorch's gradient clipping consists."""


@dataclass(frozen=True)
class Landmarks:
    """Starts and ends of what surrounds such work, each sorted.

    Parameters
    ----------
    forward, backward, step : tuple of int64 arrays
        (starts, ends) of outermost module calls, of engine calls, of optimizer steps.
    """

    forward: tuple[Ints, Ints]
    backward: tuple[Ints, Ints]
    step: tuple[Ints, Ints]


def landmarks(start: Ints, end: Ints, forward: Mask, backward: Mask, step: Mask) -> Landmarks:
    """Collect the landmarks from masks over the ranges."""
    made = [(np.sort(start[mask]), np.sort(end[mask])) for mask in (forward, backward, step)]
    return Landmarks(*made)


@dataclass(frozen=True)
class Place:
    """Where moments lie between the landmarks.

    Parameters
    ----------
    in_forward : bool array
        After a forward, with a backward to come before the next step.
    before_backward : bool array
        Of those, the ones after which no other forward comes first.
    before_step : bool array
        After the backward, with a step to come before the next forward.
    micro_batch : int array
        Forward-backward pairs begun so far in the whole recording, counted from 0; -1 before.
    same_thread : bool array
        On a thread that runs forwards or steps. Elsewhere (data loading, communication) the
        place in time says nothing.
    """

    in_forward: Mask
    before_backward: Mask
    before_step: Mask
    micro_batch: Ints
    same_thread: Mask


CHUNK = 1 << 16
"""Moments that are placed at once: what is held of each meanwhile stays in the cache."""


def place(at: Ints, marks: Landmarks, same_thread: Mask, asked: Mask) -> Place:
    """Place moments between the landmarks; the first three answers only where they are asked."""
    in_forward, before_backward, before_step = (np.zeros(len(at), bool) for _ in range(3))
    micro_batch = np.empty(len(at), POSITION)
    pairs = pair_starts(marks)
    for start in range(0, len(at), CHUNK):
        part = slice(start, start + CHUNK)
        moments = at[part]
        micro_batch[part] = np.searchsorted(pairs, moments, side="right") - 1
        rows = np.flatnonzero(asked[part])
        found = _between(moments[rows], marks)
        for whole, answers in zip((in_forward, before_backward, before_step), found, strict=True):
            whole[start + rows] = answers
    return Place(in_forward, before_backward, before_step, micro_batch, same_thread)


def _between(moments: Ints, marks: Landmarks) -> tuple[Mask, Mask, Mask]:
    """Say which moments are in a forward, directly before a backward, and before a step."""
    last_f, last_b, last_s = (_last(ends, moments) for _, ends in
                              (marks.forward, marks.backward, marks.step))  # fmt: skip
    next_f, next_b, next_s = (_next(starts, moments) for starts, _ in
                              (marks.forward, marks.backward, marks.step))  # fmt: skip
    in_forward = (last_f > last_b) & (last_f > last_s) & (next_b < NEVER) & (next_b <= next_s)
    before_step = (last_b > last_f) & (last_b > last_s) & (next_s < next_f)
    return in_forward, in_forward & (next_b < next_f), before_step


def pair_starts(marks: Landmarks) -> Ints:
    """Return when each forward-backward pair begins: the first forward after a backward."""
    starts, ends = marks.forward
    if not len(starts):
        return starts
    previous = np.concatenate([[-NEVER], np.maximum.accumulate(ends)[:-1]])
    backward, step = (_last(x[1], starts) for x in (marks.backward, marks.step))
    begins: Mask = (np.maximum(backward, step) > previous) | (previous == -NEVER)
    return starts[begins]


def _last(sorted_ends: Ints, at: Ints) -> Ints:
    padded: Ints = np.concatenate([[-NEVER], sorted_ends])
    return padded[np.searchsorted(sorted_ends, at, side="right")]


def _next(sorted_starts: Ints, at: Ints) -> Ints:
    padded: Ints = np.concatenate([sorted_starts, [NEVER]])
    found: Ints = padded[np.searchsorted(sorted_starts, at, side="left")]
    return found

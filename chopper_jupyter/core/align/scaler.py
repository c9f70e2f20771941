"""Finds what ``GradScaler.update`` runs: after the optimizer's step, and still part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints, Mask, Nesting

UPDATE = "aten::_amp_update_scale_"

GATHERING = ("aten::to", "aten::_to_copy", "aten::add_")
"""Operators that bring together what each device found, right before the update."""


def updates(forest: Nesting, names: Ints, words: list[str], top: Ints, steps: Mask) -> Mask:
    """Mark the ranges that a GradScaler's update runs after a step.

    Parameters
    ----------
    forest : Nesting
        Host ranges.
    names, words : int array, list of str
        Name of each position as a code into ``words``.
    top : int64 array
        Outermost operator at or above each position, below modules, engine and optimizer.
    steps : bool array
        Calls of optimizers, before which nothing belongs to an update.
    """
    result = np.zeros(len(names), bool)
    if UPDATE not in words:
        return result
    heads = np.flatnonzero((top == np.arange(len(top))) | steps)  # by thread, then start
    gathering = np.array([word in GATHERING for word in words], bool)[names[heads]] & ~steps[heads]
    same = np.diff(forest.tid[heads], prepend=-1) == 0
    for at in np.flatnonzero(names[heads] == words.index(UPDATE)).tolist():  # one an iteration
        first = at
        while first and same[first] and gathering[first - 1]:
            first -= 1
        result[heads[first : at + 1]] = True
    inside = top >= 0
    result[inside] |= result[top[inside]]
    return result

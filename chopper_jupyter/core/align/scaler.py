"""Finds what a ``GradScaler`` runs besides its two operators: small ones that lead up to them.

Unscaling comes before the optimizer's step. The update comes after it, and is still part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints, Mask, Nesting

UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"
UPDATE = "aten::_amp_update_scale_"

LEADING = {
    UNSCALE: ("aten::to", "aten::_to_copy", "aten::reciprocal", "aten::full"),  # 1 / scale
    UPDATE: ("aten::to", "aten::_to_copy", "aten::add_"),  # what each device found, together
}
"""Operators that run right before those of a GradScaler, on its behalf."""


def part(
    operator: str, forest: Nesting, names: Ints, words: list[str], top: Ints, steps: Mask
) -> Mask:
    """Mark the ranges that lead up to an operator of a GradScaler, and those of it.

    Parameters
    ----------
    operator : str
        ``UNSCALE`` or ``UPDATE``.
    forest : Nesting
        Host ranges.
    names, words : int array, list of str
        Name of each position as a code into ``words``.
    top : int array
        Outermost operator at or above each position, below modules, engine and optimizer.
    steps : bool array
        Calls of optimizers, before which nothing leads up to an update.
    """
    result = np.zeros(len(names), bool)
    if operator not in words:
        return result
    heads = np.flatnonzero((top == np.arange(len(top))) | steps)  # by thread, then start
    leading = np.array([word in LEADING[operator] for word in words], bool)[names[heads]]
    leading &= ~steps[heads]
    same = np.diff(forest.tid[heads], prepend=-1) == 0
    for at in np.flatnonzero(names[heads] == words.index(operator)).tolist():  # few an iteration
        first = at
        while first and same[first] and leading[first - 1]:
            first -= 1
        result[heads[first : at + 1]] = True
    inside = top >= 0
    result[inside] |= result[top[inside]]
    return result

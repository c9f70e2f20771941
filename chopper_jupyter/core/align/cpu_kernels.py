"""Which operators stand for kernels where no GPU was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints, Mask, Nesting

OWN_SHARE = 0.5


def operators_that_compute(forest: Nesting, aten: Mask, names: Ints) -> Mask:
    """Mark the aten operators that do the work on the CPU, none inside another.

    The innermost operators alone would not do: ``aten::mm`` calls ``aten::resolve_conj``, which
    only looks at a flag, and the multiplication itself would belong to no kernel at all. So an
    operator is a kernel if operators of its name spend at least half of their time outside
    other aten operators; where such ones nest, the outer one. An operator without an aten
    operator inside is always one, unless it lies inside a kernel. All time of aten operators
    below the wrappers is thus in exactly one kernel.

    Parameters
    ----------
    forest : Nesting
        Host ranges.
    aten : bool array
        Positions that are aten operators.
    names : int array
        Name of each position as a code.
    """
    at = np.flatnonzero(aten)
    kernel = np.zeros(len(aten), bool)
    if not len(at):
        return kernel
    dur = forest.end - forest.start
    above = np.where(forest.parent >= 0, forest.nearest(aten)[forest.parent], -1)
    own = dur.astype(np.float64)
    nested = at[above[at] >= 0]
    np.subtract.at(own, above[nested], dur[nested])
    total = np.bincount(names[at], weights=dur[at])
    share = np.bincount(names[at], weights=own[at]) / np.maximum(total, 1)
    leaf = aten & ~forest.any_below(aten)
    candidate = leaf.copy()
    candidate[at] |= share[names[at]] >= OWN_SHARE
    enclosing = np.where(forest.parent >= 0, forest.nearest(candidate)[forest.parent], -1)
    return candidate & (enclosing < 0)

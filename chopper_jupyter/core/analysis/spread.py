"""How far a time varies over the iterations and GPUs that a row joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Floats, Groups, Ints

_MS = 1e-6


def spread(time: Ints, groups: Groups, count: int) -> dict[str, Floats]:
    """Return the standard deviation, least and most time in ms of each group over its instances.

    Parameters
    ----------
    time : numpy.ndarray of int64
        Time in ns of each part of a group: that of one iteration on one GPU, as far as the
        groups do not already keep these apart. Where a group has no part it took no time.
    groups : Groups
        Which group each part is of.
    count : int
        Number of instances. The (sample) standard deviation of a single one is NaN.
    """
    parent = groups.of_row
    values: Floats = np.asarray(time * _MS, np.float64)
    seen = np.bincount(parent, minlength=groups.count)
    mean = _add(parent, values, groups.count) / max(1, count)
    return {
        "std": _deviation(values, parent, seen, mean, count),
        "min": _least(values, parent, seen, count),
        "max": _most(values, parent, seen),
    }


def _deviation(values: Floats, parent: Ints, seen: Ints, mean: Floats, count: int) -> Floats:
    if count < 2:  # noqa: PLR2004  one value has no spread
        return np.full(len(mean), np.nan)
    squares = _add(parent, (values - mean[parent]) ** 2, len(mean)) + (count - seen) * mean**2
    return np.asarray(np.sqrt(squares / (count - 1)), np.float64)


def _add(parent: Ints, values: Floats, count: int) -> Floats:
    total = np.zeros(count, np.float64)
    np.add.at(total, parent, values)
    return total


def _least(values: Floats, parent: Ints, seen: Ints, count: int) -> Floats:
    least = np.full(len(seen), np.inf)
    np.minimum.at(least, parent, values)
    least[seen < count] = 0.0
    return np.where(seen == 0, np.nan, least)


def _most(values: Floats, parent: Ints, seen: Ints) -> Floats:
    most = np.zeros(len(seen))
    np.maximum.at(most, parent, values)
    return np.where(seen == 0, np.nan, most)

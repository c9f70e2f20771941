"""Rows of two runs put into groups in common: rows that agree in their levels are one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.grouping import Groups, Key, group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.analysis.grouping import Ints


def joined_groups(
    sides: Sequence[tuple[Sequence[Key], Groups]],
) -> tuple[list[Key], Groups, list[Ints]]:
    """Put the groups of two runs into groups in common.

    Parameters
    ----------
    sides : sequence of (keys, groups)
        Of each run, by the same levels.

    Returns
    -------
    keys : list of Key
        By level, the values of both runs, those of the first before the others.
    joined : Groups
        The groups of both; its codes are positions in the values of ``keys``.
    place : list of int64 array
        Joined group of each group of each run.
    """
    keys, columns = [], []
    for number, both in enumerate(zip(*(side for side, _ in sides), strict=True)):
        merged = _union_key(both)
        at = {value: i for i, value in enumerate(merged.values)}
        codes = []
        for (_, groups), key in zip(sides, both, strict=True):
            known = np.array([*(at[v] for v in key.values), -1], np.int32)
            codes.append(known[groups.codes[number]])
        keys.append(merged)
        columns.append(Key(merged.name, merged.values, np.concatenate(codes)))
    counts = [groups.count for _, groups in sides]
    joined = group(columns, sum(counts))
    return keys, joined, np.split(joined.of_row, np.cumsum(counts)[:-1])


def _union_key(keys: Sequence[Key]) -> Key:
    """Return one key whose values are those of both, a's first."""
    values = tuple(dict.fromkeys([*keys[0].values, *keys[1].values]))
    return Key(keys[0].name, values, np.zeros(0, np.int32))


def values_of(keys: Sequence[Key], groups: Groups) -> list[tuple[object, ...]]:
    """Return the values of the keys of each group; None for null."""
    columns = [
        [None if code < 0 else key.values[code] for code in codes.tolist()]
        for key, codes in zip(keys, groups.codes, strict=True)
    ]
    return list(zip(*columns, strict=True))

"""Sums of measures over any levels, as integer codes: what the explorer asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.analysis.grouping import Codes, Ints, Key, group
from chopper_jupyter.core.analysis.included import Include, Included, included
from chopper_jupyter.core.errors import unknown_name
from chopper_jupyter.core.schema import LEVELS
from chopper_jupyter.core.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


WORTH_SUMMING = 200_000
"""Number of kernels from which sums are kept: then one question takes longer than a click may."""

KEPT = (
    ("phase", "layer", "op", "kernel"),
    ("gpu", "iteration", "phase", "layer"),
    ("gpu", "iteration", "phase", "op"),
    ("gpu", "phase", "layer", "op", "kernel"),
    ("iteration", "phase", "layer", "op", "kernel"),
    LEVELS,
)
"""Levels whose sums are kept, each from when it is first of use; fewest rows first."""


@dataclass(frozen=True)
class LevelCodes:
    """The levels and measures of all included kernels, ready for many queries.

    Parameters
    ----------
    keys : mapping of str to Key
        Codes per kernel and their values in reading order, for each level.
    measures : mapping of str to numpy.ndarray of int64
        Measures per kernel.
    included : Included
        Which kernels these are.
    """

    keys: Mapping[str, Key]
    measures: Mapping[str, Ints]
    included: Included
    _cubes: dict[tuple[str, ...], Cube] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @property
    def rows(self) -> Cube:
        """The kernels themselves, a row each."""
        return Cube(tuple(self.keys), tuple(k.codes for k in self.keys.values()), self.measures)

    def holding(self, levels: Iterable[str]) -> Cube:
        """Return the fewest rows from which any question about these levels can be answered.

        Many kernels are summed once over all levels, those sums over fewer levels, and both
        are kept: what is asked then goes through thousands of rows, not through millions.
        """
        if _rows(self.measures) < WORTH_SUMMING:
            return self.rows
        kept = self._cubes
        wanted = next(one for one in KEPT if set(levels) <= set(one))
        if wanted not in kept:
            finer = (cube for over, cube in kept.items() if set(wanted) < set(over))
            kept[wanted] = _summed(min(finer, key=len, default=self.rows), self.keys, wanted)
        return kept[wanted]

    @property
    def dictionaries(self) -> dict[str, tuple[Any, ...]]:
        """Values of each level; a code is a position in them."""
        return {name: key.values for name, key in self.keys.items()}

    @property
    def totals(self) -> dict[str, int]:
        """Every measure, summed over all included kernels."""
        return {name: int(values.sum()) for name, values in self.measures.items()}

    def kernel_families(self) -> tuple[str, ...]:
        """Return the family of each value of the kernel level (the one most of its time is in)."""
        family = self.included.key("family")
        rows = len(family.codes)
        groups = group([self.keys["kernel"], family], rows)
        time = groups.sum_of(self.measures["time_ns"])
        found = [""] * len(self.keys["kernel"].values)
        for i in np.argsort(time, kind="stable").tolist():  # the longest is written last
            found[int(groups.codes[0][i])] = family.values[int(groups.codes[1][i])]
        return tuple(found)


@dataclass(frozen=True)
class Cube:
    """Summed measures of every combination of level values that occurs.

    Parameters
    ----------
    levels : tuple of str
        The levels, in the order asked for.
    codes : tuple of numpy.ndarray of int32
        Per level, the code of each row; -1 is null. Codes index ``LevelCodes.dictionaries``.
    measures : mapping of str to numpy.ndarray of int64
        Per measure, the exact sum of each row.
    """

    levels: tuple[str, ...]
    codes: tuple[Codes, ...]
    measures: Mapping[str, Ints]

    def __len__(self) -> int:
        return _rows(self.measures)


def level_codes(trace: Trace, include: Include = "measured") -> LevelCodes:
    """Encode all levels of the included kernels once, for many queries by ``cube``."""
    which = included(trace, include)
    return LevelCodes({level: which.key(level) for level in LEVELS}, which.measures, which)


def cube(
    source: Trace | LevelCodes,
    levels: Iterable[str],
    filters: Iterable[tuple[str, int]] = (),
) -> Cube:
    """Sum the measures over the given levels, of the kernels that pass all filters.

    Parameters
    ----------
    source : Trace or LevelCodes
        A trace; or its codes, which answer many queries on a large trace quickly.
    levels : iterable of str
        Levels to keep apart; none gives one row of totals.
    filters : iterable of (str, int)
        Level and code; -1 takes the kernels whose level is null.

    Returns
    -------
    Cube
        Rows in the order of their codes, null last.

    Raises
    ------
    SchemaError
        If a level does not exist.

    Examples
    --------
    >>> cube(Trace.from_tables({}), []).measures["time_ns"].tolist()
    [0]
    """
    codes = level_codes(source) if isinstance(source, Trace) else source
    names = tuple(dict.fromkeys(levels))
    wanted = list(filters)
    needed = {*names, *(level for level, _ in wanted)}
    for name in needed:
        if name not in LEVELS:
            raise unknown_name(what="level", name=name, known=LEVELS)
    if isinstance(source, Trace):  # a single question does not pay for sums
        return _summed(codes.rows, codes.keys, names, wanted)
    return _summed(codes.holding(needed), codes.keys, names, wanted)


def _summed(
    whole: Cube,
    keys: Mapping[str, Key],
    names: tuple[str, ...],
    filters: Iterable[tuple[str, int]] = (),
) -> Cube:
    """Sum the rows of a cube that pass all filters over some of its levels."""
    of_level = dict(zip(whole.levels, whole.codes, strict=True))
    mask = _mask(of_level, filters)
    wanted = [Key(n, keys[n].values, _take(of_level[n], mask)) for n in names]
    measures = {name: _take(values, mask) for name, values in whole.measures.items()}
    groups = group(wanted, _rows(measures), narrow=True)
    return Cube(names, groups.codes, groups.sum(measures))


def _mask(
    of_level: Mapping[str, Codes], filters: Iterable[tuple[str, int]]
) -> npt.NDArray[np.bool_] | None:
    """Mark the rows that pass all filters; None if there are no filters."""
    mask = None
    for level, code in filters:
        same = of_level[level] == code
        mask = same if mask is None else mask & same
    return mask


def _rows(measures: Mapping[str, Ints]) -> int:
    return len(next(iter(measures.values())))


def _take(values: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    return values if mask is None else values[mask]

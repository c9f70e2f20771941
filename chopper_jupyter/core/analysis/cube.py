"""Sums of measures over any levels, as integer codes: what the explorer asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.analysis.grouping import Codes, Ints, Key, group
from chopper_jupyter.core.analysis.included import Include, Included, included
from chopper_jupyter.core.analysis.levels import encode
from chopper_jupyter.core.analysis.metrics import measures_of
from chopper_jupyter.core.errors import unknown_name
from chopper_jupyter.core.schema import LEVELS
from chopper_jupyter.core.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
        family = encode(self.included.kernels, "family")
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
    keys = {level: encode(which.kernels, level) for level in LEVELS}
    return LevelCodes(keys, measures_of(which.kernels), which)


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
    for name in (*names, *(level for level, _ in wanted)):
        if name not in LEVELS:
            raise unknown_name(what="level", name=name, known=LEVELS)
    mask = _mask(codes, wanted)
    keys = [Key(n, codes.keys[n].values, _take(codes.keys[n].codes, mask)) for n in names]
    measures = {name: _take(values, mask) for name, values in codes.measures.items()}
    groups = group(keys, _rows(measures))
    return Cube(names, groups.codes, groups.sum(measures))


def _mask(codes: LevelCodes, filters: list[tuple[str, int]]) -> npt.NDArray[np.bool_] | None:
    """Mark the kernels that pass all filters; None if there are no filters."""
    mask = None
    for level, code in filters:
        same = codes.keys[level].codes == code
        mask = same if mask is None else mask & same
    return mask


def _rows(measures: Mapping[str, Ints]) -> int:
    return len(next(iter(measures.values())))


def _take(values: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    return values if mask is None else values[mask]

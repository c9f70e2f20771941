"""A window of the timeline as few rectangles: what is too short to be seen is merged, and counted.

A kernel at least as long as the smallest visible step is a rectangle of its own. Shorter ones
that follow each other within one step become one rectangle, marked with how many they are and
how much of it they fill. The step grows until a few thousand rectangles are left.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.schema import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from chopper_jupyter.core.analysis.grouping import Codes, Ints
    from chopper_jupyter.core.analysis.timeline import Mask
    from chopper_jupyter.core.analysis.timeline_index import Bands, Lane, TimelineIndex

MOST_RECTANGLES = 4000
"""Kernel rectangles of one picture; other marks are at most as many again."""

MIXED = -2
"""Code of a merged rectangle whose kernels differ."""

_STEP_PX = 1.5
_TICK_PX = 3
_SPAN_PX = 2
_GROWTH = 1.6
_MOST_GAPS = 1000


@dataclass(frozen=True)
class Window:
    """What to draw.

    Parameters
    ----------
    gpus : sequence of int
        GPUs, from the top down.
    start, end : int
        Time from and to, in ns.
    width : int
        Pixels that the time is drawn over.
    """

    gpus: Sequence[int]
    start: int
    end: int
    width: int

    @property
    def step(self) -> float:
        """Time in ns of the smallest visible rectangle."""
        return max(1.0, _STEP_PX * (self.end - self.start) / max(1, self.width))


@dataclass(frozen=True)
class Slices:
    """Kernel rectangles by lane and start; all arrays are of one length.

    Parameters
    ----------
    lane : numpy.ndarray of int32
        Position among the lanes asked for.
    start, end : numpy.ndarray of int64
        Times in ns.
    count : numpy.ndarray of int64
        Kernels in it.
    busy : numpy.ndarray of int64
        Their time, summed.
    family : numpy.ndarray of int64
        Position in ``FAMILIES`` of the family with the most time.
    codes : mapping of str to numpy.ndarray of int32
        Codes of the index, ``MIXED`` where the kernels differ.
    row : numpy.ndarray of int64
        Row of the index of its (first) kernel.
    matching : numpy.ndarray of bool or None
        Rectangles that hold a kernel of the selection; None if nothing is selected.
    """

    lane: Codes
    start: Ints
    end: Ints
    count: Ints
    busy: Ints
    family: Ints
    codes: Mapping[str, Codes]
    row: Ints
    matching: Mask | None


def slices_in(
    index: TimelineIndex,
    lanes: Sequence[Lane],
    window: Window,
    wanted: Mapping[str, Collection[int]] | None = None,
    most: int = MOST_RECTANGLES,
) -> Slices:
    """Draw the kernels of some lanes within a window as few rectangles.

    Parameters
    ----------
    index : TimelineIndex
        All kernels.
    lanes : sequence of Lane
        Lanes of the index to draw.
    window : Window
        Time and width; its GPUs do not matter here.
    wanted : mapping of str to collection of int, optional
        What is selected: codes of ``index.codes`` by level.
    most : int
        About how many rectangles to make at most.
    """
    rows = [_rows_in(index, lane, window) for lane in lanes]
    step = _step_that_fits(index, rows, window, most)
    parts = [
        _lane_slices(index, place, lo, hi, _first_of_runs(index, lo, hi, window, step))
        for place, (lo, hi) in enumerate(rows)
        if hi > lo
    ]
    return marked(index, _joined(parts, list(index.codes)), wanted)


def marked(
    index: TimelineIndex, slices: Slices, wanted: Mapping[str, Collection[int]] | None
) -> Slices:
    """Return the same rectangles, those marked that hold a kernel of a selection.

    What is selected changes more often than the window, and marking is the cheaper part.
    """
    if not wanted:
        return replace(slices, matching=None)
    edges = np.flatnonzero(np.diff(slices.lane, prepend=-1, append=-1))
    parts = [
        _matching(index, slices.row[first:last], int(slices.count[last - 1]), wanted)
        for first, last in itertools.pairwise(edges.tolist())
    ]
    return replace(slices, matching=np.concatenate(parts) if parts else np.zeros(0, bool))


def _rows_in(index: TimelineIndex, lane: Lane, window: Window) -> tuple[int, int]:
    """Return the rows of a lane from the first that reaches into the window to the last."""
    lo, hi = lane.rows.start, lane.rows.stop
    first = lo + int(np.searchsorted(index.latest[lo:hi], window.start, side="right"))
    last = lo + int(np.searchsorted(index.start[lo:hi], window.end, side="left"))
    return first, max(first, last)


def _step_that_fits(
    index: TimelineIndex, rows: Sequence[tuple[int, int]], window: Window, most: int
) -> float:
    step = window.step
    while sum(hi - lo for lo, hi in rows) > most:
        made = sum(int(np.count_nonzero(_new_runs(index, lo, hi, window, step))) for lo, hi in rows)
        if made <= most:
            break
        step *= max(_GROWTH, 0.8 * made / most)
    return step


def _new_runs(index: TimelineIndex, lo: int, hi: int, window: Window, step: float) -> Mask:
    """Mark rows at which a rectangle starts."""
    start = index.start[lo:hi]
    short = (index.end[lo:hi] - start) < step
    place = ((start - window.start) * (1 / step)).astype(np.int32)  # a division takes twice as long
    new: Mask = np.ones(hi - lo, bool)
    new[1:] = ~(short[1:] & short[:-1] & (place[1:] == place[:-1]))
    return new


def _first_of_runs(index: TimelineIndex, lo: int, hi: int, window: Window, step: float) -> Ints:
    return np.flatnonzero(_new_runs(index, lo, hi, window, step))


def _lane_slices(
    index: TimelineIndex,
    place: int,
    lo: int,
    hi: int,
    first: Ints,
) -> Slices:
    count = np.diff(first, append=hi - lo)
    start, end = index.start[lo:hi], index.end[lo:hi]
    busy = np.add.reduceat(end - start, first)
    codes = {name: _common(values[lo:hi], first) for name, values in index.codes.items()}
    return Slices(
        np.full(len(first), place, np.int32), start[first], np.maximum.reduceat(end, first),
        count, busy, _longest_family(index.family[lo:hi], end - start, first, count), codes,
        lo + first, None,
    )  # fmt: skip


def _common(codes: Codes, first: Ints) -> Codes:
    """Return the code that all rows of a run have, or ``MIXED``."""
    if len(first) == len(codes):
        return codes
    least = np.minimum.reduceat(codes, first)
    return np.where(np.maximum.reduceat(codes, first) == least, least, MIXED).astype(np.int32)


def _longest_family(family: npt.NDArray[np.int8], time: Ints, first: Ints, count: Ints) -> Ints:
    if len(first) == len(family):
        return family.astype(np.int64)
    cells = np.repeat(np.arange(len(first)), count) * len(FAMILIES) + family
    sums = np.bincount(cells, time, len(first) * len(FAMILIES))
    return np.asarray(sums.reshape(-1, len(FAMILIES)).argmax(1), np.int64)


def _matching(
    index: TimelineIndex, row: Ints, last: int, wanted: Mapping[str, Collection[int]]
) -> Mask:
    """Mark the rectangles of one lane; ``last`` is how many kernels the last of them holds."""
    lo, hi = int(row[0]), int(row[-1]) + last
    mask: Mask = np.ones(hi - lo, bool)
    for level, codes in wanted.items():
        values = index.codes[level][lo:hi]
        same: Mask = np.zeros(hi - lo, bool)
        for code in codes:  # they are few: then comparing is faster than isin
            same |= values == code
        mask &= same
    return np.asarray(np.logical_or.reduceat(mask, row - lo), bool)


def _joined(parts: Sequence[Slices], levels: Sequence[str]) -> Slices:
    if not parts:
        none = np.zeros(0, np.int64)
        codes = {level: none.astype(np.int32) for level in levels}
        return Slices(none.astype(np.int32), none, none, none, none, none, codes, none, None)
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("lane", "start", "end", "count", "busy", "family", "row")
    }
    codes = {level: np.concatenate([part.codes[level] for part in parts]) for level in levels}
    return Slices(**columns, codes=codes, matching=None)


@dataclass(frozen=True)
class Marks:
    """Launches, gaps or spans within a window, by start.

    Parameters
    ----------
    gpu : numpy.ndarray of int64
        GPU of each.
    start, end : numpy.ndarray of int64
        Times in ns.
    code : numpy.ndarray of int32
        Cause of a gap, name of a span.
    count : numpy.ndarray of int64
        How many it stands for.
    """

    gpu: Ints
    start: Ints
    end: Ints
    code: Codes
    count: Ints


def gaps_in(index: TimelineIndex, window: Window) -> Marks:
    """Return idle time wide enough to be seen, the longest if there is too much of it."""
    rows = _bands_in(index.gaps, window, window.step)
    if len(rows) > _MOST_GAPS:
        length = index.gaps.end[rows] - index.gaps.start[rows]
        rows = np.sort(rows[np.argpartition(-length, _MOST_GAPS)[:_MOST_GAPS]])
    return _marks(index.gaps, rows)


def spans_in(index: TimelineIndex, level: str, window: Window) -> Marks:
    """Return the iterations, phases or layers of the first GPU that are wide enough to be seen."""
    first = Window(window.gpus[:1], window.start, window.end, window.width)
    least = _SPAN_PX * (window.end - window.start) / max(1, window.width)
    return _marks(index.spans[level], _bands_in(index.spans[level], first, least))


def launches_in(index: TimelineIndex, window: Window) -> Marks:
    """Return the launch calls, those within a few pixels as one mark."""
    step = max(1.0, _TICK_PX * (window.end - window.start) / max(1, window.width))
    bands = index.launches
    parts = []
    for lo, hi in _ranges_in(bands, window):
        start = bands.start[lo:hi]  # a view: millions of launches are not copied to be counted
        place = ((start - window.start) * (1 / step)).astype(np.int64)
        first = np.flatnonzero(np.diff(place, prepend=place[0] - 1))
        ends = np.maximum.reduceat(bands.end[lo:hi], first)
        rows, count = lo + first, np.diff(first, append=hi - lo)
        parts.append((bands.gpu[rows], start[first], ends, bands.code[rows], count))
    if not parts:
        return _marks(bands, np.zeros(0, np.int64))
    return Marks(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _bands_in(bands: Bands, window: Window, least: float) -> Ints:
    """Return the rows of the asked GPUs that reach into the window and last long enough."""
    found = [
        lo + np.flatnonzero(bands.end[lo:hi] - bands.start[lo:hi] >= least)
        for lo, hi in _ranges_in(bands, window)
    ]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _ranges_in(bands: Bands, window: Window) -> list[tuple[int, int]]:
    """Return first and last row, exclusive, of each asked GPU's bands in the window, if any."""
    found = []
    for gpu in window.gpus:
        lo, hi = np.searchsorted(bands.gpu, [gpu, gpu + 1])
        # Bands of one kind follow each other, so that their ends ascend with their starts.
        first = lo + int(np.searchsorted(bands.end[lo:hi], window.start, side="right"))
        last = lo + int(np.searchsorted(bands.start[lo:hi], window.end, side="left"))
        if last > first:
            found.append((int(first), int(last)))
    return found


def _marks(bands: Bands, rows: Ints) -> Marks:
    ones = np.ones(len(rows), np.int64)
    return Marks(bands.gpu[rows], bands.start[rows], bands.end[rows], bands.code[rows], ones)

"""What the timeline draws, put in order once, so that every window of it is found quickly.

Kernels are sorted by lane and start. A lane is what one stream of one GPU ran of one kind; the
streams beyond the busiest of a kind share a lane. Unlike summaries, the timeline also holds
warm-up and what lies in no iteration.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.distinct import renumber
from chopper_jupyter.core.analysis.idle_causes import split_idle
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.levels import encode
from chopper_jupyter.core.analysis.timeline import Mask, runs, timeline
from chopper_jupyter.core.errors import PartialTraceWarning
from chopper_jupyter.core.schema import FAMILIES, LEVEL_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chopper_jupyter.core.analysis.grouping import Codes, Ints
    from chopper_jupyter.core.trace import Trace

LANE_KINDS = {"compute": "Compute", "communication": "Communication", "copies": "Copies"}
"""Kinds of lanes from the top down, with their words for a display."""

_LANE_OF_KIND = {"compute": 0, "collective": 1, "memcpy": 2, "memset": 2}
_STREAMS_APART = 3
"""So many streams of a kind have lanes of their own; more would not be read."""

TEXT_LEVELS = ("phase", "layer", "op", "kernel")


@dataclass(frozen=True)
class Lane:
    """One row of rectangles.

    Parameters
    ----------
    gpu : int
        GPU it belongs to.
    kind : str
        A key of ``LANE_KINDS``.
    streams : tuple of int
        Device streams in it.
    rows : slice
        Its kernels in the arrays of the index.
    """

    gpu: int
    kind: str
    streams: tuple[int, ...]
    rows: slice


@dataclass(frozen=True)
class Bands:
    """Stretches of time of each GPU, sorted by GPU and start, with a code each."""

    gpu: Ints
    start: Ints
    end: Ints
    code: Codes


@dataclass(frozen=True)
class TimelineIndex:
    """All that a timeline of a trace may show.

    Parameters
    ----------
    lanes : tuple of Lane
        By GPU, kind and stream.
    start, end : numpy.ndarray of int64
        Kernel times by lane and start.
    latest : numpy.ndarray of int64
        Latest end of this and all earlier kernels of the lane.
    kernel_id : numpy.ndarray of int64
        Identity of the kernel.
    launch : numpy.ndarray of int64
        Start of its launch call; -1 if not recorded.
    family : numpy.ndarray of int8
        Position in ``FAMILIES``.
    codes : mapping of str to numpy.ndarray of int32
        Per text level and ``iteration``: position in ``words``, or the iteration; -1 is null.
    words : mapping of str to list
        Names of each text level.
    launches : Bands
        Launch calls by GPU.
    gaps : Bands
        Idle time by GPU; the code is a position in ``CAUSES``.
    spans : mapping of str to Bands
        ``iteration``, ``phase`` and ``layer``: when compute kernels of each ran. The code is
        that of the level.
    """

    lanes: tuple[Lane, ...]
    start: Ints
    end: Ints
    latest: Ints
    kernel_id: Ints
    launch: Ints
    family: npt.NDArray[np.int8]
    codes: Mapping[str, Codes]
    words: Mapping[str, list[Any]]
    launches: Bands
    gaps: Bands
    spans: Mapping[str, Bands]

    @property
    def extent(self) -> tuple[int, int]:
        """First start and last end of all kernels; (0, 0) if there are none."""
        if not len(self.start):
            return 0, 0
        return int(self.start.min()), int(self.end.max())

    def lanes_of(self, gpu: int) -> list[Lane]:
        """Return the lanes of one GPU from the top down."""
        return [lane for lane in self.lanes if lane.gpu == gpu]


def timeline_index(trace: Trace) -> TimelineIndex:
    """Sort the kernels of a trace into lanes and find its idle gaps, launches and spans.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> timeline_index(Trace.from_tables({})).extent
    (0, 0)
    """
    kernels = trace.kernels
    lane_of, lanes = _lanes(kernels)
    start = kernels["start_ns"].to_numpy()
    order = _by_lane(lane_of, start)
    start = start[order]
    end = start + kernels["dur_ns"].to_numpy()[order]
    bounds = np.searchsorted(lane_of[order], np.arange(len(lanes) + 1))
    placed = tuple(
        Lane(gpu, kind, streams, slice(int(lo), int(hi)))
        for (gpu, kind, streams), lo, hi in zip(lanes, bounds[:-1], bounds[1:], strict=True)
    )
    latest = end.copy()
    for lane in placed:
        np.maximum.accumulate(end[lane.rows], out=latest[lane.rows])
    words: dict[str, list[Any]] = {}
    codes: dict[str, Codes] = {}
    for level in TEXT_LEVELS:
        raw, words[level] = dictionary_of(kernels[LEVEL_COLUMNS[level]])
        codes[level] = raw[order]
    codes["iteration"] = _ints(kernels["iteration"], -1).astype(np.int32)[order]
    return TimelineIndex(
        placed, start, end, latest, kernels["kernel_id"].to_numpy()[order],
        _ints(kernels["launch_ns"], -1)[order], _families(kernels)[order], codes, words,
        _launches(kernels), _gaps(trace), _spans(placed, start, end, codes),
    )  # fmt: skip


def dictionary_of(column: pa.ChunkedArray) -> tuple[Codes, list[Any]]:
    """Return the codes of a column of names, -1 for null, and the names."""
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk at all: no rows
        whole = pa.array([], whole.type)
    codes = pc.fill_null(whole.indices, -1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int32, copy=False), whole.dictionary.to_pylist()


def _ints(column: pa.ChunkedArray, null: int) -> Ints:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), null).to_numpy(), np.int64)


def _lanes(kernels: pa.Table) -> tuple[Ints, list[tuple[int, str, tuple[int, ...]]]]:
    """Return the lane of each kernel, and GPU, kind and streams of each lane."""
    raw, names = dictionary_of(kernels["kind"])
    table = np.array([*(_LANE_OF_KIND.get(name, 0) for name in names), 0])
    group = table[raw] if len(names) else np.zeros(kernels.num_rows, np.int64)
    stream = encode(kernels, "stream")
    streams, gpu = stream.values, kernels["gpu"].to_numpy().astype(np.int64)
    key = (gpu * len(LANE_KINDS) + group) * max(1, len(streams)) + stream.codes
    row, member = renumber(key, int(key.max(initial=-1)) + 1)
    found = key[row]
    time = np.bincount(member, kernels["dur_ns"].to_numpy(), len(found))
    lane_of_key = np.zeros(len(found), np.int64)
    lanes: list[tuple[int, str, tuple[int, ...]]] = []
    for head, rows in runs(found // max(1, len(streams))):
        places = np.arange(rows.start, rows.stop)
        longest = places[np.argsort(-time[places], kind="stable")]
        apart = [[int(i)] for i in np.sort(longest[:_STREAMS_APART])]
        if len(longest) > _STREAMS_APART:
            apart.append(np.sort(longest[_STREAMS_APART:]).tolist())
        for members in apart:
            lane_of_key[members] = len(lanes)
            ids = tuple(int(streams[found[i] % len(streams)]) for i in members)
            lanes.append((head // len(LANE_KINDS), list(LANE_KINDS)[head % len(LANE_KINDS)], ids))
    return lane_of_key[member], lanes


def _by_lane(lane_of: Ints, start: Ints) -> Ints | slice:
    """Return the order by lane, then start; tables are mostly in order of start already."""
    if _in_order(lane_of, start):
        return slice(None)
    order = np.argsort(lane_of.astype(np.int16), kind="stable")  # few lanes: a radix sort
    if _in_order(lane_of[order], start[order]):
        return order
    return np.lexsort((start, lane_of))


def _in_order(lane: Ints, start: Ints) -> bool:
    later = lane[1:] > lane[:-1]
    return bool((later | (lane[1:] == lane[:-1]) & (start[1:] >= start[:-1])).all())


def _families(kernels: pa.Table) -> npt.NDArray[np.int8]:
    raw, names = dictionary_of(kernels["family"])
    known = {name: i for i, name in enumerate(FAMILIES)}
    other = known["elementwise"]
    return np.array([*(known.get(name, other) for name in names), other], np.int8)[raw]


def _launches(kernels: pa.Table) -> Bands:
    launch = _ints(kernels["launch_ns"], -1)
    known = np.asarray(pc.is_valid(kernels["launch_ns"]).to_numpy(), bool)
    gpu = kernels["gpu"].to_numpy().astype(np.int64)[known]
    start = launch[known]
    order = np.lexsort((start, gpu))
    length = _ints(kernels["launch_dur_ns"], 0)[known]
    return Bands(gpu[order], start[order], (start + length)[order], np.zeros(len(order), np.int32))


def _gaps(trace: Trace) -> Bands:
    """Lay out the causes of every gap, the host's share first: that is when it was late."""
    if trace.info.device_kind == "cpu":
        none = np.zeros(0, np.int64)
        return Bands(none, none, none, none.astype(np.int32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)  # the quality chip tells it
        line = timeline(trace, included(trace, "all"), "the timeline")
    shown = slice(None) if line.whole else np.sort(line.covered)
    at, gpu = (line.start - line.ints("idle_ns"))[shown], line.gpu[shown]
    made: list[tuple[Ints, Ints, Ints, Codes]] = []
    of_row: list[Ints] = []
    for code, lengths in enumerate(split_idle(trace, line).values()):
        length = lengths[shown]
        rows = np.flatnonzero(length > 0)
        if len(rows):
            begin, length = at[rows], length[rows]
            kind = np.full(len(rows), code, np.int32)
            made.append((gpu[rows], begin, begin + length, kind))
            of_row.append(rows)
            at[rows] += length
    return _in_time(made, of_row)


def _in_time(made: list[tuple[Ints, Ints, Ints, Codes]], of_row: list[Ints]) -> Bands:
    """Join what each cause has of the gaps, in order of GPU and start.

    That is nearly always the order of the rows: parts of one gap follow each other.
    """
    if not made:
        none = np.zeros(0, np.int64)
        return Bands(none, none, none, none.astype(np.int32))
    gpus, start, end, codes = made[0]
    if len(made) > 1:
        order = np.argsort(np.concatenate(of_row), kind="stable")
        joined = [np.concatenate(parts)[order] for parts in zip(*made, strict=True)]
        gpus, start, end, codes = joined
    if not ((gpus[1:] > gpus[:-1]) | (gpus[1:] == gpus[:-1]) & (start[1:] > start[:-1])).all():
        order = np.lexsort((codes, start, gpus))
        gpus, start, end, codes = gpus[order], start[order], end[order], codes[order]
    return Bands(gpus, start, end, codes)


def _spans(
    lanes: tuple[Lane, ...], start: Ints, end: Ints, codes: Mapping[str, Codes]
) -> dict[str, Bands]:
    """Find when compute kernels of one iteration, phase or layer followed each other."""
    made: dict[str, list[tuple[Ints, Ints, Ints, Codes]]] = {}
    for gpu in dict.fromkeys(lane.gpu for lane in lanes):
        own = [lane.rows for lane in lanes if lane.gpu == gpu and lane.kind == "compute"]
        rows: Ints | slice = own[0] if own else slice(0)
        if len(own) > 1:
            rows = np.concatenate([np.arange(one.start, one.stop) for one in own])
            rows = rows[np.argsort(start[rows], kind="stable")]
        for level, keys in _SPAN_KEYS.items():
            found = _stretches(rows, start, end, codes, keys)
            made.setdefault(level, []).append((np.full(len(found[0]), gpu), *found))
    bands = {}
    for level in _SPAN_KEYS:
        parts = made.get(level) or [(np.zeros(0, np.int64),) * 3 + (np.zeros(0, np.int32),)]
        bands[level] = Bands(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return bands


_SPAN_KEYS = {
    "iteration": ("iteration",),
    "phase": ("iteration", "phase"),
    "layer": ("iteration", "phase", "layer"),
}


def _stretches(
    rows: Ints | slice, start: Ints, end: Ints, codes: Mapping[str, Codes], keys: tuple[str, ...]
) -> tuple[Ints, Ints, Codes]:
    """Return start, end and code of every run of rows that agree in all keys, null left out."""
    columns, begin, until = [codes[key][rows] for key in keys], start[rows], end[rows]
    known = columns[-1] >= 0
    if not known.all():
        columns, begin, until = [values[known] for values in columns], begin[known], until[known]
    new: Mask = np.zeros(len(begin), bool)
    new[:1] = True
    for values in columns:
        new[1:] |= values[1:] != values[:-1]
    first = np.flatnonzero(new)
    ends = np.maximum.reduceat(until, first) if len(first) else until
    return begin[first], ends, columns[-1][first]

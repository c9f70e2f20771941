"""The timeline as the browser gets it: windows, details of a kernel, and what a page embeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.core.analysis.idle_causes import CAUSES
from chopper_jupyter.core.analysis.timeline_index import (
    LANE_KINDS,
    TEXT_LEVELS,
    Lane,
    TimelineIndex,
    timeline_index,
)
from chopper_jupyter.core.analysis.timeline_overview import busy_share, iteration_spans
from chopper_jupyter.core.analysis.timeline_slices import (
    MIXED,
    MOST_RECTANGLES,
    Marks,
    Slices,
    Window,
    gaps_in,
    launches_in,
    marked,
    slices_in,
    spans_in,
)
from chopper_jupyter.core.analysis.timeline_tracks import TRACKS, Track, thinned, tracks_of
from chopper_jupyter.core.names import short_name
from chopper_jupyter.widgets.members import LONGEST_LABEL
from chopper_jupyter.widgets.packing import packed_size
from chopper_jupyter.widgets.wording import clip, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from chopper_jupyter.core.trace import Trace

MINIMAP_BINS = 300
SPAN_ROWS = ("iteration", "phase", "layer")
_REMEMBERED = 4
FIRST_GPUS = 2
"""GPUs that are shown at first; more are a click away."""


@dataclass(frozen=True)
class TimelineData:
    """A trace's timeline, from which windows are answered; what is costly is made at first use.

    Parameters
    ----------
    trace : Trace
        The trace.
    """

    trace: Trace

    @cached_property
    def index(self) -> TimelineIndex:
        """All kernels by lane."""
        return timeline_index(self.trace)

    @cached_property
    def tracks(self) -> list[Track]:
        """Samples of clock and power."""
        return tracks_of(self.trace)

    @cached_property
    def gpus(self) -> list[int]:
        """GPUs that ran a kernel."""
        return sorted({lane.gpu for lane in self.index.lanes})

    def description(self) -> dict[str, Any] | None:
        """Return what does not depend on the window; None if nothing ran."""
        start, end = self.index.extent
        if end <= start:
            return None
        spans = iteration_spans(self.trace, self.index)
        first = next((span for span in spans if span.measured), None)
        shares = busy_share(self.trace, MINIMAP_BINS)
        return {
            "from": start,
            "to": end,
            "gpus": self.gpus,
            "shown": self.gpus[:FIRST_GPUS],
            "start": [first.start, first.end] if first else [start, end],
            "iterations": [
                {"number": s.number, "from": s.start, "to": s.end, "measured": s.measured}
                for s in spans
            ],
            "minimap": np.round(shares * 100).astype(int).tolist(),
            "causes": [{"name": name, "title": title} for name, title in CAUSES.items()],
            "tracks": self._track_scales(),
            "embedded": [],
        }

    def _track_scales(self) -> list[dict[str, Any]]:
        """Describe the tracks there are; all of one metric share a scale: they compare."""
        scales = []
        for metric, (title, unit) in TRACKS.items():
            highest = [track.highest for track in self.tracks if track.metric == metric]
            if highest:
                scale = {"metric": metric, "title": title, "unit": unit}
                scales.append(scale | {"highest": _rounded(max(highest))})
        return scales

    def window(
        self,
        window: Window,
        wanted: Mapping[str, Collection[Any]] | None = None,
        *,
        most: int = MOST_RECTANGLES,
        identities: bool = True,
    ) -> dict[str, Any]:
        """Draw a window: what the browser needs to paint it, as JSON data.

        Parameters
        ----------
        window : Window
            GPUs, time and width.
        wanted : mapping of str to collection, optional
            Selected values by level.
        most : int
            About how many kernel rectangles there may be.
        identities : bool
            Whether kernels carry their id, by which Python can be asked about them.
        """
        lanes = [lane for gpu in window.gpus for lane in self.index.lanes_of(gpu)]
        slices = marked(self.index, self._drawn(lanes, window, most), self._codes_of(wanted))
        return {
            "from": window.start,
            "to": window.end,
            "gpus": list(window.gpus),
            "lanes": [_lane(lane) for lane in lanes],
            **_slices_json(self.index, slices, identities=identities),
            "gaps": _marks(gaps_in(self.index, window)),
            "launches": _marks(launches_in(self.index, window)),
            "spans": {level: self._spans(level, window) for level in SPAN_ROWS},
            "tracks": [
                _track(thinned(track, window)) for track in self.tracks if track.gpu in window.gpus
            ],
        }

    def _drawn(self, lanes: list[Lane], window: Window, most: int) -> Slices:
        """Draw a window, or remember it: while one selects, the same one is asked for again."""
        key = (tuple(window.gpus), window.start, window.end, window.width, most)
        found = self._remembered.pop(key, None)
        if found is None:
            found = slices_in(self.index, lanes, window, most=most)
        self._remembered[key] = found
        for old in list(self._remembered)[:-_REMEMBERED]:
            del self._remembered[old]
        return found

    @cached_property
    def _remembered(self) -> dict[tuple[Any, ...], Slices]:
        return {}

    def _codes_of(self, wanted: Mapping[str, Collection[Any]] | None) -> dict[str, list[int]]:
        """Turn values into codes of the index; GPUs have lanes of their own."""
        found = {}
        for level, values in (wanted or {}).items():
            if level == "iteration":
                found[level] = [-1 if value is None else int(value) for value in values]
            elif level in TEXT_LEVELS:
                words = self.index.words[level]
                found[level] = [words.index(v) if v is not None else -1 for v in values]
        return found

    def _spans(self, level: str, window: Window) -> dict[str, Any]:
        marks = _marks(spans_in(self.index, level, window))
        codes = marks.pop("code")
        del marks["gpu"], marks["count"]
        if level == "iteration":
            return marks | {"name": [str(code) for code in codes]}
        words = self.index.words[level]
        return marks | {"name": [_label(words[code]) for code in codes]}


def _lane(lane: Lane) -> dict[str, Any]:
    return {
        "gpu": lane.gpu,
        "kind": lane.kind,
        "title": LANE_KINDS[lane.kind],
        "streams": list(lane.streams),
    }


def _slices_json(index: TimelineIndex, slices: Slices, *, identities: bool) -> dict[str, Any]:
    """Write the rectangles as columns; starts are steps from the rectangle before."""
    names: dict[str, list[dict[str, str]]] = {}
    codes: dict[str, list[int]] = {"iteration": slices.codes["iteration"].tolist()}
    for level in TEXT_LEVELS:
        values, places = np.unique(slices.codes[level], return_inverse=True)
        known = values[values >= 0].tolist()
        names[level] = [_name(level, index.words[level][code]) for code in known]
        below = len(values) - len(known)
        codes[level] = np.where(values < 0, values, np.arange(len(values)) - below)[places].tolist()
    columns = {
        "lane": slices.lane.tolist(),
        "start": np.diff(slices.start, prepend=0).tolist(),
        "dur": (slices.end - slices.start).tolist(),
        "count": slices.count.tolist(),
        "fill": np.ceil(100 * slices.busy / np.maximum(1, slices.end - slices.start))
        .clip(0, 100)
        .astype(int)
        .tolist(),
        "family": slices.family.tolist(),
        "wait": _waits(index, slices),
    }
    if identities:
        columns["id"] = np.where(slices.count == 1, index.kernel_id[slices.row], -1).tolist()
    if slices.matching is not None:
        columns["matching"] = slices.matching.astype(int).tolist()
    return {"names": names, "slices": columns | codes}


def _waits(index: TimelineIndex, slices: Slices) -> list[int]:
    """Return how long before the kernel its launch call began; -1 if unknown or merged."""
    launch = index.launch[slices.row]
    known = (slices.count == 1) & (launch >= 0)
    return np.where(known, slices.start - launch, MIXED).tolist()  # type: ignore[no-any-return]


def _name(level: str, word: str) -> dict[str, str]:
    label = _label(word)
    return {"label": label, "short": short_name(word)} if level == "kernel" else {"label": label}


def _label(word: str) -> str:
    return clip(printable(word), LONGEST_LABEL)


def _marks(marks: Marks) -> dict[str, Any]:
    return {
        "gpu": marks.gpu.tolist(),
        "start": np.diff(marks.start, prepend=0).tolist(),
        "dur": (marks.end - marks.start).tolist(),
        "code": marks.code.tolist(),
        "count": marks.count.tolist(),
    }


def _track(track: Track) -> dict[str, Any]:
    return {
        "gpu": track.gpu,
        "metric": track.metric,
        "time": np.diff(track.time, prepend=0).tolist(),
        "value": [_rounded(value) for value in track.value.tolist()],
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


_SIZES = ((1000, 2400), (600, 1400), (300, 700), (150, 300))
"""Rectangles of the whole run and of one iteration, tried in this order."""

_LEAST_PER_GPU = 60


def embedded_timeline(data: TimelineData, room: float) -> dict[str, Any] | None:
    """Describe the timeline and draw what a page shows without Python.

    That is the whole run, and its first measured iteration more finely; as fine as fits.

    Parameters
    ----------
    data : TimelineData
        The timeline.
    room : float
        Bytes for all of it, compressed.

    Returns
    -------
    dict or None
        None if nothing ran, or if not even the description fits.
    """
    description = data.description()
    if description is None or packed_size(description) > room:
        return None
    for sizes in _SIZES:
        windows = _windows(data, description, sizes)
        made = description | {"embedded": windows}
        if packed_size(made) <= room:
            return made
    return description


def _windows(
    data: TimelineData, description: Mapping[str, Any], sizes: tuple[int, int]
) -> list[dict[str, Any]]:
    run, first = (description["from"], description["to"]), tuple(description["start"])
    made: list[dict[str, Any]] = []
    for (start, end), most in zip((run, first), sizes, strict=True):
        many = len(data.gpus) * _LEAST_PER_GPU > most
        gpus = description["shown"] if many else data.gpus
        window = Window(gpus, start, end, max(100, most // len(gpus)))
        if not made or (start, end) != run:
            made.append(data.window(window, most=most, identities=False))
    return made

"""Clock and power of the GPUs within a window, thinned to what can be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.timeline_slices import Window
    from chopper_jupyter.core.trace import Trace

TRACKS = {"gpu_clock_mhz": ("Clock", "MHz"), "power_w": ("Power", "W")}
"""Sampled metrics that the timeline draws: their words and units."""

_SAMPLE_PX = 2


@dataclass(frozen=True)
class Track:
    """Samples of one metric of one GPU, in order of time.

    Parameters
    ----------
    gpu : int
        The GPU.
    metric : str
        A key of ``TRACKS``.
    time : numpy.ndarray of int64
        Times in ns since the origin of the trace.
    value : numpy.ndarray of float64
        Values in the unit of the metric.
    """

    gpu: int
    metric: str
    time: Ints
    value: Floats

    @property
    def highest(self) -> float:
        """The highest value of the whole run."""
        return float(self.value.max())


def tracks_of(trace: Trace) -> list[Track]:
    """Return the samples of the metrics that the timeline draws, by metric and GPU.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> tracks_of(Trace.from_tables({}))
    []
    """
    table = trace.telemetry.filter(pc.is_valid(trace.telemetry["gpu"]))
    names = table["metric"].cast(pa.string())
    made = []
    for metric in TRACKS:
        own = table.filter(pc.equal(names, metric))
        gpu, time, value = (own[name].to_numpy() for name in ("gpu", "time_ns", "value"))
        order = np.lexsort((time, gpu))
        for one in np.unique(gpu).tolist():
            rows = order[gpu[order] == one]
            made.append(Track(one, metric, time[rows], value[rows]))
    return made


def thinned(track: Track, window: Window) -> Track:
    """Keep the samples of a window and one on either side; means where they lie too close."""
    lo = max(0, int(np.searchsorted(track.time, window.start)) - 1)
    hi = int(np.searchsorted(track.time, window.end, side="right")) + 1
    time, value = track.time[lo:hi], track.value[lo:hi]
    step = _SAMPLE_PX * (window.end - window.start) / max(1, window.width)
    place = np.floor((time - window.start) / max(1.0, step)).astype(np.int64)
    first = np.flatnonzero(np.diff(place, prepend=place[0] - 1)) if len(place) else place
    if len(first) == len(time):
        return Track(track.gpu, track.metric, time, value)
    count = np.diff(first, append=len(time))
    means = (np.add.reduceat(time - track.time[0], first) // count) + track.time[0]
    return Track(track.gpu, track.metric, means, np.add.reduceat(value, first) / count)

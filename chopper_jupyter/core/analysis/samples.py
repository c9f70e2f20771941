"""Samples of sensors: in order of time, which of them are fresh, and what ran at that time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.analysis.timeline import runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.timeline import Mask, Timeline
    from chopper_jupyter.core.trace import Trace

NOTHING = -1


@dataclass(frozen=True)
class Samples:
    """Samples of one metric of all GPUs, by GPU and time.

    Parameters
    ----------
    gpu, time : numpy.ndarray of int64
        GPU, and ns since the origin of the trace.
    value : numpy.ndarray of float64
        In the unit that the metric's name says.
    fresh : numpy.ndarray of bool
        Readings of the sensor itself; others only repeat what it said before.
    refresh_ns : mapping of int to int or None
        How often the sensor of each GPU has something new to say; None if its value is constant.
    """

    gpu: Ints
    time: Ints
    value: Floats
    fresh: Mask
    refresh_ns: dict[int, int | None]

    @property
    def refresh_ms(self) -> float | None:
        """Median over the GPUs of how often their sensors refresh; None if all are constant."""
        known = [ns for ns in self.refresh_ns.values() if ns is not None]
        return float(np.median(known)) * 1e-6 if known else None

    def __len__(self) -> int:
        return len(self.gpu)


def samples(trace: Trace, metric: str) -> Samples:
    """Return the samples of one metric of the GPUs of a trace.

    A sensor is asked more often than it measures. A sample is fresh if its value differs from
    the one before, or if the sensor's own interval (the median time between two changes) has
    passed since the last fresh one. Where fewer than two changes tell no interval, all are.
    """
    table = trace.telemetry
    code, names = codes(table["metric"])
    mine = code == (names.index(metric) if metric in names else len(names))
    table = table.filter(pc.and_(pa.array(mine), pc.is_valid(table["gpu"])))
    gpu, time = (table[n].to_numpy().astype(np.int64) for n in ("gpu", "time_ns"))
    value = table["value"].to_numpy()
    order = np.lexsort((time, gpu))
    gpu, time, value = gpu[order], time[order], value[order]
    fresh = np.zeros(len(gpu), bool)
    refresh: dict[int, int | None] = {}
    for one, rows in runs(gpu):
        fresh[rows], refresh[one] = _fresh(time[rows], value[rows])
    return Samples(gpu, time, value, fresh, refresh)


def metrics_of(trace: Trace, names: Iterable[str]) -> list[str]:
    """List those of the metrics that any GPU of the trace has samples of."""
    known = trace.telemetry.filter(pc.is_valid(trace.telemetry["gpu"]))["metric"]
    present = set(pc.unique(known).to_pylist())
    return [name for name in names if name in present]


def _fresh(time: Ints, value: Floats) -> tuple[Mask, int | None]:
    changed = np.concatenate([[True], value[1:] != value[:-1]])
    at = time[changed]
    if len(at) < 3:  # noqa: PLR2004  two times of change are one interval at least
        return np.ones(len(time), bool), None
    interval = int(np.median(np.diff(at)))
    since = time - at[np.cumsum(changed) - 1]
    periods = since // max(interval, 1)
    passed = np.concatenate([[False], periods[1:] > periods[:-1]])
    return changed | passed, interval


def running(line: Timeline, gpu: Ints, time: Ints) -> Ints:
    """Return the place of the kernel that ran on a GPU at a time: compute before others, or -1.

    Of several compute kernels at once it is the one that started last.
    """
    found = np.full(len(gpu), NOTHING)
    compute = line.named("kind", "compute")
    for mask in (~compute, compute):
        places = np.flatnonzero(mask)
        for one, rows in runs(line.gpu[places]):
            mine = np.flatnonzero(gpu == one)
            at = _last_running(line, places[rows], time[mine])
            found[mine] = np.where(at == NOTHING, found[mine], at)
    return found


def _last_running(line: Timeline, places: Ints, time: Ints) -> Ints:
    """Return the latest started of some kernels in order of start that still runs at a time."""
    end = line.end[places]
    before = np.searchsorted(line.start[places], time, side="right") - 1
    at = np.maximum(before, 0)
    runs_on = (before >= 0) & (end[at] > time)
    longest = _place_of_latest_end(end)[at]  # an earlier one may outlast those after it
    outlasts = (before >= 0) & (end[longest] > time)
    return np.where(runs_on, places[at], np.where(outlasts, places[longest], NOTHING))


def _place_of_latest_end(end: Ints) -> npt.NDArray[np.int64]:
    latest = np.maximum.accumulate(end)
    raises = np.concatenate([[True], end[1:] > latest[:-1]])
    return np.maximum.accumulate(np.where(raises, np.arange(len(end)), 0))

"""Energy: of the run, of its parts, and per token."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.frequency import SENSOR_COMMAND
from chopper_jupyter.core.analysis.grouping import Floats, Ints, group
from chopper_jupyter.core.analysis.included import Include, Included, included
from chopper_jupyter.core.analysis.levels import encode, key_names
from chopper_jupyter.core.analysis.samples import Samples, metrics_of, samples
from chopper_jupyter.core.analysis.timeline import Timeline, timeline
from chopper_jupyter.core.analysis.tokens import tokens_per_iteration
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from chopper_jupyter.core.trace import Trace


class _Meter(NamedTuple):
    """Energy drawn by one GPU since its first reading, between readings a straight line."""

    time: Floats
    joules: Floats

    def at(self, time: Ints) -> Floats:
        """Return the energy drawn until each time; NaN before the first and after the last."""
        inside = (time >= self.time[0]) & (time <= self.time[-1])
        drawn = np.interp(time.astype(np.float64), self.time, self.joules)
        return np.where(inside, drawn, np.nan)

    def readings(self, start: Ints, end: Ints) -> Ints:
        """Return how many readings lie in each interval."""
        found = np.searchsorted(self.time, end) - np.searchsorted(self.time, start)
        return np.asarray(found, np.int64)


def energy(
    trace: Trace, by: str | Iterable[str] | None = (), *, include: Include = "measured"
) -> pd.DataFrame:
    """Measure the energy of the GPUs at the given levels.

    The energy of a kernel is what its GPU drew in the wall time that the kernel accounts for:
    its own, and the idle gap that it ended. So the parts add up to the energy of the window.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : str or iterable of str, optional
        Levels to keep apart, as in ``summarize``. Nothing gives one row.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed, most energy first: ``energy_j`` per iteration and GPU; ``share_percent``;
        ``power_w``: energy over the wall time accounted for; ``readings``: how often the sensor
        had something new to say during it, over all iterations and GPUs; ``metered_percent``:
        the share of the wall time between a first and a last reading, to which the other columns
        refer; ``token_mj``, energy per token of the iteration, where tokens are known.
        ``attrs["method"]`` is ``"energy counter"`` or ``"power integrated"``.

    Raises
    ------
    MissingDataError
        If there are no samples of energy or power, or no GPU was recorded.

    Notes
    -----
    Between two readings power counts as constant. Where a group's kernels are shorter than that
    (few ``readings`` for much time), its power is that of what ran around it.

    Examples
    --------
    >>> energy(trace, by="phase")[["phase", "energy_j"]]  # doctest: +SKIP
    """
    names = key_names(by)
    which = included(trace, include)
    line = timeline(trace, which, "energy")
    meters, method = _meters(trace)
    drawn, wall, readings = _by_kernel(line, meters)
    keys = [encode(which.kernels, name) for name in names]
    groups = group(keys, which.kernels.num_rows)
    metered = np.isfinite(drawn)
    drawn, metered_wall = np.where(metered, drawn, 0), np.where(metered, wall, 0)
    joules, seconds, all_seconds = (
        np.asarray(np.bincount(groups.of_row, weights, groups.count), np.float64)
        for weights in (drawn, metered_wall * 1e-9, wall * 1e-9)
    )
    per = which.instances_of(names)
    columns = key_columns(keys, groups)
    columns |= _columns(joules, seconds, all_seconds, per, _tokens_per_gpu(trace, which))
    columns["readings"] = pa.array(groups.sum_of(readings))
    most = np.argsort(-joules, kind="stable")
    units = {"energy_j": "J", "share_percent": "%", "power_w": "W", "metered_percent": "%"}
    units |= {"token_mj": "mJ"} if "token_mj" in columns else {}
    frame = to_frame(pa.table(columns).take(pa.array(most)), which, units)
    frame.attrs["method"] = method
    return frame


def _meters(trace: Trace) -> tuple[dict[int, _Meter], str]:
    known = metrics_of(trace, ("energy_j", "power_w"))
    if not known:
        msg = f"this trace holds no samples of energy or power: {SENSOR_COMMAND}, or add_telemetry"
        raise MissingDataError(msg)
    found = samples(trace, known[0])
    make, method = {
        "energy_j": (_counter, "energy counter"),
        "power_w": (_integral, "power integrated"),
    }[known[0]]
    meters = {int(gpu): make(found, found.gpu == gpu) for gpu in np.unique(found.gpu)}
    return meters, method


def _counter(found: Samples, mine: Ints) -> _Meter:
    """Return the readings of a cumulative counter; one that restarts counts on."""
    rows = mine & found.fresh
    steps = np.diff(found.value[rows], prepend=found.value[rows][:1])
    return _Meter(found.time[rows].astype(np.float64), np.cumsum(np.maximum(steps, 0)))


def _integral(found: Samples, mine: Ints) -> _Meter:
    """Integrate power by the trapezoidal rule."""
    time, power = found.time[mine].astype(np.float64), found.value[mine]
    steps = np.diff(time) * 1e-9 * (power[1:] + power[:-1]) / 2
    return _Meter(time, np.concatenate([[0.0], np.cumsum(steps)]))


def _by_kernel(line: Timeline, meters: dict[int, _Meter]) -> tuple[Floats, Ints, Ints]:
    """Return energy, wall time and readings of every covered kernel.

    Kernels tile the wall clock of their GPU in the order in which they end.
    """
    wall = line.ints("busy_ns") + line.ints("idle_ns")
    drawn, readings = np.full(len(wall), np.nan), np.zeros(len(wall), np.int64)
    for gpu, rows in line.gpus():
        meter = meters.get(gpu)
        if meter is None:
            continue
        order = rows.start + np.argsort(line.end[rows], kind="stable")
        end = np.cumsum(wall[order]) + int(line.end[rows].max()) - int(wall[rows].sum())
        start = end - wall[order]
        drawn[order] = meter.at(end) - meter.at(start)
        readings[order] = meter.readings(start, end)
    return drawn[line.covered], wall[line.covered], readings[line.covered]


def _tokens_per_gpu(trace: Trace, which: Included) -> float | None:
    tokens = tokens_per_iteration(trace) if which.iterations else None
    return tokens.count / max(1, trace.gpus.num_rows) if tokens else None


def _columns(
    joules: Floats, metered: Floats, seconds: Floats, per: int, tokens: float | None
) -> dict[str, pa.Array]:
    with np.errstate(divide="ignore", invalid="ignore"):
        share = metered / seconds
        each = np.where(metered > 0, joules / share / per, np.nan)  # what was not metered is alike
        columns = {
            "energy_j": each,
            "share_percent": 100 * each / np.nansum(each),
            "power_w": joules / metered,
            "metered_percent": 100 * share,
        }
    if tokens:
        columns["token_mj"] = each * 1e3 / tokens
    return {name: pa.array(v, pa.float64(), from_pandas=True) for name, v in columns.items()}

"""Clocks, power and temperature of the GPUs: means and spread, at levels that time can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import Floats, Groups, Ints, Key, group
from chopper_jupyter.core.analysis.included import Include, included
from chopper_jupyter.core.analysis.levels import key_names
from chopper_jupyter.core.analysis.placed_samples import place
from chopper_jupyter.core.analysis.samples import Samples, metrics_of, samples
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.analysis.timeline import Timeline
    from chopper_jupyter.core.trace import Trace

SENSORS = {
    "gpu_clock_mhz": "MHz",
    "memory_clock_mhz": "MHz",
    "power_w": "W",
    "temperature_c": "°C",
    "memory_temperature_c": "°C",
    "utilization_ratio": "",
    "throttle_ratio": "",
}
"""Metrics of telemetry that have a mean, with their units."""

SENSOR_COMMAND = "record with telemetry on (the default where a GPU driver answers)"


def frequency(
    trace: Trace,
    by: str | Iterable[str] | None = "gpu",
    *,
    include: Include = "measured",
) -> pd.DataFrame:
    """Average the clocks, power and temperature of the GPUs.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : str or iterable of str, optional
        Levels to keep apart, as in ``summarize``, or ``"time"`` for one row per GPU and sample.
        With nothing but ``gpu`` and ``iteration``, all samples of these windows count, idle time
        included. At other levels a sample counts for the kernel that ran when it was taken.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed. For each sensor that was sampled its mean (``gpu_clock_mhz``,
        ``memory_clock_mhz``, ``power_w``, ``temperature_c``, ``utilization_ratio``,
        ``throttle_ratio``) and, as ``_std``, ``_min``, ``_max``, its spread over the fresh
        samples; ``samples``, and of them ``fresh_samples``: readings of the clock sensor itself
        (the first sensor there is), not repetitions of the one before. Means are over fresh
        samples; null where there is none. ``attrs["refresh_ms"]`` holds the interval at which
        each sensor was found to refresh, null for one that never changed.

    Raises
    ------
    MissingDataError
        If there are no samples of any GPU, or no GPU was recorded.
    SchemaError
        If a level does not exist.

    Notes
    -----
    A sensor that refreshes more slowly than kernels run mixes them: read a mean by op only with
    its ``fresh_samples`` and the refresh interval in mind.

    Examples
    --------
    >>> frequency(trace, by=["phase", "op"])[["op", "gpu_clock_mhz"]]  # doctest: +SKIP
    """
    wanted = [by] if isinstance(by, str) else list(by or ())
    over_time = "time" in wanted
    names = key_names([name for name in wanted if name != "time"])
    found = {name: samples(trace, name) for name in metrics_of(trace, SENSORS)}
    if not found:
        msg = f"this trace holds no samples of GPU sensors: {SENSOR_COMMAND}, or add_telemetry"
        raise MissingDataError(msg)
    which = included(trace, include)
    line = timeline(trace, which, "frequency")
    if over_time:
        table, units = _series(found), {name: SENSORS[name] for name in found}
    else:
        table, units = _grouped(trace, found, names, which, line)
    frame = to_frame(table, which, units)
    frame.attrs["refresh_ms"] = {name: one.refresh_ms for name, one in found.items()}
    return frame


def _series(found: dict[str, Samples]) -> pa.Table:
    """Return one row per GPU and time, a column per sensor."""
    pairs = np.concatenate([np.stack([one.gpu, one.time]) for one in found.values()], axis=1)
    cells, place = np.unique(pairs, axis=1, return_inverse=True)
    edges = np.cumsum([0, *(len(one) for one in found.values())])
    columns = {"gpu": pa.array(cells[0]), "time_ns": pa.array(cells[1])}
    for (name, one), start, end in zip(found.items(), edges, edges[1:], strict=False):
        values = np.full(cells.shape[1], np.nan)
        values[place.reshape(-1)[start:end]] = one.value
        columns[name] = pa.array(values, from_pandas=True)
    return pa.table(columns)


def _grouped(
    trace: Trace,
    found: dict[str, Samples],
    names: Sequence[str],
    which: Included,
    line: Timeline,
) -> tuple[pa.Table, dict[str, str]]:
    placed = {sensor: place(trace, one, names, which, line) for sensor, one in found.items()}
    joined = [
        Key(key.name, key.values, np.concatenate([p.keys[i].codes for p in placed.values()]))
        for i, key in enumerate(next(iter(placed.values())).keys)
    ]
    edges = np.cumsum([0, *(len(p.rows) for p in placed.values())])
    groups = group(joined, int(edges[-1]))
    columns, units = key_columns(joined, groups), dict[str, str]()
    for number, (sensor, one) in enumerate(found.items()):
        rows = placed[sensor].rows
        of_row, fresh = groups.of_row[edges[number] : edges[number + 1]], one.fresh[rows]
        if number == 0:
            columns["samples"] = pa.array(_count(of_row, groups))
            columns["fresh_samples"] = pa.array(_count(of_row[fresh], groups))
        made = _statistics(sensor, of_row[fresh], one.value[rows][fresh], groups)
        columns |= made
        units |= dict.fromkeys(made, SENSORS[sensor])
    return pa.table(columns), units


def _count(of_row: Ints, groups: Groups) -> Ints:
    return np.bincount(of_row, minlength=groups.count).astype(np.int64)


def _statistics(name: str, of_row: Ints, value: Floats, groups: Groups) -> dict[str, pa.Array]:
    count = _count(of_row, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(of_row, value, groups.count) / count
        squares = np.bincount(of_row, (value - mean[of_row]) ** 2, groups.count)
        std = np.sqrt(squares / (count - 1))
    low, high = np.full(groups.count, np.inf), np.full(groups.count, -np.inf)
    np.minimum.at(low, of_row, value)
    np.maximum.at(high, of_row, value)
    known = {"": mean, "_std": np.where(count > 1, std, np.nan), "_min": low, "_max": high}
    return {
        f"{name}{suffix}": pa.array(np.where(count > 0, values, np.nan), from_pandas=True)
        for suffix, values in known.items()
    }

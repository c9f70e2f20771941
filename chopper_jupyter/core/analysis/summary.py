"""Where the time went, at any levels, with any metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import Floats, group
from chopper_jupyter.core.analysis.included import Include, included
from chopper_jupyter.core.analysis.levels import key_names
from chopper_jupyter.core.analysis.memory_peaks import peaks, recorded_peaks
from chopper_jupyter.core.analysis.metrics import (
    DEFAULT_METRICS,
    MAXIMA,
    MEASURES,
    Metric,
    evaluate,
    find_metrics,
    metrics_for,
)
from chopper_jupyter.core.analysis.spread import spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from chopper_jupyter.core.trace import Trace


def summarize(
    trace: Trace,
    by: str | Iterable[str] | None = (),
    metrics: Sequence[str] | None = None,
    *,
    include: Include = "measured",
) -> pd.DataFrame:
    """Sum kernels at the given levels and evaluate metrics on the sums.

    Times and counts are means per iteration and GPU, so that rows of one table can be compared
    and added; a row kept apart by ``gpu`` or ``iteration`` is of that one GPU or iteration.

    Parameters
    ----------
    trace : Trace
        The trace; restrict it by ``trace.filter`` first.
    by : str or iterable of str, optional
        Any of ``gpu``, ``iteration``, ``phase``, ``layer``, ``op``, ``kernel``, and ``kind``,
        ``family``, ``stream``, ``module``, ``collective``. Nothing gives one row.
    metrics : sequence of str, optional
        Names from the table of metrics; by default time, share, kernels, mean duration and
        overlap, as far as the recording holds them.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed, longest time first. Null is a group of its own in the key columns; a metric
        is null where it is not defined. With the metric ``time`` come ``time_ms_std``,
        ``time_ms_min`` and ``time_ms_max``: the spread over the iterations and GPUs that a row
        joins (a group absent in one counts as 0 there; no such columns where rows join none).
        ``peak_allocated_bytes`` and ``peak_reserved_bytes`` are the most of any iteration and GPU
        that a row joins, right before or after what its operators (or, freeing, the loop between
        them) allocated or freed; null where they did neither.
        ``attrs`` holds ``units`` by column, ``included`` as a phrase, ``iterations``, ``gpus``.

    Raises
    ------
    SchemaError
        If a level or metric does not exist.
    MissingDataError
        If the recording lacks what a metric needs.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> list(summarize(Trace.from_tables({}), by="phase", metrics=["time", "share"]).columns)
    ['phase', 'time_ms', 'time_ms_std', 'time_ms_min', 'time_ms_max', 'share_percent']
    """
    names = key_names(by)
    which = included(trace, include)
    recorded = recorded_peaks(trace.memory) if metrics is not None else ()
    wanted = _wanted(metrics, [*which.measures, *recorded], trace.info.device_kind)
    spreads = any(m.name == "time" for m in wanted) and not {"gpu", "iteration"} <= set(names)
    apart = [name for name in ("gpu", "iteration") if spreads and name not in names]
    fine = which.groups((*names, *apart))
    keys = [which.key(name) for name in names]
    groups = group(
        [replace(k, codes=c) for k, c in zip(keys, fine.codes, strict=False)], fine.count
    )
    of_fine = {name: fine.sum_of(which.measures[name]) for name in _measures_in(wanted)}
    sums: dict[str, Any] = dict(groups.sum(of_fine))
    sums["instances"] = which.instances_of(names)
    sums["total_time_ns"] = which.measures["time_ns"].sum()
    if any(metric.needs in MAXIMA for metric in wanted):
        sums |= peaks(trace, which, keys, groups)
    columns = key_columns(keys, groups)
    units = {}
    for metric in wanted:
        columns[metric.column] = _floats(evaluate(metric, sums), groups.count)
        units[metric.column] = metric.unit
        if metric.name == "time" and spreads:
            for what, values in spread(of_fine["time_ns"], groups, sums["instances"]).items():
                columns[f"time_ms_{what}"] = _floats(values, groups.count)
                units[f"time_ms_{what}"] = metric.unit
    longest_first = np.argsort(-sums["time_ns"], kind="stable")
    return to_frame(pa.table(columns).take(pa.array(longest_first)), which, units)


def _measures_in(metrics: Iterable[Metric]) -> list[str]:
    """List the measures that metrics are made of, and the time, by which rows are ordered."""
    used = {name for m in metrics for part in (m.numerator, m.denominator) for name in part}
    return [name for name in MEASURES if name in used | {"time_ns"}]


def _wanted(names: Sequence[str] | None, measures: Iterable[str], device_kind: str) -> list[Metric]:
    if names is not None:
        return find_metrics([names] if isinstance(names, str) else names, measures, device_kind)
    return [m for m in metrics_for(measures, device_kind) if m.name in DEFAULT_METRICS]


def _floats(values: Floats, rows: int) -> pa.Array:
    return pa.array(np.broadcast_to(values, rows), pa.float64(), from_pandas=True)

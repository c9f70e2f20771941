"""How much a part of the run varies across GPUs and iterations, and which of them stand out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import Floats, Ints, Key, group
from chopper_jupyter.core.analysis.included import Include, Included, included
from chopper_jupyter.core.analysis.levels import encode, key_names
from chopper_jupyter.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from chopper_jupyter.core.trace import Trace

FENCE = 1.5
"""Times the interquartile range beyond the quartiles: further out is an outlier (Tukey 1977)."""

_INSTANCE = ("gpu", "iteration")
Grid = npt.NDArray[np.float64]


def variation(
    trace: Trace,
    by: str | Iterable[str] | None = (),
    *,
    include: Include = "measured",
) -> pd.DataFrame:
    """Measure how the kernel time of each group varies over GPUs and iterations.

    One sample is the kernel time of the group in one iteration on one GPU; a group that owns no
    kernel there has the time 0.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : str or iterable of str, optional
        Levels to keep apart, as in ``summarize``, but for ``gpu`` and ``iteration``, over which
        the variation is measured.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed, one row per group, largest difference between its slowest and fastest
        sample first: ``median_ms``, the quartiles ``q1_ms`` and ``q3_ms``, ``iqr_ms`` between
        them, ``min_ms``, ``max_ms``, ``samples``; ``outliers``: samples further than 1.5 times
        the IQR from the quartiles; ``gpu_spread_percent``: slowest less fastest GPU over the
        median, each GPU by its median over iterations, and which are ``slowest_gpu`` and
        ``fastest_gpu``; ``iteration_spread_percent`` and ``slowest_iteration`` likewise, each
        iteration by its median over GPUs. Which is null where there is no difference.

    Raises
    ------
    SchemaError
        If a level does not exist, or is ``gpu`` or ``iteration``.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> variation(Trace.from_tables({}))["samples"].tolist()
    [0]
    """
    names = key_names(by)
    if set(names) & set(_INSTANCE):
        msg = "variation is measured over gpu and iteration; keep other levels apart"
        raise SchemaError(msg)
    which = included(trace, include)
    keys = [encode(which.kernels, name) for name in names]
    groups = group(keys, which.kernels.num_rows)
    gpu, iteration = (encode(which.kernels, name) for name in _INSTANCE)
    grid = _samples(which, groups.of_row, groups.count, gpu, iteration)
    columns = key_columns(keys, groups)
    columns |= _distribution(grid.reshape(groups.count, -1))
    columns |= _between(grid, 1, gpu.values, ("gpu", "slowest_gpu", "fastest_gpu"))
    columns |= _between(grid, 2, _iterations(which, iteration), ("iteration", "slowest_iteration"))
    widest = np.argsort(_nothing_is_least(columns), kind="stable")
    units = {n: "ms" for n in columns if n.endswith("_ms")}
    units |= {n: "%" for n in columns if n.endswith("_percent")}
    return to_frame(pa.table(columns).take(pa.array(widest)), which, units)


def _samples(which: Included, of_row: Ints, count: int, gpu: Key, iteration: Key) -> Grid:
    """Return time in ns by group, GPU and iteration; what lies in none is the last iteration.

    Medians of whole nanoseconds are exact: equal ones are equal, which fractions of ms are not.
    """
    iterations = len(_iterations(which, iteration))
    shape = (count, len(gpu.values), iterations)
    place = np.where(iteration.codes < 0, iterations - 1, iteration.codes)
    cell = (of_row * shape[1] + gpu.codes) * shape[2] + place
    total = np.zeros(int(np.prod(shape)), np.int64)
    np.add.at(total, cell, which.kernels["dur_ns"].to_numpy())
    return total.reshape(shape).astype(np.float64)


def _iterations(which: Included, iteration: Key) -> list[int | None]:
    """Return the iterations that samples are of; None stands for what lies in none."""
    outside = bool((iteration.codes < 0).any())
    return [*iteration.values, *([None] if outside or not which.iterations else [])]  # noqa: PD011  a Key, not pandas


def _distribution(samples: Grid) -> dict[str, pa.Array]:
    names = ("min_ms", "q1_ms", "median_ms", "q3_ms", "max_ms")
    if not samples.size:
        none = np.full(len(samples), np.nan)
        columns = {name: _floats(none) for name in (*names, "iqr_ms")}
        zero = pa.array(np.zeros(len(samples), np.int64))
        return columns | {"samples": zero, "outliers": zero}
    low, q1, median, q3, high = np.quantile(samples, (0, 0.25, 0.5, 0.75, 1), axis=1)
    fence = FENCE * (q3 - q1)
    out = (samples < (q1 - fence)[:, None]) | (samples > (q3 + fence)[:, None])
    values = (median, q1, q3, q3 - q1, low, high)
    titles = ("median_ms", "q1_ms", "q3_ms", "iqr_ms", "min_ms", "max_ms")
    columns = {name: _floats(value * 1e-6) for name, value in zip(titles, values, strict=True)}
    columns["samples"] = pa.array(np.full(len(samples), samples.shape[1], np.int64))
    columns["outliers"] = pa.array(out.sum(axis=1).astype(np.int64))
    return columns


def _between(
    grid: Grid, axis: int, values: Iterable[int | None], names: tuple[str, ...]
) -> dict[str, pa.Array]:
    """Compare the medians along one axis of the grid; name the largest, perhaps the smallest."""
    what, *which = names
    words = pa.array(list(values), pa.int64())
    if not grid.size:
        none = pa.nulls(len(grid), pa.int64())
        return {f"{what}_spread_percent": none.cast(pa.float64())} | dict.fromkeys(which, none)
    medians = np.median(grid, axis=3 - axis)
    overall = np.median(grid.reshape(len(grid), -1), axis=1)
    low, high = medians.min(axis=1), medians.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(overall > 0, 100 * (high - low) / overall, np.nan)
    same = high == low
    ends = (medians.argmax(axis=1), medians.argmin(axis=1))
    columns = {f"{what}_spread_percent": _floats(spread)}
    for name, place in zip(which, ends, strict=False):
        columns[name] = words.take(pa.array(place, mask=same))
    return columns


def _nothing_is_least(columns: dict[str, pa.Array]) -> Floats:
    width = columns["min_ms"].to_numpy(zero_copy_only=False) - columns["max_ms"].to_numpy(
        zero_copy_only=False
    )
    return np.where(np.isnan(width), np.inf, width)


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, pa.float64(), from_pandas=True)

"""At which clock ops ran in the timed run, as far as the sensors tell.

A sensor refreshes more slowly than kernels run. A run of an op has its own clock only if a fresh
reading fell into one of its kernels. Else the readings that fell into the same op on the same GPU
are pooled: how far they lie from the mean of their GPU and iteration, applied to the mean of the
iteration in question. Where too few fell into the op, its clock is not known.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core.analysis.bootstrap import quantile
from chopper_jupyter.core.analysis.counted import rows_of
from chopper_jupyter.core.analysis.numbering import ranks
from chopper_jupyter.core.analysis.samples import NOTHING, metrics_of, running, samples
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.errors import PartialTraceWarning

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.op_instances import Instances
    from chopper_jupyter.core.trace import Trace

SENSOR = "gpu_clock_mhz"
ENOUGH = 3
"""Fresh readings from which on a mean is taken."""

NO_SENSOR = "clock not sampled"
TOO_FEW = "clock not known: too few fresh readings"

_MHZ = 1e6


@dataclass(frozen=True)
class Clocks:
    """Clock of each instance.

    Parameters
    ----------
    hz : float64 array
        NaN where the sensors do not tell.
    pool : int64 array
        Readings that several instances share have the same number; -1 for an own clock.
    samples : int64 array
        Fresh readings that fell into the instance.
    own_error : float64 array
        Relative half-width of the 95 % interval of an own clock: readings spread, so a few of
        them are not exact. 0 where the clock is not an own one.
    pool_error : float64 array
        Relative standard error of the mean of each pool.
    pool_samples : int64 array
        Fresh readings in each pool.
    cell : int64 array
        Number of the GPU and iteration of each instance.
    cell_error, cell_samples : float64 and int64 array
        The same of the mean of each GPU and iteration.
    refresh_ms : float or None
        How often the sensor has something new to say.
    """

    hz: Floats
    pool: Ints
    samples: Ints
    own_error: Floats
    pool_error: Floats
    pool_samples: Ints
    cell: Ints
    cell_error: Floats
    cell_samples: Ints
    refresh_ms: float | None


def clock_of_ops(trace: Trace, found: Instances) -> Clocks:
    """Return the clock of each instance from the samples of the timed run.

    Parameters
    ----------
    trace : Trace
        Holds the telemetry.
    found : Instances
        Runs of ops.
    """
    count = len(found)
    if not metrics_of(trace, [SENSOR]) or not count:
        return _unknown(count)
    read = samples(trace, SENSOR)
    at = _instances_at(trace, found, read.gpu, read.time)
    good = read.fresh & (at >= 0) & (read.value > 0)
    at, value = at[good], read.value[good] * _MHZ
    own = np.bincount(at, minlength=count)
    mean = np.bincount(at, value, count) / np.maximum(own, 1)
    cell, pool = _numbers(found)
    of_cell = _pooled(cell, at, value)
    whole = _pooled(found.gpu, at, value).mean[found.gpu]
    usual = np.where(np.isfinite(of_cell.mean[cell]), of_cell.mean[cell], whole)
    of_pool = _pooled(pool, at, value / usual[at])
    has_own = own > 0
    return Clocks(
        np.where(has_own, mean, of_pool.mean[pool] * usual),
        np.where(has_own | np.isnan(of_pool.mean[pool]), -1, pool),
        own,
        np.where(
            has_own, _spread((of_pool, pool), (of_cell, cell)) / np.sqrt(np.maximum(own, 1)), 0
        ),
        of_pool.error,
        of_pool.held,
        cell,
        of_cell.error,
        of_cell.held,
        read.refresh_ms,
    )


def _unknown(count: int) -> Clocks:
    none, zero = np.zeros(0), np.zeros(0, np.int64)
    outside, unseen = np.full(count, -1), np.zeros(count, np.int64)
    return Clocks(
        np.full(count, np.nan), outside, unseen, np.zeros(count), none, zero, unseen, np.zeros(1),
        np.zeros(1, np.int64), None,
    )  # fmt: skip


def _instances_at(trace: Trace, found: Instances, gpu: Ints, time: Ints) -> Ints:
    """Return the instance that ran on each GPU at each time, -1 if none did."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)  # what was filtered away is said
        line = timeline(trace, found.which, "the clock of ops")
    place = running(line, gpu, time)
    ids = line.kernels["kernel_id"].to_numpy()
    ids = ids if line.order is None else ids[line.order]
    kernel = np.where(place == NOTHING, -1, ids[np.maximum(place, 0)])
    row = rows_of(found.kernels["kernel_id"].to_numpy(), kernel)
    return np.where((row >= 0) & (place != NOTHING), found.of_row[np.maximum(row, 0)], -1)


def _numbers(found: Instances) -> tuple[Ints, Ints]:
    """Give each instance the number of its GPU and iteration, and of its GPU and op."""
    iteration = found.keys["iteration"].codes.astype(np.int64) + 1
    gpus = int(found.gpu.max()) + 1
    cell = iteration * gpus + found.gpu
    pool = found.op * gpus + found.gpu
    return ranks(cell), ranks(pool)


class _Pooled(NamedTuple):
    """Mean of each pool (NaN where too few), its relative standard error, and its readings."""

    mean: Floats
    error: Floats
    held: Ints


def _spread(*pools: tuple[_Pooled, Ints]) -> Floats:
    """Return how far a reading may lie from the clock: by its op, else by its iteration.

    Parameters
    ----------
    *pools : tuple of _Pooled and int64 array
        Readings, and the number of the pool of each instance; the first that tell count.
    """
    found = np.full(len(pools[0][1]), np.nan)
    for readings, number in pools:
        wide = readings.error * np.sqrt(readings.held) * quantile(readings.held - 1)
        told = np.where(readings.held >= ENOUGH, wide, np.nan)[number]
        found = np.where(np.isnan(found), told, found)
    return np.asarray(np.nan_to_num(found), np.float64)


def _pooled(number: Ints, at: Ints, value: Floats) -> _Pooled:
    size = int(number.max()) + 1
    of = number[at]
    held = np.bincount(of, minlength=size)
    mean = np.bincount(of, value, size) / np.maximum(held, 1)
    square = np.bincount(of, (value - mean[of]) ** 2, size)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(square / np.maximum(held - 1, 1) / held) / mean
    return _Pooled(np.where(held >= ENOUGH, mean, np.nan), error, held)

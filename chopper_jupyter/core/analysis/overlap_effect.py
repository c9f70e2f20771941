"""How much slower an op runs beside communication, by regression over its instances.

While communication runs, work proceeds at a speed of ``1 - slowdown``: an instance that is
covered for a share r of its time takes alone / (1 - slowdown r). So the logarithm of its time is
an effect of where and when it ran, less log(1 - slowdown r).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core.analysis.bootstrap import error_of_ratio, quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from chopper_jupyter.core.analysis.grouping import Floats, Ints

    _Remove = Callable[[Floats], Floats]

LEAST_SPREAD = 0.01
"""Standard deviation of the overlap ratio, apart from GPU and iteration, that can tell anything."""

LEAST_FREEDOM = 5
LARGEST_HALF_WIDTH = 0.05
"""Half-width of the interval of the mean effect beyond which nobody should rely on it."""

NONE = "never beside communication"
FEW = "overlap not identifiable: too few instances"
ALIKE = "overlap not identifiable: it hardly varies within a GPU and iteration"
UNCLOCKED = "overlap not identifiable: one run per GPU and iteration, and their clock is not known"
WIDE = "overlap not identifiable: its effect drowns in other variation"

_STEPS = 30
_LIMIT = 0.95


class Effect(NamedTuple):
    """What overlap does to an op.

    Parameters
    ----------
    slowdown : float
        Share of the speed lost while communication runs; NaN if not identifiable.
    error : float
        Its standard error.
    freedom : int
        Degrees of freedom behind it.
    reason : str
        Why it is not known; empty if it is.
    """

    slowdown: float
    error: float
    freedom: int
    reason: str = ""


def effect_of(
    log_time: Floats, ratio: Floats, gpu: Ints, iteration: Ints, *, clock_known: bool = True
) -> Effect:
    """Estimate the effect of overlap on one op, with effects of GPU and iteration.

    Every pair of GPU and iteration has an effect of its own where there are several instances
    in each; else GPUs and iterations have one each. Without them fast GPUs, which are also the
    little-overlapped ones, would be taken for an effect of overlap.

    Parameters
    ----------
    log_time, ratio : float64 arrays
        Logarithm of the time, and share of it under communication, of each instance.
    gpu, iteration : int arrays
        Where and when it ran.
    clock_known : bool
        False if the clock may differ between runs and is not taken out of ``log_time``; then
        only runs of the same GPU and iteration are compared.

    Examples
    --------
    >>> ratio = np.tile([0.0, 0.2, 0.5, 1.0], 6)
    >>> time = (1 + 0.1 * np.repeat(np.arange(6), 4)) / (1 - 0.15 * ratio)
    >>> gpu, iteration = np.repeat([0, 0, 1, 1, 2, 2], 4), np.repeat([0, 1] * 3, 4)
    >>> round(effect_of(np.log(time), ratio, gpu, iteration).slowdown, 9)
    0.15
    """
    if not (ratio > 0).any():
        return Effect(0.0, 0.0, len(ratio), NONE)
    remove, effects, by_cell = _within(gpu, iteration)
    freedom = len(ratio) - effects - 1
    if not (by_cell or clock_known):
        return Effect(np.nan, np.nan, freedom, UNCLOCKED)
    if freedom < LEAST_FREEDOM:
        return Effect(np.nan, np.nan, freedom, FEW)
    if np.std(remove(ratio)) < LEAST_SPREAD:
        return Effect(np.nan, np.nan, freedom, ALIKE)
    slowdown = _fit(log_time, ratio, remove)
    slope = remove(ratio / (1 - slowdown * ratio))
    rest = remove(log_time + np.log1p(-slowdown * ratio))
    scale = np.sqrt(len(ratio) / max(freedom, 1))
    error = float(error_of_ratio(slope * rest, slope * slope) * scale)
    half = quantile(freedom) * error * float(np.mean(ratio))
    if abs(slowdown) >= _LIMIT or not half <= LARGEST_HALF_WIDTH:
        return Effect(np.nan, np.nan, freedom, WIDE)
    return Effect(slowdown, error, freedom)


def _fit(log_time: Floats, ratio: Floats, remove: _Remove) -> float:
    """Find the slowdown of least squares by Gauss-Newton steps."""
    slowdown = 0.0
    for _ in range(_STEPS):
        slope = remove(ratio / (1 - slowdown * ratio))
        rest = remove(log_time + np.log1p(-slowdown * ratio))
        step = float(slope @ rest / (slope @ slope))
        slowdown = float(np.clip(slowdown + step, -_LIMIT, _LIMIT))
        if abs(step) < 1e-12:  # noqa: PLR2004  far below any error
            break
    return slowdown


SEVERAL = 3
"""Instances that a pair of GPU and iteration needs on average to have its own effect."""


def _within(gpu: Ints, iteration: Ints) -> tuple[_Remove, int, bool]:
    """Return what takes effects out of a column, their number, and if each pair has its own."""
    _, g = np.unique(gpu, return_inverse=True)
    _, i = np.unique(iteration, return_inverse=True)
    _, cell = np.unique(g * (int(i.max(initial=0)) + 1) + i, return_inverse=True)
    count = np.bincount(cell)
    if len(gpu) >= SEVERAL * len(count):
        return lambda v: v - (np.bincount(cell, v) / count)[cell], len(count), True
    dummies = np.concatenate([np.eye(int(g.max()) + 1)[g], np.eye(int(i.max()) + 1)[i]], axis=1)
    basis, sizes, _ = np.linalg.svd(dummies, full_matrices=False)
    basis = basis[:, sizes > 1e-9 * sizes.max()]
    return lambda v: v - basis @ (basis.T @ v), basis.shape[1], False

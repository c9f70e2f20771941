"""How much slower an op runs beside communication, by regression over its instances.

While communication runs, work proceeds at a speed of ``1 - slowdown``: an instance that is
covered for a share r of its time takes alone / (1 - slowdown r). So the logarithm of its time is
an effect of where and when it ran, less log(1 - slowdown r).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core.analysis.bootstrap import errors_of_ratios, quantile
from chopper_jupyter.core.analysis.numbering import ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


class Runs(NamedTuple):
    """Runs of one op.

    Parameters
    ----------
    log_time, ratio : float64 arrays
        Logarithm of the time, and share of it under communication, of each instance.
    gpu, iteration : int arrays
        Where and when it ran.
    clock_known : bool
        False if the clock may differ between runs and is not taken out of ``log_time``; then
        only runs of the same GPU and iteration are compared.
    """

    log_time: Floats
    ratio: Floats
    gpu: Ints
    iteration: Ints
    clock_known: bool = True


class _Fit(NamedTuple):
    """A slowdown of least squares, and what tells how sure it is."""

    slowdown: float
    slope: Floats
    rest: Floats
    freedom: int


def effect_of(
    log_time: Floats, ratio: Floats, gpu: Ints, iteration: Ints, *, clock_known: bool = True
) -> Effect:
    """Estimate the effect of overlap on one op, with effects of GPU and iteration.

    Every pair of GPU and iteration has an effect of its own where there are several instances
    in each; else GPUs and iterations have one each. Without them fast GPUs, which are also the
    little-overlapped ones, would be taken for an effect of overlap.

    Parameters
    ----------
    log_time, ratio, gpu, iteration, clock_known
        As in ``Runs``.

    Examples
    --------
    >>> ratio = np.tile([0.0, 0.2, 0.5, 1.0], 6)
    >>> time = (1 + 0.1 * np.repeat(np.arange(6), 4)) / (1 - 0.15 * ratio)
    >>> gpu, iteration = np.repeat([0, 0, 1, 1, 2, 2], 4), np.repeat([0, 1] * 3, 4)
    >>> round(effect_of(np.log(time), ratio, gpu, iteration).slowdown, 9)
    0.15
    """
    return effects_of([Runs(log_time, ratio, gpu, iteration, clock_known)])[0]


def effects_of(ops: Sequence[Runs]) -> list[Effect]:
    """Estimate the effect of overlap on each of several ops, as ``effect_of`` does on one."""
    fits = [_fitted(runs) for runs in ops]
    known = [fit for fit in fits if isinstance(fit, _Fit)]
    errors = iter(errors_of_ratios([(f.slope * f.rest, f.slope * f.slope) for f in known]))
    return [
        _judged(fit, next(errors), runs) if isinstance(fit, _Fit) else fit
        for fit, runs in zip(fits, ops, strict=True)
    ]


def _fitted(runs: Runs) -> Effect | _Fit:
    """Fit the slowdown of an op, unless there is none or its runs cannot tell."""
    ratio = runs.ratio
    if not (ratio > 0).any():
        return Effect(0.0, 0.0, len(ratio), NONE)
    remove, effects, by_cell = _within(runs.gpu, runs.iteration)
    freedom = len(ratio) - effects - 1
    if not (by_cell or runs.clock_known):
        return Effect(np.nan, np.nan, freedom, UNCLOCKED)
    if freedom < LEAST_FREEDOM:
        return Effect(np.nan, np.nan, freedom, FEW)
    if np.std(remove(ratio)) < LEAST_SPREAD:
        return Effect(np.nan, np.nan, freedom, ALIKE)
    slowdown = _fit(runs.log_time, ratio, remove)
    slope = remove(ratio / (1 - slowdown * ratio))
    return _Fit(slowdown, slope, remove(runs.log_time + np.log1p(-slowdown * ratio)), freedom)


def _judged(fit: _Fit, error_of_slope: float, runs: Runs) -> Effect:
    """Say what a fit is worth."""
    scale = np.sqrt(len(runs.ratio) / max(fit.freedom, 1))
    error = float(error_of_slope * scale)
    half = quantile(fit.freedom) * error * float(np.mean(runs.ratio))
    if abs(fit.slowdown) >= _LIMIT or not half <= LARGEST_HALF_WIDTH:
        return Effect(np.nan, np.nan, fit.freedom, WIDE)
    return Effect(fit.slowdown, error, fit.freedom)


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
    g, i = ranks(gpu), ranks(iteration)
    cell = ranks(g * (int(i.max(initial=0)) + 1) + i)
    count = np.bincount(cell)
    if len(gpu) >= SEVERAL * len(count):
        return lambda v: v - (np.bincount(cell, v) / count)[cell], len(count), True
    dummies = np.concatenate([np.eye(int(g.max()) + 1)[g], np.eye(int(i.max()) + 1)[i]], axis=1)
    basis, sizes, _ = np.linalg.svd(dummies, full_matrices=False)
    basis = basis[:, sizes > 1e-9 * sizes.max()]
    return lambda v: v - basis @ (basis.T @ v), basis.shape[1], False

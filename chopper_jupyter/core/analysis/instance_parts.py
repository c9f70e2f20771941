"""Each run of an op in parts: factors as logarithms, weighted so that times add up exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.chopper_overheads import theoretical_ns
from chopper_jupyter.core.analysis.clock_of_ops import NO_SENSOR, TOO_FEW, Clocks, clock_of_ops
from chopper_jupyter.core.analysis.efficiency import DOUBTFUL as DOUBTFUL_KERNELS
from chopper_jupyter.core.analysis.numbering import ranks
from chopper_jupyter.core.analysis.overlap_effect import NONE, Effect, Runs, effects_of

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.op_instances import Instances
    from chopper_jupyter.core.analysis.timeline import Mask
    from chopper_jupyter.core.trace import Trace

FACTORS = ("instruction", "utilization", "overlap", "frequency")

NEARLY_ALL = 0.9
"""Share of the runs of an op with as much to do that must be counted to speak for the others:
counters are of another run anyway, and passes lack a kernel here and there."""

NOTHING = -1

NOT_ASKED = "effect of overlap not asked for"
NOT_COUNTED = "no counters: utilisation is among the unexplained"
DOUBTFUL = f"cycles of no use, utilisation is among the unexplained: {DOUBTFUL_KERNELS}"
NO_CLOCK_OF_PEAK = "the clock of the peak is not known"
NOT_MODELLED = "the least time of some kernels is not known"


@dataclass(frozen=True)
class InstanceParts:
    """What became of the time of each instance.

    Parameters
    ----------
    actual, modelled, theoretical : float64 arrays
        In ns: all kernels; those whose least time is known; that least time (NaN for none).
    weight : float64 array
        Logarithmic mean of ``modelled`` and ``theoretical``: a factor x is worth weight log(x).
    logs : dict of str to float64 array
        Logarithm of each factor; NaN where not known, or not applicable.
    applicable : dict of str to bool array
        Where each factor has a meaning.
    slope : float64 array
        How the logarithm of the overlap factor changes with the slowdown of the op.
    effects : list of Effect
        Effect of overlap by number of the op.
    clocks : Clocks
        Clock of each instance.
    reasons : int64 array
        Bits: why parts are not known.
    texts : tuple of str
        Meaning of the bits.
    """

    actual: Floats
    modelled: Floats
    theoretical: Floats
    weight: Floats
    logs: dict[str, Floats]
    applicable: dict[str, Mask]
    slope: Floats
    effects: list[Effect]
    clocks: Clocks
    reasons: Ints
    texts: tuple[str, ...]


def instance_parts(trace: Trace, found: Instances, *, worth: float = 0.0) -> InstanceParts:
    """Take the time of each instance apart.

    Parameters
    ----------
    trace : Trace
        Holds the clocks.
    found : Instances
        The instances.
    worth : float
        If above 0, the effect of overlap, which takes long to estimate, is left out for ops of
        which the least time is not known and for those that spend less than this share of the
        time of all ops beside communication.
    """
    measures = found.measures
    actual = found.sum(measures["time_ns"])
    logs, counted, peak = _counted(found)
    roofline = np.nan_to_num(found.sum_known(measures["roofline_ns"]))
    known = np.nan_to_num(found.sum_known(measures["roofline_time_ns"]))
    modelled = np.where(counted, actual, known)
    theoretical = np.where(counted, peak, np.where(roofline > 0, roofline, np.nan))
    modelled = np.where(np.isfinite(theoretical) & (modelled > 0), modelled, 0.0)
    theoretical = np.where(modelled > 0, theoretical, np.nan)
    clocks = clock_of_ops(trace, found)
    with_clock = counted | _bound_by_compute(found)
    with np.errstate(divide="ignore", invalid="ignore"):
        slower = np.log(found.clock_hz() / clocks.hz)
    logs["frequency"] = np.where(with_clock, slower, np.nan)
    loss = np.where(with_clock, slower, 0.0)
    under = found.sum(measures["under_ns"])
    wanted = _wanted(found, under, theoretical, worth * float(actual.sum()))
    logs["overlap"], slope, effects = _overlap(found, (actual, theoretical), loss, wanted)
    whole = np.isfinite(theoretical)
    products = whole & (np.nan_to_num(found.sum_known(measures["flops"])) > 0)
    applicable = {"overlap": whole, "frequency": with_clock & whole}
    applicable |= dict.fromkeys(("instruction", "utilization"), products)
    reasons, texts = _reasons(found, counted, applicable, effects, clocks)
    weight = logarithmic_mean(modelled, theoretical)
    return InstanceParts(
        actual, modelled, theoretical, weight, logs, applicable, slope, effects, clocks,
        reasons, texts,
    )  # fmt: skip


def logarithmic_mean(a: Floats, b: Floats) -> Floats:
    """Return (a - b) / (log a - log b), which is a where both are equal; NaN for NaN.

    Examples
    --------
    >>> logarithmic_mean(np.array([np.e, 2.0]), np.array([1.0, 2.0])).round(6).tolist()
    [1.718282, 2.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.log(a / b)
        near = np.abs(step) < 1e-6  # noqa: PLR2004  the series is exact to 1e-13 there
        return np.asarray(np.where(near, b * (1 + step / 2), (a - b) / step), np.float64)


def _counted(found: Instances) -> tuple[dict[str, Floats], Mask, Floats]:
    """Return the counted factors, of which instances they are known, and the time at peak."""
    measures = found.measures
    peak = theoretical_ns(found)
    performed = found.sum(measures["performed_ns"])
    busy, capacity = (found.sum(measures[f"matrix_{n}_cycles"]) for n in ("busy", "capacity"))
    with np.errstate(divide="ignore", invalid="ignore"):
        instruction, utilization = np.log(performed / peak), np.log(capacity / busy)
    counted = np.isfinite(instruction) & np.isfinite(utilization) & ~found.doubtful()
    alike = _alike(found, peak)
    known = counted | _mostly(alike, counted)
    return (
        {
            "instruction": _filled(alike, instruction, counted, known),
            "utilization": _filled(alike, utilization, counted, known),
        },
        known,
        peak,
    )


def _alike(found: Instances, peak: Floats) -> Ints:
    """Give runs of the same op with as much to do the same number; -1 for what is no product."""
    product = np.isfinite(peak) & (peak > 0)
    size = np.rint(100 * np.log(np.where(product, peak, 1.0))).astype(np.int64)
    size -= size.min(initial=0)
    both = np.where(product, found.op * (int(size.max(initial=0)) + 1) + size, NOTHING)
    if not product.any():
        return both
    return np.where(product, ranks(both), NOTHING)


def _mostly(alike: Ints, counted: Mask) -> Mask:
    """Mark runs not counted of which nearly all others like them are."""
    number, product = np.maximum(alike, 0), alike != NOTHING
    size = int(number.max(initial=0)) + 1
    every = np.bincount(number[product], minlength=size)
    some = np.bincount(number[product & counted], minlength=size)
    enough = (some > 0) & (some >= NEARLY_ALL * every)
    return np.asarray(enough[number] & product & ~counted, bool)


def _filled(alike: Ints, logs: Floats, counted: Mask, known: Mask) -> Floats:
    """Return a counted factor; of a run that was not counted the mean of those like it."""
    number = np.maximum(alike, 0)
    size = int(number.max(initial=0)) + 1
    held = np.bincount(number[counted], minlength=size)
    mean = np.bincount(number[counted], logs[counted], size) / np.maximum(held, 1)
    return np.where(counted, logs, np.where(known, mean[number], np.nan))


def _bound_by_compute(found: Instances) -> Mask:
    """Mark the instances whose products need longer at peak than their bytes at full bandwidth."""
    peak = np.nan_to_num(found.sum_known(found.measures["peak_ns"]))
    return np.asarray(peak > np.nan_to_num(found.sum_known(found.measures["memory_ns"])), bool)


def _wanted(found: Instances, under: Floats, theoretical: Floats, least_ns: float) -> Mask:
    """Mark the ops of which the effect of overlap is to be estimated."""
    size = int(found.op.max(initial=-1)) + 1
    known = np.bincount(found.op, ~np.isfinite(theoretical), size) == 0
    time = np.bincount(found.op, under, size)
    return np.asarray((least_ns <= 0) | (known & (time >= least_ns)), bool) | np.zeros(size, bool)


def _overlap(
    found: Instances, times: tuple[Floats, Floats], clock_loss: Floats, wanted: Mask
) -> tuple[Floats, Floats, list[Effect]]:
    """Return the log factor of overlap, its slope by the slowdown, and the effect of each op.

    What the clock cost (as a logarithm, NaN where not known) is taken out first where it is known
    of all instances of an op: a clock that falls with communication is no contention.
    """
    actual, theoretical = times
    ratio = np.clip(found.sum(found.measures["under_ns"]) / np.maximum(actual, 1), 0, 1)
    logs, slope = np.full(len(found), np.nan), np.zeros(len(found))
    order = np.argsort(found.op, kind="stable")
    edges = np.searchsorted(found.op[order], np.arange(int(found.op.max(initial=-1)) + 2))
    iteration = found.keys["iteration"].codes.astype(np.int64)
    asked = {op: order[edges[op] : edges[op + 1]] for op in np.flatnonzero(wanted).tolist()}
    runs = {}
    for op in asked.keys() - found.effects.keys():
        used = asked[op][actual[asked[op]] > 0]
        size = np.log(theoretical[used])
        time = np.log(actual[used]) - (size if np.isfinite(size).all() else 0)
        known = bool(np.isfinite(clock_loss[used]).all())
        time = time - clock_loss[used] if known else time
        runs[op] = Runs(time, ratio[used], found.gpu[used], iteration[used], known)
    found.effects.update(zip(runs, effects_of(list(runs.values())), strict=True))
    effects = [Effect(np.nan, np.nan, 0, NOT_ASKED)] * len(wanted)
    for op, rows in asked.items():
        effects[op] = effect = found.effects[op]
        if np.isfinite(effect.slowdown):
            logs[rows] = -np.log1p(-effect.slowdown * ratio[rows])
            slope[rows] = ratio[rows] / (1 - effect.slowdown * ratio[rows])
    return logs, slope, effects


def _reasons(
    found: Instances,
    counted: Mask,
    applicable: dict[str, Mask],
    effects: list[Effect],
    clocks: Clocks,
) -> tuple[Ints, tuple[str, ...]]:
    """Return why parts of instances are not known, as bits, and what each bit says."""
    with_clock = applicable["frequency"]
    partly = np.bincount(found.of_row, np.isnan(found.measures["roofline_ns"]), len(found)) > 0
    bits = {
        NOT_COUNTED: applicable["utilization"] & ~counted & ~found.doubtful(),
        DOUBTFUL: applicable["utilization"] & found.doubtful(),
        NOT_MODELLED: ~applicable["overlap"] | (partly & ~counted),
        TOO_FEW if len(clocks.pool_samples) else NO_SENSOR: with_clock & np.isnan(clocks.hz),
        NO_CLOCK_OF_PEAK: with_clock & np.isnan(found.clock_hz()),
    }
    said = [(e.reason if e.reason != NONE else "") for e in effects]
    for text in dict.fromkeys(t for t in said if t):
        bits[text] = np.array([t == text for t in said], bool)[found.op]
    total = np.zeros(len(found), np.int64)
    for number, mask in enumerate(bits.values()):
        total |= np.where(mask, 1 << number, 0)
    return total, tuple(bits)

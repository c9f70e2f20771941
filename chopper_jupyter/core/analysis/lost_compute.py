"""What makes compute kernels longer than they need be: padding, contention, a low clock."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.bootstrap import quantile
from chopper_jupyter.core.analysis.instance_parts import instance_parts, logarithmic_mean
from chopper_jupyter.core.analysis.losses import Loss, place_of, value_of
from chopper_jupyter.core.analysis.measured_overheads import half_widths
from chopper_jupyter.core.analysis.op_instances import instances
from chopper_jupyter.core.analysis.overlap_effect import effect_of
from chopper_jupyter.core.analysis.quantities import number
from chopper_jupyter.core.errors import PartialTraceWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.instance_parts import InstanceParts
    from chopper_jupyter.core.analysis.losses import Run
    from chopper_jupyter.core.analysis.op_instances import Instances
    from chopper_jupyter.core.analysis.overlap_effect import Effect
    from chopper_jupyter.core.trace import Trace

PADDED = 1.05
"""Performed over useful operations from which on an op is padded: kernels round sizes up to their
tiles, which costs large products less than this."""

SLOWED = 1.25
"""Factor beside communication from which on it is contention that stands out. Communication takes
some compute units and bandwidth from every run that overlaps: 6 to 18 % are usual."""

BESIDE = 0.001
"""Share of the time of all ops that an op must spend beside communication to be looked at."""

ALIKE = 0.01
"""Relative difference of the least times of an op's runs up to which they do the same work."""


@dataclass(frozen=True)
class Factors:
    """Logarithms of the factors by which each run of an op is longer than it need be.

    Parameters
    ----------
    found, parts
        The runs, and what is known of their time.
    cell : int64 array
        GPU and iteration of each run, as in ``Run``.
    padding, contention, clock : float64 array
        0 where the factor is not one that stands out.
    """

    found: Instances
    parts: InstanceParts
    cell: Ints
    padding: Floats
    contention: Floats
    clock: Floats

    def lost(self, part: Floats) -> Floats:
        """Return what one factor (a logarithm) costs each run, in ns.

        Together the factors cost actual time less what would be without all of them; each has
        its share of the logarithm.
        """
        return np.asarray(self._weight() * part, np.float64)

    def on_grid(self, run: Run, ns: Floats) -> Floats:
        """Sum something of runs of ops by GPU and iteration."""
        total = np.bincount(self.cell, ns, run.wall.size)
        return np.asarray(total.reshape(run.wall.shape), np.float64)

    def half_width(self, part: Floats, name: str) -> float:
        """Return half of the 95 % interval of the sum of what one factor costs, in ns."""
        weight = np.where(part > 0, self._weight(), 0.0)
        whole = np.zeros(len(self.found), np.int64)
        halves = half_widths(1, whole, self.found, replace(self.parts, weight=weight))
        return float(halves[name][0])

    def _weight(self) -> Floats:
        every = self.padding + self.contention + self.clock
        return logarithmic_mean(self.parts.actual, self.parts.actual * np.exp(-every))


def factors_of(trace: Trace, run: Run, slower: Floats) -> Factors | None:
    """Return the factors that stand out in runs of ops; None if there are no runs.

    Parameters
    ----------
    slower : float64 array of shape (gpus, iterations)
        Logarithm of the usual clock over the clock, 0 where that does not stand out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)  # what was filtered away is said
        found = instances(trace, "measured")
        if not len(found):
            return None
        parts = instance_parts(trace, found, worth=BESIDE)
    keys = found.keys
    gpu = np.array([run.gpus.index(g) for g in keys["gpu"].values])[keys["gpu"].codes]
    order = {value: i for i, value in enumerate(run.iterations)}
    of_code = np.array([*(order.get(i, 0) for i in keys["iteration"].values), 0])
    cell = gpu * len(run.iterations) + of_code[keys["iteration"].codes]
    bound = parts.applicable["frequency"]
    clock = np.where(bound if bound.any() else True, slower.reshape(-1)[cell], 0.0)
    return Factors(found, parts, cell, _padding(found, parts), _contention(found, parts), clock)


def _padding(found: Instances, parts: InstanceParts) -> Floats:
    """Return the factor of padding of the ops that are padded beyond doubt."""
    logs = parts.logs["instruction"]
    known = np.flatnonzero(np.isfinite(logs))
    size = int(found.op.max()) + 1
    held = np.bincount(found.op[known], minlength=size)
    mean = np.bincount(found.op[known], logs[known], size) / np.maximum(held, 1)
    square = np.bincount(found.op[known], (logs[known] - mean[found.op[known]]) ** 2, size)
    error = np.sqrt(square / np.maximum(held - 1, 1) / np.maximum(held, 1))
    padded = (held > 0) & (mean - quantile(held - 1) * error > np.log(PADDED))
    return np.where(padded[found.op] & np.isfinite(logs), np.maximum(logs, 0), 0.0)


def _contention(found: Instances, parts: InstanceParts) -> Floats:
    """Return the factor of overlap of the ops that communication slows beyond what is usual.

    If the runs of an op do not all do the same work, those that do must say so, too: what has
    more to do may just take longer.
    """
    slowed = np.array([_surely(effect) for effect in parts.effects], bool)
    for op in np.flatnonzero(slowed):
        rows = np.flatnonzero(found.op == op)
        alike = _alike(parts.theoretical[rows])
        slowed[op] = bool(len(alike)) and (
            len(alike) == len(rows) or _surely(_effect(found, parts, rows[alike]))
        )
    return np.where(slowed[found.op], np.nan_to_num(parts.logs["overlap"]), 0.0)


def _surely(effect: Effect) -> bool:
    """Tell if even the lower end of the interval of an effect stands out."""
    least = effect.slowdown - quantile(effect.freedom) * effect.error
    return bool(least > 1 - 1 / SLOWED)


def _alike(theoretical: Floats) -> Ints:
    """Return the largest set of runs whose least times are about the same."""
    if not np.isfinite(theoretical).all():
        return np.zeros(0, np.int64)
    order = np.argsort(theoretical, kind="stable")
    value = theoretical[order]
    until = np.searchsorted(value, (1 + ALIKE) * value, "right")
    first = int(np.argmax(until - np.arange(len(value))))
    return order[first : until[first]]


def _effect(found: Instances, parts: InstanceParts, rows: Ints) -> Effect:
    """Estimate the effect of overlap from some of the runs of an op."""
    actual = parts.actual[rows]
    under = found.sum(found.measures["under_ns"])[rows]
    slower = parts.logs["frequency"][rows]
    bound = parts.applicable["frequency"][rows]
    time = np.log(actual) - np.where(bound & np.isfinite(slower), slower, 0.0)
    return effect_of(
        time,
        np.clip(under / np.maximum(actual, 1), 0, 1),
        found.gpu[rows],
        found.keys["iteration"].codes[rows].astype(np.int64),
        clock_known=bool((np.isfinite(slower) | ~bound).all()),
    )


def padding_losses(run: Run, of: Factors) -> Iterator[Loss]:
    """Find the ops that work on more than the operands that were asked for."""
    ops = of.found.keys["op"]
    for code in np.unique(ops.codes[of.padding > 0]):
        part = np.where(ops.codes == code, of.padding, 0.0)
        ns = of.lost(part)
        mine = ns > 0
        factor = float(np.exp(np.average(part[mine], weights=ns[mine] / part[mine])))
        name = value_of(ops, int(code))
        yield Loss(
            "padding",
            f"{name} does {number(factor)} times the operations it needs",
            "choose sizes that are multiples of the tiles of its kernels (128 or 256), or another "
            "batch or sequence length",
            f"counters say {number(factor)} operations per useful one: overheads, instruction",
            of.on_grid(run, ns),
            place_of(of.found.keys, ns),
            of.half_width(part, "instruction"),
        )


def contention_losses(run: Run, of: Factors) -> Iterator[Loss]:
    """Find out if communication slows the kernels beside it more than is usual."""
    if not (of.contention > 0).any():
        return
    ns = of.lost(of.contention)
    effects, slowed = of.parts.effects, np.unique(of.found.op[of.contention > 0])
    spent = np.bincount(of.found.op, ns, len(effects))
    slowdown = float(np.average([effects[op].slowdown for op in slowed], weights=spent[slowed]))
    yield Loss(
        "contention",
        f"Kernels run {number(1 / (1 - slowdown))} times longer beside communication",
        "give communication fewer channels (NCCL_MAX_NCHANNELS) or compute units, or let it run "
        "beside kernels that need less memory bandwidth",
        f"by regression over {np.count_nonzero(of.contention > 0):,} runs of "
        f"{len(slowed)} ops: overheads, overlap",
        of.on_grid(run, ns),
        place_of(of.found.keys, ns),
        of.half_width(of.contention, "overlap"),
    )

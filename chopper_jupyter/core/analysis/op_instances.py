"""One run of an op: all its compute kernels on one GPU, in one iteration, phase and layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.analysis.counted import MATRIX_FLOPS, counted_measures, hardware_of
from chopper_jupyter.core.analysis.efficiency import NEEDED, measures_of_kernels
from chopper_jupyter.core.analysis.grouping import Key, group
from chopper_jupyter.core.analysis.included import Include, included, of_kinds
from chopper_jupyter.core.analysis.levels import encode, key_names
from chopper_jupyter.core.analysis.modelled import modelled
from chopper_jupyter.core.analysis.sharing import shared
from chopper_jupyter.core.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.analysis.modelled import Modelled
    from chopper_jupyter.core.analysis.overlap_effect import Effect
    from chopper_jupyter.core.analysis.timeline import Mask
    from chopper_jupyter.core.hardware import Hardware
    from chopper_jupyter.core.trace import Trace

LEVELS = ("gpu", "iteration", "phase", "layer", "op")
"""Levels that instances have."""

RUN = ("micro_batch", "recompute")
"""Columns beyond the levels that tell instances apart."""

OP = ("phase", "recompute", "op")
"""Columns that tell an op from others: forward, backward and recomputation are apart."""

LEAST_DOUBT = 0.1
"""Share of the time of an instance whose cycles are of no use, from which on it has none."""

_COLUMNS = (*NEEDED, "start_ns", "overlap_ns", "micro_batch", "recompute")
_UNIT = 1e9


@dataclass(frozen=True)
class Instances:
    """Runs of ops, in the order of their keys.

    Parameters
    ----------
    which : Included
        What is covered: compute and collectives.
    kernels : pyarrow.Table
        The compute kernels.
    of_row : int64 array
        Instance of each kernel.
    keys : dict of str to Key
        Levels of each instance.
    op : int64 array
        Number of the op, as ``OP`` tells it, of each instance.
    gpu : int64 array
        GPU of each instance.
    start, end : int64 array
        First start and last end.
    measures : dict of str to float64 array
        Per kernel; see ``measures_of_kernels``, and ``cycles``, ``counted_ns``, ``performed_ns``:
        counted matrix operations over the peaks of their formats.
    hardware : dict of int to Hardware or None
        By GPU.
    collectives : int64 array
        ``kernel_id`` of the collectives that are covered as well.
    collective_keys : dict of str to Key
        Their levels.
    effects : dict of int to Effect
        Effects of overlap that were worked out, by number of the op.
    """

    which: Included
    kernels: pa.Table
    of_row: Ints
    keys: dict[str, Key]
    op: Ints
    gpu: Ints
    start: Ints
    end: Ints
    measures: dict[str, Floats]
    hardware: dict[int, Hardware | None]
    collectives: Ints
    collective_keys: dict[str, Key]
    effects: dict[int, Effect] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.gpu)

    def sum(self, values: Floats) -> Floats:
        """Sum over the kernels of each instance; NaN where any of them is."""
        return np.asarray(np.bincount(self.of_row, values, len(self)), np.float64)

    def sum_known(self, values: Floats) -> Floats:
        """Sum what is known of each instance; NaN where nothing is."""
        known = np.isfinite(values)
        total = np.bincount(self.of_row[known], values[known], len(self))
        count = np.bincount(self.of_row[known], minlength=len(self))
        return np.where(count > 0, total, np.nan)

    def doubtful(self) -> Mask:
        """Mark the instances whose counted cycles are not those of their own time."""
        doubtful, time = (self.sum(self.measures[n]) for n in ("doubtful_ns", "time_ns"))
        return np.asarray(doubtful > LEAST_DOUBT * time)

    def clock_hz(self) -> Floats:
        """Return the clock at which the peak of each instance's GPU is stated; NaN if unknown."""
        known = {g: row.matrix_clock_hz if row else None for g, row in self.hardware.items()}
        values = np.full(max(known, default=0) + 1, np.nan)
        for number, clock in known.items():
            values[number] = np.nan if clock is None else clock
        return np.asarray(values[self.gpu], np.float64)


def instances(trace: Trace, include: Include) -> Instances:
    """Put the compute kernels of a trace into runs of ops, with all that is known of them."""
    return shared(trace, ("instances", include), lambda: _instances(trace, include))


def _instances(trace: Trace, include: Include) -> Instances:
    only = of_kinds(trace, "compute", "collective")
    which = included(only, include)
    every = only.kernels.select(_COLUMNS)
    every = which.kept(every)
    kind, words = codes(every["kind"])
    compute = kind == (words.index("compute") if "compute" in words else NOT_THERE)
    keys = {name: encode(which.kernels, name) for name in LEVELS}
    keys |= {name: _small(name, every) for name in RUN}
    collective_keys = {n: Key(n, k.values, k.codes[~compute]) for n, k in keys.items()}
    keys = {n: Key(n, k.values, k.codes[compute]) for n, k in keys.items()}
    kernels = every.filter(pa.array(compute))
    groups = group(list(keys.values()), kernels.num_rows)
    member = groups.member if kernels.num_rows else groups.member[:0]
    of_op = group([keys[name] for name in OP], kernels.num_rows)
    start = kernels["start_ns"].to_numpy().astype(np.int64)
    return Instances(
        which,
        kernels,
        groups.of_row,
        {name: Key(name, key.values, key.codes[member]) for name, key in keys.items()},
        of_op.of_row[member],
        kernels["gpu"].to_numpy().astype(np.int64)[member],
        _extreme(np.minimum, start, groups.of_row, member),
        _extreme(np.maximum, start + kernels["dur_ns"].to_numpy(), groups.of_row, member),
        _measures(trace, kernels),
        hardware_of(trace),
        every["kernel_id"].to_numpy()[~compute],
        collective_keys,
    )


NOT_THERE = -2
"""A code that no column of names has."""


def _measures(trace: Trace, kernels: pa.Table) -> dict[str, Floats]:
    model, counts = modelled(trace, kernels), counted_measures(trace, kernels)
    gpu = kernels["gpu"].to_numpy().astype(np.int64)
    unknown = np.full(len(gpu), np.nan)
    found = measures_of_kernels(trace, kernels, model, counts)
    found |= {name: counts.get(name, unknown) for name in ("cycles", "counted_ns")}
    found["performed_ns"] = _performed_ns(model, counts, gpu, hardware_of(trace))
    found["under_ns"] = kernels["overlap_ns"].to_numpy().astype(np.float64)
    return found


def levels_of(by: str | Iterable[str] | None) -> tuple[str, ...]:
    """Check the levels to keep apart; ``instance`` stands for all that instances have.

    Raises
    ------
    SchemaError
        If a level does not exist, or is below the op.
    """
    names = [by] if isinstance(by, str) else list(by or ())
    if "instance" in names:
        return (*LEVELS, *RUN)
    for name in key_names(names):
        if name not in LEVELS:
            raise unknown_name(what="level of an op", name=name, known=(*LEVELS, "instance"))
    return key_names(names)


def communication_ratio(trace: Trace, found: Instances) -> Floats:
    """Return the paper's overlap ratio: communication in the elapsed time, capped at 1.

    Collectives that run beside each other count each, as in the paper.
    """
    kernels = trace.all_kernels
    kind, words = codes(kernels["kind"])
    collective = kind == (words.index("collective") if "collective" in words else NOT_THERE)
    gpu, start, dur = (
        kernels[n].to_numpy().astype(np.int64)[collective] for n in ("gpu", "start_ns", "dur_ns")
    )
    total = np.zeros(len(found))
    for one in np.unique(gpu):
        mine, rows = gpu == one, np.flatnonzero(found.gpu == one)
        spans = _Spans(np.sort(start[mine]), np.sort((start + dur)[mine]))
        total[rows] = spans.until(found.end[rows]) - spans.until(found.start[rows])
    elapsed = found.end - found.start
    return np.where(elapsed > 0, np.minimum(total / np.maximum(elapsed, 1), 1.0), 0.0)


@dataclass(frozen=True)
class _Spans:
    """Intervals that may overlap, as their sorted starts and sorted ends."""

    start: Ints
    end: Ints

    def until(self, at: Ints) -> Ints:
        """Return the summed length of all intervals before each time."""
        return _before(self.start, at) - _before(self.end, at)


def _before(values: Ints, at: Ints) -> Ints:
    """Sum the distance to each earlier value."""
    count = np.searchsorted(values, at)
    low = int(values[0]) if len(values) else 0
    sums = np.concatenate([[0], np.cumsum(values - low)])
    return np.asarray(count * (at - low) - sums[count], np.int64)


def _performed_ns(
    model: Modelled,
    counts: Mapping[str, Floats],
    gpu: Ints,
    hardware: Mapping[int, Hardware | None],
) -> Floats:
    """Return the time that counted matrix operations take at the peaks of their formats.

    NaN where the format that a kernel's operator asks for was not counted.
    """
    total = np.full(len(gpu), np.nan)
    for name, values in counts.items():
        if not name.startswith(MATRIX_FLOPS):
            continue
        form = name.removeprefix(MATRIX_FLOPS)
        known = np.isfinite(values)
        peak = np.full(len(gpu), np.nan)
        for number, row in hardware.items():
            found = row.peak_flops(form) if row else None
            peak[gpu == number] = np.nan if found is None else found
        time = np.where(values == 0, 0.0, _UNIT * values / peak)
        total[known] = np.nan_to_num(total[known]) + time[known]
    for number, form in enumerate(model.formats):
        names = (MATRIX_FLOPS + form, f"{MATRIX_FLOPS}{form}_matrix")
        counted = np.zeros(len(gpu), bool)
        for name in names:
            counted |= np.isfinite(counts[name]) if name in counts else False
        total[(model.form == number) & (model.flops > 0) & ~counted] = np.nan
    return total


def _small(name: str, kernels: pa.Table) -> Key:
    """Return a column of small numbers or of flags as a key."""
    column = kernels[name].combine_chunks()
    known = pc.drop_null(column).unique().to_pylist()
    values = sorted(known)
    code = pc.fill_null(pc.index_in(column, pa.array(values, column.type)), -1)
    return Key(name, tuple(values), np.asarray(code.to_numpy(zero_copy_only=False), np.int32))


def _extreme(which: np.ufunc, values: Ints, of_row: Ints, member: Ints) -> Ints:
    found = values[member].copy()
    which.at(found, of_row, values)
    return found

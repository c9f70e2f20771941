"""Why ops of one run take longer than those of another: differences in the parts of overheads.

The time of an op is its theoretical time times factors, so between two runs each factor has its
share of the logarithm of the ratio of the times (LMDI). Work goes on in *cells*: what the rows of
the comparison hold, for each phase and op apart, since only runs of one op have factors in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core.analysis.grouping import group
from chopper_jupyter.core.analysis.instance_parts import (
    FACTORS,
    logarithmic_mean,
)
from chopper_jupyter.core.analysis.joined_groups import joined_groups, values_of
from chopper_jupyter.core.analysis.measured_overheads import (
    MOSTLY,
    PARTS,
    UNCERTAIN,
    half_widths,
    reasons_of,
)
from chopper_jupyter.core.analysis.op_instances import LEVELS
from chopper_jupyter.core.analysis.taken_apart import take_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chopper_jupyter.core.analysis.collective_parts import CollectiveParts
    from chopper_jupyter.core.analysis.grouping import Floats, Groups, Ints, Key
    from chopper_jupyter.core.analysis.included import Include
    from chopper_jupyter.core.analysis.instance_parts import InstanceParts
    from chopper_jupyter.core.analysis.op_instances import Instances
    from chopper_jupyter.core.analysis.timeline import Mask
    from chopper_jupyter.core.trace import Trace

CELL = ("phase", "op")
"""Levels that are kept apart whatever is asked."""

OF_CALLS = ("waiting", "latency")
"""Parts of collectives."""

SPLIT = "theoretical_ms to unmatched_ms add up to difference_ms"
BELOW_OP = "not split into causes: the parts of overheads are of ops, not of each {}"
NOT_COUNTED = "not split into causes: {} counters; count with %chopper counters or add_counters"
NO_THEORY = "not split into causes: nobody knows how fast the kernels could be"

_MS = 1e-6
_NOTHING = 1e-12
"""Share of a row's times that is rounding."""


class Rows(NamedTuple):
    """The rows of a comparison.

    Parameters
    ----------
    names : sequence of str
        Levels.
    of_values : mapping of tuple to int
        Row of each combination of their values.
    time : sequence of float64 array
        Kernel time of each row in each run, in ms per iteration and GPU.
    matched : bool array
        Rows that both runs have and whose op is known.
    instances : sequence of int
        Iterations times GPUs that a row joins in each run.
    """

    names: Sequence[str]
    of_values: Mapping[tuple[object, ...], int]
    time: Sequence[Floats]
    matched: Mask
    instances: Sequence[int]


@dataclass
class _Run:
    """One run: its instances and collectives, their keys, and the cell of each."""

    found: Instances
    parts: InstanceParts
    calls: CollectiveParts
    keys: list[Key]
    groups: Groups
    per: float
    of_op: Ints
    of_call: Ints
    count: int = 0

    def ops(self, values: Floats) -> Floats:
        """Sum over the instances of each cell, in ms; unknown counts as 0."""
        total = np.bincount(self.of_op, np.nan_to_num(values), self.count)
        return np.asarray(total * self.per, np.float64)

    def collectives(self, values: Floats) -> Floats:
        """Sum over the collectives of each cell, in ms; unknown counts as 0."""
        total = np.bincount(self.of_call, np.nan_to_num(values), self.count)
        return np.asarray(total * self.per, np.float64)


class _Cells(NamedTuple):
    """Row of each cell, whether both runs have it, and whether its ops have parts in both."""

    row: Ints
    rows: int
    both: Mask
    split: Mask

    def sum(self, values: Floats, kept: Mask) -> Floats:
        """Sum over the cells of each row."""
        return np.asarray(np.bincount(self.row[kept], values[kept], self.rows), np.float64)

    def sum_known(self, values: Floats, kept: Mask) -> Floats:
        """Sum over the kept cells of each row; NaN for a row that has none."""
        some = np.bincount(self.row[kept], minlength=self.rows) > 0
        return np.where(some, self.sum(values, kept), np.nan)


def why_not(traces: Sequence[Trace], names: Sequence[str]) -> str:
    """Say why differences cannot be split into causes; empty if they may be."""
    below = [name for name in names if name not in LEVELS]
    if below:
        return BELOW_OP.format(below[0])
    none = [s for s, t in zip("ab", traces, strict=True) if not t.counters.num_rows]
    if none:
        return NOT_COUNTED.format("neither run has" if len(none) > 1 else f"run {none[0]} has no")
    return ""


def causes(
    traces: Sequence[Trace], rows: Rows, include: Include
) -> tuple[dict[str, Floats], list[str | None]]:
    """Split the differences between two runs into their causes.

    Parameters
    ----------
    traces : sequence of Trace
        The two runs, both with counters.
    rows : Rows
        What is compared.
    include : {"measured", "all"}
        As in ``compare``.

    Returns
    -------
    columns : dict of str to float64 array
        In ms per row, NaN where not known: parts that add up to the difference, and intervals
        of the uncertain ones.
    notes : list of str or None
        Per row, why parts are not known.

    Raises
    ------
    MissingDataError
        If nobody knows how fast the kernels of a run could be.
    """
    names = tuple(dict.fromkeys((*rows.names, *CELL)))
    runs = [_run(t, names, n, include) for t, n in zip(traces, rows.instances, strict=True)]
    keys, joined, place = joined_groups([(run.keys, run.groups) for run in runs])
    for run, of_group in zip(runs, place, strict=True):
        of_row, ops = of_group[run.groups.of_row], len(run.found)
        run.of_op, run.of_call, run.count = of_row[:ops], of_row[ops:], joined.count
    at = [names.index(name) for name in rows.names]
    row = np.array([rows.of_values[tuple(v[i] for i in at)] for v in values_of(keys, joined)])
    linked = joined.codes[names.index("op")] >= 0
    cells = _cells(runs, row.astype(np.int64), linked & rows.matched[row], len(rows.matched))
    return _columns(runs, cells, rows), _notes(runs, cells)


def _run(trace: Trace, names: Sequence[str], each: int, include: Include) -> _Run:
    apart = take_apart(trace, include)
    keys, none = apart.keys(names), np.zeros(0, np.int64)
    groups = group(keys, apart.rows)
    per = _MS / max(each, 1)
    return _Run(apart.found, apart.parts, apart.calls, keys, groups, per, none, none)


def _cells(runs: Sequence[_Run], row: Ints, matched: Mask, rows: int) -> _Cells:
    """Tell which cells can be compared.

    The theoretical time of an op must be of one kind in both runs: where its products were
    counted it is theirs, elsewhere the roofline.
    """
    both, modelled, shares = matched.copy(), matched.copy(), []
    for run in runs:
        time = run.ops(run.parts.modelled)
        counted = np.isfinite(run.parts.logs["utilization"])
        both &= run.ops(run.parts.actual) + run.collectives(run.calls.actual) > 0
        modelled &= time > 0
        shares.append(
            run.ops(np.where(counted, run.parts.modelled, 0)) / np.where(time > 0, time, 1)
        )
    alike = (np.minimum(*shares) >= MOSTLY) | (np.maximum(*shares) <= 1 - MOSTLY)
    return _Cells(row, rows, both, both & modelled & alike)


def _columns(runs: Sequence[_Run], cells: _Cells, rows: Rows) -> dict[str, Floats]:
    """Return the parts of each row, and the intervals of the uncertain ones."""
    known = {name: cells.split & _known(runs[0], name) & _known(runs[1], name) for name in FACTORS}
    time = [run.ops(run.parts.modelled) for run in runs]
    theory = [run.ops(run.parts.theoretical) for run in runs]
    weight = logarithmic_mean(*time)
    with np.errstate(divide="ignore", invalid="ignore"):
        ideal = np.where(cells.split, weight * np.log(theory[1] / theory[0]), 0.0)
        scales = [weight / logarithmic_mean(*one) for one in zip(time, theory, strict=True)]
    weighed = [_weighed(r, cells, s, known) for r, s in zip(runs, scales, strict=True)]
    parts = {name: _factor(name, runs, weighed, cells, known[name]) for name in FACTORS}
    called = cells.both & _some(runs[0], "theoretical") & _some(runs[1], "theoretical")
    for name in OF_CALLS:
        some = called & (_some(runs[0], name) | _some(runs[1], name))
        parts[name] = cells.sum_known(_moved(runs, name), some)
    ideal += np.where(called, _moved(runs, "theoretical"), 0.0)
    explained = np.where(cells.split, time[1] - time[0], 0.0)
    explained += np.where(called, _moved(runs, "actual"), 0.0)
    theoretical = cells.sum_known(ideal, cells.split | called)
    apart = _apart(runs, cells, rows, explained)
    rest = rows.time[1] - rows.time[0] - apart["not_modelled"] - apart["unmatched"] - theoretical
    parts["unexplained"] = rest - np.sum([np.nan_to_num(v) for v in parts.values()], axis=0)
    return _named({"theoretical": theoretical, **parts, **apart}, _halves(runs, weighed, cells))


def _known(run: _Run, name: str) -> Mask:
    """Mark the cells in which a factor is known for most of the time to which it applies."""
    applies = run.parts.applicable[name]
    known = applies & np.isfinite(run.parts.logs[name])
    time, whole = (run.ops(np.where(mask, run.parts.modelled, 0)) for mask in (known, applies))
    return np.asarray((whole > 0) & (time >= MOSTLY * whole))


def _weighed(run: _Run, cells: _Cells, scale: Floats, known: Mapping[str, Mask]) -> InstanceParts:
    """Weigh instances so that the weighted logarithms of a factor are its share, in ms.

    Instances of which a factor is not known count like the others of their cell: else two runs
    of which other kernels were counted would seem to differ.
    """
    inside = cells.split[run.of_op]
    each = np.where(inside, scale[run.of_op] * run.per, 0.0)
    weight = np.where(inside, np.nan_to_num(run.parts.weight) * each, 0.0)
    logs, slope = {}, run.parts.slope
    for name, mask in known.items():
        there = np.isfinite(run.parts.logs[name]) & run.parts.applicable[name]
        some, whole = (
            np.bincount(run.of_op, np.where(kept, weight, 0), run.count)
            for kept in (there, run.parts.applicable[name])
        )
        more = np.where(mask, whole / np.where(some > 0, some, 1), np.nan)[run.of_op]
        logs[name] = np.where(there, run.parts.logs[name] * more, np.nan)
        if name == "overlap":
            slope = np.nan_to_num(slope * more)
    return replace(run.parts, weight=weight, logs=logs, slope=slope)


def _factor(
    name: str, runs: Sequence[_Run], weighed: Sequence[InstanceParts], cells: _Cells, known: Mask
) -> Floats:
    """Return the share of a factor in each row; NaN where it is not known for most of the time."""
    total, time = np.zeros(len(cells.row)), np.zeros(len(cells.row))
    applies = np.zeros(len(cells.row), bool)
    for sign, run, parts in zip((-1, 1), runs, weighed, strict=True):
        shares = np.nan_to_num(parts.weight * parts.logs[name])
        total += sign * np.bincount(run.of_op, shares, run.count)
        applies |= np.bincount(run.of_op, run.parts.applicable[name], run.count) > 0
        time += run.ops(run.parts.modelled)
    whole = cells.sum(time, cells.split & applies)
    mostly = cells.sum(time, known) >= MOSTLY * whole
    return np.where(mostly, cells.sum_known(total, known), np.nan)


def _some(run: _Run, name: str) -> Mask:
    """Mark the cells in which a quantity of collectives is known."""
    finite = np.isfinite(getattr(run.calls, name)) & np.isfinite(run.calls.theoretical)
    return np.asarray(np.bincount(run.of_call, finite, run.count) > 0)


def _moved(runs: Sequence[_Run], name: str) -> Floats:
    """Return how much larger a quantity of the modelled collectives of b is than of a's."""
    a, b = (
        run.collectives(np.where(np.isfinite(run.calls.theoretical), getattr(run.calls, name), 0))
        for run in runs
    )
    return b - a


def _apart(runs: Sequence[_Run], cells: _Cells, rows: Rows, explained: Floats) -> dict[str, Floats]:
    """Return the difference by what only one run has, and by what has no model."""
    a, b = (run.ops(run.parts.actual) + run.collectives(run.calls.actual) for run in runs)
    difference = rows.time[1] - rows.time[0]
    unmatched = cells.sum(b - a, ~cells.both)
    unmatched = np.where(rows.matched, unmatched, difference)
    left = difference - unmatched - cells.sum(explained, cells.both)
    rounding = np.abs(left) <= _NOTHING * (rows.time[0] + rows.time[1])
    some = np.bincount(cells.row, cells.both, cells.rows) > 0
    return {"not_modelled": np.where(rounding & some, 0.0, left), "unmatched": unmatched}


def _halves(
    runs: Sequence[_Run], weighed: Sequence[InstanceParts], cells: _Cells
) -> dict[str, Floats]:
    """Return half of the 95 % interval of each uncertain part: those of both runs joined."""
    each = [
        half_widths(cells.rows, cells.row[run.of_op], run.found, parts)
        for run, parts in zip(runs, weighed, strict=True)
    ]
    return {name: np.hypot(each[0][name], each[1][name]) for name in UNCERTAIN}


def _named(parts: dict[str, Floats], half: dict[str, Floats]) -> dict[str, Floats]:
    columns = {}
    for name in ("theoretical", *PARTS, "not_modelled", "unmatched"):
        columns[f"{name}_ms"] = parts[name]
        if name in half:
            columns[f"{name}_low_ms"] = parts[name] - half[name]
            columns[f"{name}_high_ms"] = parts[name] + half[name]
    return columns


def _notes(runs: Sequence[_Run], cells: _Cells) -> list[str | None]:
    """Say, per row, why parts are not known, and in which run."""
    told = [reasons_of(cells.rows, cells.row[run.of_op], run.parts) for run in runs]
    found: list[str | None] = []
    for a, b in zip(*told, strict=True):
        words = [*a, *(text for text in b if text not in a)]
        sides = [("" if t in a and t in b else "a: " if t in a else "b: ") for t in words]
        found.append("; ".join(s + t for s, t in zip(sides, words, strict=True)) or None)
    return found

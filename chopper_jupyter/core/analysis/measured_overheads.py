"""The overhead breakdown with clock and overlap measured, and the rest said to be unexplained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.bootstrap import quantile
from chopper_jupyter.core.analysis.efficiency import DOUBTFUL as DOUBTFUL_KERNELS
from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import group
from chopper_jupyter.core.analysis.instance_parts import FACTORS
from chopper_jupyter.core.analysis.taken_apart import take_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from chopper_jupyter.core.analysis.collective_parts import CollectiveParts
    from chopper_jupyter.core.analysis.grouping import Floats, Groups, Ints
    from chopper_jupyter.core.analysis.included import Include
    from chopper_jupyter.core.analysis.instance_parts import InstanceParts
    from chopper_jupyter.core.analysis.op_instances import Instances
    from chopper_jupyter.core.trace import Trace

PARTS = (*FACTORS, "waiting", "latency", "unexplained")
"""Parts between the theoretical and the actual time, in the order in which they are shown."""

UNCERTAIN = (*FACTORS, "unexplained")

_MS = 1e-6


def measured_overheads(trace: Trace, names: Sequence[str], include: Include) -> pd.DataFrame:
    """Break the times of ops down by what was measured; see ``overheads``."""
    apart = take_apart(trace, include)
    found, parts = apart.found, apart.parts
    keys = apart.keys(names)
    groups = group(keys, apart.rows)
    per = max(found.which.instances_of(names), 1)
    table, units = _table(groups, found, parts, apart.calls, per)
    order = np.argsort(-np.asarray(table["actual_ms"]), kind="stable")
    made = pa.table(key_columns(keys, groups) | table).take(pa.array(order))
    frame = to_frame(made, found.which, units)
    frame.attrs["method"] = "measured"
    frame.attrs["refresh_ms"] = parts.clocks.refresh_ms
    frame.attrs["notes"] = _notes(found, parts)
    return frame


def _table(
    groups: Groups, found: Instances, parts: InstanceParts, calls: CollectiveParts, per: int
) -> tuple[dict[str, pa.Array], dict[str, str]]:
    of_op, of_call = groups.of_row[: len(found)], groups.of_row[len(found) :]
    sums = times(groups.count, of_op, parts, of_call, calls)
    half = half_widths(groups.count, of_op, found, parts)
    columns = {
        "instances": pa.array(np.bincount(groups.of_row, minlength=groups.count)),
        "actual_ms": pa.array(sums["actual"] * _MS / per),
        "theoretical_ms": _array(sums["theoretical"] * _MS / per),
    }
    for name in PARTS:
        columns[f"{name}_ms"] = _array(sums[name] * _MS / per)
        if name in UNCERTAIN:
            columns[f"{name}_low_ms"] = _array((sums[name] - half[name]) * _MS / per)
            columns[f"{name}_high_ms"] = _array((sums[name] + half[name]) * _MS / per)
    columns["not_modelled_ms"] = pa.array(sums["not_modelled"] * _MS / per)
    units = dict.fromkeys([n for n in columns if n.endswith("_ms")], "ms")
    for name in FACTORS:
        columns[name] = _array(_mean_factor(groups.count, of_op, parts, name))
        units[name] = ""
    columns |= _clock_columns(groups.count, of_op, found, parts)
    units |= {"clock_mhz": "MHz", "clock_in_pass_mhz": "MHz"}
    columns["note"] = _note_column(groups.count, of_op, parts)
    return columns, units


def times(
    count: int, of_op: Ints, parts: InstanceParts, of_call: Ints, calls: CollectiveParts
) -> dict[str, Floats]:
    """Return the summed parts of each group in ns; a part is NaN where none of it is known."""
    modelled = np.isfinite(calls.theoretical)
    sums = {
        "actual": _add(count, of_op, parts.actual) + _add(count, of_call, calls.actual),
        "theoretical": _known(count, (of_op, parts.theoretical), (of_call, calls.theoretical)),
        "waiting": _known(count, (of_call, np.where(modelled, calls.waiting, np.nan))),
        "latency": _known(count, (of_call, np.where(modelled, calls.latency, np.nan))),
    }
    for name in FACTORS:
        share = known_share(count, of_op, parts, name)
        sums[name] = _known(count, (of_op, parts.weight * parts.logs[name]))
        sums[name][share < MOSTLY] = np.nan
    left = _add(count, of_op, parts.actual - parts.modelled)
    sums["not_modelled"] = left + _add(count, of_call, np.where(modelled, 0, calls.actual))
    rest = sums["actual"] - sums["not_modelled"]
    for name in ("theoretical", "waiting", "latency", *FACTORS):
        rest = rest - np.nan_to_num(sums[name])
    sums["unexplained"] = np.where(np.isfinite(sums["theoretical"]), rest, np.nan)
    return sums


MOSTLY = 0.9
"""Share of the time to which a part applies in which it must be known; else it is null."""


def known_share(count: int, of_op: Ints, parts: InstanceParts, name: str) -> Floats:
    """Return the share of the time to which a part applies in which it is known; 0 of none."""
    applies = parts.applicable[name]
    known = applies & np.isfinite(parts.logs[name])
    time = [_add(count, of_op[m], parts.modelled[m]) for m in (known, applies)]
    return np.asarray(time[0] / np.maximum(time[1], 1), np.float64)


def half_widths(
    count: int, of_op: Ints, found: Instances, parts: InstanceParts
) -> dict[str, Floats]:
    """Return half of the 95 % interval of each uncertain part, in the unit of the weights.

    The timed instances are all there are; what is uncertain is what was inferred: the slowdown by
    overlap from a regression, the clock from a few readings, and counts from another run.
    """
    square = {
        "instruction": _from_counts(count, of_op, found, parts, "instruction"),
        "utilization": _from_counts(count, of_op, found, parts, "utilization"),
        "overlap": _from_effects(count, of_op, found, parts),
        "frequency": _from_clocks(count, of_op, parts),
    }
    total = np.sum(list(square.values()), axis=0)
    return {name: np.sqrt(value) for name, value in (square | {"unexplained": total}).items()}


def _from_counts(
    count: int, of_op: Ints, found: Instances, parts: InstanceParts, name: str
) -> Floats:
    """Return the squared half-width that the spread of a counted factor within its op leaves."""
    logs = parts.logs[name]
    known = np.flatnonzero(np.isfinite(logs))
    op = found.op[known]
    held = np.bincount(op, minlength=len(parts.effects))
    mean = np.bincount(op, logs[known], len(parts.effects)) / np.maximum(held, 1)
    square = np.bincount(op, (logs[known] - mean[op]) ** 2, len(parts.effects))
    variance = square / np.maximum(held - 1, 1) * quantile(held - 1) ** 2
    return _add(count, of_op[known], parts.weight[known] ** 2 * variance[op])


def _from_effects(count: int, of_op: Ints, found: Instances, parts: InstanceParts) -> Floats:
    effects = parts.effects
    spread = np.array([quantile(e.freedom) * e.error for e in effects], np.float64)
    return _of_shared(count, of_op, found.op, parts.weight * parts.slope, np.nan_to_num(spread))


def _from_clocks(count: int, of_op: Ints, parts: InstanceParts) -> Floats:
    """Return the squared half-width that clocks leave: own ones, of the op, of the iteration."""
    clocks, known = parts.clocks, np.isfinite(parts.logs["frequency"])
    own = np.where(known, np.nan_to_num(parts.weight) * clocks.own_error, 0.0)
    total = _add(count, of_op, own**2)
    used = np.flatnonzero((clocks.pool >= 0) & known)
    group_, weight = of_op[used], parts.weight[used]
    for number, error, held in (
        (clocks.pool, clocks.pool_error, clocks.pool_samples),
        (clocks.cell, clocks.cell_error, clocks.cell_samples),
    ):
        spread = np.nan_to_num(quantile(held - 1) * error)
        total += _of_shared(count, group_, number[used], weight, spread)
    return total


def _of_shared(count: int, of_op: Ints, shared: Ints, weight: Floats, spread: Floats) -> Floats:
    """Square what each shared estimate (of an op, of a pool) contributes to each group."""
    if not len(spread) or not len(shared):
        return np.zeros(count)
    pair, index = np.unique(of_op * len(spread) + shared, return_inverse=True)
    total = np.bincount(index.reshape(-1), np.nan_to_num(weight), len(pair))
    return _add(count, pair // len(spread), (total * spread[pair % len(spread)]) ** 2)


def _mean_factor(count: int, of_op: Ints, parts: InstanceParts, name: str) -> Floats:
    known = np.isfinite(parts.logs[name]) & np.isfinite(parts.weight)
    above = _add(count, of_op[known], (parts.weight * parts.logs[name])[known])
    below = _add(count, of_op[known], parts.weight[known])
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.exp(above / below)
    return np.where(known_share(count, of_op, parts, name) < MOSTLY, np.nan, factor)


def _clock_columns(
    count: int, of_op: Ints, found: Instances, parts: InstanceParts
) -> dict[str, pa.Array]:
    clocks, time = parts.clocks, parts.actual
    known = np.isfinite(clocks.hz)
    cycles, counted = (found.sum(found.measures[n]) for n in ("cycles", "counted_ns"))
    both = np.isfinite(cycles) & np.isfinite(counted) & ~found.doubtful()
    pair = np.unique(np.stack([of_op, clocks.pool])[:, clocks.pool >= 0], axis=1)
    pooled = _add(count, pair[0], clocks.pool_samples[pair[1]]) if pair.size else np.zeros(count)
    own = _add(count, of_op, clocks.samples.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        clock = _add(count, of_op[known], (clocks.hz * time)[known]) * 1e-6
        clock = clock / _add(count, of_op[known], time[known])
        in_pass = (
            1e3 * _add(count, of_op[both], cycles[both]) / _add(count, of_op[both], counted[both])
        )
    return {
        "clock_mhz": _array(clock),
        "clock_samples": pa.array(np.maximum(own, pooled).astype(np.int64)),
        "clock_in_pass_mhz": _array(in_pass),
    }


def _note_column(count: int, of_op: Ints, parts: InstanceParts) -> pa.Array:
    return pa.array(
        ["; ".join(texts) or None for texts in reasons_of(count, of_op, parts)], pa.string()
    )


WHOLE = 0.995
"""Share of the time of a group from which on a reason is given without its share."""


def reasons_of(count: int, of_op: Ints, parts: InstanceParts) -> list[tuple[str, ...]]:
    """Say why parts of each group are not known, and for how much of the time."""
    whole = np.maximum(_add(count, of_op, parts.actual), 1)
    found: list[list[str]] = [[] for _ in range(count)]
    for number, text in enumerate(parts.texts):
        held = (parts.reasons >> number & 1).astype(bool)
        there = np.bincount(of_op[held], minlength=count) > 0
        share = _add(count, of_op[held], parts.actual[held]) / whole
        for row in np.flatnonzero(there).tolist():
            partly = "" if share[row] >= WHOLE else f" (for {100 * share[row]:.2g} % of the time)"
            found[row].append(text + partly)
    return [tuple(texts) for texts in found]


def _notes(found: Instances, parts: InstanceParts) -> list[str]:
    notes = ["parts are log shares; unexplained is what they leave, with its sign"]
    doubtful = found.doubtful()
    if doubtful.any():
        share = 100 * parts.actual[doubtful].sum() / parts.actual.sum()
        notes.append(f"cycles of no use for {share:.2g} % of the time: {DOUBTFUL_KERNELS}")
    return notes


def _add(count: int, of_row: Ints, values: Floats) -> Floats:
    return np.asarray(np.bincount(of_row, values, count), np.float64)


def _known(count: int, *columns: tuple[Ints, Floats]) -> Floats:
    """Sum what is known of several columns; NaN where nothing is."""
    total, seen = np.zeros(count), np.zeros(count)
    for of_row, values in columns:
        known = np.isfinite(values)
        total += np.bincount(of_row[known], values[known], count)
        seen += np.bincount(of_row[known], minlength=count)
    return np.where(seen > 0, total, np.nan)


def _array(values: Floats) -> pa.Array:
    return pa.array(values, pa.float64(), from_pandas=True)

"""Two runs side by side: what takes longer, what takes less, and what only one of them has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.compare_causes import NO_THEORY, SPLIT, Rows, causes, why_not
from chopper_jupyter.core.analysis.frames import key_columns
from chopper_jupyter.core.analysis.frequency import frequency
from chopper_jupyter.core.analysis.grouping import Groups, Ints, Key, group
from chopper_jupyter.core.analysis.included import Include, Included, included
from chopper_jupyter.core.analysis.joined_groups import joined_groups, values_of
from chopper_jupyter.core.analysis.levels import encode, key_names
from chopper_jupyter.core.analysis.samples import metrics_of
from chopper_jupyter.core.errors import MissingDataError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chopper_jupyter.core.analysis.grouping import Floats
    from chopper_jupyter.core.analysis.timeline import Mask
    from chopper_jupyter.core.trace import Trace

CLOCK = "gpu_clock_mhz"
SIDES = ("both", "only a", "only b", "unlinked")
_SUMS = {"time": "dur_ns", "overlap": "overlap_ns", "busy": "busy_ns", "idle": "idle_ns"}
_MS = 1e-6


class _Side(NamedTuple):
    """One trace's groups, and their sums in ms and kernels per iteration and GPU."""

    keys: list[Key]
    groups: Groups
    sums: dict[str, Floats]
    each: int


def compare(
    a: Trace,
    b: Trace,
    by: str | Iterable[str] = ("phase", "layer", "op"),
    *,
    include: Include = "measured",
) -> pd.DataFrame:
    """Compare two runs part by part: before and after, one machine and another.

    Parts are matched by the values of the levels; all numbers are per iteration and GPU, so the
    runs may have different numbers of both.

    Parameters
    ----------
    a, b : Trace
        The two runs; differences are ``b`` less ``a``.
    by : str or iterable of str, optional
        Levels to match by, as in ``summarize``.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed, largest difference first. The keys and ``side`` (``both``, ``only a``,
        ``only b``: what is unmatched is always shown; ``unlinked``: kernels whose op is not known,
        which match nothing); kernel times ``time_a_ms``,
        ``time_b_ms``, ``difference_ms`` and ``ratio`` (b over a); ``kernels_a``, ``kernels_b``.
        The difference has two causes that add up to it: ``count_ms``, more or fewer kernels at
        a's mean duration (all of it for what only one run has), and ``duration_ms``, longer or
        shorter kernels. ``overlap_a_percent`` and ``_b``: the share of the time beside the other
        kind; ``idle_a_ms`` and ``idle_b_ms``: the idle time that the kernels ended.

        If both runs have counters and all levels are of ops, the difference is also split into
        causes, named as in ``overheads``, that add up to it exactly: ``theoretical_ms`` (more
        work, or a GPU with other peaks), ``instruction_ms``, ``utilization_ms``, ``overlap_ms``,
        ``frequency_ms``, ``waiting_ms``, ``latency_ms``, ``unexplained_ms``, ``not_modelled_ms``
        (copies, and kernels whose least time nobody knows) and ``unmatched_ms`` (ops that only
        one run has). Positive is what b loses. ``_low`` and ``_high`` of the uncertain ones are
        95 % intervals, and ``note`` says why a part is null. Without causes there is, if both
        runs have samples of the GPU clock, ``clock_ms``: the part of ``duration_ms`` that the
        clocks alone would make if all kernels followed them.

        ``attrs`` holds ``units``, ``a``, ``b`` (names), ``matched`` (share of the linked kernel
        time of each that is matched), of each ``unmatched_ms``, ``unlinked_ms`` and
        ``outside_ms``, kernel time in no iteration, which is left out, and ``causes``: what the
        causes are, or why there are none.

    Raises
    ------
    SchemaError
        If a level does not exist, or no level is given.

    Notes
    -----
    The time of an op is its theoretical time times factors, so the share of a cause in a
    difference is that of its factor in the logarithm of the ratio of both times (LMDI), worked
    out for each phase and op and added up: shares do not depend on an order.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> compare(Trace.from_tables({}), Trace.from_tables({}), by="op")["side"].tolist()
    []
    """
    names = key_names(by)
    if not names:
        msg = "compare matches by levels; give at least one"
        raise SchemaError(msg)
    sides = [_side(trace, names, include) for trace in (a, b)]
    keys, joined, place = joined_groups([(side.keys, side.groups) for side in sides])
    values = [_spread(side, place[i], joined.count) for i, side in enumerate(sides)]
    present = [np.isin(np.arange(joined.count), place[i]) for i in range(2)]
    columns = key_columns(keys, joined)
    linked = joined.codes[names.index("op")] >= 0 if "op" in names else np.ones(joined.count, bool)
    columns["side"] = _names_of(present, linked)
    columns |= _times(*values)
    attrs = _shares(values, present, linked) | {"a": a.info.name, "b": b.info.name}
    matched = present[0] & present[1] & linked
    rows = Rows(
        names,
        {value: i for i, value in enumerate(values_of(keys, joined))},
        [one["time"] for one in values],
        matched,
        [side.each for side in sides],
    )
    more, attrs["causes"] = _causes((a, b), rows, include)
    columns |= more
    if not more and all(metrics_of(trace, [CLOCK]) for trace in (a, b)):
        columns["clock_ms"] = _clock_effect((a, b), names, keys, joined, values, include)
    attrs["outside_ms"] = {name: _outside(t, include) for name, t in (("a", a), ("b", b))}
    most = np.argsort(-np.abs(values[1]["time"] - values[0]["time"]), kind="stable")
    return _frame(pa.table(columns).take(pa.array(most)), attrs)


def _causes(
    traces: tuple[Trace, Trace], rows: Rows, include: Include
) -> tuple[dict[str, pa.Array], str]:
    """Return the columns of causes, and what they are; none, and why, where they are not known."""
    reason = why_not(traces, rows.names)
    if reason:
        return {}, reason
    try:
        found, notes = causes(traces, rows, include)
    except MissingDataError:
        return {}, NO_THEORY
    columns = {name: pa.array(values, from_pandas=True) for name, values in found.items()}
    return columns | {"note": pa.array(notes, pa.string())}, SPLIT


def _side(trace: Trace, names: Sequence[str], include: Include) -> _Side:
    which: Included = included(trace, include)
    keys = [encode(which.kernels, name) for name in names]
    groups = group(keys, which.kernels.num_rows)
    each = which.instances_of(names)
    sums = {
        name: groups.sum_of(which.kernels[column].to_numpy()) * _MS / each
        for name, column in _SUMS.items()
    }
    sums["kernels"] = np.bincount(groups.of_row, minlength=groups.count) / each
    return _Side(keys, groups, sums, each)


def _spread(side: _Side, place: Ints, count: int) -> dict[str, Floats]:
    """Return the sums of one run by joined group; 0 for what it does not have."""
    found = {}
    for name, values in side.sums.items():
        found[name] = np.zeros(count)
        found[name][place] = values
    return found


def _names_of(present: Sequence[Mask], linked: Mask) -> pa.Array:
    code = np.where(present[0] & present[1], 0, np.where(present[0], 1, 2))
    return pa.array(SIDES).take(pa.array(np.where(linked, code, 3), pa.int64()))


def _times(a: dict[str, Floats], b: dict[str, Floats]) -> dict[str, pa.Array]:
    difference = b["time"] - a["time"]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_a = np.where(a["kernels"] > 0, a["time"] / a["kernels"], 0)
        both = (a["kernels"] > 0) & (b["kernels"] > 0)
        count = np.where(both, (b["kernels"] - a["kernels"]) * mean_a, difference)
        columns = {
            "time_a_ms": a["time"],
            "time_b_ms": b["time"],
            "difference_ms": difference,
            "ratio": np.where(both, b["time"] / a["time"], np.nan),
            "kernels_a": a["kernels"],
            "kernels_b": b["kernels"],
            "count_ms": count,
            "duration_ms": difference - count,
            "overlap_a_percent": 100 * a["overlap"] / a["time"],
            "overlap_b_percent": 100 * b["overlap"] / b["time"],
            "idle_a_ms": a["idle"],
            "idle_b_ms": b["idle"],
        }
    return {name: pa.array(values, from_pandas=True) for name, values in columns.items()}


def _clock_effect(
    traces: tuple[Trace, Trace],
    names: Sequence[str],
    keys: Sequence[Key],
    joined: Groups,
    values: Sequence[dict[str, Floats]],
    include: Include,
) -> pa.Array:
    """Return how much longer b's kernels take because its clock is lower; null if not known."""
    clocks = []
    for trace in traces:
        table = frequency(trace, by=names, include=include)
        rows = [table[name].astype(object).where(table[name].notna(), None) for name in names]
        known = dict(zip(zip(*rows, strict=True), table[CLOCK].astype(float), strict=True))
        wanted = values_of(keys, joined)
        clocks.append(np.array([known.get(value, np.nan) for value in wanted], np.float64))
    a, b = values
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_a = a["time"] / a["kernels"]
        effect = b["kernels"] * mean_a * (clocks[0] / clocks[1] - 1)
    return pa.array(np.where(np.isfinite(effect), effect, np.nan), from_pandas=True)


def _shares(
    values: Sequence[dict[str, Floats]], present: Sequence[Mask], linked: Mask
) -> dict[str, dict[str, float]]:
    """Return how much of each run's kernel time is matched, unmatched and unlinked."""
    both = present[0] & present[1] & linked
    known = [float(v["time"][linked].sum()) for v in values]
    common = [float(v["time"][both].sum()) for v in values]
    rest = [float(v["time"][~linked].sum()) for v in values]
    return {
        "matched": {s: c / k if k else 1.0 for s, c, k in zip("ab", common, known, strict=True)},
        "unmatched_ms": {s: k - c for s, c, k in zip("ab", common, known, strict=True)},
        "unlinked_ms": dict(zip("ab", rest, strict=True)),
    }


def _outside(trace: Trace, include: Include) -> float:
    """Return the kernel time, per iteration and GPU, that lies in no iteration and is left out."""
    which = included(trace, include)
    if not which.outside:
        return 0.0
    kernels = trace.kernels
    time = pc.sum(kernels.filter(pc.is_null(kernels["iteration"]))["dur_ns"]).as_py()
    return float(time or 0) * _MS / which.instances


def _frame(table: pa.Table, attrs: dict[str, Any]) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    names = [name for name in table.column_names if name.endswith(("_ms", "_percent"))]
    frame.attrs["units"] = {n: "ms" if n.endswith("_ms") else "%" for n in names}
    frame.attrs.update(attrs)
    return frame

"""The overhead breakdown as the Chopper paper defines it, formulas (6) to (10).

M. Kurzynski, S. Aga, D. Wu, "Chopper: A Multi-Level GPU Characterization Tool & Derived Insights
Into LLM Training Inefficiency", arXiv 2512.08242 (2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.efficiency import DOUBTFUL
from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import group
from chopper_jupyter.core.analysis.op_instances import communication_ratio, instances
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from chopper_jupyter.core.analysis.grouping import Floats, Groups, Ints
    from chopper_jupyter.core.analysis.included import Include
    from chopper_jupyter.core.analysis.op_instances import Instances
    from chopper_jupyter.core.trace import Trace

FACTORS = ("instruction", "utilization", "overlap", "frequency")
"""Factors between the theoretical and the actual time, in the order of the paper's stack."""

_TIMES = ("actual", "theoretical", "peak", "elapsed")


def chopper_overheads(trace: Trace, names: Sequence[str], include: Include) -> pd.DataFrame:
    """Break the times of ops down as the paper does; see ``overheads``."""
    found = instances(trace, include)
    factors = factors_of(trace, found)
    if not np.isfinite(factors["utilization"]).any():
        msg = (
            "method 'chopper' needs hardware counters, shapes and a known GPU: count with "
            "%chopper counters or add_counters; method 'measured' does with less"
        )
        raise MissingDataError(msg)
    keys = [found.keys[name] for name in names]
    groups = group(keys, len(found))
    columns = key_columns(keys, groups)
    columns["instances"] = pa.array(np.bincount(groups.of_row, minlength=groups.count))
    columns["counted_instances"] = pa.array(
        np.bincount(groups.of_row[np.isfinite(factors["utilization"])], minlength=groups.count)
    )
    medians = {name: median(groups, values) for name, values in factors.items()}
    for name in _TIMES:
        columns[f"{name}_ms"] = _array(medians[name] * 1e-6)
    columns |= {name: _array(medians[name]) for name in FACTORS}
    columns["overlap_ratio"] = _array(medians["overlap_ratio"])
    columns |= _stack(medians)
    units = {name: "ms" for name in columns if name.endswith("_ms")}
    units |= dict.fromkeys((*FACTORS, "overlap_ratio"), "")
    order = np.argsort(-np.nan_to_num(medians["actual"]), kind="stable")
    frame = to_frame(pa.table(columns).take(pa.array(order)), found.which, units)
    frame.attrs["method"] = "chopper"
    frame.attrs["notes"] = [
        "medians over instances; the product of medians need not be the median of the product",
        "frequency is what is left over: it holds everything that the other factors do not",
        "times are stacked one after another: their sizes depend on the order",
    ]
    doubtful = found.doubtful()
    if doubtful.any():
        share = 100 * factors["actual"][doubtful].sum() / factors["actual"].sum()
        frame.attrs["notes"].append(
            f"the paper takes all cycles, but for {share:.2g} % of the time they are of no use: "
            f"{DOUBTFUL}"
        )
    return frame


def factors_of(trace: Trace, found: Instances) -> dict[str, Floats]:
    """Return times (ns) and factors of each instance; NaN where not known or not applicable."""
    measures = found.measures
    actual = found.sum(measures["time_ns"])
    theoretical = theoretical_ns(found)
    performed = found.sum(measures["performed_ns"])
    busy, capacity = (found.sum(measures[f"matrix_{n}_cycles"]) for n in ("busy", "capacity"))
    peak = 1e9 * found.sum(measures["cycles"]) / found.clock_hz()
    ratio = communication_ratio(trace, found)
    overlap = _overlap(found, ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        made = {
            "actual": actual,
            "theoretical": theoretical,
            "instruction": performed / theoretical,
            "utilization": np.where(np.isfinite(theoretical), capacity / busy, np.nan),
            "overlap": overlap,
            "peak": peak,
            "frequency": np.where(np.isfinite(theoretical), actual / peak / overlap, np.nan),
            "overlap_ratio": ratio,
            "elapsed": (found.end - found.start).astype(np.float64),
        }
    made["instruction"][~(made["instruction"] > 0)] = np.nan
    made["utilization"][~np.isfinite(made["utilization"])] = np.nan
    return made


def theoretical_ns(found: Instances) -> Floats:
    """Return the time of each instance's products at peak; NaN if it has none, or unknown ones."""
    time = found.measures["peak_ns"]
    unknown = (found.measures["flops"] > 0) & np.isnan(time)
    total = found.sum_known(time)
    total[(total == 0) | (np.bincount(found.of_row, unknown, len(found)) > 0)] = np.nan
    return total


def _overlap(found: Instances, ratio: Floats) -> Floats:
    """Return elapsed at the median of the overlap ratio over elapsed at its least, at least 1.

    Of each op on each GPU; the median instance is the one whose rank in the order of the ratio,
    then of time, is nearest to one half.
    """
    op = found.op * (int(found.gpu.max(initial=0)) + 1) + found.gpu
    order = np.lexsort((found.start, ratio, op))
    first = np.flatnonzero(np.diff(op[order], prepend=-1))
    count = np.diff(first, append=len(order))
    middle = order[first + np.maximum(count // 2 - 1, 0)] if len(order) else order
    least = order[first] if len(order) else order
    elapsed = (found.end - found.start).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        slower = np.maximum(elapsed[middle] / elapsed[least], 1.0)
    slower = np.where(ratio[middle] == 0, 1.0, slower)
    result = np.ones(len(found))
    result[order] = np.repeat(slower, count)
    return result


def _stack(medians: dict[str, Floats]) -> dict[str, pa.Array]:
    """Return how much each factor adds to the time before it, in ms."""
    base = medians["theoretical"] * 1e-6
    parts = {}
    for name in FACTORS:
        parts[f"{name}_ms"] = _array(base * (medians[name] - 1))
        base = base * medians[name]
    return parts


def median(groups: Groups, values: Floats) -> Floats:
    """Return the median of what is known in each group; NaN where nothing is.

    Examples
    --------
    >>> from chopper_jupyter.core.analysis.grouping import Key
    >>> groups = group([Key("op", ("a",), np.array([0, 0, -1], np.int32))], 3)
    >>> median(groups, np.array([1.0, 4.0, np.nan])).tolist()
    [2.5, nan]
    """
    known = np.isfinite(values)
    of_row, values = groups.of_row[known], values[known]
    order = np.lexsort((values, of_row))
    values = values[order]
    count = np.bincount(of_row, minlength=groups.count)
    first = np.cumsum(count) - count
    result = np.full(groups.count, np.nan)
    some = count > 0
    low, high = (first + (count - 1) // 2)[some], (first + count // 2)[some]
    result[some] = (values[low] + values[high]) / 2
    return result


def _array(values: Floats | Ints) -> pa.Array:
    return pa.array(values, pa.float64(), from_pandas=True)

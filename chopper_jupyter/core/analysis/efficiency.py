"""How well compute kernels use the GPU: operations, bytes, peaks and the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.counted import (
    PAIRS,
    counted_measures,
    doubtful_cycles,
    hardware_of,
)
from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import group
from chopper_jupyter.core.analysis.included import Include, included, of_kinds
from chopper_jupyter.core.analysis.levels import encode, key_names
from chopper_jupyter.core.analysis.metrics import METRICS, evaluate
from chopper_jupyter.core.analysis.modelled import modelled, peak_of
from chopper_jupyter.core.analysis.sharing import shared
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd

    from chopper_jupyter.core.analysis.grouping import Floats, Groups
    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.analysis.modelled import Modelled
    from chopper_jupyter.core.analysis.timeline import Mask
    from chopper_jupyter.core.hardware import Hardware
    from chopper_jupyter.core.trace import Trace

RATIOS = ("tflops", "peak_share", "bandwidth", "intensity", "roofline", "utilization", "padding")
"""Metrics of the answer, from the table of metrics."""

RECORD_SHAPES = "record with shapes on, the default of %%chopper_profile and profile()"
DOUBTFUL = "kernels shorter than 50 µs, or with more cycles than their time holds"
COUNT = "count with %chopper counters, or add_counters"


def efficiency(
    trace: Trace, by: str | Iterable[str] | None = "op", *, include: Include = "measured"
) -> pd.DataFrame:
    """Measure how well compute kernels use the GPU; collectives and copies are left out.

    Parameters
    ----------
    trace : Trace
        The trace; with counters more is known.
    by : str or iterable of str, optional
        Levels to keep apart, as in ``summarize``. Nothing gives one row.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed, longest time first; null where not known, never 0. Per iteration and GPU:

        - ``time_ms``; ``flops``: useful operations by shape; ``matrix_flops``: operations that
          counters saw the matrix units do; ``moved_bytes``, ``bytes_source`` (``counters``,
          ``model`` of the least bytes by shape, or ``both``), and ``bytes_known_percent``, the
          share of the time whose kernels have known bytes.

        Ratios of sums:

        - ``tflops``: useful operations over time; ``peak_share_percent``: of the peak of each
          kernel's number format;
        - ``bandwidth_gb_s`` and ``bandwidth_share_percent``, of the peak of the memory, over the
          kernels whose bytes are known; ``intensity_flop_per_byte``;
        - ``bound``: ``compute`` or ``memory``, whichever needs longer at its peak;
          ``attainable_tflops``: operations over the least time that the roofline allows;
          ``roofline_percent``: this least time over the real one;
        - ``utilization_percent``: share of the cycles in which the matrix units worked, of the
          kernels that are long enough to count them (50 µs on AMD GPUs); ``padding``:
          operations done over useful ones, of the calls where both are known.

        ``attrs`` holds ``units``, ``included``, ``iterations``, ``gpus``, ``hardware`` by GPU,
        ``peaks`` by GPU (the roofs: ``tflops`` by number format, ``bandwidth_gb_s``; what is not
        known is absent), and ``sources``: one sentence on each quantity.

    Raises
    ------
    SchemaError
        If a level does not exist.
    MissingDataError
        If neither operations nor bytes of any kernel are known.

    Notes
    -----
    Peaks and the clock they hold at are of the hardware table. Counted bytes of AMD GPUs are
    those between the last cache and the fabric: what a cache in the fabric serves is included.

    Examples
    --------
    >>> efficiency(trace, by=["phase", "op"])[["op", "tflops", "bound"]]  # doctest: +SKIP
    """
    names = key_names(by)
    return shared(trace, ("efficiency", names, include), lambda: _made(trace, names, include))


def _made(trace: Trace, names: tuple[str, ...], include: Include) -> pd.DataFrame:
    which, kernels = compute_kernels(trace, include)
    keys = [encode(which.kernels, name) for name in names]
    groups = group(keys, kernels.num_rows)
    model, counts = modelled(trace, kernels), counted_measures(trace, kernels)
    measures = measures_of_kernels(trace, kernels, model, counts)
    if not any(np.isfinite(measures[name]).any() for name in ("flops", "moved_bytes")):
        msg = f"this trace tells neither operations nor bytes: {RECORD_SHAPES}; or {COUNT}"
        raise MissingDataError(msg)
    doubtful = measures["doubtful_ns"] > 0
    for name in PAIRS[0]:
        measures[name] = np.where(doubtful, np.nan, measures[name])
    sums = {name: _sum(groups, values) for name, values in measures.items()}
    columns, units = _columns(sums, which.instances_of(names))
    columns["bytes_source"] = _sources(groups, measures["moved_bytes"], counts)
    made = key_columns(keys, groups) | {name: _array(values) for name, values in columns.items()}
    order = np.argsort(-sums["time_ns"], kind="stable")
    frame = to_frame(pa.table(made).take(pa.array(order)), which, units)
    hardware = hardware_of(trace)
    frame.attrs["hardware"] = {g: k.gpu if k else None for g, k in hardware.items()}
    frame.attrs["peaks"] = {g: _roofs(k, model) for g, k in hardware.items()}
    frame.attrs["sources"] = _sentences(counts, model, measures)
    return frame


NEEDED = ("kernel_id", "gpu", "op_id", "name", "kind", "dur_ns", "flops")


def compute_kernels(trace: Trace, include: Include) -> tuple[Included, pa.Table]:
    """Return what an answer covers, its compute kernels only, and these with ``NEEDED``."""
    only = of_kinds(trace, "compute")
    which = included(only, include)
    kernels = only.kernels.select(NEEDED)
    return which, which.kept(kernels)


def measures_of_kernels(
    trace: Trace, kernels: pa.Table, model: Modelled, counts: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Return the derived measures of kernels, NaN where unknown; names as in ``MEASURES``."""
    time = kernels["dur_ns"].to_numpy().astype(np.float64)
    gpu = kernels["gpu"].to_numpy().astype(np.int64)
    hardware = hardware_of(trace)
    unknown = np.full(len(time), np.nan)
    counted_bytes = counts.get("hbm_read_bytes", unknown) + counts.get("hbm_write_bytes", unknown)
    moved = np.where(np.isfinite(counted_bytes), counted_bytes, model.bytes)
    speed = np.full(len(time), np.nan)
    for number, known in hardware.items():
        if known is not None and known.bandwidth is not None:
            speed[gpu == number] = known.bandwidth
    peak_ns = _per_peak(model.flops, model.peaks(gpu, hardware))
    memory_ns = 1e9 * moved / speed
    least = np.fmax(peak_ns, memory_ns)
    both = np.isfinite(model.flops) & np.isfinite(moved)
    padded, useful = padding(model, counts.get("matrix_flops", unknown))
    doubtful = doubtful_cycles(counts, gpu, time, hardware)
    return {
        "time_ns": time,
        "compute_ns": time,
        "flops": model.flops,
        "matrix_flops": counts.get("matrix_flops", unknown),
        "peak_ns": peak_ns,
        "memory_ns": memory_ns,
        "matrix_busy_cycles": counts.get("matrix_busy_cycles", unknown),
        "matrix_capacity_cycles": counts.get("matrix_capacity_cycles", unknown),
        "doubtful_ns": np.where(doubtful, time, 0.0),
        "padded_flops": padded,
        "useful_flops": useful,
        "moved_bytes": moved,
        "moved_ns": np.where(np.isfinite(moved), time, np.nan),
        "intensity_flops": np.where(both, model.flops, np.nan),
        "intensity_bytes": np.where(both, moved, np.nan),
        "roofline_ns": least,
        "roofline_time_ns": np.where(np.isfinite(least), time, np.nan),
        "bounded_flops": np.where(np.isfinite(least) & np.isfinite(peak_ns), model.flops, np.nan),
        "bounded_ns": np.where(np.isfinite(peak_ns), least, np.nan),
    }


def _per_peak(flops: Floats, peak: Floats) -> Floats:
    """Return the time at peak; 0 for a kernel that has nothing to do, whatever its format."""
    return np.where(flops == 0, 0.0, 1e9 * flops / peak)


def padding(model: Modelled, matrix_flops: Floats) -> tuple[Floats, Floats]:
    """Return counted and useful operations of the calls whose kernels were all counted."""
    call = model.call
    useful = np.bincount(call, np.nan_to_num(model.flops))
    missing = np.bincount(call, np.isnan(matrix_flops) & (np.nan_to_num(model.flops) > 0))
    compared = ((useful > 0) & (missing == 0))[call]
    done = np.where(compared, np.nan_to_num(matrix_flops), np.nan)
    return done, np.where(compared, np.nan_to_num(model.flops), np.nan)


def _sum(groups: Groups, values: Floats) -> Floats:
    """Sum what is known; NaN for a group in which nothing is."""
    known = np.isfinite(values)
    count = np.bincount(groups.of_row[known], minlength=groups.count)
    total = np.bincount(groups.of_row[known], values[known], groups.count)
    return np.where(count > 0, total, np.nan)


def _columns(
    sums: dict[str, Floats], instances: int
) -> tuple[dict[str, Floats | pa.Array], dict[str, str]]:
    per = max(instances, 1)
    columns: dict[str, Floats | pa.Array] = {"time_ms": sums["time_ns"] * 1e-6 / per}
    units = {"time_ms": "ms", "flops": "FLOP", "matrix_flops": "FLOP", "moved_bytes": "B"}
    for name in ("flops", "matrix_flops", "moved_bytes"):
        columns[name] = sums[name] / per
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["bytes_known_percent"] = 100 * np.nan_to_num(sums["moved_ns"]) / sums["time_ns"]
        columns["bandwidth_share_percent"] = 100 * sums["memory_ns"] / sums["moved_ns"]
        columns["attainable_tflops"] = 1e-3 * sums["bounded_flops"] / sums["bounded_ns"]
    units |= {"bytes_known_percent": "%", "bandwidth_share_percent": "%"}
    units["attainable_tflops"] = "TFLOP/s"
    for name in RATIOS:
        metric = METRICS[name]
        columns[metric.column] = evaluate(metric, sums)
        units[metric.column] = metric.unit
    columns["bound"] = _bound(sums["peak_ns"], sums["memory_ns"])
    return columns, units


def _bound(peak_ns: Floats, memory_ns: Floats) -> pa.Array:
    """Name what needs longer; null where only one of the two is known and it could be either."""
    words = np.where(peak_ns > memory_ns, "compute", "memory")
    no_products = np.isnan(peak_ns)
    known = np.isfinite(memory_ns) & (no_products | np.isfinite(peak_ns))
    return pa.array(words, pa.string(), mask=~known)


def _sources(groups: Groups, moved: Floats, counts: Mapping[str, Floats]) -> pa.Array:
    """Say where the bytes of each group come from."""
    missing = np.full(len(moved), np.nan)
    counted = np.isfinite(counts.get("hbm_read_bytes", missing))
    counted &= np.isfinite(counts.get("hbm_write_bytes", missing))
    by_count = _any(groups, counted)
    by_model = _any(groups, np.isfinite(moved) & ~counted)
    words = np.where(by_count & by_model, "both", np.where(by_count, "counters", "model"))
    return pa.array(words, pa.string(), mask=~(by_count | by_model))


def _any(groups: Groups, mask: Mask) -> Mask:
    return np.asarray(np.bincount(groups.of_row, mask, groups.count) > 0)


def _array(values: Floats | pa.Array) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return pa.array(np.where(np.isfinite(values), values, np.nan), pa.float64(), from_pandas=True)


def _roofs(known: Hardware | None, model: Modelled) -> dict[str, Any]:
    """Return the peaks of the formats that occur, and of the memory."""
    by_format = {form: peak_of(known, form) * 1e-12 for form in model.formats}
    roofs: dict[str, Any] = {"tflops": {f: v for f, v in by_format.items() if np.isfinite(v)}}
    if known is not None and known.bandwidth is not None:
        roofs["bandwidth_gb_s"] = known.bandwidth * 1e-9
    return roofs


def _sentences(
    counts: Mapping[str, Floats], model: Modelled, measures: Mapping[str, Floats]
) -> dict[str, str]:
    counted = np.isfinite(counts["hbm_read_bytes"]) if "hbm_read_bytes" in counts else None
    share = 0.0 if counted is None else float(np.mean(counted))
    doubt = 100 * measures["doubtful_ns"].sum() / max(measures["time_ns"].sum(), 1)
    return {
        "flops": "useful operations by the shapes of operators: a causal mask leaves half",
        "matrix_flops": "counted on the hardware" if "matrix_flops" in counts else f"none: {COUNT}",
        "utilization": f"by cycles, but for {doubt:.2g} % of the time not known: {DOUBTFUL}",
        "moved_bytes": f"counted for {100 * share:.0f} % of the kernels, else the least by shape",
        "peaks": f"dense, of {', '.join(model.formats) or 'no known format'}, by hardware table",
    }

"""Measures of kernels that no column holds, summable like any other: launch, peak, clock.

They make the metrics ``launch``, ``peak_share`` and ``clock`` known to who asks for sums of
kernels; see ``efficiency``, ``launch_overhead`` and ``frequency`` for tables of the same.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.analysis.clock_of_ops import SENSOR, clock_of_ops
from chopper_jupyter.core.analysis.counted import hardware_of, rows_of
from chopper_jupyter.core.analysis.launch_overhead import launch_parts
from chopper_jupyter.core.analysis.modelled import modelled
from chopper_jupyter.core.analysis.op_instances import instances
from chopper_jupyter.core.analysis.samples import metrics_of
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.errors import PartialTraceWarning

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.trace import Trace


def colour_measures(trace: Trace, which: Included) -> dict[str, Ints]:
    """Return derived measures of the covered kernels, one int64 each; 0 where not known.

    Parameters
    ----------
    trace : Trace
        The trace.
    which : Included
        What is covered.

    Returns
    -------
    dict of str to numpy.ndarray of int64
        ``launch_ns`` and ``launched``, ``peak_ns`` and ``compute_ns``, ``clock_cycles`` and
        ``clocked_ns``; those of which nothing is known are left out.
    """
    if trace.info.device_kind == "cpu" or not which.kernels.num_rows:
        return {}
    made = (_launch(trace, which), _peak(trace, which), _clock(trace, which))
    return {name: values for found in made if _tells(found) for name, values in found.items()}


def _tells(found: dict[str, Ints]) -> bool:
    """Return whether of a few measures the last one, which the metric divides by, is anything."""
    return bool(found) and bool(list(found.values())[-1].any())


def _launch(trace: Trace, which: Included) -> dict[str, Ints]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)  # what was filtered away is said
        line = timeline(trace, which, "launch overhead")
    parts = launch_parts(line)
    launch = (parts.prep + parts.call)[line.covered]
    return {"launch_ns": launch, "launched": parts.measured[line.covered].astype(np.int64)}


def _peak(trace: Trace, which: Included) -> dict[str, Ints]:
    hardware = hardware_of(trace)
    kernels = which.kept(trace.kernels)
    if not any(hardware.values()) or kernels["flops"].null_count == len(kernels):
        return {}
    kind, words = codes(kernels["kind"])
    compute = np.flatnonzero(kind == (words.index("compute") if "compute" in words else -1))
    kernels = kernels.take(compute)
    model = modelled(trace, kernels)
    gpu = kernels["gpu"].to_numpy().astype(np.int64)
    time = 1e9 * model.flops / model.peaks(gpu, hardware)
    rows = which.kernels.num_rows
    took = kernels["dur_ns"].to_numpy().astype(np.float64)
    return {"peak_ns": _placed(time, compute, rows), "compute_ns": _placed(took, compute, rows)}


def _clock(trace: Trace, which: Included) -> dict[str, Ints]:
    if not metrics_of(trace, [SENSOR]):
        return {}
    found = instances(trace, "all" if which.everything else "measured")
    hz = clock_of_ops(trace, found).hz[found.of_row]
    time = found.kernels["dur_ns"].to_numpy().astype(np.float64)
    covered = which.kept(trace.kernels)
    places = rows_of(covered["kernel_id"].to_numpy(), found.kernels["kernel_id"].to_numpy())
    known = np.where(np.isfinite(hz), time, 0)
    rows = which.kernels.num_rows
    return {
        "clock_cycles": _placed(1e-9 * np.nan_to_num(hz) * known, places, rows),
        "clocked_ns": _placed(known, places, rows),
    }


def _placed(values: Floats, rows: Ints, count: int) -> Ints:
    """Return whole numbers at some of the rows and 0 at the others; unknown ones count as 0."""
    placed = np.zeros(count, np.int64)
    placed[rows] = np.rint(np.where(np.isfinite(values), values, 0)).astype(np.int64)
    return placed

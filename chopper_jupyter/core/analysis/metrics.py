"""The one table of measures and metrics: measures add over kernels, metrics divide afterwards.

No other place knows a formula. A metric is a pair of coefficient maps, so that a front end can
evaluate it from data: the sum of its numerator over the sum of its denominator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import MissingDataError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chopper_jupyter.core.analysis.grouping import Floats, Ints


@dataclass(frozen=True)
class Measure:
    """A quantity that can be summed over kernels; exact int64.

    Parameters
    ----------
    name, title, unit, meaning : str
        Identity, words for a display, unit of the sum, one line of explanation.
    column : str or None
        Column of ``kernels`` that holds it; None counts rows.
    optional : bool
        True if recordings may lack it altogether.
    derived : bool
        True if it is no column, but worked out of counters, shapes and the hardware table by
        ``efficiency``; then it is no whole number.
    """

    name: str
    title: str
    unit: str
    meaning: str
    column: str | None
    optional: bool = False
    derived: bool = False

    def to_dict(self) -> dict[str, str]:
        """Return plain JSON data."""
        return {n: getattr(self, n) for n in ("name", "title", "unit", "meaning")}


@dataclass(frozen=True)
class Metric:
    """A ratio of sums of measures, evaluated after summing.

    Parameters
    ----------
    name, title, unit, meaning : str
        Identity, words for a display, unit of the value, one line of explanation. The value of
        unit ``%`` is the ratio times 100.
    numerator, denominator : mapping of str to float
        Coefficient of each measure. Besides measures there are ``instances`` (iterations times
        GPUs that the row covers), ``total_time_ns`` (kernel time of everything included),
        ``one``, and the ``MAXIMA``.
    needs : str or None
        What a recording must hold for the metric to have a meaning: ``"gpu"``, or a measure.
    """

    name: str
    title: str
    unit: str
    numerator: Mapping[str, float]
    denominator: Mapping[str, float]
    meaning: str
    needs: str | None = None

    @property
    def column(self) -> str:
        """Name of the metric as a table column: with the unit as suffix.

        Examples
        --------
        >>> METRICS["time"].column, METRICS["share"].column, METRICS["kernels"].column
        ('time_ms', 'share_percent', 'kernels')
        """
        suffix = _SUFFIXES[self.unit]
        return f"{self.name}_{suffix}" if suffix else self.name

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "numerator": dict(self.numerator),
            "denominator": dict(self.denominator),
            "meaning": self.meaning,
            "needs": self.needs,
        }


_SUFFIXES = {"ms": "ms", "µs": "us", "%": "percent", "MB": "mb", "TFLOP/s": "", "": "",
             "MHz": "mhz", "GB/s": "gb_s", "FLOP/B": "flop_per_byte", "B": "bytes"}  # fmt: skip
"""Column suffix of each unit; a metric named after its unit needs none."""

_DERIVED_MEASURES = (
    ("matrix_flops", "Matrix FLOPs", "FLOP", "operations of the matrix units, counted"),
    ("launch_ns", "Launch overhead", "ns", "idle time until launched, and until started"),
    ("launched", "Launched", "", "compute kernels whose launch call was recorded"),
    ("clock_cycles", "Cycles", "", "time at the clock that sensors saw"),
    ("clocked_ns", "Clocked", "ns", "time of the kernels whose clock is known"),
    ("compute_ns", "Compute", "ns", "time of compute kernels"),
    ("peak_ns", "Time at peak", "ns", "operations by shape over the peak of their format"),
    ("matrix_busy_cycles", "Matrix busy", "", "cycles in which matrix units worked"),
    ("matrix_capacity_cycles", "Matrix cycles", "", "cycles of all matrix units"),
    ("padded_flops", "Done", "FLOP", "operations counted, of calls that have useful ones"),
    ("useful_flops", "Useful", "FLOP", "operations by shape, of calls that were counted"),
    ("moved_bytes", "Moved", "B", "bytes between memory and GPU, counted or modelled"),
    ("moved_ns", "Moving", "ns", "time of the kernels whose bytes are known"),
    ("intensity_flops", "FLOPs", "FLOP", "operations of kernels whose bytes are known"),
    ("intensity_bytes", "Bytes", "B", "bytes of kernels whose operations are known"),
    ("roofline_ns", "Roofline", "ns", "least time: by the peak or by the bandwidth"),
    ("roofline_time_ns", "Time", "ns", "time of the kernels that have a least time"),
)
"""Name, title, unit and meaning."""

MEASURES: dict[str, Measure] = {
    m.name: m
    for m in (
        Measure("time_ns", "Time", "ns", "kernel time, summed over kernels and streams", "dur_ns"),
        Measure("count", "Kernels", "", "number of kernels", None),
        Measure(
            "overlap_ns",
            "Overlap",
            "ns",
            "kernel time during which communication and compute ran at once",
            "overlap_ns",
        ),
        Measure("busy_ns", "Busy", "ns", "wall time accounted for, nothing twice", "busy_ns"),
        Measure("idle_ns", "Idle", "ns", "idle time that these kernels ended", "idle_ns"),
        Measure("flops", "FLOPs", "FLOP", "operations by shape", "flops", optional=True),
        Measure(
            "message_bytes", "Message", "B", "bytes moved", "message_bytes", optional=True
        ),
        *(Measure(*words, None, derived=True) for words in _DERIVED_MEASURES),
    )
}  # fmt: skip

MAXIMA = ("peak_allocated_bytes", "peak_reserved_bytes")
"""What metrics use besides measures and is no sum: see ``memory_peaks``."""

_EACH = {"instances": 1.0}

METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric("time", "Time", "ms", {"time_ns": 1e-6}, _EACH,
               "kernel time per iteration and GPU"),
        Metric("share", "Share", "%", {"time_ns": 1.0}, {"total_time_ns": 1.0},
               "share of all kernel time"),
        Metric("kernels", "Kernels", "", {"count": 1.0}, _EACH,
               "kernels per iteration and GPU"),
        Metric("mean_duration", "Mean duration", "µs", {"time_ns": 1e-3}, {"count": 1.0},
               "mean time of one kernel"),
        Metric("overlap", "Overlap", "%", {"overlap_ns": 1.0}, {"time_ns": 1.0},
               "share of kernel time during which communication and compute ran at once", "gpu"),
        Metric("wall", "Wall", "ms", {"busy_ns": 1e-6, "idle_ns": 1e-6}, _EACH,
               "wall time per iteration and GPU: busy and idle"),
        Metric("busy", "Busy", "ms", {"busy_ns": 1e-6}, _EACH,
               "wall time accounted for per iteration and GPU, nothing twice"),
        Metric("idle", "Idle", "ms", {"idle_ns": 1e-6}, _EACH,
               "idle time per iteration and GPU that these kernels ended"),
        Metric("launch", "Launch overhead", "µs", {"launch_ns": 1e-3}, {"launched": 1.0},
               "mean idle time before a compute kernel: not launched yet, or not started",
               "launched"),
        Metric("clock", "Clock", "MHz", {"clock_cycles": 1e3}, {"clocked_ns": 1.0},
               "mean clock of the GPU while compute kernels ran, as sensors saw it", "clocked_ns"),
        Metric("tflops", "Throughput", "TFLOP/s", {"flops": 1e-3}, {"time_ns": 1.0},
               "operations by shape over kernel time", "flops"),
        Metric("peak_share", "Share of peak", "%", {"peak_ns": 1.0}, {"compute_ns": 1.0},
               "operations by shape, as a share of what compute kernels could do at the peak of "
               "their format", "peak_ns"),
        Metric("utilization", "Matrix utilisation", "%", {"matrix_busy_cycles": 1.0},
               {"matrix_capacity_cycles": 1.0}, "share of cycles in which the matrix units worked",
               "matrix_capacity_cycles"),
        Metric("padding", "Padding", "", {"padded_flops": 1.0}, {"useful_flops": 1.0},
               "operations done over useful ones", "padded_flops"),
        Metric("bandwidth", "Bandwidth", "GB/s", {"moved_bytes": 1.0}, {"moved_ns": 1.0},
               "bytes between memory and GPU over time", "moved_bytes"),
        Metric("intensity", "Arithmetic intensity", "FLOP/B", {"intensity_flops": 1.0},
               {"intensity_bytes": 1.0}, "operations per byte of memory traffic",
               "intensity_bytes"),
        Metric("roofline", "Share of roofline", "%", {"roofline_ns": 1.0},
               {"roofline_time_ns": 1.0}, "least time by peak and bandwidth over the time",
               "roofline_ns"),
        Metric("message", "Message", "MB", {"message_bytes": 1e-6}, _EACH,
               "bytes moved per iteration and GPU", "message_bytes"),
        Metric("peak_allocated", "Peak allocated", "B", {"peak_allocated_bytes": 1.0},
               {"one": 1.0}, "most bytes allocated at once", "peak_allocated_bytes"),
        Metric("peak_reserved", "Peak reserved", "B", {"peak_reserved_bytes": 1.0},
               {"one": 1.0}, "most bytes that the allocator held at once", "peak_reserved_bytes"),
    )
}  # fmt: skip

DEFAULT_METRICS = ("time", "share", "kernels", "mean_duration", "overlap")

_HOW_TO_RECORD = {
    "gpu": "a trace recorded on a GPU",
    "flops": "operation counts, which need input shapes in the recording",
    "message_bytes": "message sizes, which need a recording with collectives and shapes",
    "peak_allocated_bytes": "allocations: record with --memory, or profile(memory=True)",
    "peak_reserved_bytes": "allocations on a GPU: record with --memory, or profile(memory=True)",
}
_DERIVED = "a measure that efficiency works out of counters, shapes and the hardware table"


def measures_of(kernels: pa.Table) -> dict[str, Ints]:
    """Return every measure that the kernels hold, one int64 array each; null counts as 0.

    The arrays may be the table's own and must not be changed.

    Optional measures are left out where all rows are null, derived ones always.
    """
    found: dict[str, Ints] = {}
    for measure in MEASURES.values():
        if measure.derived:
            continue
        if measure.column is None:
            found[measure.name] = np.broadcast_to(np.int64(1), kernels.num_rows)
            continue
        column = kernels[measure.column]
        if measure.optional and column.null_count == len(column):
            continue
        filled = pc.fill_null(column, 0) if column.null_count else column
        found[measure.name] = filled.to_numpy().astype(np.int64, copy=False)
    return found


def metrics_for(measures: Iterable[str], device_kind: str = "gpu") -> list[Metric]:
    """List the metrics that have a meaning where these measures were recorded.

    Examples
    --------
    >>> [m.name for m in metrics_for(["time_ns", "count"], "cpu")][:3]
    ['time', 'share', 'kernels']
    """
    known = set(measures)
    return [m for m in METRICS.values() if _available(m, known, device_kind)]


def find_metrics(
    names: Iterable[str], measures: Iterable[str], device_kind: str = "gpu"
) -> list[Metric]:
    """Look metrics up by name.

    Raises
    ------
    SchemaError
        If a name does not exist.
    MissingDataError
        If the recording lacks what a metric needs.
    """
    known = set(measures)
    found = []
    for name in names:
        if name not in METRICS:
            raise unknown_name(what="metric", name=name, known=METRICS)
        metric = METRICS[name]
        if not _available(metric, known, device_kind):
            need = _HOW_TO_RECORD.get(metric.needs or "gpu", _DERIVED)
            msg = f"metric {name!r} needs {need}"
            raise MissingDataError(msg)
        found.append(metric)
    return found


def evaluate(metric: Metric, sums: Mapping[str, npt.ArrayLike]) -> Floats:
    """Divide the summed measures of rows into the metric; NaN where the denominator is 0.

    Parameters
    ----------
    metric : Metric
        The metric.
    sums : mapping of str to array
        Summed measures, and ``instances`` and ``total_time_ns`` if the metric uses them.

    Examples
    --------
    >>> evaluate(METRICS["overlap"], {"overlap_ns": [5, 0], "time_ns": [20, 0]}).tolist()
    [25.0, nan]
    """
    above = _combine(metric.numerator, sums)
    below = _combine(metric.denominator, sums)
    scale = 100.0 if metric.unit == "%" else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below == 0, np.nan, scale * above / below)


def _combine(coefficients: Mapping[str, float], sums: Mapping[str, npt.ArrayLike]) -> Floats:
    total = np.float64(0)
    for name, factor in coefficients.items():
        value = 1.0 if name == "one" else np.asarray(sums[name], np.float64)
        total = total + factor * value  # type: ignore[assignment]
    return np.asarray(total)


def _available(metric: Metric, measures: set[str], device_kind: str) -> bool:
    if metric.needs is None:
        return True
    return device_kind == "gpu" if metric.needs == "gpu" else metric.needs in measures

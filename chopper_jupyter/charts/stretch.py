"""A stretch of the timeline of a few GPUs: what ran when on which stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import figure_of_rows, hover, legend_below
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import provenance, titled, words
from chopper_jupyter.core.analysis.levels import natural
from chopper_jupyter.core.names import short_name

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace

MOST = 2000
"""Bars of one figure; where there are more, the shortest kernels are left out, and it says so."""

SHOWN = 400
"""Kernels of the stretch that is shown unless another is asked for: each of them is seen."""


def timeline_excerpt_data(
    trace: Trace, start_ms: float | None = None, length_ms: float | None = None, gpus: int = 2
) -> pd.DataFrame:
    """Return the kernels of a stretch of time.

    Parameters
    ----------
    trace : Trace
        The run.
    start_ms, length_ms : float, optional
        The stretch; by default the first measured iteration, or as much of it as can be seen.
    gpus : int
        How many GPUs, the first ones.

    Returns
    -------
    pandas.DataFrame
        ``lane`` (GPU and stream), ``family``, ``op``, ``kernel``, ``start_ms``, ``end_ms``;
        ``attrs["left_out"]`` counts the kernels that are too short to be drawn.
    """
    kernels = trace.kernels
    wanted = sorted(set(kernels["gpu"].to_pylist()))[:gpus]
    kernels = kernels.filter(pc.is_in(kernels["gpu"], pa.array(wanted, pa.int32())))
    start, end = _stretch(trace, kernels, start_ms, length_ms)
    begins = kernels["start_ns"].to_numpy()
    ends = begins + kernels["dur_ns"].to_numpy()
    inside = np.flatnonzero((ends > start) & (begins < end))
    longest = inside[np.argsort(-(ends - begins)[inside], kind="stable")[:MOST]]
    rows = np.sort(longest)
    part = kernels.take(pa.array(rows))
    frame = part.select(["gpu", "stream", "family", "op", "name"]).to_pandas()
    made = pd.DataFrame({
        "lane": "GPU " + frame["gpu"].astype(str) + " stream " + frame["stream"].astype(str),
        "family": words(frame["family"]), "op": words(frame["op"]),
        "kernel": [short_name(str(name)) for name in frame["name"]],
        "start_ms": (begins[rows] * 1e-6).round(4), "end_ms": (ends[rows] * 1e-6).round(4),
    })  # fmt: skip
    made.attrs["left_out"] = len(inside) - len(rows)
    return made


def _stretch(
    trace: Trace, kernels: pa.Table, start_ms: float | None, length_ms: float | None
) -> tuple[float, float]:
    measured = trace.measured_iterations
    if measured:
        first = kernels.filter(pc.equal(kernels["iteration"], measured[0]))
        kernels = first if first.num_rows else kernels
    if not kernels.num_rows:
        return 0.0, 0.0
    start = pc.min(kernels["start_ns"]).as_py() if start_ms is None else start_ms * 1e6
    if length_ms is not None:
        return start, start + length_ms * 1e6
    ends = np.sort(pc.add(kernels["start_ns"], kernels["dur_ns"]).to_numpy())
    ends = ends[ends > start]
    return start, float(ends[:SHOWN][-1]) if len(ends) else start


def timeline_excerpt(
    trace: Trace, start_ms: float | None = None, length_ms: float | None = None, gpus: int = 2
) -> Chart:
    """Show what ran when on which stream.

    Parameters
    ----------
    trace, start_ms, length_ms, gpus
        See ``timeline_excerpt_data``.
    """
    data = timeline_excerpt_data(trace, start_ms, length_ms, gpus)
    title = titled(trace, "Timeline")
    lanes = sorted(set(data["lane"]), key=natural)
    made = figure_of_rows(title, lanes, label="ms", height=30)
    for family, part in data.groupby("family", sort=True):
        source = ColumnDataSource(part.to_dict("list"))
        colour = theme().families.get(str(family), theme().faint)
        bars = made.hbar("lane", 0.7, left="start_ms", right="end_ms", source=source,
                         color=colour, legend_label=str(family))  # fmt: skip
        pairs = [("op", "@op"), ("kernel", "@kernel"), ("from", "@start_ms{0.000} ms"),
                 ("to", "@end_ms{0.000} ms")]  # fmt: skip
        hover(made, pairs, [bars])
    legend_below(made)
    left_out = data.attrs["left_out"]
    text = "Kernels by stream" + (f"; {left_out:,} short ones left out" if left_out else "")
    return Chart(made, data, title, provenance(trace, text))

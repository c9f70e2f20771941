"""How near ops come to what the hardware allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.core.properties import value
from bokeh.layouts import column
from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import (
    FONT,
    figure_of_rows,
    hover,
    legend_below,
    plain_figure,
    text,
)
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import (
    Runs,
    colour_of,
    factors,
    longest_ops,
    most_ops,
    named,
    op_labels,
    per_run,
    provenance,
    titled,
    variant_of,
)
from chopper_jupyter.core.analysis.efficiency import efficiency
from chopper_jupyter.core.analysis.quantities import number
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from bokeh.models import LayoutDOM
    from bokeh.plotting import figure

    from chopper_jupyter.core.trace import Trace

COLUMNS = {
    "time_ms": "time_ms",
    "intensity": "intensity_flop_per_byte",
    "tflops": "tflops",
    "attainable_tflops": "attainable_tflops",
    "bandwidth_gb_s": "bandwidth_gb_s",
    "bandwidth_share_percent": "bandwidth_share_percent",
    "roofline_percent": "roofline_percent",
}
SMALLEST, LARGEST = 6.0, 26.0
"""Pixels of a point; its area tells how long the op takes."""


def roofline_data(runs: Runs) -> pd.DataFrame:
    """Return achieved and attainable rates of each op; see ``efficiency``.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``op`` with the phase before it, ``time_ms`` per iteration and GPU,
        ``intensity`` (FLOP per byte), ``tflops`` and ``attainable_tflops``, ``bandwidth_gb_s``
        and its share of the peak, ``roofline_percent`` (least over real time), ``bound``.
    """

    def table(trace: Trace) -> pd.DataFrame:
        rows = efficiency(trace, ["phase", "op"])
        made = {new: rows[old].to_numpy(np.float64, na_value=np.nan)
                for new, old in COLUMNS.items()}  # fmt: skip
        bound = rows["bound"].astype(object).where(rows["bound"].notna(), None)
        return pd.DataFrame({"op": op_labels(rows).to_numpy(), **made, "bound": bound.to_numpy()})

    return per_run(runs, table)


def roofline(runs: Runs) -> Chart:
    """Show how near each op comes to the roofline of its GPU.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name, with shapes; counters tell the bytes that really moved.
    """
    data = roofline_data(runs)
    title = titled(runs, "Roofline")
    known = data[data["roofline_percent"].notna()]
    if known.empty:
        msg = "no op has a known least time: name the GPU with hardware.add if it is unknown"
        raise MissingDataError(msg)
    drawn: LayoutDOM = _shares(runs, known, "Achieved of attainable")
    points = data[(data["intensity"] > 0) & (data["tflops"] > 0)]
    if len(points):
        drawn = column(_points(runs, points, title), drawn, sizing_mode="stretch_width")
    said = (
        "Useful operations and bytes of compute kernels over their time, against the peaks of "
        "the hardware table; the area of a point is the time of its op"
    )
    return Chart(drawn, data, title, provenance(runs, said))


def _points(runs: Runs, points: pd.DataFrame, title: str) -> figure:
    made = plain_figure(
        title, x="operations per byte", y="TFLOP/s", x_axis_type="log", y_axis_type="log",
        height=300,
    )  # fmt: skip
    _roofs(made, runs, points)
    variant, colours = variant_of(runs), colour_of(runs)
    area = np.sqrt(points["time_ms"] / points["time_ms"].max())
    points = points.assign(size=np.maximum(SMALLEST, LARGEST * area))
    for kind in dict.fromkeys(variant.values()):
        mine = points[points["run"].map(variant) == kind].sort_values("time_ms", ascending=False)
        if mine.empty:
            continue
        source = ColumnDataSource(mine.drop(columns="bound").to_dict("list"))
        drawn = made.scatter(
            "intensity", "tflops", size="size", source=source, line_color=theme().page,
            fill_color=colours[mine["run"].iloc[0]], fill_alpha=0.75, legend_label=text(kind, 60),
        )  # fmt: skip
        pairs = [("", "@op"), ("run", "@run"), ("achieved", "@tflops{0,0.0} TFLOP/s"),
                 ("attainable", "@attainable_tflops{0,0.0} TFLOP/s"),
                 ("operations per byte", "@intensity{0,0.0}"),
                 ("time", "@time_ms{0.000} ms")]  # fmt: skip
        hover(made, pairs, [drawn])
    made.ygrid.minor_grid_line_color = None
    legend_below(made)
    return made


def _roofs(made: figure, runs: Runs, points: pd.DataFrame) -> None:
    """Draw the bandwidth and the peaks of every kind of GPU, for the number formats in use."""
    left, right = points["intensity"].min() / 4, points["intensity"].max() * 4
    done = set[str]()
    for trace in named(runs).values():
        told = efficiency(trace, ["phase", "op"]).attrs
        for gpu, roofs in told["peaks"].items():
            bandwidth = roofs.get("bandwidth_gb_s")
            for form, peak in roofs["tflops"].items() if bandwidth else ():
                label = f"{told['hardware'][gpu]} {form}"
                if label in done:
                    continue
                done.add(label)
                edge = 1e3 * peak / bandwidth
                x = sorted({min(left, edge / 4), edge, max(right, edge * 4)})
                y = [min(peak, 1e-3 * at * bandwidth) for at in x]
                said = f"{label}: {number(peak)} TFLOP/s, {number(bandwidth)} GB/s"
                made.line(x, y, color=theme().ink, line_width=1.5, line_dash="dashed",
                          legend_label=said)  # fmt: skip


def _shares(runs: Runs, known: pd.DataFrame, title: str) -> figure:
    """Draw, for the ops that take longest, the share of what is attainable, and say both."""
    now = theme()
    shown = longest_ops(known, known["time_ms"], most_ops(runs))
    places = factors(shown["op"], shown["run"], run_first=False)
    made = figure_of_rows(title, places, label="% of the least time over the time")
    colours = {"compute": now.parts["compute"], "memory": now.families["vector"]}
    for bound, colour in colours.items():
        mine = np.flatnonzero(shown["bound"] == bound)
        if not len(mine):
            continue
        part = shown.iloc[mine]
        source = ColumnDataSource({
            "factor": [places[i] for i in mine], "share": part["roofline_percent"],
            "said": [_said(row) for _, row in part.iterrows()],
        })  # fmt: skip
        bars = made.hbar("factor", 0.75, right="share", source=source, color=colour,
                         legend_label=f"bound by {bound}")  # fmt: skip
        made.text("share", "factor", "said", source=source, x_offset=5, text_color=now.faint,
                  text_font=value(FONT), text_font_size="11px", text_baseline="middle")  # fmt: skip
        hover(made, [("", "@factor"), ("achieved", "@share{0.0} %"), ("", "@said")], [bars])
    made.x_range.start, made.x_range.end = 0, 135
    made.xaxis.ticker = [0, 25, 50, 75, 100]
    legend_below(made)
    return made


def _said(row: pd.Series) -> str:
    """Say what was achieved of what, in the unit of what bounds the op."""
    if row["bound"] == "compute":
        return f"{number(row['tflops'])} of {number(row['attainable_tflops'])} TFLOP/s"
    peak = 100 * row["bandwidth_gb_s"] / row["bandwidth_share_percent"]
    return f"{number(row['bandwidth_gb_s'])} of {number(peak)} GB/s"

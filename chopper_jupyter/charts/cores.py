"""Processor cores in use: how many, how many would suffice, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.layouts import column
from bokeh.models import ColorBar, ColumnDataSource, LinearColorMapper, NumeralTickFormatter

from chopper_jupyter.charts.axes import FONT, LEFT, hover, legend_below, plain_figure
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import provenance, titled
from chopper_jupyter.core.analysis.cpu_utilization import core_use
from chopper_jupyter.core.analysis.cpu_utilization import cpu_utilization as use_of

if TYPE_CHECKING:
    from bokeh.plotting import figure

    from chopper_jupyter.core.trace import Trace

_SECONDS = 1e-9
LINES = {
    "active_cores": "active",
    "min_cores": "would suffice",
    "smt_cores": "physical cores with both threads active",
}
NAMED = 12
"""Rows of the picture of cores that have their number beside them, about."""


def cpu_utilization(trace: Trace) -> Chart:
    """Show the processor cores in use over time, and the use of every physical core.

    Parameters
    ----------
    trace : Trace
        A run with samples of processor cores.
    """
    data = use_of(trace)
    title = titled(trace, "Processor cores in use")
    lines = plain_figure(title, y="cores", height=220, min_border_left=LEFT)
    for place, (name, words) in enumerate(LINES.items()):
        if data[name].isna().all():
            continue
        source = ColumnDataSource({"x": data["time_ns"].astype(float) * _SECONDS,
                                   "y": data[name].astype(float)})  # fmt: skip
        line = lines.line("x", "y", source=source, color=theme().series[place], line_width=2,
                          line_dash=("solid", "dashed", "dotted")[place],
                          legend_label=words)  # fmt: skip
        hover(lines, [(words, "@y{0.0}"), ("time", "@x{0.000} s")], [line])
    lines.y_range.start = 0
    legend_below(lines)
    drawn = column(lines, _heat(trace, lines), sizing_mode="stretch_width")
    period, median = data.attrs["period_ms"], data[["active_cores", "min_cores"]].median()
    said = (
        f"Cores above a use of {data.attrs['threshold']:g}, sampled every {period or 0:.0f} ms: "
        f"median {median['active_cores']:.0f} of {data.attrs['cores']} active, "
        f"{median['min_cores']:.1f} would suffice. "
        "Below, the use of each core that was in use at all"
    )
    return Chart(drawn, pd.DataFrame(data), title, provenance(trace, said))


def _heat(trace: Trace, above: figure) -> figure:
    """Draw the use of every core that was in use at all."""
    use = core_use(trace)
    core = use.core if use.physical is None else use.physical
    what = "logical" if use.physical is None else "physical"
    grid = np.zeros((int(core.max()) + 1, len(use.time)))
    np.maximum.at(grid, (core, use.moment), use.used)
    used = np.flatnonzero(grid.max(axis=1) > 0)
    used = used if len(used) else np.array([0])
    rows = [str(number) for number in used]
    times = use.time * _SECONDS
    step = float(np.median(np.diff(np.unique(times)))) if len(np.unique(times)) > 1 else 1.0
    made = plain_figure(
        "", x="time in s", y=f"{what} core", y_range=(-0.5, len(used) - 0.5), x_range=above.x_range,
        height=min(380, 150 + 14 * len(used)), min_border_left=LEFT,
    )  # fmt: skip
    mapper = LinearColorMapper(palette=list(theme().ramp), low=0, high=1)
    made.image([grid[used]], x=float(times.min()) - step / 2, y=-0.5, dh=len(used),
               dw=float(times.max() - times.min()) + step, color_mapper=mapper)  # fmt: skip
    named = range(0, len(used), max(1, round(len(used) / NAMED)))
    made.yaxis.ticker = list(named)
    made.yaxis.major_label_overrides = {i: rows[i] for i in named}
    made.ygrid.grid_line_color = None
    bar = ColorBar(
        color_mapper=mapper, width=220, height=8, orientation="horizontal", location="left",
        formatter=NumeralTickFormatter(format="0 %"),
        background_fill_color=theme().page, major_label_text_color=theme().faint,
        border_line_color=None, padding=4,
        major_label_text_font=FONT,
    )  # fmt: skip
    made.add_layout(bar, "below")
    return made

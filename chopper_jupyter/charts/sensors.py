"""Processor use, and clocks and power of the GPUs, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, LinearColorMapper

from chopper_jupyter.charts.axes import hover, legend_below, plain_figure
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import Runs, per_run, provenance, titled
from chopper_jupyter.core.analysis.cpu_utilization import core_use
from chopper_jupyter.core.analysis.cpu_utilization import cpu_utilization as use_of
from chopper_jupyter.core.analysis.frequency import frequency

if TYPE_CHECKING:
    from bokeh.plotting import figure

    from chopper_jupyter.core.trace import Trace

_SECONDS = 1e-9
SENSORS = {
    "gpu_clock_mhz": "GPU clock in MHz",
    "memory_clock_mhz": "memory clock in MHz",
    "power_w": "power in W",
}
POINTS = 600
"""Points of a line: more would not be seen."""


def cpu_utilization(trace: Trace) -> Chart:
    """Show the processor cores in use over time, and the use of every physical core.

    Parameters
    ----------
    trace : Trace
        A run with samples of processor cores.
    """
    data = use_of(trace)
    title = titled(trace, "Processor cores in use")
    lines = plain_figure(title, x="time in s", y="cores", height=220)
    for place, (name, words) in enumerate(
        {"active_cores": "active", "min_cores": "would suffice"}.items()
    ):
        source = ColumnDataSource({"x": data["time_ns"].astype(float) * _SECONDS,
                                   "y": data[name].astype(float)})  # fmt: skip
        line = lines.line("x", "y", source=source, color=theme().series[place], line_width=1.5,
                          legend_label=words)  # fmt: skip
        hover(lines, [(words, "@y{0.0}")], [line])
    lines.y_range.start = 0
    legend_below(lines)
    drawn = column(lines, _heat(trace), sizing_mode="scale_width")
    period = data.attrs["period_ms"]
    text = f"Cores above a use of {data.attrs['threshold']:g}, sampled every {period or 0:.0f} ms"
    return Chart(drawn, pd.DataFrame(data), title, provenance(trace, text))


def _heat(trace: Trace) -> figure:
    use = core_use(trace)
    rows = use.core if use.physical is None else use.physical
    grid = np.zeros((int(rows.max()) + 1, len(use.time)))
    np.maximum.at(grid, (rows, use.moment), use.used)
    what = "logical core" if use.physical is None else "physical core"
    made = plain_figure("", x="time in s", y=what, height=220)
    times = use.time * _SECONDS
    width = float(times.max() - times.min()) or 1.0
    mapper = LinearColorMapper(palette=list(theme().ramp), low=0, high=1)
    made.image(
        [grid], x=float(times.min()), y=-0.5, dw=width, dh=grid.shape[0], color_mapper=mapper
    )
    return made


def frequency_power_data(runs: Runs) -> pd.DataFrame:
    """Return clocks and power over time: mean, least and most over the GPUs.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``time_s`` since the first sample, and per sensor its mean, ``_low``, ``_high``.
    """

    def table(trace: Trace) -> pd.DataFrame:
        rows = frequency(trace, "time")
        names = [name for name in SENSORS if name in rows]
        time = rows["time_ns"].astype("int64")
        width = max(1, int(time.max() - time.min()) // POINTS)
        slot = (time - time.min()) // width
        found = rows[names].astype(float).groupby(slot.to_numpy()).agg(["mean", "min", "max"])
        words = {"mean": "", "min": "_low", "max": "_high"}
        found.columns = pd.Index([f"{pair[0]}{words[pair[1]]}" for pair in found.columns])
        found.insert(0, "time_s", found.index * width * _SECONDS)
        return found.reset_index(drop=True)

    return per_run(runs, table)


def frequency_power(runs: Runs) -> Chart:
    """Show clocks and power over time; the band is the range over GPUs.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        Runs with samples of GPU sensors.
    """
    data = frequency_power_data(runs)
    title = titled(runs, "Clocks and power")
    drawn: list[figure] = []
    for name, label in SENSORS.items():
        if name not in data:
            continue
        made = plain_figure(title if not drawn else "", x="time in s", y=label, height=200)
        for place, (run, part) in enumerate(data.groupby("run", sort=False)):
            colour = theme().series[place % len(theme().series)]
            source = ColumnDataSource(part[part[name].notna()].to_dict("list"))
            made.varea("time_s", f"{name}_low", f"{name}_high", source=source, fill_color=colour,
                       fill_alpha=0.2)  # fmt: skip
            made.line("time_s", name, source=source, color=colour, legend_label=str(run))
        legend_below(made)
        drawn.append(made)
    text = "Mean and range over GPUs of what the sensors said, the whole recording"
    return Chart(column(*drawn, sizing_mode="scale_width"), data, title, provenance(runs, text))

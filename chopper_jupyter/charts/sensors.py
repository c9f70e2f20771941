"""What sensors said over time: clocks, power and memory of the GPUs, power of the processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, Range1d

from chopper_jupyter.charts.axes import LEFT, hover, one_legend, plain_figure, text
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.runs import Runs, colour_of, dash_of, per_run, provenance, titled
from chopper_jupyter.core.analysis.frequency import SENSOR_COMMAND
from chopper_jupyter.core.analysis.quantities import number
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from bokeh.plotting import figure

    from chopper_jupyter.core.trace import Trace

_SECONDS = 1e-9
SENSORS = {
    "gpu_clock_mhz": ("GPU clock", "MHz", 1.0),
    "memory_clock_mhz": ("memory clock", "MHz", 1.0),
    "power_w": ("GPU power", "W", 1.0),
    "cpu_power_w": ("processor power", "W", 1.0),
    "memory_used_bytes": ("memory in use", "GB", 1e-9),
}
"""Name, unit and factor to it of each metric."""

POINTS = 200
"""Points of a line: more would not be seen."""


def frequency_power_data(runs: Runs) -> pd.DataFrame:
    """Return clocks, power and memory over time: mean, least and most over the GPUs.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``time_s`` since the first sample, and per sensor its mean, ``_low``, ``_high``;
        power of processors is over hosts, memory in GB.

    Raises
    ------
    MissingDataError
        If no run has samples of any of these sensors.
    """
    data = per_run(runs, _of_run)
    if not any(name in data for name in SENSORS):
        msg = f"no run holds samples of GPU sensors: {SENSOR_COMMAND}, or add_telemetry"
        raise MissingDataError(msg)
    return data


def _of_run(trace: Trace) -> pd.DataFrame:
    table = trace.telemetry
    metric = table["metric"].cast(pa.string())
    kept = pc.is_in(metric, pa.array(list(SENSORS)))
    rows = pd.DataFrame({
        "metric": metric.filter(kept).to_pandas(),
        "time": table["time_ns"].filter(kept).to_numpy(),
        "value": table["value"].filter(kept).to_numpy(),
    })  # fmt: skip
    if rows.empty:
        return pd.DataFrame({"time_s": pd.Series(dtype=float)})
    first = int(rows["time"].min())
    width = max(1, int(rows["time"].max() - first) // POINTS)
    rows["slot"] = (rows["time"] - first) // width
    rows["value"] *= rows["metric"].map({name: factor for name, (_, _, factor) in SENSORS.items()})
    found = pd.DataFrame()
    each = rows.groupby(["slot", "metric"])["value"]
    for word, part in (("", each.mean()), ("_low", each.min()), ("_high", each.max())):
        wide = part.reset_index().pivot_table(index="slot", columns="metric", values="value")
        found = found.join(wide.add_suffix(word), how="outer")
    found.insert(0, "time_s", found.index.to_numpy() * width * _SECONDS)
    return found.reset_index(drop=True)


def frequency_power(runs: Runs) -> Chart:
    """Show clocks, power and memory over time; the band is the range over GPUs.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        Runs with samples of GPU sensors.
    """
    data = frequency_power_data(runs)
    title = titled(runs, "Clocks, power and memory")
    drawn: list[figure] = []
    there = [name for name in SENSORS if name in data]
    for name in there:
        what, unit, _ = SENSORS[name]
        made = plain_figure(
            "" if drawn else title, y=f"{what}\nin {unit}", height=130 if drawn else 152,
            min_border_left=LEFT,
            **({"x_range": drawn[0].x_range} if drawn else {}),
        )  # fmt: skip
        _lines(made, runs, data[data[name].notna()], name)
        _scale(made, data, name)
        made.xaxis.visible = name == there[-1]
        made.yaxis.ticker.desired_num_ticks = 3
        drawn.append(made)
    drawn[-1].xaxis.axis_label = "time in s"
    drawn[-1].height += 40
    one_legend(drawn)
    said = f"Mean and range over GPUs, the whole recording. {_spreads(data)}"
    layout = column(*drawn, sizing_mode="stretch_width")
    return Chart(layout, data, title, provenance(runs, said))


def _lines(made: figure, runs: Runs, data: pd.DataFrame, name: str) -> None:
    colour, dash = colour_of(runs), dash_of(runs)
    for run, part in data.groupby("run", sort=False):
        columns = ["time_s", name, f"{name}_low", f"{name}_high"]
        source = ColumnDataSource(
            part[columns].round({**dict.fromkeys(columns, 1), "time_s": 4}).to_dict("list")
        )
        made.varea("time_s", f"{name}_low", f"{name}_high", source=source,
                   fill_color=colour[str(run)], fill_alpha=0.2)  # fmt: skip
        line = made.line("time_s", name, source=source, color=colour[str(run)], line_width=1.5,
                         line_dash=dash[str(run)], legend_label=text(run, 60))  # fmt: skip
        pairs = [(text(run, 60), f"@{name}{{0,0.[0]}} {SENSORS[name][1]}"),
                 ("range", f"@{name}_low{{0,0.[0]}} to @{name}_high{{0,0.[0]}}"),
                 ("time", "@time_s{0.000} s")]  # fmt: skip
        hover(made, pairs, [line])


def _scale(made: figure, data: pd.DataFrame, name: str) -> None:
    """Show a sensor that hardly moves as steady, not as noise."""
    low, high = float(data[f"{name}_low"].min()), float(data[f"{name}_high"].max())
    if high - low < 0.1 * abs(high):
        middle = (low + high) / 2
        made.y_range = Range1d(middle - 0.1 * abs(high), middle + 0.1 * abs(high))
    elif low < high / 2:
        made.y_range = Range1d(0, 1.08 * high)


def _spreads(data: pd.DataFrame) -> str:
    """Say how much each sensor varies under load: means of the upper half of its range."""
    said = []
    for name in ("gpu_clock_mhz", "power_w"):
        if name not in data:
            continue
        what, unit, _ = SENSORS[name]
        each = []
        for run, part in data.groupby("run", sort=False):
            value = part[name].dropna()
            value = value[value > value.max() / 2]
            if len(value):
                each.append(f"{run} {number(value.mean())} ± {number(value.std(ddof=0))} {unit}")
        said.append(f"{what} under load: {', '.join(each)}")
    return "; ".join(said)

"""Overlap of one op with communication: along the layers, per GPU, per run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.layouts import column as below
from bokeh.models import ColumnDataSource, FixedTicker, NumeralTickFormatter, Range1d
from bokeh.plotting import figure

from chopper_jupyter.charts.axes import LEFT, hover, one_legend, plain_figure, text
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import (
    DASHES,
    Runs,
    colour_of,
    dash_of,
    named,
    per_run,
    provenance,
    titled,
)
from chopper_jupyter.core.analysis.levels import natural
from chopper_jupyter.core.analysis.overlap import overlap
from chopper_jupyter.core.analysis.quantities import number
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.trace import Trace

INSTANCE = ["gpu", "iteration", "layer"]

STEPS = 200
"""Steps of a distribution: more would not be seen."""


def overlap_instances(runs: Runs, op: str | None = None, phase: str = "forward") -> pd.DataFrame:
    """Return overlap ratio and elapsed time of every instance of one op.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    op : str, optional
        The op; by default, of those in most layers, the one that runs longest beside
        communication.
    phase : str
        The phase.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``gpu``, ``iteration``, ``layer``, ``overlap_ratio``, ``elapsed_ms``,
        ``normalised`` (elapsed over the median of the run); ``attrs["op"]`` names the op.

    Raises
    ------
    MissingDataError
        If no layer has that op.
    """
    chosen = op or _default_op(next(iter(named(runs).values())), phase)

    def table(trace: Trace) -> pd.DataFrame:
        rows = overlap(trace.filter(op=chosen, phase=phase, kind="compute"), INSTANCE)
        rows = rows[rows["layer"].notna() & rows["elapsed_overlap_ratio"].notna()]
        elapsed = rows["elapsed_ns"].astype(float) * 1e-6
        made = rows[INSTANCE].reset_index(drop=True)
        made["overlap_ratio"] = rows["elapsed_overlap_ratio"].astype(float).to_numpy()
        made["elapsed_ms"] = elapsed.to_numpy()
        made["normalised"] = (elapsed / elapsed.median()).to_numpy()
        return made

    data = per_run(runs, table)
    if data.empty:
        msg = f"no layer has {phase} kernels of the op {chosen!r}: choose another with op="
        raise MissingDataError(msg)
    data.attrs["op"] = f"{phase} {chosen}"
    return data


def _default_op(trace: Trace, phase: str) -> str:
    rows = overlap(trace.filter(phase=phase, kind="compute"), ["op", "layer"])
    rows = rows[rows["op"].notna() & rows["layer"].notna()]
    if rows.empty:
        msg = "no op lies in a layer: this recording has no module information"
        raise MissingDataError(msg)
    found = rows.groupby("op", observed=True).agg(
        layers=("layer", "nunique"),
        beside=("overlapped_compute_ns", "sum"),
        time=("compute_ns", "sum"),
    )
    return str(found.sort_values(["layers", "beside", "time"]).index[-1])


def overlap_by_layer(runs: Runs, op: str | None = None, phase: str = "forward") -> Chart:
    """Show the overlap ratio and the elapsed time of an op along the layers.

    Lines are medians, bands the quartiles, thin lines the range over GPUs and iterations.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    op, phase : str, optional
        See ``overlap_instances``.
    """
    data = overlap_instances(runs, op, phase)
    title = titled(runs, f"Overlap along the layers: {data.attrs['op']}")
    layers = sorted(set(data["layer"]), key=natural)
    tables, drawn = [], list[figure]()
    colour, dash = colour_of(runs), dash_of(runs)
    for column, label in (("overlap_ratio", "overlap ratio"), ("normalised", "elapsed / median")):
        last = bool(drawn)
        made = plain_figure("" if last else title, x="layer" if last else "", y=label, height=210,
                            min_border_left=LEFT)  # fmt: skip
        for run, part in data.groupby("run", sort=False):
            table = _along(part, layers, column)
            _band(made, table, colour[str(run)], dash[str(run)], str(run))
            tables.append(table.assign(run=run, what=column))
        if column == "overlap_ratio":
            made.y_range = Range1d(-0.03, 1.03)
        _name_layers(made, layers)
        drawn.append(made)
    one_legend(drawn)
    said = f"Lines are medians, bands quartiles, thin lines the range; {_correlations(data)}"
    return Chart(
        below(*drawn, sizing_mode="stretch_width"),
        pd.concat(tables, ignore_index=True),
        title,
        provenance(runs, said),
    )


def _correlations(data: pd.DataFrame) -> str:
    """Say how overlap and elapsed time of the instances of each run go together."""
    notes = []
    for run, part in data.groupby("run", sort=False):
        spread = part["overlap_ratio"].std() * part["normalised"].std()
        r = np.corrcoef(part["overlap_ratio"], part["normalised"])[0, 1] if spread > 0 else np.nan
        notes.append(f"{run} {r:.2f}" if np.isfinite(r) else f"{run} not defined")
    return f"Pearson r of overlap ratio and elapsed time: {', '.join(notes)}"


def _name_layers(made: figure, layers: Sequence[str]) -> None:
    """Write the number of a layer where its name has one, at about ten places."""
    step = max(1, round(len(layers) / 10))
    shown = range(0, len(layers), step)
    made.xaxis.ticker = FixedTicker(ticks=list(shown))
    made.xaxis.major_label_overrides = {
        i: next((p for p in reversed(layers[i].split(".")) if p.isdigit()), text(layers[i], 14))
        for i in shown
    }


def _along(part: pd.DataFrame, layers: Sequence[str], column: str) -> pd.DataFrame:
    rows = [
        (layer, i, *np.quantile(part.loc[part["layer"] == layer, column], (0, 0.25, 0.5, 0.75, 1)))
        for i, layer in enumerate(layers)
        if (part["layer"] == layer).any()
    ]
    return pd.DataFrame(rows, columns=["layer", "place", "low", "q1", "median", "q3", "high"])


def _band(made: figure, table: pd.DataFrame, colour: str, dash: str, run: str) -> None:
    source = ColumnDataSource(table.round(4).to_dict("list"))
    made.varea("place", "q1", "q3", source=source, fill_color=colour, fill_alpha=0.2)
    for edge in ("low", "high"):
        made.line("place", edge, source=source, color=colour, line_alpha=0.35)
    line = made.line("place", "median", source=source, color=colour, line_width=2, line_dash=dash,
                     legend_label=text(run, 60))  # fmt: skip
    hover(made, [("layer", "@layer"), ("median", "@median{0.000}"),
                 ("quartiles", "@q1{0.000} to @q3{0.000}")], [line])  # fmt: skip


def overlap_by_gpu(trace: Trace, op: str | None = None, phase: str = "forward") -> Chart:
    """Show how overlap ratio and elapsed time of an op are distributed on each GPU.

    Parameters
    ----------
    trace : Trace
        One run.
    op, phase : str, optional
        See ``overlap_instances``.
    """
    data = overlap_instances(trace, op, phase)
    data["who"] = "GPU " + data["gpu"].astype(str)
    return _distributions(trace, data, f"Overlap by GPU: {data.attrs['op']}")


def overlap_by_config(runs: Runs, op: str | None = None, phase: str = "forward") -> Chart:
    """Show how overlap ratio and elapsed time of an op are distributed in each run.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        Several runs by name.
    op, phase : str, optional
        See ``overlap_instances``.
    """
    data = overlap_instances(runs, op, phase)
    data["who"] = data["run"].astype(str)
    return _distributions(runs, data, f"Overlap by run: {data.attrs['op']}")


def _distributions(runs: Runs, data: pd.DataFrame, title: str) -> Chart:
    """Draw cumulative distributions of whoever ``who`` names; of many samples ``STEPS`` steps."""
    title = titled(runs, title)
    series = theme().series
    colour, dash = colour_of(runs), dash_of(runs)
    drawn: list[figure] = []
    for column, label in (("overlap_ratio", "overlap ratio"), ("elapsed_ms", "elapsed in ms")):
        made = plain_figure(title if not drawn else "", x=label, y="share of instances", height=230)
        for place, (who, part) in enumerate(data.groupby("who", sort=False)):
            values = np.sort(part[column].to_numpy(np.float64))
            share = np.arange(1, len(values) + 1) / len(values)
            kept = np.unique(np.linspace(0, len(values) - 1, STEPS).astype(int))
            source = ColumnDataSource({"x": values[kept].round(4), "y": share[kept].round(4)})
            line = made.step(
                "x", "y", source=source, mode="after", line_width=1.5,
                color=colour.get(str(who), series[place % len(series)]),
                line_dash=dash.get(str(who), DASHES[place // len(series) % len(DASHES)]),
                legend_label=text(who, 60),
            )  # fmt: skip
            hover(made, [(text(who, 60), ""), (label, "@x{0.000}"), ("share", "@y{0 %}")], [line])
        made.y_range = Range1d(-0.03, 1.03)
        made.yaxis.formatter = NumeralTickFormatter(format="0 %")
        if column == "overlap_ratio":
            made.x_range = Range1d(-0.02, 1.02)
        drawn.append(made)
    one_legend(drawn)
    median = data.groupby("who", sort=False)[["overlap_ratio", "elapsed_ms"]].median()
    said = "; ".join(
        f"{who} {number(r.overlap_ratio)}, {number(r.elapsed_ms)} ms"
        for who, r in median.iterrows()
    )
    caption = f"Cumulative distribution over iterations and layers; medians: {said}"
    layout = below(*drawn, sizing_mode="stretch_width")
    return Chart(layout, data.drop(columns="who"), title, provenance(runs, caption))

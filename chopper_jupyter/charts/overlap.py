"""Overlap of one op with communication: along the layers, per GPU, per run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.layouts import row
from bokeh.models import ColumnDataSource, Range1d

from chopper_jupyter.charts.axes import hover, legend_below, plain_figure
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import Runs, named, per_run, provenance, titled
from chopper_jupyter.core.analysis.overlap import overlap
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bokeh.plotting import figure

    from chopper_jupyter.core.trace import Trace

INSTANCE = ["gpu", "iteration", "layer"]


def overlap_instances(runs: Runs, op: str | None = None, phase: str = "forward") -> pd.DataFrame:
    """Return overlap ratio and elapsed time of every instance of one op.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    op : str, optional
        The op; by default the one that has compute kernels in most layers and takes longest.
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
        layers=("layer", "nunique"), time=("compute_ns", "sum")
    )
    return str(found.sort_values(["layers", "time"]).index[-1])


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
    layers = list(dict.fromkeys(data["layer"]))
    tables, notes = [], []
    drawn: list[figure] = []
    for column, label in (("overlap_ratio", "overlap ratio"), ("normalised", "elapsed / median")):
        made = plain_figure(title if not drawn else "", x="layer", y=label, width=420)
        for place, (run, part) in enumerate(data.groupby("run", sort=False)):
            table = _along(part, layers, column)
            _band(made, table, theme().series[place % len(theme().series)], str(run))
            tables.append(table.assign(run=run, what=column))
        if column == "overlap_ratio":
            made.y_range = Range1d(-0.02, 1.02)
        legend_below(made)
        drawn.append(made)
    for run, part in data.groupby("run", sort=False):
        spread = part["overlap_ratio"].std() * part["normalised"].std()
        r = np.corrcoef(part["overlap_ratio"], part["normalised"])[0, 1] if spread > 0 else np.nan
        notes.append(f"{run}: r = {r:.2f}" if np.isfinite(r) else f"{run}: no correlation defined")
    text = f"Overlap with communication and elapsed time; Pearson {'; '.join(notes)}"
    figure_ = row(*drawn, sizing_mode="scale_width")
    return Chart(figure_, pd.concat(tables, ignore_index=True), title, provenance(runs, text))


def _along(part: pd.DataFrame, layers: Sequence[str], column: str) -> pd.DataFrame:
    rows = [
        (layer, *np.quantile(part.loc[part["layer"] == layer, column], (0, 0.25, 0.5, 0.75, 1)))
        for layer in layers
        if (part["layer"] == layer).any()
    ]
    found = pd.DataFrame(rows, columns=["layer", "low", "q1", "median", "q3", "high"])
    return found.assign(place=range(len(found)))


def _band(made: figure, table: pd.DataFrame, colour: str, run: str) -> None:
    source = ColumnDataSource(table.to_dict("list"))
    made.varea("place", "q1", "q3", source=source, fill_color=colour, fill_alpha=0.25)
    for edge in ("low", "high"):
        made.line("place", edge, source=source, color=colour, line_alpha=0.35)
    line = made.line("place", "median", source=source, color=colour, line_width=2, legend_label=run)
    hover(made, [("layer", "@layer"), ("median", "@median{0.000}")], [line])


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
    title = titled(runs, title)
    drawn: list[figure] = []
    for column, label in (("overlap_ratio", "overlap ratio"), ("elapsed_ms", "elapsed in ms")):
        made = plain_figure(title if not drawn else "", x=label, y="share of instances", width=420)
        for place, (who, part) in enumerate(data.groupby("who", sort=False)):
            values = np.sort(part[column].to_numpy(np.float64))
            share = np.arange(1, len(values) + 1) / len(values)
            colour = theme().series[place % len(theme().series)]
            made.step(
                values, share, mode="after", color=colour, legend_label=str(who), line_width=1.5
            )
        if column == "overlap_ratio":
            made.x_range = Range1d(-0.02, 1.02)
        legend_below(made)
        drawn.append(made)
    caption = provenance(runs, "Cumulative distribution over iterations and layers")
    figure_ = row(*drawn, sizing_mode="scale_width")
    return Chart(figure_, data.drop(columns="who"), title, caption)

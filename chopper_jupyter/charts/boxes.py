"""Box plots: quartiles, median, range without outliers, and the outliers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import figure_of_rows, hover, legend_below, text
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.core.analysis.variation import FENCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bokeh.plotting import figure


def box_table(samples: pd.DataFrame, keys: Sequence[str], value: str) -> pd.DataFrame:
    """Return quartiles and whiskers of each group of samples.

    Parameters
    ----------
    samples : pandas.DataFrame
        One row per sample.
    keys : sequence of str
        Columns that make a group; the order of first appearance is kept.
    value : str
        The column of values.

    Returns
    -------
    pandas.DataFrame
        Keys, ``low``, ``q1``, ``median``, ``q3``, ``high`` (the last samples within 1.5 times
        the IQR of the quartiles), ``samples``, and ``outliers``, a list of the others.
    """
    rows = []
    for key, part in samples.groupby(list(keys), sort=False, dropna=False):
        values = part[value].to_numpy(np.float64)
        q1, median, q3 = np.quantile(values, (0.25, 0.5, 0.75))
        reach = FENCE * (q3 - q1)
        inside = values[(values >= q1 - reach) & (values <= q3 + reach)]
        outside = values[(values < q1 - reach) | (values > q3 + reach)]
        row = dict(zip(keys, key, strict=True))
        rows.append(
            row
            | {"low": inside.min(), "q1": q1, "median": median, "q3": q3, "high": inside.max()}
            | {"samples": len(values), "outliers": outside.tolist()}
        )
    columns = [*keys, "low", "q1", "median", "q3", "high", "samples", "outliers"]
    return pd.DataFrame(rows, columns=columns)


def boxes(
    table: pd.DataFrame,
    factors: Sequence[str | tuple[str, str]],
    colours: Mapping[str, str],
    variants: Mapping[str, str],
    *,
    title: str,
    label: str,
    unit: str,
) -> figure:
    """Draw one horizontal box per row of a table whose column ``run`` decides the colour.

    Parameters
    ----------
    table : pandas.DataFrame
        See ``box_table``.
    factors : sequence
        Place of each row.
    colours, variants : mapping of str to str
        Colour of each run, and what it stands for.
    title, label, unit : str
        Title of the figure, label of the x axis, unit of the values.
    """
    now = theme()
    made = figure_of_rows(title, factors, label=label)
    kinds = list(dict.fromkeys(variants[run] for run in table["run"]))
    for kind in kinds:
        mine = [i for i, run in enumerate(table["run"]) if variants[run] == kind]
        colour = colours[table["run"].iloc[mine[0]]]
        legend = {"legend_label": text(kind, 60)}
        columns = ("low", "q1", "median", "q3", "high", "samples")
        part = {name: table[name].iloc[mine].tolist() for name in columns}
        source = ColumnDataSource({"factor": [factors[i] for i in mine], **part})
        made.segment("low", "factor", "high", "factor", source=source, color=colour)
        box = made.hbar(
            "factor", 0.7, right="q3", left="q1", source=source, fill_color=colour,
            fill_alpha=0.45, line_color=colour, **(legend if len(kinds) > 1 else {}),
        )  # fmt: skip
        made.scatter(
            "median", "factor", marker="dash", angle=math.pi / 2, size=11, source=source,
            color=now.ink, line_width=2,
        )  # fmt: skip
        points = [(v, factors[i]) for i in mine for v in table["outliers"].iloc[i]]
        if points:
            made.scatter(*map(list, zip(*points, strict=True)), size=4, color=colour, alpha=0.6)
        hover(made, [("", "@factor"), ("median", f"@median{{0.000}} {unit}"),
                     ("quartiles", f"@q1{{0.000}} to @q3{{0.000}} {unit}"),
                     ("samples", "@samples")], [box])  # fmt: skip
    made.x_range.start = 0
    legend_below(made)
    return made

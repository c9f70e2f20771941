"""Box plots: quartiles, median, range without outliers, and the outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import hover, legend_below, plain_figure, tilt
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.core.analysis.variation import FENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    table: pd.DataFrame, factors: Sequence[tuple[str, str]], *, title: str, label: str, unit: str
) -> figure:
    """Draw one box per row; the second part of a factor (the run) decides the colour."""
    now = theme()
    made = plain_figure(title, y=label, factors=factors)
    runs = list(dict.fromkeys(run for _, run in factors))
    for place, run in enumerate(runs):
        mine = [i for i, factor in enumerate(factors) if factor[1] == run]
        colour = now.series[place % len(now.series)]
        columns = ("low", "q1", "median", "q3", "high", "samples")
        part = {name: table[name].iloc[mine].tolist() for name in columns}
        source = ColumnDataSource({"factor": [factors[i] for i in mine], **part})
        made.segment("factor", "low", "factor", "high", source=source, color=colour)
        box = made.vbar(
            "factor", 0.7, top="q3", bottom="q1", source=source, fill_color=colour,
            fill_alpha=0.45, line_color=colour, **({"legend_label": run} if len(runs) > 1 else {}),
        )  # fmt: skip
        made.scatter(
            "factor", "median", marker="dash", size=16, source=source, color=now.ink, line_width=2
        )
        points = [(factors[i], v) for i in mine for v in table["outliers"].iloc[i]]
        if points:
            made.scatter(*zip(*points, strict=True), size=4, color=colour, alpha=0.6)
        hover(made, [("", "@factor"), ("median", f"@median{{0.000}} {unit}"),
                     ("quartiles", f"@q1{{0.000}} to @q3{{0.000}} {unit}"),
                     ("samples", "@samples")], [box])  # fmt: skip
    made.y_range.start = 0
    tilt(made, factors)
    legend_below(made)
    return made

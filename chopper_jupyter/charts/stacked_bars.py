"""Horizontal bars whose parts are stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import figure_of_rows, hover, legend_below
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from bokeh.plotting import figure


DECIMALS = 5
"""Of what is drawn: a page holds every digit."""


def stacked_bars(
    wide: pd.DataFrame,
    factors: Sequence[str | tuple[str, ...]],
    parts: Mapping[str, tuple[str, str]],
    *,
    title: str,
    unit: str,
    label: str,
) -> figure:
    """Draw one bar per row.

    Parameters
    ----------
    wide : pandas.DataFrame
        One row per bar, one column per part.
    factors : sequence
        Name of each bar, or (group, name).
    parts : mapping of str to (str, str)
        Title and colour of each column, from the left.
    title, unit, label : str
        Title of the figure, unit of the values, label of the x axis.
    """
    shown = [name for name in parts if name in wide and (wide[name].fillna(0) != 0).any()]
    if not shown:
        msg = f"{title}: nothing to show, all values are zero"
        raise MissingDataError(msg)
    made = figure_of_rows(title, factors, label=label)
    values = {name: wide[name].fillna(0.0).astype(float).round(DECIMALS).tolist() for name in shown}
    source = ColumnDataSource({"factor": list(factors), **values})
    for positive in (True, False):
        _stack(made, source, shown, parts, unit, positive=positive)
    total = [sum(abs(v) for v in row) for row in zip(*values.values(), strict=True)]
    least = min(sum(v for v in row if v < 0) for row in zip(*values.values(), strict=True))
    if least > -0.01 * max(total):
        made.x_range.start = 0
    legend_below(made)
    return made


def _stack(
    made: figure,
    source: ColumnDataSource,
    shown: Sequence[str],
    parts: Mapping[str, tuple[str, str]],
    unit: str,
    *,
    positive: bool,
) -> None:
    """Draw positive parts to the right or negative ones to the left of zero."""
    rows = len(source.data["factor"])
    base = [0.0] * rows
    for name in shown:
        column = [v if (v > 0) is positive and v else 0.0 for v in source.data[name]]
        if not any(column):
            continue
        end = [b + v for b, v in zip(base, column, strict=True)]
        sign = "up" if positive else "down"
        source.data[f"{name}_{sign}_from"] = [round(v, DECIMALS) for v in base]
        source.data[f"{name}_{sign}_to"] = [round(v, DECIMALS) for v in end]
        title, colour = parts[name]
        drawn = made.hbar(
            y="factor", left=f"{name}_{sign}_from", right=f"{name}_{sign}_to", height=0.8,
            source=source, color=colour, line_color=theme().page, line_width=0.5,
            **({"legend_label": title} if positive or not _any_up(source, name) else {}),
        )  # fmt: skip
        hover(made, [("", "@factor"), (title, f"@{{{name}}}{{0.000}} {unit}")], [drawn])
        base = end


def _any_up(source: ColumnDataSource, name: str) -> bool:
    return f"{name}_up_to" in source.data

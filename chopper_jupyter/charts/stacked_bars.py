"""Bars whose parts are stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import hover, legend_below, plain_figure, tilt
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from bokeh.plotting import figure


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
        Title and colour of each column, from the bottom up.
    title, unit, label : str
        Title of the figure, unit of the values, label of the y axis.
    """
    made = plain_figure(title, y=label, factors=factors)
    shown = [name for name in parts if name in wide and (wide[name].fillna(0) != 0).any()]
    if not shown:
        msg = f"{title}: nothing to show, all values are zero"
        raise MissingDataError(msg)
    values = {name: wide[name].fillna(0.0).astype(float).tolist() for name in shown}
    source = ColumnDataSource({"factor": list(factors), **values})
    for positive in (True, False):
        _stack(made, source, shown, parts, unit, positive=positive)
    made.y_range.start = None if _negative(values) else 0
    tilt(made, factors)
    legend_below(made)
    return made


def _negative(values: Mapping[str, Sequence[float]]) -> bool:
    return any(v < 0 for column in values.values() for v in column)


def _stack(
    made: figure,
    source: ColumnDataSource,
    shown: Sequence[str],
    parts: Mapping[str, tuple[str, str]],
    unit: str,
    *,
    positive: bool,
) -> None:
    """Draw positive parts upwards or negative ones downwards from zero."""
    rows = len(source.data["factor"])
    base = [0.0] * rows
    for name in shown:
        column = [v if (v > 0) is positive and v else 0.0 for v in source.data[name]]
        if not any(column):
            continue
        top = [b + v for b, v in zip(base, column, strict=True)]
        sign = "up" if positive else "down"
        source.data[f"{name}_{sign}_from"], source.data[f"{name}_{sign}_to"] = base, top
        title, colour = parts[name]
        drawn = made.vbar(
            x="factor", bottom=f"{name}_{sign}_from", top=f"{name}_{sign}_to", width=0.8,
            source=source, color=colour, line_color=theme().page, line_width=0.5,
            **({"legend_label": title} if positive or not _any_up(source, name) else {}),
        )  # fmt: skip
        hover(made, [("", "@factor"), (title, f"@{{{name}}}{{0.000}} {unit}")], [drawn])
        base = top


def _any_up(source: ColumnDataSource, name: str) -> bool:
    return f"{name}_up_to" in source.data

"""From one run to another: which ops make the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, Range1d

from chopper_jupyter.charts.axes import FONT, figure_of_rows, hover, text
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import provenance, titled, words
from chopper_jupyter.core.analysis.compare import compare
from chopper_jupyter.core.analysis.quantities import number

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace

STEPS = 10


def compare_waterfall_data(a: Trace, b: Trace, by: str = "op") -> pd.DataFrame:
    """Return the steps from the kernel time of one run to that of another.

    Returns
    -------
    pandas.DataFrame
        ``step``, ``difference_ms``, ``from_ms``, ``to_ms``; the first and last row are the
        kernel times of the runs, the last but one what all smaller differences add up to.
    """
    rows = compare(a, b, by)
    differences = rows["difference_ms"].astype(float)
    names = words(rows[by])
    start, end = (float(rows[f"time_{side}_ms"].sum()) for side in "ab")
    steps = list(zip(names[:STEPS], differences[:STEPS], strict=True))
    if len(rows) > STEPS:
        steps.append((f"{len(rows) - STEPS} others", float(differences[STEPS:].sum())))
    made = [{"step": a.info.name, "difference_ms": start, "from_ms": 0.0, "to_ms": start}]
    at = start
    for name, difference in steps:
        made.append(
            {"step": name, "difference_ms": difference, "from_ms": at, "to_ms": at + difference}
        )
        at += difference
    made.append({"step": b.info.name, "difference_ms": end, "from_ms": 0.0, "to_ms": end})
    return pd.DataFrame(made)


def compare_waterfall(a: Trace, b: Trace, by: str = "op") -> Chart:
    """Show which ops make the difference between two runs.

    Parameters
    ----------
    a, b : Trace
        The runs.
    by : str
        The level to compare at.
    """
    data = compare_waterfall_data(a, b, by)
    runs = {a.info.name: a, b.info.name: b}
    title = titled(runs, f"Kernel time, {text(a.info.name, 36)} to {text(b.info.name, 36)}")
    factors = [f"{text(name)}{ZERO_WIDTH * i}" for i, name in enumerate(data["step"])]
    last = len(data) - 1
    made = figure_of_rows(title, factors, label="ms per iteration and GPU", height=20)
    source = ColumnDataSource({
        "factor": factors, "colour": [_colour(i in {0, last}, d) for i, d in
                                      enumerate(data["difference_ms"])],
        "left": data[["from_ms", "to_ms"]].min(axis=1),
        "right": data[["from_ms", "to_ms"]].max(axis=1),
        "difference": data["difference_ms"],
        "said": [_said(d, signed=i not in {0, last}) for i, d in enumerate(data["difference_ms"])],
    })  # fmt: skip
    bars = made.hbar("factor", 0.7, left="left", right="right", source=source, color="colour")
    made.text("right", "factor", "said", x_offset=4, source=source, text_color=theme().ink,
              text_font=value(FONT), text_font_size="11px", text_baseline="middle")  # fmt: skip
    hover(made, [("", "@factor"), ("ms", "@difference{0.000}")], [bars])
    low, high = _room(data)
    made.x_range = Range1d(low, high)
    made.height -= 24  # no legend
    said = f"Kernel time by {by}, mean per iteration and GPU; orange takes longer, blue is faster"
    if low > 0:
        said += "; the axis does not begin at zero"
    return Chart(made, data, title, provenance(runs, said))


ZERO_WIDTH = "\u200b"
"""Keeps apart steps that have the same name."""


def _colour(whole: bool, difference: float) -> str:  # noqa: FBT001
    now = theme()
    return now.faint if whole else now.slower if difference > 0 else now.faster


def _said(difference: float, *, signed: bool) -> str:
    sign = ("+" if difference > 0 else "\u2212" if difference < 0 else "") if signed else ""
    return f"{sign}{number(abs(difference))}"


def _room(data: pd.DataFrame) -> tuple[float, float]:
    """Return the range of the axis: from zero, unless the steps would be too small to see."""
    high = float(data[["from_ms", "to_ms"]].max().max())
    steps = data.iloc[1:-1][["from_ms", "to_ms"]]
    low = float(pd.concat([data["to_ms"].iloc[[0, -1]], *(steps[c] for c in steps)]).min())
    spread = high - low
    start = max(0.0, low - spread) if spread > 0 and low > 4 * spread else 0.0
    return start, high + 0.12 * (high - start)

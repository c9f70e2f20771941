"""From one run to another: which ops make the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import hover, plain_figure, tilt
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import provenance, titled, words
from chopper_jupyter.core.analysis.compare import compare

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
    now = theme()
    runs = {a.info.name: a, b.info.name: b}
    title = titled(runs, f"Kernel time, {a.info.name} to {b.info.name}")
    factors = [f"{i} {name}" if list(data["step"]).count(name) > 1 else name
               for i, name in enumerate(data["step"])]  # fmt: skip
    whole = [i in {0, len(data) - 1} for i in range(len(data))]
    colour = [
        now.faint if all_ else now.slower if d > 0 else now.faster
        for all_, d in zip(whole, data["difference_ms"], strict=True)
    ]
    source = ColumnDataSource({"factor": factors, "colour": colour,
                               "bottom": data[["from_ms", "to_ms"]].min(axis=1),
                               "top": data[["from_ms", "to_ms"]].max(axis=1),
                               "difference": data["difference_ms"]})  # fmt: skip
    made = plain_figure(title, y="ms per iteration and GPU", factors=factors)
    bars = made.vbar("factor", 0.7, top="top", bottom="bottom", source=source, color="colour")
    hover(made, [("", "@factor"), ("ms", "@difference{0.000}")], [bars])
    tilt(made, factors)
    return Chart(made, data, title, provenance(runs, f"Kernel time by {by}; red takes longer"))

"""From theoretical to actual time: what each cause adds to each op."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import hover
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import (
    Runs,
    factors,
    longest_ops,
    most_ops,
    op_labels,
    per_run,
    provenance,
    titled,
)
from chopper_jupyter.charts.stacked_bars import stacked_bars
from chopper_jupyter.core.analysis.chopper_overheads import FACTORS
from chopper_jupyter.core.analysis.measured_overheads import PARTS, UNCERTAIN
from chopper_jupyter.core.analysis.overheads import overheads

if TYPE_CHECKING:
    from bokeh.plotting import figure

    from chopper_jupyter.core.analysis.overheads import Method
    from chopper_jupyter.core.trace import Trace

TITLES = {
    "theoretical": "theoretical",
    "instruction": "instruction",
    "utilization": "utilisation",
    "overlap": "overlap",
    "frequency": "frequency",
    "waiting": "waiting for ranks",
    "latency": "latency",
    "unexplained": "unexplained",
    "not_modelled": "not modelled",
}
"""Title of each part, in the order in which they are stacked."""

_METHOD = {
    "measured": "Least time at the peaks of the hardware table, and what each cause adds to it",
    "chopper": "Medians of instances, stacked as in the Chopper paper; frequency is all that is "
    "left over",
}


def overhead_breakdown_data(runs: Runs, method: Method = "measured") -> pd.DataFrame:
    """Return the parts of the time of each op; see ``overheads``.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    method : {"measured", "chopper"}
        As in ``overheads``.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``op`` with the phase before it, ``actual_ms``, ``theoretical_ms`` and a column
        per part in ms; of uncertain parts ``_low_ms`` and ``_high_ms`` as well. Null is unknown.
    """
    names = [*PARTS, "not_modelled"] if method == "measured" else [*FACTORS]

    def table(trace: Trace) -> pd.DataFrame:
        rows = overheads(trace, ["phase", "op"], method=method)
        columns = ["actual_ms", "theoretical_ms"]
        for name in names:
            columns += [f"{name}{edge}_ms" for edge in ("", "_low", "_high")]
        made = {
            name: rows[name].to_numpy(np.float64, na_value=np.nan)
            for name in columns
            if name in rows
        }
        return pd.DataFrame({"op": op_labels(rows).to_numpy(), **made})

    return per_run(runs, table)


def overhead_breakdown(runs: Runs, *, method: Method = "measured") -> Chart:
    """Show what stands between the theoretical and the actual time of each op.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name; counters and clocks tell more causes.
    method : {"measured", "chopper"}
        As in ``overheads``: what was measured, with 95 % intervals, or what the paper's formulas
        say.

    Examples
    --------
    >>> from chopper_jupyter import charts
    >>> charts.overhead_breakdown({"v1": first, "v2": second})  # doctest: +SKIP
    """
    data = overhead_breakdown_data(runs, method)
    known = data[data["theoretical_ms"].notna()]
    shown = longest_ops(known, known["actual_ms"], most_ops(runs))
    title = titled(runs, "From theoretical to actual time")
    places = factors(shown["op"], shown["run"], run_first=False)
    each = "ms per iteration and GPU" if method == "measured" else "ms per instance (median)"
    drawn = stacked_bars(
        shown,
        places,
        {f"{name}_ms": (words, _colour(name)) for name, words in TITLES.items()},
        title=title,
        unit="ms",
        label=each,
    )
    _intervals(drawn, shown, places)
    marks = drawn.scatter(
        "actual", "factor", marker="dash", angle=np.pi / 2, size=13, line_width=2,
        color=theme().ink,
        source=ColumnDataSource({"factor": places, "actual": shown["actual_ms"]}),
    )  # fmt: skip
    hover(drawn, [("", "@factor"), ("measured time", "@actual{0.000} ms")], [marks])
    said = f"{_METHOD[method]}; marks are the measured times"
    said += ", thin lines 95 % intervals" if method == "measured" else ""
    left = known["op"].nunique() - shown["op"].nunique()
    said += f"; the longest ops, {left} are left out" if left else ""
    return Chart(drawn, shown, title, provenance(runs, said) + _lacks(data, method))


def _colour(name: str) -> str:
    now = theme()
    own = {
        "utilization": now.parts["utilisation"],
        "waiting": now.causes["communication"],
        "latency": now.causes["launch_latency"],
        "not_modelled": now.parts["idle"],
    }
    return own.get(name) or now.parts[name]


def _intervals(made: figure, shown: pd.DataFrame, places: list[str | tuple[str, str]]) -> None:
    """Draw the interval of each uncertain part around the place where it ends."""
    up, down = (np.zeros(len(shown)) for _ in range(2))
    for name in TITLES:
        if f"{name}_ms" not in shown:
            continue
        value = shown[f"{name}_ms"].fillna(0).to_numpy(np.float64)
        up, down = up + np.maximum(value, 0), down + np.minimum(value, 0)
        if name not in UNCERTAIN or f"{name}_low_ms" not in shown:
            continue
        end = np.where(value < 0, down, up)
        half = ((shown[f"{name}_high_ms"] - shown[f"{name}_low_ms"]) / 2).fillna(0).to_numpy()
        seen = half > 0.005 * shown["actual_ms"].max()
        seen &= np.abs(value) > 0.01 * shown["actual_ms"]  # else it is a line without a bar
        source = ColumnDataSource({
            "factor": [place for place, one in zip(places, seen, strict=True) if one],
            "low": (end - half)[seen], "high": (end + half)[seen],
        })  # fmt: skip
        made.segment("low", "factor", "high", "factor", source=source, color=theme().ink)


def _lacks(data: pd.DataFrame, method: Method) -> str:
    """Say which causes nobody could tell apart, and what to record for them."""
    if method == "chopper":
        return ""
    lacks = []
    if data["utilization_ms"].isna().all():
        lacks.append("without counters (%chopper counters) padding and use of the matrix units")
    if data["frequency_ms"].isna().all():
        lacks.append("without telemetry the clock")
    return f" Not told apart: {'; '.join(lacks)}: they are part of unexplained." if lacks else ""

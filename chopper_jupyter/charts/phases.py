"""Where an iteration goes: phases, and in them matrix products, attention, vectors and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, NumeralTickFormatter

from chopper_jupyter.charts.axes import figure_of_rows, hover
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import (
    OTHER,
    Runs,
    apart,
    colour_of,
    factors,
    named,
    per_run,
    provenance,
    titled,
    words,
)
from chopper_jupyter.charts.stacked_bars import stacked_bars
from chopper_jupyter.core.analysis.quantities import number
from chopper_jupyter.core.analysis.summary import summarize
from chopper_jupyter.core.analysis.throughput import throughput
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.core.schema import PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bokeh.models import LayoutDOM
    from bokeh.plotting import figure

    from chopper_jupyter.core.trace import Trace

TITLE = "Iteration time by phase"
VECTOR = ("norm", "elementwise", "optimizer")
SEEN = 0.002
"""Share of the iteration below which a phase has no bar."""

PARTS = ("gemm", "attention", "vector", "communication", "copy", "idle")


def end_to_end_data(runs: Runs) -> pd.DataFrame:
    """Return the wall time of each phase by kind of work, in ms per iteration and GPU.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``phase``, and a column per part: busy time of ``gemm``, ``attention``,
        ``vector``, exposed ``communication`` and ``copy`` kernels, and ``idle``, the launch
        overhead and waiting before them. They add up to the wall time.
    """
    return per_run(runs, _of_run)


def _of_run(trace: Trace) -> pd.DataFrame:
    table = summarize(trace, ["phase", "family", "kind"], ["busy", "idle"])
    kind, family = words(table["kind"]), words(table["family"])
    part = np.where(kind == "collective", "communication", family)
    part = np.where(kind.isin(["memcpy", "memset"]), "copy", part)
    part = np.where(np.isin(part, VECTOR), "vector", part)
    flat = pd.DataFrame({"phase": words(table["phase"]), "part": part})
    flat["busy"], flat["idle"] = (table[n].astype(float).fillna(0) for n in ("busy_ms", "idle_ms"))
    wide = flat.pivot_table(index="phase", columns="part", values="busy", aggfunc="sum")
    wide["idle"] = flat.groupby("phase")["idle"].sum()
    order = [name for name in (*PHASES, OTHER) if name in wide.index]
    wide = wide.reindex(index=order, columns=PARTS, fill_value=0.0).fillna(0.0)
    return wide.rename_axis(columns=None).reset_index()


def end_to_end(runs: Runs) -> Chart:
    """Show the iteration time of each run by phase, split by kind of work, with its throughput.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.

    Examples
    --------
    >>> from chopper_jupyter import charts
    >>> charts.end_to_end({"v1": first, "v2": second})  # doctest: +SKIP
    """
    data = end_to_end_data(runs)
    now = theme()
    titles = {"gemm": "GEMM", "attention": "attention", "vector": "vector",
              "communication": "exposed communication", "copy": "copies",
              "idle": "launch overhead and waiting"}  # fmt: skip
    colours = {**now.families, "idle": now.parts["idle"]}
    whole = data[list(PARTS)].sum(axis=1)
    seen = data[whole > SEEN * whole.groupby(data["run"]).transform("sum")]
    made: LayoutDOM = stacked_bars(
        seen,
        factors(seen["phase"], seen["run"], run_first=True),
        {name: (titles[name], colours[name]) for name in PARTS},
        title=titled(runs, TITLE),
        unit="ms",
        label="ms per iteration and GPU",
    )
    caption = provenance(runs, "Wall time by phase and kind of work, mean per iteration and GPU")
    rates = _rates(runs)
    if rates:
        data["tokens_per_second"] = data["run"].map(rates)
        each = ", ".join(f"{name} {number(rate)}" for name, rate in rates.items())
        caption += f" Tokens per second: {each}."
    if len(rates) > 1:
        made = column(made, _rate_bars(runs, rates), sizing_mode="stretch_width")
    return Chart(made, data, titled(runs, TITLE), caption)


def _rates(runs: Runs) -> dict[str, float]:
    """Return the tokens per second of the runs whose tokens are known."""
    found = {name: _rate(trace) for name, trace in named(runs).items()}
    return {name: rate for name, rate in found.items() if rate is not None}


def _rate(trace: Trace) -> float | None:
    try:
        return float(throughput(trace)["tokens_per_second"].iloc[0])
    except MissingDataError:
        return None


def _rate_bars(runs: Runs, rates: Mapping[str, float]) -> figure:
    labels = apart(rates)
    made = figure_of_rows("Throughput", list(labels.values()), label="tokens per second")
    colour = colour_of(runs)
    source = ColumnDataSource({
        "factor": list(labels.values()), "rate": list(rates.values()),
        "colour": [colour[name] for name in rates],
    })  # fmt: skip
    bars = made.hbar("factor", 0.75, right="rate", source=source, color="colour")
    hover(made, [("", "@factor"), ("tokens/s", "@rate{0,0}")], [bars])
    made.x_range.start = 0
    made.xaxis.formatter = NumeralTickFormatter(format="0,0")
    return made

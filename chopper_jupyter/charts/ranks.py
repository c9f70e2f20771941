"""What collectives cost: waiting for the last rank, moving the data, and who was last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bokeh.layouts import column
from bokeh.models import ColumnDataSource

from chopper_jupyter.charts.axes import hover, legend_below, plain_figure, text
from chopper_jupyter.charts.boxes import box_table, boxes
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.runs import (
    Runs,
    colour_of,
    factors,
    per_run,
    provenance,
    titled,
    variant_of,
    words,
)
from chopper_jupyter.core.analysis.collectives import collectives as calls_of
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from bokeh.models import LayoutDOM
    from bokeh.plotting import figure

    from chopper_jupyter.core.trace import Trace

PARTS = {"skew_ms": "waiting", "transfer_ms": "transfer"}
MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "plus")


def collective_calls(runs: Runs) -> pd.DataFrame:
    """Return waiting, transfer, bandwidth and the last rank of every call; see ``collectives``.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``kind``, ``skew_ms`` (from the first to the last arrival), ``transfer_ms``
        (from then to the end), ``message_bytes``, ``bus_gb_s``, ``straggler_rank``; null where
        not known.
    """

    def table(trace: Trace) -> pd.DataFrame:
        rows = calls_of(trace)
        made = {f"{n}_ms": rows[f"{n}_ns"].astype(float) * 1e-6 for n in ("skew", "transfer")}
        known = {
            name: rows[name].to_numpy(np.float64, na_value=np.nan)
            for name in ("message_bytes", "bus_gb_s", "straggler_rank")
        }
        return pd.DataFrame({"kind": words(rows["kind"]), **made, **known})

    return per_run(runs, table)


def collectives(runs: Runs) -> Chart:
    """Show how long collectives wait and transfer, which rank is last, and their bandwidth.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name, of at least two ranks each.
    """
    calls = collective_calls(runs)
    if calls.empty:
        msg = "no collective was recorded by more than one rank"
        raise MissingDataError(msg)
    title = titled(runs, "Collectives: waiting for the last rank, and transfer")
    table = parts_of_calls(calls)
    drawn = [
        boxes(
            table,
            factors(table["part"], table["run"], run_first=False),
            colour_of(runs),
            variant_of(runs),
            title=title,
            label="ms per call",
            unit="ms",
        )
    ]
    drawn += [_last_ranks(runs, calls)] if calls["straggler_rank"].notna().any() else []
    drawn += [_bandwidths(runs, calls)] if calls["bus_gb_s"].notna().any() else []
    layout: LayoutDOM = column(*drawn, sizing_mode="stretch_width")
    said = (
        "Calls matched across ranks: waiting is from the first to the last arrival, transfer "
        "from then to the end; boxes are quartiles over calls"
    )
    if len(drawn) == 1 or calls["straggler_rank"].isna().all():
        said += "; ranks arrive within what their clocks are known to, so none is the last"
    return Chart(layout, table.drop(columns="outliers"), title, provenance(runs, said))


def parts_of_calls(calls: pd.DataFrame) -> pd.DataFrame:
    """Return quartiles of waiting and transfer of each kind of call, longest kinds first."""
    total = calls["skew_ms"] + calls["transfer_ms"]
    order = total.groupby(calls["kind"]).sum().sort_values(ascending=False).index
    long = pd.concat(
        [
            calls.loc[calls["kind"] == kind, ["run"]].assign(
                part=f"{kind} {word}", ms=calls[column_]
            )
            for kind in order
            for column_, word in PARTS.items()
        ]
    )
    return box_table(long, ["part", "run"], "ms")


def _last_ranks(runs: Runs, calls: pd.DataFrame) -> figure:
    """Draw in what share of the calls with a last rank each rank was it."""
    known = calls[calls["straggler_rank"].notna()]
    ranks = int(known["straggler_rank"].max()) + 1
    names = list(dict.fromkeys(calls["run"]))
    made = plain_figure("Who is last", x="rank", y="% of calls", height=210)
    colour, width = colour_of(runs), 0.8 / len(names)
    for place, run in enumerate(names):
        rank = known.loc[known["run"] == run, "straggler_rank"].to_numpy(np.int64)
        share = 100 * np.bincount(rank, minlength=ranks) / max(1, len(rank))
        source = ColumnDataSource({
            "x": np.arange(ranks) + (place - (len(names) - 1) / 2) * width, "share": share,
            "rank": np.arange(ranks), "calls": np.bincount(rank, minlength=ranks),
        })  # fmt: skip
        bars = made.vbar("x", 0.9 * width, top="share", source=source, color=colour[run],
                         legend_label=text(variant_of(runs)[run], 60))  # fmt: skip
        hover(made, [(text(run, 60), "rank @rank"), ("last in", "@share{0.0} % (@calls calls)")],
              [bars])  # fmt: skip
    made.y_range.start = 0
    made.xaxis.ticker = list(range(0, ranks, max(1, round(ranks / 16))))
    _legend_if_several(made)
    return made


def _bandwidths(runs: Runs, calls: pd.DataFrame) -> figure:
    """Draw the bus bandwidth by size of the message: medians and quartiles."""
    made = plain_figure(
        "Bandwidth of a link", x="message in MB", y="GB/s", x_axis_type="log", height=230
    )
    colour, variant = colour_of(runs), variant_of(runs)
    kinds = list(dict.fromkeys(calls["kind"]))
    known = calls[calls["bus_gb_s"].notna()].assign(mb=lambda d: d["message_bytes"] * 1e-6)
    table = box_table(known, ["run", "kind", "mb"], "bus_gb_s").drop(columns="outliers")
    for key, part in table.groupby(["run", "kind"], sort=False):
        run, kind = map(str, key)
        source = ColumnDataSource(part.to_dict("list"))
        made.segment("mb", "q1", "mb", "q3", source=source, color=colour[run], line_width=2)
        dots = made.scatter(
            "mb", "median", source=source, size=9, color=colour[run], fill_alpha=0.5,
            marker=MARKERS[kinds.index(kind) % len(MARKERS)],
            legend_label=text(f"{kind} {variant[run]}" if len(variant) > 1 else kind, 60),
        )  # fmt: skip
        hover(made, [("", "@kind"), ("run", "@run"), ("message", "@mb{0,0.000} MB"),
                     ("median", "@median{0,0.0} GB/s"), ("calls", "@samples")], [dots])  # fmt: skip
    made.y_range.start = 0
    legend_below(made)
    return made


def _legend_if_several(made: figure) -> None:
    if len(made.legend[0].items) > 1:
        legend_below(made)
    else:
        made.legend[0].visible = False

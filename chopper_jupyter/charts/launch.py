"""Launch overhead per op, and idle time by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.charts.runs import (
    OTHER,
    Runs,
    factors,
    longest_ops,
    most_ops,
    op_labels,
    per_run,
    provenance,
    titled,
    words,
)
from chopper_jupyter.charts.stacked_bars import stacked_bars
from chopper_jupyter.core.analysis.idle_causes import CAUSES
from chopper_jupyter.core.analysis.idle_causes import idle_causes as causes_of
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.launch_overhead import launch_overhead as overhead_of
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.core.schema import PHASES

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace


def launch_overhead_data(runs: Runs) -> pd.DataFrame:
    """Return preparation and call per op, in µs per compute kernel.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``op`` with the phase before it, ``prep_us``, ``call_us``, ``kernels``.
    """

    def table(trace: Trace) -> pd.DataFrame:
        rows = overhead_of(trace, ["phase", "op"])
        columns = {"op": op_labels(rows)}
        prep, call = (rows[f"mean_{n}_us"].astype(float).fillna(0) for n in ("prep", "call"))
        total = rows["launch_ns"].astype(float).fillna(0)
        made = pd.DataFrame(
            columns | {"prep_us": prep, "call_us": call, "kernels": rows["kernels"]}
        )
        return made.iloc[total.argsort()[::-1]]

    return per_run(runs, table)


def launch_overhead(runs: Runs) -> Chart:
    """Show how long compute kernels waited for their launch and for their start, per op.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    """
    data = launch_overhead_data(runs)
    whole = (data["prep_us"] + data["call_us"]) * data["kernels"].astype(float)
    some = data[whole.groupby(data["op"]).transform("sum") > 0]
    if some.empty:
        msg = "launch overhead: nothing to show, no compute kernel waited"
        raise MissingDataError(msg)
    shown = longest_ops(some, whole.loc[some.index], most_ops(runs))
    now = theme()
    title = titled(runs, "Launch overhead")
    drawn = stacked_bars(
        shown,
        factors(shown["op"], shown["run"], run_first=False),
        {
            "prep_us": ("preparation: not launched yet", now.parts["prep"]),
            "call_us": ("call: launched, not started", now.parts["call"]),
        },
        title=title,
        unit="µs",
        label="µs per compute kernel",
    )
    text = "Idle time before compute kernels, mean per kernel; the ops with most of it"
    return Chart(drawn, shown, title, provenance(runs, text))


def idle_causes_data(runs: Runs) -> pd.DataFrame:
    """Return idle time by phase and cause, in ms per iteration and GPU.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``phase`` and a column per cause.
    """

    def table(trace: Trace) -> pd.DataFrame:
        rows = causes_of(trace, "phase")
        each = included(trace).instances_of(["phase"])
        made = pd.DataFrame({"phase": words(rows["phase"])})
        for cause in CAUSES:
            made[cause] = rows[f"{cause}_ns"].astype(float) * 1e-6 / each
        place = {name: i for i, name in enumerate((*PHASES, OTHER))}
        return made.sort_values("phase", key=lambda c: c.map(place), kind="stable")

    return per_run(runs, table)


def idle_causes(runs: Runs) -> Chart:
    """Show why the GPUs were idle, by phase.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    """
    data = idle_causes_data(runs)
    title = titled(runs, "Idle time by cause")
    drawn = stacked_bars(
        data,
        factors(data["phase"], data["run"], run_first=True),
        {name: (words_.lower(), theme().causes[name]) for name, words_ in CAUSES.items()},
        title=title,
        unit="ms",
        label="ms per iteration and GPU",
    )
    return Chart(drawn, data, title, provenance(runs, "Idle time by the kernel that ended it"))

"""Times of ops as boxes over GPUs and iterations: matrix products, vector ops, communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from chopper_jupyter.charts.boxes import box_table, boxes
from chopper_jupyter.charts.chart import Chart
from chopper_jupyter.charts.runs import (
    Runs,
    colour_of,
    factors,
    longest_ops,
    most_ops,
    op_labels,
    per_run,
    provenance,
    titled,
    variant_of,
    words,
)
from chopper_jupyter.core.analysis.summary import summarize
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.trace import Trace

MATRIX = ("gemm", "attention")
VECTOR = ("norm", "elementwise", "optimizer")
_COMMON = ("all_gather", "reduce_scatter")


def op_samples(runs: Runs, families: Sequence[str]) -> pd.DataFrame:
    """Return the kernel time of each op in each iteration on each GPU.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    families : sequence of str
        Families of kernels whose time counts.

    Returns
    -------
    pandas.DataFrame
        ``run``, ``op`` with the phase before it (``f q_proj``), ``gpu``, ``iteration``,
        ``time_ms``.
    """

    def table(trace: Trace) -> pd.DataFrame:
        rows = summarize(
            trace.filter(family=list(families)), ["gpu", "iteration", "phase", "op"], ["time"]
        )
        return _plain(rows, op_labels(rows).to_numpy())

    return per_run(runs, table)


def communication_samples(runs: Runs) -> pd.DataFrame:
    """Return the time of all-gathers, reduce-scatters and other communication, likewise."""

    def table(trace: Trace) -> pd.DataFrame:
        rows = summarize(
            trace.filter(kind="collective"), ["gpu", "iteration", "collective"], ["time"]
        )
        kind = words(rows["collective"])
        rows = _plain(rows, np.where(kind.isin(_COMMON), kind, "other"))
        keys = ["op", "gpu", "iteration"]
        return pd.DataFrame(rows.groupby(keys, sort=False, dropna=False, as_index=False).sum())

    return per_run(runs, table)


def _plain(rows: pd.DataFrame, op: object) -> pd.DataFrame:
    columns = {"op": op, "gpu": rows["gpu"], "iteration": rows["iteration"]}
    return pd.DataFrame(columns | {"time_ms": rows["time_ms"].astype(float)})


def gemm_time(runs: Runs) -> Chart:
    """Show how long the matrix products and attention of each op take.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    """
    return _drawn(runs, op_samples(runs, MATRIX), "Time of matrix products and attention")


def vector_time(runs: Runs) -> Chart:
    """Show how long the vector kernels of each op take.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    """
    return _drawn(runs, op_samples(runs, VECTOR), "Time of vector kernels")


def communication(runs: Runs) -> Chart:
    """Show how long communication takes, by kind.

    Parameters
    ----------
    runs : Trace or mapping of str to Trace
        One run, or several by name.
    """
    return _drawn(runs, communication_samples(runs), "Time of communication")


def _drawn(runs: Runs, samples: pd.DataFrame, title: str) -> Chart:
    if samples.empty:
        msg = f"{title}: nothing to show, no such kernel was recorded"
        raise MissingDataError(msg)
    ops = samples["op"].nunique()
    shown = longest_ops(samples, samples["time_ms"], most_ops(runs))
    table = box_table(shown, ["op", "run"], "time_ms")
    drawn = boxes(
        table,
        factors(table["op"], table["run"], run_first=False),
        colour_of(runs),
        variant_of(runs),
        title=titled(runs, title),
        label="ms per iteration",
        unit="ms",
    )
    said = "Kernel time; one sample per GPU and iteration; boxes are quartiles"
    left = ops - shown["op"].nunique()
    said += f"; the {ops - left} longest of {ops}" if left else ""
    return Chart(drawn, table.drop(columns="outliers"), titled(runs, title), provenance(runs, said))

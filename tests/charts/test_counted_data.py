"""What the figures of overheads, rooflines, collectives and sensors draw is what analyses say."""

from __future__ import annotations

import charted_runs
import numpy as np
import pandas as pd
import pytest
from builders import trace_of
from overhead_runs import overhead_run, true_parts

from chopper_jupyter import charts, collectives, efficiency, overheads
from chopper_jupyter.charts.overheads import TITLES, overhead_breakdown_data
from chopper_jupyter.charts.peaks import roofline_data
from chopper_jupyter.charts.ranks import collective_calls, parts_of_calls
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.core.trace import altered

PARTS = [f"{name}_ms" for name in TITLES]


@pytest.fixture(scope="module", name="runs")
def two_runs():
    return charted_runs.runs()


def numbers(rows: pd.DataFrame, column: str) -> list[float]:
    return rows[column].to_numpy(np.float64, na_value=np.nan).tolist()


def glyphs(chart, kind: str) -> list:
    """Return the renderers of a figure whose glyph is of a kind."""
    found = chart.figure.select({})
    return [r for r in found if type(getattr(r, "glyph", None)).__name__ == kind]


def test_parts_of_overheads_add_up_to_the_actual_time(runs):
    data = overhead_breakdown_data(runs)
    assert data[PARTS].sum(axis=1).tolist() == pytest.approx(data["actual_ms"].tolist())
    for name, trace in runs.items():
        rows, mine = overheads(trace), data[data["run"] == name]
        for column in (*PARTS, "actual_ms", "overlap_low_ms", "unexplained_high_ms"):
            assert numbers(mine, column) == pytest.approx(numbers(rows, column), nan_ok=True)


def test_parts_of_overheads_are_the_injected_ones():
    made = overhead_run(padding=1.3, gpus=2, iterations=4)
    data = overhead_breakdown_data(made.trace).set_index("op")
    for op in ("q_proj", "down_proj"):
        truth = true_parts([row for row in made.truth if row["op"] == op], 2 * 4)
        mine = data.loc[f"f {op}"]
        for name in ("theoretical", "instruction", "frequency"):
            assert mine[f"{name}_ms"] == pytest.approx(truth[name], rel=0.03)


def test_bars_end_at_the_measured_time_within_their_intervals(runs):
    chart = charts.overhead_breakdown(runs)
    ends = [r.data_source.data[r.glyph.right] for r in glyphs(chart, "HBar")]
    assert (np.max(ends, axis=0) + np.minimum(np.min(ends, axis=0), 0)).tolist() == pytest.approx(
        chart.data["actual_ms"].tolist(), abs=1e-3
    )
    marks = glyphs(chart, "Scatter")[0].data_source.data["actual"]
    assert list(marks) == chart.data["actual_ms"].tolist()
    for whisker in glyphs(chart, "Segment"):
        low, high = (np.array(whisker.data_source.data[n]) for n in ("low", "high"))
        assert (low <= high).all()


def test_the_method_of_the_paper_stacks_to_its_product(runs):
    data = overhead_breakdown_data(runs, "chopper")
    rows = overheads(next(iter(runs.values())), method="chopper")
    mine = data[data["run"] == "v1"]
    assert numbers(mine, "frequency_ms") == pytest.approx(
        numbers(rows, "frequency_ms"), nan_ok=True
    )
    product = rows["theoretical_ms"] * rows["instruction"] * rows["utilization"] * rows["overlap"]
    product = (product * rows["frequency"]).to_numpy(np.float64, na_value=np.nan)
    stacked = mine[["theoretical_ms", *(c for c in PARTS[1:] if c in mine)]].sum(
        axis=1, skipna=False
    )
    assert stacked.tolist() == pytest.approx(product.tolist(), nan_ok=True)


def test_what_nobody_counted_is_said():
    ranks = {"bare": trace_of([{"op": "mm", "name": "gemm_bf16", "flops": 10**9}])}
    with pytest.raises(MissingDataError):
        charts.roofline(ranks)
    assert "%chopper counters" in charts.overhead_breakdown(without_counters()).caption


def without_counters():
    trace = overhead_run(gpus=1, iterations=2).trace
    return altered(trace, counters=trace.counters.slice(0, 0))


def test_points_and_roofs_of_the_roofline(runs):
    data = roofline_data(runs)
    for name, trace in runs.items():
        rows, mine = efficiency(trace, ["phase", "op"]), data[data["run"] == name]
        assert numbers(mine, "tflops") == pytest.approx(numbers(rows, "tflops"), nan_ok=True)
        assert numbers(mine, "roofline_percent") == pytest.approx(
            numbers(rows, "roofline_percent"), nan_ok=True
        )
    assert not (data["tflops"] > data["attainable_tflops"]).any()
    chart = charts.roofline(runs)
    (roof,) = glyphs(chart, "Line")
    x, y = (np.array(roof.data_source.data[axis]) for axis in "xy")
    peaks = efficiency(runs["v1"], None).attrs["peaks"][0]
    assert y.max() == pytest.approx(peaks["tflops"]["bf16"])
    assert y[0] == pytest.approx(1e-3 * x[0] * peaks["bandwidth_gb_s"])
    points = data[data["intensity"] > 0]
    assert x[0] < points["intensity"].min()
    assert x[-1] > points["intensity"].max()


def test_collectives_are_those_of_the_analysis(runs):
    calls = collective_calls(runs)
    table = parts_of_calls(calls)
    for name, trace in runs.items():
        rows = collectives(trace, by="kind").set_index("kind")
        mine = table[table["run"] == name].set_index("part")
        for kind, row in rows.iterrows():
            for part, word in (("skew", "waiting"), ("transfer", "transfer")):
                box = mine.loc[f"{kind} {word}"]
                assert box["median"] == pytest.approx(row[f"{part}_median_ns"] * 1e-6)
                assert box["q3"] == pytest.approx(row[f"{part}_q3_ns"] * 1e-6)
    bars = glyphs(charts.collectives(runs), "VBar")
    assert [sum(r.data_source.data["share"]) for r in bars] == pytest.approx([100, 100])
    known = [part["straggler_rank"].value_counts() for _, part in calls.groupby("run")]
    drawn = sorted(r.data_source.data["calls"].tolist() for r in bars)
    assert drawn == sorted([counts.get(0.0, 0), counts.get(1.0, 0)] for counts in known)


def test_one_rank_has_no_collectives_to_show():
    with pytest.raises(MissingDataError, match="at least two ranks"):
        charts.collectives(trace_of([{"kind": "collective", "collective": "all_reduce"}]))

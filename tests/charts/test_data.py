"""What figures draw equals what the analyses say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from builders import llama_trace
from hypothesis import given
from sampled_traces import sample, steady, with_samples
from timed_traces import timed_rows, timed_trace

from chopper_jupyter import breakdown, charts, compare, summarize
from chopper_jupyter.charts.boxes import box_table
from chopper_jupyter.charts.launch import idle_causes_data, launch_overhead_data
from chopper_jupyter.charts.op_times import communication_samples, op_samples
from chopper_jupyter.charts.overlap import overlap_instances
from chopper_jupyter.charts.phases import PARTS, end_to_end_data
from chopper_jupyter.charts.sensors import frequency_power_data
from chopper_jupyter.charts.stretch import timeline_excerpt_data
from chopper_jupyter.charts.waterfall import compare_waterfall_data
from chopper_jupyter.core.analysis.idle_causes import CAUSES, idle_causes
from chopper_jupyter.core.errors import MissingDataError, SchemaError
from chopper_jupyter.core.trace import altered


@pytest.fixture(scope="module")
def runs():
    made = {"v1": llama_trace(gpus=2, iterations=3, layers=3),
            "v2": llama_trace(gpus=2, iterations=3, layers=3, seed=1)}  # fmt: skip
    return {name: altered(t, info=replace(t.info, name=name)) for name, t in made.items()}


@given(timed_rows(smallest=1))
def test_phases_add_up_to_the_wall_clock(rows):
    trace = timed_trace(rows)
    data = end_to_end_data(trace)
    whole = breakdown(trace)["wall_ns"].sum()
    instances = max(1, len(trace.measured_iterations)) * len({r["gpu"] for r in rows})
    if trace.measured_iterations:
        kept = [r for r in rows if r["iteration"] is not None]
        instances = len(trace.measured_iterations) * len({r["gpu"] for r in kept})
    assert data[list(PARTS)].to_numpy().sum() == pytest.approx(whole * 1e-6 / instances)


def test_samples_of_ops_add_up_to_their_summary(runs):
    data = op_samples(runs, ("gemm",))
    assert set(data["run"]) == {"v1", "v2"}
    for name, trace in runs.items():
        mine = data[data["run"] == name]
        whole = summarize(trace.filter(family="gemm"), "op", ["time"])["time_ms"].sum()
        assert mine["time_ms"].sum() / (2 * 3) == pytest.approx(float(whole))
    assert communication_samples(runs)["time_ms"].sum() > 0


def test_boxes_are_quartiles_and_tell_outliers_apart():
    values = [*range(1, 12), 100]
    samples = pd.DataFrame({"op": "mm", "run": "a", "time_ms": np.array(values, float)})
    row = box_table(samples, ["op", "run"], "time_ms").iloc[0]
    assert (row["low"], row["high"], row["outliers"]) == (1, 11, [100])
    assert (row["q1"], row["median"], row["q3"]) == tuple(np.quantile(values, (0.25, 0.5, 0.75)))


@given(timed_rows(smallest=1))
def test_idle_time_of_the_figure_is_that_of_the_analysis(rows):
    trace = timed_trace(rows)
    per = end_to_end_data(trace)["idle"].sum()
    assert idle_causes_data(trace)[list(CAUSES)].to_numpy().sum() == pytest.approx(per)
    assert idle_causes(trace)["idle_ns"].sum() * 1e-6 >= per - 1e-9
    assert len(launch_overhead_data(trace)) <= len(rows)


def test_every_layer_has_its_instances(runs):
    data = overlap_instances(runs, "mlp.gate_proj")
    assert len(data) == 2 * (2 * 3 * 3)
    assert data.groupby("run")["normalised"].median().tolist() == pytest.approx([1, 1])
    with pytest.raises(MissingDataError, match="no layer has"):
        overlap_instances(runs, "nothing")


def test_the_waterfall_ends_where_the_second_run_is(runs):
    data = compare_waterfall_data(*runs.values(), by="op")
    assert data["to_ms"].iloc[-2] == pytest.approx(data["to_ms"].iloc[-1])
    frame = compare(*runs.values(), by="op")
    assert data["difference_ms"].iloc[1] == frame["difference_ms"].iloc[0]


def test_sensors_are_averaged_over_gpus():
    rows = [sample("power_w", t, 300 + 100 * gpu, gpu=gpu) for gpu in (0, 1) for t in (0, 1000)]
    data = frequency_power_data(with_samples(steady(gpus=2), rows))
    assert data["power_w"].tolist() == [350, 350]
    assert (data["power_w_low"].tolist(), data["power_w_high"].tolist()) == ([300, 300], [400, 400])


def test_a_stretch_of_the_timeline(runs):
    data = timeline_excerpt_data(runs["v1"], gpus=1)
    assert set(data["lane"].str.slice(0, 5)) == {"GPU 0"}
    first = runs["v1"].filter(gpu=0, iteration=0).kernels
    assert len(data) >= first.num_rows
    short = timeline_excerpt_data(runs["v1"], start_ms=1, length_ms=0.5)
    assert (short["end_ms"] > 1).all()
    assert (short["start_ms"] < 1.5).all()


def test_names_of_the_module_are_those_it_promises():
    assert dir(charts) == charts.__all__
    for name in charts.__all__:
        assert getattr(charts, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'pie'"):
        charts.pie  # noqa: B018
    with pytest.raises(SchemaError, match="did you mean 'dark'"):
        charts.use_theme("drak")

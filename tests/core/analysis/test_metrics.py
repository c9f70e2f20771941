import numpy as np
import pytest
from builders import trace_of

from chopper_jupyter.core.analysis.metrics import (
    MAXIMA,
    MEASURES,
    METRICS,
    evaluate,
    find_metrics,
    measures_of,
    metrics_for,
)
from chopper_jupyter.core.errors import MissingDataError, SchemaError


def test_every_metric_uses_only_measures_and_the_three_that_a_view_knows():
    known = {*MEASURES, *MAXIMA, "instances", "total_time_ns", "one"}
    for metric in METRICS.values():
        assert {*metric.numerator, *metric.denominator} <= known, metric.name


def test_columns_of_metrics_differ_and_carry_their_unit():
    columns = [m.column for m in METRICS.values()]
    assert len(set(columns)) == len(columns)
    assert METRICS["mean_duration"].column == "mean_duration_us"
    assert METRICS["overlap"].column == "overlap_percent"


def test_metric_is_plain_data_for_a_front_end():
    assert METRICS["wall"].to_dict() == {
        "name": "wall",
        "title": "Wall",
        "unit": "ms",
        "numerator": {"busy_ns": 1e-6, "idle_ns": 1e-6},
        "denominator": {"instances": 1.0},
        "meaning": "wall time per iteration and GPU: busy and idle",
        "needs": None,
    }


def test_a_metric_divides_sums_and_is_no_mean_of_ratios():
    sums = {"overlap_ns": np.array([10 + 0]), "time_ns": np.array([10 + 90])}
    assert evaluate(METRICS["overlap"], sums).tolist() == [10.0]


def test_division_by_zero_is_not_a_number():
    assert np.isnan(evaluate(METRICS["mean_duration"], {"time_ns": 0, "count": 0}))


def test_optional_measures_exist_only_where_recorded():
    without = trace_of([{"dur_ns": 5}]).kernels
    assert "flops" not in measures_of(without)
    with_flops = trace_of([{"flops": 7}, {"flops": None}]).kernels
    assert measures_of(with_flops)["flops"].tolist() == [7, 0]


def test_metrics_are_offered_by_what_the_recording_holds():
    plain = {m.name for m in metrics_for(["time_ns", "count"], "gpu")}
    assert "overlap" in plain
    assert "tflops" not in plain
    assert "overlap" not in {m.name for m in metrics_for(["time_ns"], "cpu")}
    assert "tflops" in {m.name for m in metrics_for(["time_ns", "flops"], "cpu")}


def test_unknown_metric_names_the_nearest():
    with pytest.raises(SchemaError, match="did you mean 'time'"):
        find_metrics(["tme"], [])


def test_missing_data_says_what_is_needed():
    with pytest.raises(MissingDataError, match="'tflops' needs operation counts"):
        find_metrics(["tflops"], ["time_ns"])


def test_throughput_is_operations_over_time():
    sums = {"flops": 2e12, "time_ns": 1e9}
    assert evaluate(METRICS["tflops"], sums) == pytest.approx(2.0)

import pandas as pd
import pytest
from builders import llama_trace, trace_of
from hypothesis import given
from hypothesis import strategies as st
from random_traces import kernel_rows, traces

from chopper_jupyter.core.analysis.levels import KEY_COLUMNS
from chopper_jupyter.core.analysis.metrics import METRICS, evaluate
from chopper_jupyter.core.analysis.summary import summarize
from chopper_jupyter.core.errors import MissingDataError, SchemaError

SOME_KEYS = st.lists(st.sampled_from(sorted(KEY_COLUMNS)), unique=True, max_size=3)
MS = 1_000_000


def test_times_are_per_iteration_and_gpu():
    rows = [
        {"gpu": g, "iteration": i, "op": "mm", "dur_ns": (1 + g + i) * MS}
        for g in range(2)
        for i in range(2)
    ]
    (row,) = summarize(trace_of(rows), "op").to_dict("records")
    assert row["time_ms"] == pytest.approx(2.0)
    assert row["kernels"] == 1.0
    assert row["time_ms_std"] == pytest.approx((2 / 3) ** 0.5)
    assert (row["time_ms_min"], row["time_ms_max"]) == (1.0, 3.0)


def test_an_op_absent_in_an_iteration_took_no_time_there():
    rows = [
        {"iteration": 0, "op": "a", "dur_ns": 4 * MS},
        {"iteration": 0, "op": "b", "dur_ns": 1 * MS},
        {"iteration": 1, "op": "b", "dur_ns": 1 * MS},
    ]
    table = summarize(trace_of(rows), "op", ["time"]).set_index("op")
    assert table.loc["a"].tolist() == pytest.approx([2.0, 8**0.5, 0.0, 4.0])
    assert table.loc["b", "time_ms_std"] == 0.0


def test_a_gpu_kept_apart_is_averaged_over_iterations_only():
    table = summarize(llama_trace(gpus=3, iterations=2, layers=1), "gpu").set_index("gpu")
    assert table.index[0] == 2  # the slow one
    assert table["kernels"].tolist() == [2 * 7 + 2.0] * 3
    both = summarize(llama_trace(gpus=3, iterations=2, layers=1), ["gpu", "iteration"])
    assert "time_ms_std" not in both.columns
    assert len(both) == 6


@given(traces(1), SOME_KEYS)
def test_rows_add_up_to_the_whole(trace, by):
    joined = [key for key in by if key not in ("gpu", "iteration")]
    whole = summarize(trace, metrics=["time", "share", "kernels"])
    parts = summarize(trace, joined, ["time", "share", "kernels"])
    for column in ("time_ms", "kernels"):
        assert parts[column].sum() == pytest.approx(whole[column].sum())
    if whole["time_ms"][0]:
        assert parts["share_percent"].sum() == pytest.approx(100.0)


@given(kernel_rows(1), st.randoms(use_true_random=False), SOME_KEYS)
def test_the_order_of_rows_does_not_matter(rows, random, by):
    before = summarize(trace_of(rows), by)
    random.shuffle(rows)
    pd.testing.assert_frame_equal(before, summarize(trace_of(rows), by))


@given(traces(1))
def test_a_metric_of_a_parent_is_the_metric_of_the_summed_measures(trace):
    whole = summarize(trace, metrics=["overlap"])["overlap_percent"][0]
    kept = trace.kernels.to_pandas()
    kept = kept[kept["iteration"].notna()] if trace.iterations else kept
    sums = {"overlap_ns": kept["overlap_ns"].sum(), "time_ns": kept["dur_ns"].sum()}
    if sums["time_ns"]:
        assert whole == pytest.approx(float(evaluate(METRICS["overlap"], sums)))
    else:
        assert pd.isna(whole)


def test_longest_comes_first_and_null_is_a_group_of_its_own():
    rows = [{"op": "a", "dur_ns": 1}, {"op": None, "dur_ns": 5}, {"op": "b", "dur_ns": 3}]
    ops = summarize(trace_of(rows), "op")["op"]
    assert ops.isna().tolist() == [True, False, False]
    assert ops.tolist()[1:] == ["b", "a"]


def test_a_table_says_its_units_and_what_it_covers():
    rows = [{"iteration": i, "gpu": g} for i in range(4) for g in range(2)]
    table = summarize(trace_of(rows, warmup=2), "op", ["time", "mean_duration"])
    assert table.attrs == {
        "units": {
            "time_ms": "ms",
            "time_ms_std": "ms",
            "time_ms_min": "ms",
            "time_ms_max": "ms",
            "mean_duration_us": "µs",
        },
        "included": "iterations 2 to 3 (2 warm-up left out)",
        "iterations": [2, 3],
        "gpus": [0, 1],
    }
    assert {str(kind) for kind in table.dtypes} == {"string[pyarrow]", "double[pyarrow]"}


def test_what_lies_outside_iterations_counts_only_when_asked_for():
    trace = trace_of([{"iteration": 0, "dur_ns": 2 * MS}, {"dur_ns": 8 * MS}])
    assert summarize(trace)["time_ms"].tolist() == [2.0]
    everything = summarize(trace, "iteration", include="all")
    assert everything["time_ms"].tolist() == [8.0, 2.0]
    assert everything.attrs["included"] == "iteration 0 and what lies outside iterations"


def test_a_recording_without_iterations_counts_as_one():
    table = summarize(trace_of([{"dur_ns": 2 * MS}, {"dur_ns": 3 * MS}]))
    assert table["time_ms"].tolist() == [5.0]
    assert table["time_ms_std"].isna().tolist() == [True]


def test_iterations_that_were_chosen_are_covered_even_as_warm_up():
    rows = [{"iteration": i, "dur_ns": (i + 1) * MS} for i in range(4)]
    trace = trace_of(rows, warmup=2)
    assert summarize(trace.filter(iteration=[1, 2]))["time_ms"].tolist() == [2.5]
    assert summarize(trace.filter(op=None))["time_ms"].tolist() == [3.5]


def test_an_op_that_skips_warm_up_keeps_all_its_iterations():
    rows = [{"iteration": i, "op": "a"} for i in range(4)]
    rows += [{"iteration": i, "op": "b"} for i in (2, 3)]
    assert trace_of(rows, warmup=2).filter(op="b").measured_iterations == [2, 3]


def test_no_kernels_give_no_rows_or_an_empty_total():
    assert len(summarize(trace_of([]), "op")) == 0
    total = summarize(trace_of([]))
    assert total.isna().all().all()
    assert len(total) == 1


def test_a_cpu_recording_has_no_overlap():
    trace = trace_of([{"op": "aten::mm"}], device_kind="cpu")
    assert "overlap_percent" not in summarize(trace).columns
    with pytest.raises(MissingDataError, match="GPU"):
        summarize(trace, metrics=["overlap"])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"by": "layr"}, "no level named 'layr'; did you mean 'layer'"),
        ({"metrics": ["tim"]}, "no metric named 'tim'; did you mean 'time'"),
        ({"include": "mesured"}, "did you mean 'measured'"),
    ],
)
def test_unknown_names_are_errors_that_help(ask, message):
    with pytest.raises(SchemaError, match=message):
        summarize(trace_of([]), **ask)

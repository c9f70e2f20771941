import pandas as pd
import pytest
from builders import llama_trace, trace_of
from hypothesis import given
from hypothesis import strategies as st
from random_traces import kernel_rows, traces

from chopper_jupyter.core.analysis.breakdown import PARTS, breakdown
from chopper_jupyter.core.analysis.levels import KEY_COLUMNS
from chopper_jupyter.core.errors import SchemaError

SOME_KEYS = st.lists(st.sampled_from(sorted(KEY_COLUMNS)), unique=True, max_size=3)
COLUMNS = [f"{part}_ns" for part in PARTS]


@given(traces(), SOME_KEYS)
def test_parts_add_up_exactly_to_the_wall_time(trace, by):
    table = breakdown(trace, by, include="all")
    assert (table[COLUMNS].sum(axis=1) == table["wall_ns"]).all()
    kernels = trace.kernels.to_pydict()
    assert int(table["wall_ns"].sum()) == sum(kernels["busy_ns"]) + sum(kernels["idle_ns"])
    assert {str(kind) for kind in table[[*COLUMNS, "wall_ns"]].dtypes} == {"int64[pyarrow]"}


@given(traces(1), SOME_KEYS)
def test_rows_add_up_to_the_whole(trace, by):
    whole = breakdown(trace).iloc[0]
    parts = breakdown(trace, by)
    assert all(int(parts[column].sum()) == int(whole[column]) for column in COLUMNS)


@given(kernel_rows(1), st.randoms(use_true_random=False), SOME_KEYS)
def test_the_order_of_rows_does_not_matter(rows, random, by):
    before = breakdown(trace_of(rows), by)
    random.shuffle(rows)
    pd.testing.assert_frame_equal(before, breakdown(trace_of(rows), by))


def test_each_kind_goes_to_its_part():
    rows = [
        {"kind": "compute", "busy_ns": 100, "idle_ns": 1},
        {"kind": "collective", "busy_ns": 20, "idle_ns": 2},
        {"kind": "memcpy", "busy_ns": 3, "idle_ns": 3},
        {"kind": "memset", "busy_ns": 4, "idle_ns": 4},
    ]
    assert breakdown(trace_of(rows)).iloc[0].tolist() == [100, 20, 7, 10, 137]


def test_rows_are_in_reading_order():
    trace = llama_trace(gpus=2, iterations=2, layers=12)
    phases = breakdown(trace, "phase")["phase"].tolist()
    assert phases == ["forward", "backward", "optimizer"]
    layers = breakdown(trace, "layer")["layer"]
    assert layers.tolist()[:12] == [f"model.layers.{i}" for i in range(12)]
    assert layers.isna().tolist() == [False] * 12 + [True]
    assert breakdown(trace, ["gpu", "iteration"])["gpu"].tolist() == [0, 0, 1, 1]


def test_warm_up_is_left_out_and_units_are_said():
    trace = trace_of([{"iteration": 0, "dur_ns": 5}, {"iteration": 1, "dur_ns": 7}], warmup=1)
    table = breakdown(trace)
    assert table["wall_ns"].tolist() == [7]
    assert set(table.attrs["units"].values()) == {"ns"}
    assert table.attrs["included"] == "iteration 1 (1 warm-up left out)"


def test_an_empty_trace_took_no_time():
    assert breakdown(trace_of([])).iloc[0].tolist() == [0] * 5
    assert len(breakdown(trace_of([]), "op")) == 0


def test_unknown_level_names_the_nearest():
    with pytest.raises(SchemaError, match="did you mean 'phase'"):
        breakdown(trace_of([]), "fase")

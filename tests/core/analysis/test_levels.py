from unittest.mock import patch

import pyarrow as pa
import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.analysis import numbering
from chopper_jupyter.core.analysis.levels import encode, key_names
from chopper_jupyter.core.errors import SchemaError


def values(rows, name):
    return encode(trace_of(rows).kernels, name).values


def test_numbers_are_in_order_and_null_is_minus_one():
    key = encode(
        trace_of([{"iteration": 10}, {"iteration": None}, {"iteration": 2}]).kernels, "iteration"
    )
    assert key.values == (2, 10)
    assert key.codes.tolist() == [1, -1, 0]


def test_phases_come_in_the_order_of_an_iteration():
    rows = [{"phase": p} for p in ("optimizer", "zzz", "backward", "forward")]
    assert values(rows, "phase") == ("forward", "backward", "optimizer", "zzz")


def test_layers_come_as_the_forward_pass_meets_them():
    rows = [
        {"phase": "backward", "layer": "head", "start_ns": 0},  # of the iteration before
        {"phase": "forward", "layer": "embed", "start_ns": 10},
        {"phase": "forward", "layer": "layers.1", "start_ns": 15, "kind": "collective"},
        {"phase": "forward", "layer": "layers.0", "start_ns": 20},
        {"phase": "forward", "layer": "layers.1", "start_ns": 30},
        {"phase": "forward", "layer": "head", "start_ns": 40},
        {"phase": "backward", "layer": "loss_scale", "start_ns": 50},
    ]
    assert values(rows, "layer") == ("embed", "layers.0", "layers.1", "head", "loss_scale")


def test_layers_that_start_together_are_in_natural_order():
    rows = [{"phase": "forward", "layer": f"layers.{i}", "gpu": i} for i in (10, 9, 2)]
    assert values(rows, "layer") == ("layers.2", "layers.9", "layers.10")


def test_ops_and_kernels_come_by_time_then_name():
    rows = [
        {"op": "b", "name": "x", "dur_ns": 5},
        {"op": "a", "name": "y", "dur_ns": 5},
        {"op": "c", "name": "x", "dur_ns": 1},
    ]
    assert values(rows, "op") == ("a", "b", "c")
    assert values(rows, "kernel") == ("x", "y")


def test_values_that_no_row_has_are_left_out():
    trace = trace_of([{"op": "a", "gpu": 0}, {"op": "b", "gpu": 1}]).filter(gpu=1)
    assert encode(trace.kernels, "op").values == ("b",)


def test_unknown_level_names_the_nearest():
    with pytest.raises(SchemaError, match="no level named 'layr'; did you mean 'layer'"):
        key_names(["op", "layr"])


RUNS = st.lists(
    st.tuples(
        st.integers(-3, 3) | st.none(), st.integers(1, 40), st.sampled_from(["b", "a", None])
    ),
    max_size=6,
)


@given(RUNS, st.integers(1, 50), st.integers(1, 50))
def test_codes_stand_for_the_values_of_the_rows(runs, piece, cut):
    numbers = [number for number, length, _ in runs for _ in range(length)]
    words = [word for _, length, word in runs for _ in range(length)]
    rows = [{"iteration": n, "op": w} for n, w in zip(numbers, words, strict=True)]
    whole = trace_of(rows).kernels
    for kernels in (whole, pa.concat_tables([whole[cut:], whole[:cut]])):
        with patch.object(numbering, "PIECE", piece):
            keys = [encode(kernels, name) for name in ("iteration", "op")]
        for key, column in zip(keys, ("iteration", "op"), strict=True):
            found = [None if c < 0 else key.values[c] for c in key.codes.tolist()]
            assert found == kernels[column].to_pylist()
            assert set(key.values) == {value for value in found if value is not None}

from unittest.mock import patch

import numpy as np
import pytest
from builders import llama_trace, trace_of
from hypothesis import given
from hypothesis import strategies as st
from random_traces import kernel_rows, traces

from chopper_jupyter.core.analysis import cube as cubes
from chopper_jupyter.core.analysis.cube import cube, level_codes
from chopper_jupyter.core.errors import SchemaError
from chopper_jupyter.core.schema import LEVEL_COLUMNS, LEVELS

SOME_LEVELS = st.lists(st.sampled_from(LEVELS), unique=True)


def decoded(codes, found):
    """Return {values of the levels: measures} of a cube."""
    columns = [
        [codes.dictionaries[level][c] if c >= 0 else None for c in column.tolist()]
        for level, column in zip(found.levels, found.codes, strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else [()] * len(found)
    sums = [{n: int(v[i]) for n, v in found.measures.items()} for i in range(len(found))]
    return dict(zip(rows, sums, strict=True))


@given(traces(), SOME_LEVELS)
def test_a_cube_is_the_plain_sum_over_the_included_kernels(trace, levels):
    expected = {}
    kept = trace.kernels.to_pylist()
    if trace.iterations:
        kept = [row for row in kept if row["iteration"] is not None]
    for row in kept:
        key = tuple(row[LEVEL_COLUMNS[level]] for level in levels)
        expected[key] = expected.get(key, 0) + row["dur_ns"]
    codes = level_codes(trace)
    found = {k: m["time_ns"] for k, m in decoded(codes, cube(codes, levels)).items()}
    assert found == (expected or ({} if levels else {(): 0}))


@given(traces(1), st.data())
def test_sums_that_are_kept_give_what_the_kernels_give(trace, data):
    few, many = level_codes(trace), level_codes(trace)
    for _ in range(5):
        levels = data.draw(SOME_LEVELS)
        chosen = data.draw(st.lists(st.sampled_from(LEVELS), unique=True, max_size=2))
        filters = [(v, data.draw(st.integers(-1, len(few.dictionaries[v]) - 1))) for v in chosen]
        with patch.object(cubes, "WORTH_SUMMING", 0):
            kept = decoded(many, cube(many, levels, filters))
        assert kept == decoded(few, cube(few, levels, filters))
        assert kept == decoded(few, cube(trace, levels, filters))
    assert many._cubes
    assert not few._cubes


def test_what_is_asked_of_many_kernels_goes_through_few_rows():
    rows = [{"iteration": i, "op": op, "start_ns": i} for i in range(50) for op in "ab"]
    codes = level_codes(trace_of(rows))
    with patch.object(cubes, "WORTH_SUMMING", 0):
        assert len(codes.holding(["op"])) == 2
        assert len(codes.holding(["op", "iteration"])) == 100


@given(kernel_rows(), st.randoms(use_true_random=False), SOME_LEVELS)
def test_the_order_of_rows_does_not_matter(rows, random, levels):
    first = level_codes(trace_of(rows))
    random.shuffle(rows)
    second = level_codes(trace_of(rows))
    assert first.dictionaries == second.dictionaries
    assert decoded(first, cube(first, levels)) == decoded(second, cube(second, levels))


@given(traces(1), SOME_LEVELS, st.sampled_from(LEVELS))
def test_children_add_up_to_their_parent(trace, levels, child):
    codes = level_codes(trace)
    parents = decoded(codes, cube(codes, levels))
    inside = [level for level in levels if level != child]
    sums = {}
    for key, measures in decoded(codes, cube(codes, [*inside, child])).items():
        whole = sums.setdefault(key[:-1], dict.fromkeys(measures, 0))
        for name, value in measures.items():
            whole[name] += value
    if child not in levels:
        assert sums == parents
    else:
        assert sums == decoded(codes, cube(codes, inside))


@given(traces(1), st.sampled_from(LEVELS))
def test_filters_split_the_whole(trace, level):
    codes = level_codes(trace)
    parts = [-1, *range(len(codes.dictionaries[level]))]
    times = [int(cube(codes, [], [(level, c)]).measures["time_ns"][0]) for c in parts]
    assert sum(times) == codes.totals["time_ns"]


def test_several_filters_all_hold():
    trace = llama_trace(gpus=2, iterations=2, layers=2)
    codes = level_codes(trace)
    op = codes.dictionaries["op"].index("all_gather")
    found = cube(codes, ["layer"], [("gpu", 1), ("op", op), ("phase", 0)])
    assert found.measures["count"].tolist() == [2, 2]
    assert found.codes[0].tolist() == [0, 1]
    assert found.codes[0].dtype == np.int32


def test_a_code_that_no_kernel_has_gives_no_rows():
    codes = level_codes(trace_of([{"op": "a"}]))
    assert len(cube(codes, ["op"], [("op", 5)])) == 0


def test_warm_up_is_left_out_unless_asked_for():
    rows = [{"iteration": i, "dur_ns": 10**i} for i in range(3)] + [{"dur_ns": 5}]
    trace = trace_of(rows, warmup=1)
    assert level_codes(trace).totals["time_ns"] == 110
    assert level_codes(trace, "all").totals["time_ns"] == 116
    assert level_codes(trace).included.phrase() == "iterations 1 to 2 (1 warm-up left out)"


def test_a_kernel_has_the_family_that_most_of_its_time_is_in():
    rows = [
        {"name": "a", "family": "gemm", "dur_ns": 1},
        {"name": "a", "family": "norm", "dur_ns": 2},
        {"name": "b", "family": "copy", "dur_ns": 9},
    ]
    codes = level_codes(trace_of(rows))
    assert codes.dictionaries["kernel"] == ("b", "a")
    assert codes.kernel_families() == ("copy", "norm")


@pytest.mark.parametrize("ask", [(["layr"], []), ([], [("layr", 0)])])
def test_unknown_level_names_the_nearest(ask):
    with pytest.raises(SchemaError, match="did you mean 'layer'"):
        cube(trace_of([]), *ask)

"""Windows of the timeline against a walk over every kernel."""

from __future__ import annotations

import numpy as np
import pytest
from builders import llama_trace, trace_of
from hypothesis import given
from hypothesis import strategies as st
from timed_traces import timed_rows, timed_trace

from chopper_jupyter.core.analysis.idle_causes import idle_causes
from chopper_jupyter.core.analysis.timeline_index import LANE_KINDS, timeline_index
from chopper_jupyter.core.analysis.timeline_slices import (
    MIXED,
    Window,
    gaps_in,
    launches_in,
    slices_in,
    spans_in,
)
from chopper_jupyter.core.trace import Trace


def drawn(trace, start, end, width, **more):
    index = timeline_index(trace)
    lanes = list(index.lanes)
    gpus = sorted({lane.gpu for lane in lanes})
    return index, slices_in(index, lanes, Window(gpus, start, end, width), **more)


@given(trace=timed_rows().map(timed_trace), start=st.integers(-10, 60), span=st.integers(1, 80))
def test_every_kernel_in_the_window_is_in_exactly_one_rectangle(trace, start, span):
    window = (start, start + span)
    index, slices = drawn(trace, *window, 4)
    table = trace.kernels
    starts = table["start_ns"].to_numpy()
    ends = starts + table["dur_ns"].to_numpy()
    inside = (ends > window[0]) & (starts < window[1])
    # A lane's kernels may overlap, then one that ended before the window may come along.
    assert slices.count.sum() >= inside.sum()
    covered = np.concatenate(
        [index.kernel_id[r : r + n] for r, n in zip(slices.row, slices.count, strict=True)] or [[]]
    )
    assert len(set(covered)) == len(covered)
    assert set(table["kernel_id"].to_numpy()[inside]) <= set(covered)


@given(trace=timed_rows().map(timed_trace), width=st.integers(1, 200))
def test_the_whole_run_keeps_all_time_and_all_kernels(trace, width):
    index = timeline_index(trace)
    start, end = index.extent
    _, slices = drawn(trace, start - 1, end + 1, width)
    assert slices.count.sum() == trace.kernels.num_rows
    assert slices.busy.sum() == sum(trace.kernels["dur_ns"].to_pylist())
    single = slices.count == 1
    for level in ("phase", "op", "iteration"):
        assert (slices.codes[level][single] != MIXED).all()


@given(trace=timed_rows().map(timed_trace))
def test_gaps_are_the_idle_time_by_cause(trace):
    index = timeline_index(trace)
    total = idle_causes(trace, include="all").iloc[0]
    for code, cause in enumerate(total.index[:-1]):
        own = index.gaps.code == code
        assert (index.gaps.end - index.gaps.start)[own].sum() == total[cause]


def test_few_rectangles_are_left_of_many_kernels():
    trace = llama_trace(gpus=2, iterations=3, layers=16)
    index = timeline_index(trace)
    start, end = index.extent
    window = Window([0, 1], start, end, 100_000)
    assert len(slices_in(index, index.lanes, window).start) == trace.kernels.num_rows
    few = slices_in(index, index.lanes, window, most=100)
    assert len(few.start) <= 100
    assert few.count.sum() == trace.kernels.num_rows


def test_a_selection_marks_what_holds_one_of_its_kernels():
    trace = llama_trace(gpus=1, iterations=1, layers=4)
    index = timeline_index(trace)
    op = index.words["op"].index("input_layernorm")
    start, end = index.extent
    _, fine = drawn(trace, start, end, 10_000_000, wanted={"op": [op]})
    assert (fine.matching == (fine.codes["op"] == op)).all()
    _, coarse = drawn(trace, start, end, 3, wanted={"op": [op]})
    assert coarse.matching.any()
    assert drawn(trace, start, end, 3)[1].matching is None


def test_lanes_are_streams_by_kind_and_the_many_share_one():
    rows = [{"stream": s, "start_ns": s, "dur_ns": 9 - s} for s in range(6)]
    rows += [{"stream": 0, "kind": "memcpy", "start_ns": 30}, {"gpu": 1, "start_ns": 5}]
    lanes = timeline_index(trace_of(rows)).lanes
    assert [(lane.gpu, lane.kind, lane.streams) for lane in lanes] == [
        (0, "compute", (0,)), (0, "compute", (1,)), (0, "compute", (2,)),
        (0, "compute", (3, 4, 5)), (0, "copies", (0,)), (1, "compute", (7,)),
    ]  # fmt: skip
    assert {lane.kind for lane in lanes} <= set(LANE_KINDS)


def test_spans_are_runs_of_compute_kernels_of_the_first_gpu():
    trace = llama_trace(gpus=2, iterations=2, layers=3)
    index = timeline_index(trace)
    start, end = index.extent
    window = Window([1, 0], start, end, 10_000)
    iterations, phases = (spans_in(index, level, window) for level in ("iteration", "phase"))
    assert iterations.code.tolist() == [0, 1]
    assert set(iterations.gpu.tolist()) == {1}
    names = [index.words["phase"][code] for code in phases.code]
    assert names == ["forward", "backward", "optimizer"] * 2


def test_launches_close_to_each_other_are_one_mark():
    rows = [{"start_ns": 100 * i, "launch_ns": i, "launch_dur_ns": 1} for i in range(50)]
    index = timeline_index(trace_of([*rows, {"start_ns": 6000}]))
    marks = launches_in(index, Window([0], 0, 6000, 60))
    assert marks.count.tolist() == [50]
    assert launches_in(index, Window([0], 0, 60, 600)).count.tolist() == [1] * 50


def test_nothing_is_drawn_of_nothing():
    trace = Trace.from_tables({})
    index, slices = drawn(trace, 0, 10, 100)
    assert len(slices.start) == 0
    assert len(gaps_in(index, Window([], 0, 10, 100)).start) == 0


@pytest.mark.parametrize("width", [1, 7, 900])
def test_a_window_far_outside_is_empty(width):
    _, slices = drawn(llama_trace(gpus=1, iterations=1, layers=1), 10**15, 10**15 + 5, width)
    assert slices.count.sum() == 0

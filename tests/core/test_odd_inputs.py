"""Odd but real inputs: ranks, iterations and launches, each right, repaired or refused."""

from __future__ import annotations

import warnings

import pytest
from builders import Rank
from odd_ranks import column, forward_backward, noted, put, read, rows

from chopper_jupyter import read_trace
from chopper_jupyter.core.errors import TraceFormatError

pytestmark = pytest.mark.filterwarnings(
    "ignore::chopper_jupyter.core.errors.PartialTraceWarning",
    "ignore::chopper_jupyter.core.errors.ClockWarning",
)


# --- Which rank ---------------------------------------------------------------------------


def test_rank_comes_from_the_file_name_when_the_recording_does_not_say(tmp_path):
    for number in (1, 0):
        rank = Rank(rank=None)
        rank.now += 10 * number
        forward_backward(rank)
        rank.write(tmp_path / f"worker_rank{number}.json")
    trace = read_trace(tmp_path)
    assert trace.gpus["rank"].to_pylist() == [0, 1]
    assert "file name" in noted(trace)


def test_rank_comes_from_the_order_when_no_name_says_it(tmp_path):
    for number, name in enumerate(("apple.json", "pear.json")):
        rank = Rank(rank=None)
        rank.now += 10 * number
        forward_backward(rank)
        rank.write(tmp_path / name)
    trace = read_trace(tmp_path)
    assert trace.gpus["rank"].to_pylist() == [0, 1]
    assert "order" in noted(trace)


def test_a_single_file_without_a_rank_is_rank_0(tmp_path):
    rank = Rank(rank=None)
    forward_backward(rank)
    trace = read(rank, tmp_path)
    assert trace.gpus["rank"].to_pylist() == [0]
    assert "rank" in noted(trace)


def test_the_recorded_rank_wins_over_the_file_name(tmp_path):
    rank = Rank(rank=5, world_size=8)
    forward_backward(rank)
    trace = read(rank, tmp_path, "rank_2.json")
    assert trace.gpus["rank"].to_pylist() == [5]
    assert trace.info.world_size == 8


# --- Iterations ---------------------------------------------------------------------------


def steps(rank: Rank, numbers):
    made = []
    for number in numbers:
        with rank.step(number) as step, rank.op("aten::mm"):
            rank.launch(f"kernel_of_{number}", dur=1, delay=0)
        made.append(step)
        rank.now += 50
    return made


def test_iterations_without_profiler_steps_come_from_our_marks(tmp_path):
    rank = Rank()
    for number in range(3):
        rank.mark(number)
        forward_backward(rank, seq=number + 1)
    trace = read(rank, tmp_path)
    assert column(trace, "iteration") == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_iterations_without_marks_come_from_profiler_steps(tmp_path):
    rank = Rank()
    steps(rank, (4, 5, 6))
    assert column(read(rank, tmp_path), "iteration") == [4, 5, 6]


def test_iterations_without_marks_and_steps_are_null_or_user_ranges(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        rank.launch("kernel", dur=5)
    assert column(read(rank, tmp_path), "iteration") in ([0], [None])


def test_a_step_stretched_over_its_neighbour_does_not_take_its_kernels(tmp_path):
    rank = Rank()
    first, second = steps(rank, (1, 2))
    first["dur"] = second["ts"] + second["dur"] - first["ts"] + 100
    assert column(read(rank, tmp_path), "iteration") == [1, 2]


def test_a_step_number_recorded_twice_stays_two_iterations(tmp_path):
    rank = Rank()
    steps(rank, (7, 7))
    trace = read(rank, tmp_path)
    first, second = column(trace, "iteration")
    assert first != second


# --- Launches -----------------------------------------------------------------------------


def test_absent_categories_are_no_error(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        rank.launch("kernel")
    rank.events = [event for event in rank.events if event["cat"] != "cuda_runtime"]
    trace = read(rank, tmp_path)
    assert trace.kernels.num_rows == 1
    assert trace.kernels["launch_ns"].null_count == 1


@pytest.mark.parametrize(
    ("call", "category"),
    [
        ("cudaLaunchKernel", "cuda_runtime"),
        ("cudaLaunchKernelExC", "cuda_runtime"),
        ("cuLaunchKernel", "cuda_driver"),
        ("cuLaunchKernelEx", "cuda_driver"),
        ("hipLaunchKernel", "cuda_runtime"),
        ("hipExtModuleLaunchKernel", "cuda_runtime"),
        ("hipExtLaunchKernel", "hip_runtime"),
        ("hipModuleLaunchKernel", "Runtime"),
        ("someFutureLaunchCall", "cuda_runtime"),
    ],
)
def test_a_kernel_is_linked_whatever_its_launch_is_called(call, category, tmp_path):
    rank = Rank()
    with rank.op("aten::mm") as op:
        rank.launch("kernel", call=call, cat=category)
    (row,) = rows(read(rank, tmp_path))
    assert row["launch_ns"] is not None
    assert row["launch_dur_ns"] == 2000
    assert row["launch_kind"] == ("driver" if "driver" in category else "runtime")
    assert row["op_id"] is not None
    assert row["op"] == "aten::mm"
    assert op["name"] == row["op"]


@pytest.mark.parametrize("call", ["cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch"])
def test_all_kernels_of_a_graph_belong_to_its_launch(call, tmp_path):
    rank = Rank()
    with rank.op("graph_replay"):
        rank.launch("kernel", call=call, count=500, dur=1)
    trace = read(rank, tmp_path)
    assert trace.kernels.num_rows == 500
    assert set(column(trace, "launch_kind")) == {"graph"}
    assert len(set(column(trace, "launch_ns"))) == 1
    assert trace.kernels["op_id"].null_count == 0


def test_a_kernel_without_correlation_is_linked_to_its_operator_by_external_id(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        rank.launch("kernel")
    for event in rank.events:
        event["args"].pop("correlation", None)
    (row,) = rows(read(rank, tmp_path))
    assert row["op"] == "aten::mm"
    assert row["op_id"] is not None


def test_kernels_without_a_launch_are_kept_counted_and_busy(tmp_path):
    rank = Rank()
    rank.launch("from_before_the_window", dur=40)
    rank.events = [event for event in rank.events if event["cat"] == "kernel"]
    with rank.op("aten::mm"):
        rank.launch("kernel", dur=10)
    trace = read(rank, tmp_path)
    assert trace.kernels.num_rows == 2
    assert column(trace, "launch_ns")[0] is None
    assert column(trace, "busy_ns") == [40_000, 10_000]
    assert trace.quality.linked["launch"] == pytest.approx(0.2)


def test_correlation_ids_that_collide_in_a_fused_file_are_kept_apart(tmp_path):
    fused = Rank()
    for number in range(2):
        rank = Rank(rank=None, pid=100 + 100_000_000 * number, device=100_000_000 * number + 2)
        rank.now += 7 * number
        rank.correlation += number  # most ids are used by both, the first and last are not
        for _ in range(4):
            with rank.op(f"aten::op_{number}"):
                rank.launch(f"kernel_{number}")
        fused.events += rank.events
    document = {"traceEvents": fused.events}
    trace = read_trace(put(tmp_path / "merged.json", document))
    assert trace.gpus["rank"].to_pylist() == [None, None]
    assert {(r["name"], r["op"], r["gpu"]) for r in rows(trace)} == {
        ("kernel_0", "aten::op_0", 0),
        ("kernel_1", "aten::op_1", 1),
    }
    assert trace.kernels["launch_ns"].null_count == 0


def test_colliding_correlation_ids_that_cannot_be_told_apart_are_refused_or_counted(tmp_path):
    rank = Rank()
    for number in range(2):
        rank.pid = rank.tid = 100 + number
        rank.correlation = 50
        with rank.op(f"aten::op_{number}"):
            rank.launch(f"kernel_{number}")
    try:
        trace = read(rank, tmp_path)
    except TraceFormatError as error:
        assert "correlation" in str(error)  # noqa: PT017  one of two good answers
        return
    wrong = {"kernel_0": "aten::op_1", "kernel_1": "aten::op_0"}
    for row in rows(trace, "name", "op", "start_ns"):
        assert row["op"] != wrong[row["name"]]
    assert "correlation" in noted(trace)


def test_kernels_that_start_before_their_launch_are_told_not_moved(tmp_path):
    rank = Rank()
    for _ in range(4):
        with rank.op("aten::mm"):
            rank.launch("kernel", dur=2, delay=0)
    for event in rank.events:
        if event["cat"] == "kernel":
            event["ts"] -= 20
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = read(rank, tmp_path)
    assert all(r["start_ns"] < r["launch_ns"] for r in rows(trace))
    told = noted(trace) + "\n".join(str(warning.message).lower() for warning in caught)
    assert "before their launch" in told
    assert trace.quality.linked["launch"] == 1.0


def test_kernels_that_overlap_on_their_own_stream_count_once(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        first, second = rank.launch("kernel", count=2, dur=10)
    second["ts"] = first["ts"] + 7
    trace = read(rank, tmp_path)
    assert column(trace, "dur_ns") == [10_000, 10_000]
    assert column(trace, "busy_ns") == [10_000, 7_000]

"""Odd but real events: spellings, times, gradients and communication of many profilers."""

from __future__ import annotations

import warnings

import pytest
from builders import BASE_NS, Rank
from odd_ranks import column, forward_backward, noted, put, read, rows

from chopper_jupyter import read_trace
from chopper_jupyter.core.errors import ClockWarning, PartialTraceWarning, TraceFormatError

pytestmark = pytest.mark.filterwarnings(
    "ignore::chopper_jupyter.core.errors.PartialTraceWarning",
    "ignore::chopper_jupyter.core.errors.ClockWarning",
)


# --- Spellings of old and other profilers -------------------------------------------------


def test_a_bare_list_of_events_is_read(tmp_path):
    rank = Rank()
    forward_backward(rank)
    trace = read_trace(put(tmp_path / "list.json", rank.events))
    assert trace.kernels.num_rows == 3
    assert column(trace, "phase") == ["forward", "backward", "optimizer"]


def test_capitalised_categories_of_2021_are_read(tmp_path):
    spelling = {"kernel": "Kernel", "cuda_runtime": "Runtime", "cpu_op": "Operator"}
    rank = Rank()
    forward_backward(rank)
    plain = rows(read(rank, tmp_path))
    for event in rank.events:
        event["cat"] = spelling.get(event["cat"], event["cat"])
    assert rows(read(rank, tmp_path)) == plain


def test_legacy_flows_and_profiler_rows_are_no_kernels(tmp_path):
    rank = Rank()
    forward_backward(rank)
    rank.event(ph="s", cat="async_cpu_to_gpu", id=7, name="cudaLaunchKernel", pid=100, tid=100,
               ts=1001)  # fmt: skip
    rank.event(ph="f", cat="async_cpu_to_gpu", id=7, name="cudaLaunchKernel", pid=0, tid=7,
               ts=1003)  # fmt: skip
    rank.event(ph="X", cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="Profiler",
               ts=900, dur=9000)  # fmt: skip
    rank.event(ph="M", cat="__metadata", name="process_name", pid=0, tid=0, ts=0,
               args={"name": "python"})  # fmt: skip
    trace = read(rank, tmp_path)
    assert trace.kernels.num_rows == 3
    assert sum(trace.quality.skipped.values()) >= 4


@pytest.mark.parametrize("device", [1, 2, 9])
def test_device_numbers_of_amd_and_stream_0_are_legal(device, tmp_path):
    rank = Rank(device=device, amd=True, gpu=None)
    with rank.op("aten::mm"):
        rank.launch("Cijk_kernel", stream=0)
    trace = read(rank, tmp_path)
    assert trace.gpus.select(["gpu", "device"]).to_pylist() == [{"gpu": 0, "device": device}]
    (row,) = rows(trace)
    assert (row["gpu"], row["stream"], row["op"]) == (0, 0, "aten::mm")


def test_numbers_written_as_text_are_numbers(tmp_path):
    rank = Rank()
    forward_backward(rank)
    plain = rows(read(rank, tmp_path))
    for event in rank.events:
        for key in ("ts", "dur", "pid", "tid"):
            if key in event:
                event[key] = str(event[key])
        for key in ("correlation", "External id", "stream", "device", "Sequence number"):
            if key in event.get("args", {}):
                event["args"][key] = str(event["args"][key])
    again = rows(read(rank, tmp_path))
    assert again == plain


def test_a_stream_that_is_a_name_is_a_stream(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        for stream in ("stream 7", "default"):
            (kernel,) = rank.launch("kernel")
            kernel["tid"] = kernel["args"]["stream"] = stream
    streams = column(read(rank, tmp_path), "stream")
    assert len(set(streams)) == 2
    assert 7 in streams


def test_ranges_that_cross_are_counted_and_harm_nobody(tmp_path):
    rank = Rank()
    with rank.op("aten::first") as first:
        rank.launch("kernel_1")
    with rank.op("aten::second"):
        rank.launch("kernel_2")
    first["dur"] += 4  # reaches into the second
    trace = read(rank, tmp_path)
    assert column(trace, "op") == ["aten::first", "aten::second"]
    assert "cross" in noted(trace)


# --- Times --------------------------------------------------------------------------------


def test_nanoseconds_survive_where_float64_would_lose_them(tmp_path):
    starts = [1763999999123456.001 + 0.0, "1763999999123457.002", "1763999999123458.003"]
    text = ",".join(
        f'{{"ph":"X","cat":"kernel","name":"k{i}","pid":0,"tid":7,"ts":{start},"dur":0.123,'
        f'"args":{{"device":0,"stream":7,"correlation":{i + 1}}}}}'
        for i, start in enumerate(("1763999999123456.001", *starts[1:]))
    )
    path = tmp_path / "exact.json"
    path.write_text(f'{{"traceEvents":[{text}]}}')
    trace = read_trace(path)
    first, second, third = column(trace, "start_ns")
    assert (second - first, third - second) == (1001, 1001)
    assert column(trace, "dur_ns") == [123, 123, 123]


def test_timestamps_as_text_are_exact(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        for text in ("1000000000000.001", "1000000000000.002"):
            (kernel,) = rank.launch("kernel", dur=0.001)
            kernel["ts"] = text
    first, second = column(read(rank, tmp_path), "start_ns")
    assert second - first == 1


def test_base_times_of_several_ranks_put_them_on_one_clock(tmp_path):
    for number in range(2):
        rank = Rank(rank=number, world_size=2)
        forward_backward(rank)
        document = rank.document() | {"baseTimeNanoseconds": BASE_NS + 5_000_000_000 * number}
        put(tmp_path / f"rank_{number}.json", document)
    trace = read_trace(tmp_path)
    first = {gpu: min(trace.filter(gpu=gpu).kernels["start_ns"].to_pylist()) for gpu in (0, 1)}
    assert first[1] - first[0] == 5_000_000_000


def test_zero_length_kernels_stay_and_cost_nothing(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        rank.launch("nothing", dur=0)
        rank.launch("kernel", dur=10)
    trace = read(rank, tmp_path)
    assert column(trace, "dur_ns") == [0, 10_000]
    assert sum(column(trace, "busy_ns")) == 10_000


def test_a_kernel_at_time_zero_does_not_open_the_window(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        (broken,) = rank.launch("broken", dur=3)
        rank.launch("kernel", dur=10)
    broken["ts"] = 0
    trace = read(rank, tmp_path)
    assert "zero" in noted(trace)
    window = sum(column(trace, "busy_ns")) + sum(column(trace, "idle_ns"))
    assert window <= 13_000 + 1000 * 1000


@pytest.mark.parametrize("duration", [-5, "NaN", None, "soon", 1e40])
def test_an_impossible_duration_is_repaired_and_counted(duration, tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        (kernel,) = rank.launch("broken")
        rank.launch("kernel", dur=10)
    kernel["dur"] = duration
    trace = read(rank, tmp_path)
    assert sum(trace.quality.repairs.values()) + sum(trace.quality.skipped.values()) > 0
    assert "duration" in noted(trace)
    assert all(dur >= 0 for dur in column(trace, "dur_ns"))
    assert sum(column(trace, "busy_ns")) <= 20_000


@pytest.mark.parametrize("start", ["NaN", None, "noon", 1e40, [], {}])
def test_an_event_without_a_time_is_left_out_and_counted(start, tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        (kernel,) = rank.launch("broken")
        rank.launch("kernel", dur=10)
    kernel["ts"] = start
    trace = read(rank, tmp_path)
    assert column(trace, "name") == ["kernel"]
    assert sum(trace.quality.skipped.values()) > 0


# --- Backward -----------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [True, False])
def test_backward_kernels_carry_their_forward_with_and_without_flows(flow, tmp_path):
    rank = Rank()
    forward_backward(rank, flow=flow)
    trace = read(rank, tmp_path)
    assert column(trace, "phase") == ["forward", "backward", "optimizer"]
    assert column(trace, "layer") == ["head", "head", None]


def test_backward_of_a_forward_outside_the_window_has_a_phase_and_no_layer(tmp_path):
    rank = Rank()
    with rank.module("", "Model"), rank.module("head"), rank.op("aten::mm", seq=40):
        rank.launch("forward_kernel")
    with rank.backward("MmBackward0", 7, tid=rank.pid + 1):
        rank.launch("orphan")
    orphan = rows(read(rank, tmp_path))[1]
    assert orphan["phase"] == "backward"
    assert orphan["layer"] is None


@pytest.mark.parametrize("flow", [True, False])
def test_sequence_numbers_reused_by_threads_are_not_mixed_up(flow, tmp_path):
    rank = Rank()
    pairs = []
    for thread, layer in ((200, "left"), (300, "right")):
        rank.tid = thread
        with rank.module("", "Model"), rank.module(layer), rank.op("aten::mm", seq=1) as forward:
            rank.launch(f"forward_{layer}")
        pairs.append((layer, thread, forward))
    for fwd, (layer, thread, forward) in enumerate(pairs, start=1):
        with rank.backward("MmBackward0", 1, fwd=fwd, tid=thread + 1) as backward:
            rank.launch(f"backward_{layer}")
        if flow:
            rank.pair(forward, backward)
    for row in rows(read(rank, tmp_path)):
        side = row["name"].rpartition("_")[2]
        if flow or row["phase"] == "forward":
            assert row["layer"] == side
        else:
            assert row["layer"] in (side, None)


def test_work_beside_the_main_thread_is_not_placed_by_time(tmp_path):
    rank = Rank()
    with rank.module("", "Model"), rank.module("head"), rank.op("aten::mm", seq=1):
        rank.launch("forward_kernel")
    with rank.backward("MmBackward0", 1, tid=rank.pid + 1):
        rank.launch("backward_kernel")
    for thread in (rank.pid + 1, rank.pid + 2):  # the engine's and a data loader's
        with rank.range("aten::stack", tid=thread):
            rank.launch(f"on_{thread}")
    with rank.op("aten::stack"):
        rank.launch("clip_kernel")
    with rank.annotation("Optimizer.step#SGD.step"), rank.op("aten::add_"):
        rank.launch("optimizer_kernel")
    found = {row["name"]: (row["phase"], row["op"]) for row in rows(read(rank, tmp_path))}
    assert found["on_101"] == ("backward", "aten::stack")
    assert found["on_102"] == (None, "aten::stack")
    assert found["clip_kernel"] == ("optimizer", "clip")


def test_a_gpu_annotation_decides_nothing(tmp_path):
    rank = Rank()
    forward_backward(rank)
    plain = rows(read(rank, tmp_path))
    backward = next(event for event in rank.events if event["name"] == "backward_kernel")
    rank.event(ph="X", cat="gpu_user_annotation", name="wrong_layer", pid=0, tid=7,
               ts=backward["ts"], dur=1)  # fmt: skip
    assert rows(read(rank, tmp_path)) == plain


# --- Communication ------------------------------------------------------------------------

METADATA = {
    "Collective name": "allreduce",
    "In msg nelems": 1024,
    "Out msg nelems": 1024,
    "dtype": "Float",
    "Process Group Name": "0",
}


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "all_reduce"),
        ("ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", "all_reduce"),
        ("my_own_ring_kernel", "all_reduce"),
    ],
)
def test_communication_is_known_by_its_launcher_and_metadata(name, collective, tmp_path):
    rank = Rank()
    with rank.op("c10d::allreduce_"), rank.op("record_param_comms", **METADATA):
        rank.launch(name, stream=20, **(METADATA if "Generic" in name else {}))
    (row,) = rows(read(rank, tmp_path))
    assert (row["kind"], row["family"]) == ("collective", "communication")
    assert row["collective"] == collective
    assert row["op"] == collective
    assert row["message_bytes"] == 4096
    assert row["process_group"] == "0"


def test_the_call_knows_better_than_its_point_to_point_kernels(tmp_path):
    rank = Rank()
    with rank.op("c10d::alltoall_base_"), rank.op("record_param_comms"):
        rank.launch("ncclDevKernel_SendRecv(ncclDevComm*)", stream=20)
    (row,) = rows(read(rank, tmp_path))
    assert (row["collective"], row["op"]) == ("all_to_all", "all_to_all")


def test_communication_without_metadata_is_known_by_name(tmp_path):
    rank = Rank()
    with rank.op("moe"):
        rank.launch("void deep_ep::intranode::dispatch<8, 768>(int4*)", stream=20)
        rank.launch("gemm", stream=7)
    dispatch, gemm = rows(read(rank, tmp_path))
    assert (dispatch["kind"], dispatch["collective"]) == ("collective", "all_to_all")
    assert (gemm["kind"], gemm["collective"]) == ("compute", None)


@pytest.mark.parametrize("with_seq", [True, False])
def test_the_sequence_number_of_a_collective_is_recorded_or_its_order(with_seq, tmp_path):
    rank = Rank()
    for number in range(3):
        extra = {"Seq": 10 + number} if with_seq else {}
        with rank.op("record_param_comms", **METADATA, **extra):
            rank.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, **METADATA, **extra)
    found = column(read(rank, tmp_path), "collective_seq")
    assert found in (([10, 11, 12],) if with_seq else ([None] * 3, [0, 1, 2]))


# --- Other machines -----------------------------------------------------------------------


def test_without_a_gpu_the_operators_that_compute_are_the_kernels(tmp_path):
    rank = Rank(gpu=None)
    with rank.module("", "Model"), rank.module("head"), rank.op("aten::linear"):
        with rank.op("aten::addmm"):
            rank.now += 50
        with rank.op("aten::view"):
            rank.now += 20
    trace = read(rank, tmp_path)
    assert trace.info.device_kind == "cpu"
    assert trace.gpus["name"].to_pylist() == ["cpu"]
    assert column(trace, "name") == ["aten::addmm", "aten::view"]
    assert column(trace, "layer") == ["head", "head"]
    assert trace.kernels["launch_ns"].null_count == 2


@pytest.mark.parametrize("category", ["mtia_ccp_events", "xpu_runtime", "hpu_op", "privateuse1"])
def test_events_of_other_accelerators_do_not_stop_the_reader(category, tmp_path):
    rank = Rank(gpu=None)
    with rank.op("aten::mm"):
        pass
    rank.event(ph="X", cat=category, name="something", pid=0, tid=1, ts=1000, dur=5, args={})
    trace = read(rank, tmp_path)
    assert trace.kernels.num_rows == 1


def test_a_file_with_only_counters_loads_or_says_what_it_lacks(tmp_path):
    rank = Rank()
    rank.event(ph="X", cat="cuda_profiler_range", name="kernel", pid=0, tid=0, ts=1000, dur=1,
               args={"smsp__cycles": 12})  # fmt: skip
    rank.event(ph="C", cat="hardware_counters", name="sm_active", pid="GPU 0 Counters", ts=1000,
               args={"": 0.5})  # fmt: skip
    try:
        trace = read(rank, tmp_path)
    except TraceFormatError as error:
        assert "trace.json" in str(error)  # noqa: PT017  one of two good answers
        return
    assert trace.kernels.num_rows == 0
    assert sum(trace.quality.skipped.values()) == 2


def test_what_is_unlinked_for_a_large_share_is_warned_about(tmp_path):
    rank = Rank()
    rank.launch("orphan", dur=100)
    rank.events = [event for event in rank.events if event["cat"] == "kernel"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClockWarning)
        with pytest.warns(PartialTraceWarning, match="%"):
            read(rank, tmp_path)

"""Whole Traces from exports of Nsight Systems: ranges, launches, processes, versions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiler_files import (
    EPOCH,
    MAIN,
    Nsys,
    database,
    small_nsys,
    tid,
)

from chopper_jupyter import read_trace
from chopper_jupyter.core.importers.nsys_sqlite import read_ranks

pytestmark = pytest.mark.filterwarnings(
    "ignore::chopper_jupyter.core.errors.PartialTraceWarning",
    "ignore::chopper_jupyter.core.errors.ClockWarning",
)


def test_times_are_unix_times(tmp_path):
    (events,) = read_ranks(small_nsys().write(tmp_path / "a.sqlite"))
    assert events.device["start_ns"].to_pylist()[0] == EPOCH + 50
    assert events.host == "node7"


def test_launch_calls_lose_their_version_and_are_told_apart(tmp_path):
    run = Nsys()
    run.kernel("a", 100, 5)
    run.kernel("b", 200, 5, call=run.call("cuLaunchKernelEx", 150))
    run.kernel("c", 300, 5, call=run.call("cudaGraphLaunch_v10000_ptsz", 250))
    trace = read_trace(run.write(tmp_path / "a.sqlite"))
    assert trace.kernels["launch_kind"].to_pylist() == ["runtime", "driver", "graph"]
    (events,) = read_ranks(tmp_path / "a.sqlite")
    assert set(events.launches["name"].to_pylist()) == {
        "cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch",
    }  # fmt: skip


def test_texts_by_number_and_domains_of_libraries(tmp_path):
    run = Nsys()
    for n, name in enumerate(("NCCL", "mine"), 1):
        run.range(name, 0, None, kind=75, domain=n)
    run.range("ncclAllReduce", 90, 200, domain=1)
    run.range("my region", 85, 210, registered=True, domain=2)
    run.range("never closed", 10, None)
    run.range("a mark", 11, None, kind=34)
    run.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 150, 10, call=run.call("cudaLaunch", 100))
    trace = read_trace(run.write(tmp_path / "a.sqlite"))
    assert trace.ops["name"].to_pylist() == ["ncclAllReduce"]
    assert trace.spans["name"].to_pylist() == ["my region"]
    assert trace.kernels["op"].to_pylist() == ["all_reduce"]
    assert trace.quality.skipped == {
        "NVTX marks": 1, "NVTX names of domains, threads and the like": 2,
        "NVTX ranges that had not ended when the recording did": 1,
    }  # fmt: skip


def test_our_own_module_ranges_give_layers(tmp_path):
    run = Nsys()
    run.range("chopper::module::Model::::Model, op_id = 1", 50, 400)
    for layer in (0, 1):
        path = f"layers.{layer}"
        at = 100 * (layer + 1)
        run.range(f"chopper::module::Model::{path}::Block, op_id = 1", at, at + 90)
        run.range(f"chopper::module::Model::{path}.mlp::MLP, op_id = 1", at + 1, at + 80)
        run.kernel("k", at + 500, 10, call=run.call("cudaLaunchKernel_v7000", at + 10))
    trace = read_trace(run.write(tmp_path / "a.sqlite"))
    assert trace.kernels["layer"].to_pylist() == ["layers.0", "layers.1"]
    assert trace.kernels["op"].to_pylist() == ["mlp", "mlp"]
    assert trace.kernels["phase"].to_pylist() == ["forward", "forward"]


def two_processes(first=200, second=MAIN, labels=()) -> Nsys:
    """Two ranks whose correlation ids collide; the second process drives device 0."""
    run = Nsys()
    for process, device, name in ((first, 1, "of_device_1"), (second, 0, "of_device_0")):
        run.correlation = 0
        run.range("iteration 3", 10, 900, process=process)
        run.kernel(name, 100 + device, 20, process=process, device=device)
    for process, label in labels:
        run.range(label, 0, None, kind=39, process=process)
    return run


def test_processes_are_ranks_by_their_device(tmp_path):
    trace = read_trace(two_processes().write(tmp_path / "a.sqlite"))
    gpus = [(row["rank"], row["device"]) for row in trace.gpus.to_pylist()]
    assert gpus == [(0, 0), (1, 1)]
    assert trace.kernels["name"].to_pylist() == ["of_device_0", "of_device_1"]
    assert trace.kernels["launch_ns"].null_count == 0
    assert trace.kernels["iteration"].to_pylist() == [3, 3]
    assert any("first device" in note for note in trace.quality.notes)
    assert trace.info.missing_ranks == ()


def test_processes_that_say_their_mpi_rank_are_believed(tmp_path):
    run = two_processes(labels=((200, "MPI Rank 0"), (MAIN, "MPI Rank 1")))
    trace = read_trace(run.write(tmp_path / "a.sqlite"))
    assert [(row["rank"], row["device"]) for row in trace.gpus.to_pylist()] == [(0, 1), (1, 0)]
    assert not any("first device" in note for note in trace.quality.notes)


def test_several_files_of_several_ranks_are_numbered_on(tmp_path):
    for node in range(2):
        run = two_processes()
        run.kernels = [(k[0] + 7 * node, k[1] + 7 * node, *k[2:]) for k in run.kernels]
        run.write(tmp_path / f"node{node}.sqlite")
    trace = read_trace(tmp_path)
    assert sorted(trace.gpus["rank"].to_pylist()) == [0, 1, 2, 3]
    assert set(trace.spans["rank"].to_pylist()) == {0, 1, 2, 3}


def test_calls_of_processes_without_gpu_are_counted(tmp_path):
    run = small_nsys()
    run.call("cudaGetDeviceCount", 5, process=999)
    trace = read_trace(run.write(tmp_path / "a.sqlite"))
    assert trace.quality.skipped == {"calls and ranges of processes without GPU work": 1}


def test_the_name_of_a_gpu_is_looked_up_by_process(tmp_path):
    run = small_nsys()
    run.more = {
        "TARGET_INFO_GPU": ("id, name, cuDevice", [(0, "A", 1), (5, "B", 0)]),
        "TARGET_INFO_CUDA_DEVICE": ("gpuId, cudaId, pid", [(0, 0, MAIN)]),
    }
    assert read_trace(run.write(tmp_path / "a.sqlite")).gpus["name"].to_pylist() == ["A"]


def test_whole_graphs_are_kernels_and_said_so(tmp_path):
    run = small_nsys()
    call = run.call("cudaGraphLaunch_v10000", 600)
    columns = "start, end, deviceId, streamId, correlationId, globalPid, graphId"
    row = (610, 700, 0, 7, call, tid(MAIN, 0), 12)
    run.more = {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (columns, [row])}
    trace = read_trace(run.write(tmp_path / "a.sqlite"))
    assert trace.kernels["name"].to_pylist()[-1] == "CUDA graph 12"
    assert any("--cuda-graph-trace=node" in note for note in trace.quality.notes)


def test_a_column_or_table_that_a_version_lacks_is_null(tmp_path):
    tables = small_nsys().tables()
    kernel = "CUPTI_ACTIVITY_KIND_KERNEL"
    tables[kernel] = (
        "start, end, deviceId, streamId, correlationId, demangledName",
        [(*row[:5], row[6]) for row in tables[kernel][1]],
    )
    for name in ("NVTX_EVENTS", "TARGET_INFO_GPU", "CUPTI_ACTIVITY_KIND_MEMCPY",
                 "CUPTI_ACTIVITY_KIND_MEMSET", "TARGET_INFO_SYSTEM_ENV"):  # fmt: skip
        tables.pop(name)
    trace = read_trace(database(tmp_path / "a.sqlite", tables))
    assert trace.kernels["launch_ns"].null_count == 0
    assert trace.kernels["grid"].null_count == 2
    assert trace.gpus["name"].to_pylist() == [None]


def test_durations_below_zero_are_repaired_and_counted(tmp_path):
    run = small_nsys()
    run.kernel("backwards", 700, -50)
    trace = read_trace(run.write(tmp_path / "a.sqlite"))
    assert trace.quality.repairs == {"events without a usable duration: taken as zero": 1}
    assert trace.kernels["dur_ns"].to_pylist()[-1] == 0


@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_means_nothing(tmp_path_factory, shuffler: random.Random):
    folder = tmp_path_factory.mktemp("rows")
    run = small_nsys()
    (straight,) = read_ranks(run.write(folder / "a.sqlite"))
    for rows in (run.kernels, run.calls, run.copies, run.ranges):
        shuffler.shuffle(rows)
    (shuffled,) = read_ranks(run.write(folder / "b.sqlite"))
    for name in ("ranges", "launches", "device"):
        assert getattr(straight, name).to_pylist() == getattr(shuffled, name).to_pylist()

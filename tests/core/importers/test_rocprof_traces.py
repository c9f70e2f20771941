"""Whole Traces from rocprofv3: graphs, processes, old and damaged files, databases."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiler_files import (
    MAIN,
    Rocprof,
    database,
    small_rocprof,
)

from chopper_jupyter import read_trace
from chopper_jupyter.core.errors import PartialTraceWarning, TraceFormatError

pytestmark = pytest.mark.filterwarnings(
    "ignore::chopper_jupyter.core.errors.PartialTraceWarning",
    "ignore::chopper_jupyter.core.errors.ClockWarning",
)


def test_kernels_of_one_graph_launch_share_it(tmp_path):
    run = Rocprof()
    call = run.call("hipGraphLaunch", 100)
    for n in range(3):
        run.kernel("k", 200 + 20 * n, 10, call=call)
    trace = read_trace(run.csv(tmp_path / "host"))
    assert trace.kernels["launch_kind"].to_pylist() == ["graph"] * 3
    assert trace.kernels["launch_ns"].null_count == 0
    assert trace.kernels["launch_dur_ns"].null_count == 3


def test_a_folder_of_processes_is_one_rank_each(tmp_path):
    for pid, gpu in ((9, 0), (10, 1)):
        run = small_rocprof(pid, gpu)
        run.kernel(f"only_{pid}", 900 + pid, 5)
        run.csv(tmp_path / "node7" / str(pid))
    trace = read_trace(tmp_path)
    assert [(row["rank"], row["device"]) for row in trace.gpus.to_pylist()] == [(0, 0), (1, 1)]
    assert (
        "only_9" in trace.kernels.filter(trace.kernels["gpu"].to_numpy() == 0)["name"].to_pylist()
    )


def test_a_kernel_trace_finds_the_other_traces_of_its_process(tmp_path):
    path = small_rocprof().csv(tmp_path)
    small_rocprof(7).csv(tmp_path)
    trace = read_trace(path)
    assert trace.quality.linked["launch"] == 1.0
    assert trace.kernels.num_rows == 4
    with pytest.raises(TraceFormatError, match="holds no kernels"):
        read_trace(tmp_path / f"{MAIN}_hip_api_trace.csv")


def test_files_of_another_process_are_left_out_and_counted(tmp_path):
    path = small_rocprof(MAIN).csv(tmp_path)
    calls = tmp_path / f"{MAIN}_hip_api_trace.csv"
    calls.write_text(calls.read_text().replace(f",{MAIN},{MAIN},", ",555,555,"))
    trace = read_trace(path)
    assert trace.kernels["launch_ns"].null_count == trace.kernels.num_rows == 3
    assert trace.quality.skipped == {
        "files of other processes beside the kernel trace: left out": 2
    }


def test_which_of_several_processes_launched_must_be_known(tmp_path):
    path = small_rocprof(MAIN).csv(tmp_path)
    calls = tmp_path / f"{MAIN}_hip_api_trace.csv"
    calls.write_text(calls.read_text().replace(f",{MAIN},{MAIN},", ",555,555,"))
    path.write_text(path.read_text().replace(f",{MAIN},", ",,"))
    with pytest.raises(TraceFormatError, match=r"of several processes \(100, 555\)"):
        read_trace(path)


def test_old_csv_without_stream_and_with_bare_agents(tmp_path):
    (tmp_path / "7_kernel_trace.csv").write_text(
        '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
        '"Correlation_Id","Start_Timestamp","End_Timestamp","Private_Segment_Size",'
        '"Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z",'
        '"Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
        '"KERNEL_DISPATCH",1,140737353,69,1,16,"void add<float>(float*, int) [clone .kd]",1451,'
        "8819330200067564,8819330200116308,0,0,64,1,1,1000,1024,1\n"
    )
    row = read_trace(tmp_path).kernels.to_pylist()[0]
    assert (row["name"], row["grid"], row["stream"], row["dur_ns"]) == (
        "void add<float>(float*, int)", "16,1024,1", 140737353, 48744,
    )  # fmt: skip


def test_a_csv_cut_short_loses_its_last_row_and_says_so(tmp_path):
    path = small_rocprof().csv(tmp_path)
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.warns(PartialTraceWarning):
        trace = read_trace(path)
    assert trace.kernels.num_rows == 3
    assert trace.quality.repairs == {"rows cut short: left out": 1}


def test_the_trace_of_a_run_that_counted_is_not_taken(tmp_path):
    small_rocprof(1).csv(tmp_path / "pmc_1")
    counters = tmp_path / "pmc_1" / "1_counter_collection.csv"
    counters.write_text("Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value\n1,k,SQ_WAVES,5\n")
    with pytest.raises(TraceFormatError, match="only runs that counted"):
        read_trace(tmp_path)
    with pytest.raises(TraceFormatError, match="holds counters"):
        read_trace(counters)
    small_rocprof(2).csv(tmp_path / "timed")
    trace = read_trace(tmp_path)
    assert trace.kernels.num_rows == 4
    assert trace.quality.skipped["traces of runs that counted left out (they are slowed down)"] == 1


def test_a_merged_database_holds_a_rank_for_each_process(tmp_path):
    tables = {}
    for run, (pid, gpu) in {"_a": (5, 1), "_b": (6, 0)}.items():
        tables |= small_rocprof(pid, gpu).rocpd_tables(run)
    trace = read_trace(database(tmp_path / "all.db", tables))
    assert [(row["rank"], row["device"]) for row in trace.gpus.to_pylist()] == [(0, 0), (1, 1)]
    assert trace.kernels.num_rows == 8
    assert trace.quality.linked["launch"] == 1.0


def test_kernels_without_a_region_name_are_kept(tmp_path):
    path = small_rocprof().rocpd(tmp_path / "77_results.db")
    trace = read_trace(path)  # the region name is null, which hides them from the view "kernels"
    assert trace.kernels.num_rows == 4


def test_rccl_calls_are_operators(tmp_path):
    run = Rocprof()
    run.call("ncclAllReduce", 90, 100, "RCCL_API")
    run.kernel("ncclDevKernel_Generic_1(x)", 300, 50, call=run.call("hipLaunchKernel", 100))
    trace = read_trace(run.json(tmp_path / "r_results.json"))
    assert trace.ops["name"].to_pylist() == ["ncclAllReduce"]
    assert trace.kernels["kind"].to_pylist() == ["collective"]
    assert trace.kernels["collective"].to_pylist() == ["all_reduce"]


@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_means_nothing(tmp_path_factory, shuffler: random.Random):
    folder = tmp_path_factory.mktemp("rows")

    def written(run: Rocprof, name: str) -> list:
        paths = run.csv(folder / name), run.json(folder / f"{name}.json")
        return [read_trace(path) for path in (*paths, run.rocpd(folder / f"{name}.db"))]

    run = small_rocprof()
    straight = written(run, "a")
    for rows in (run.kernels, run.calls):
        shuffler.shuffle(rows)
    for one, other in zip(straight, written(run, "b"), strict=True):
        for name in ("kernels", "ops", "spans"):
            assert getattr(one, name).to_pylist() == getattr(other, name).to_pylist()

"""Counters and telemetry on a trace, by hand and by themselves in a run folder."""

from __future__ import annotations

import json
import os
import shutil
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import BASE_NS, Rank, trace_of
from counted_runs import counted_run
from counted_training import Training, expected

from chopper_jupyter import add_counters, add_telemetry, read_trace
from chopper_jupyter.core import run_folder
from chopper_jupyter.core.align.telemetry_rows import STRANGE_GPU, STRANGE_HOST
from chopper_jupyter.core.attach import with_counters
from chopper_jupyter.core.errors import AlignmentError, PartialTraceWarning, TraceFormatError
from chopper_jupyter.core.trace import Trace

HEADER = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size",'
    '"Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count",'
    '"Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp",'
    '"End_Timestamp"'
)


def write_pass(folder, names, counters, pid=900):
    """Write what rocprofv3 writes for one pass: kernels of 2048 work items."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [HEADER]
    for at, name in enumerate(names, 1):
        for counter, value in counters.items():
            lines.append(
                f'{at},{at},"Agent 1",1,{pid},{pid},2048,7,"{name}",256,0,0,8,0,16,"{counter}",'
                f"{value + at:.6f},{pid * 10**6 + 100 * at},{pid * 10**6 + 100 * at + 50}"
            )
    path = folder / f"{pid}_counter_collection.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_run(folder, kernels=("a", "b", "c"), ranks=1, host=None):
    folder.mkdir(exist_ok=True)
    for number in range(ranks):
        rank = Rank(rank=number, world_size=ranks, device=number)
        for name in kernels:
            with rank.op("aten::mm"):
                rank.launch(name)
        document = rank.document() | ({"host_name": host} if host else {})
        (folder / f"rank_{number}.json").write_text(json.dumps(document))
    run_folder.write_run(folder, {"world_size": ranks, "options": {"warmup": 0}})
    return folder


def write_telemetry(folder, rows, host="node", source="nvml", part=0):
    """Write one part as the sampler does; times in ns since the builders' epoch."""
    names = run_folder.TELEMETRY_COLUMNS
    full = [{"monotonic_ns": row["wall_ns"], "core": None, "device": None, **row} for row in rows]
    table = pa.Table.from_pylist(
        [{n: row[n] + (BASE_NS if n == "wall_ns" else 0) if n == "wall_ns" else row[n]
          for n in names} for row in full],
        pa.schema([("monotonic_ns", pa.int64()), ("wall_ns", pa.int64()), ("device", pa.int32()),
                   ("core", pa.int32()), ("metric", pa.string()), ("value", pa.float64())]),
    )  # fmt: skip
    facts = {"host": host, "source": source, "period_ns": 1, "devices": [], "notes": []}
    table = table.replace_schema_metadata({b"chopper": json.dumps(facts).encode()})
    path = run_folder.telemetry_file(folder, host, source, part)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def sample(device, wall_ns, value=100.0, metric="power_w"):
    return {"device": device, "wall_ns": wall_ns, "metric": metric, "value": value}


def test_counters_of_a_folder_find_their_kernels(tmp_path):
    trace = read_trace(write_run(tmp_path / "run"), cache=False)
    write_pass(tmp_path / "c/pass_1/host", ["warm", "a", "b.kd", "c"], {"SQ_WAVES": 100})
    write_pass(tmp_path / "c/pass_2/host", ["a", "b", "c"], {"SQ_WAVES": 100, "GRBM_COUNT": 7}, 901)
    counted = add_counters(trace, tmp_path / "c")
    found = {
        (r["kernel_id"], r["counter"], r["pass"]): r["value"]
        for r in counted.counters.to_pylist()
    }  # fmt: skip
    waves = {k: v for k, v in found.items() if k[1] == "SQ_WAVES"}
    assert waves == {(k, "SQ_WAVES", 0): 101.5 + k for k in range(3)}
    assert {(k, v) for (k, c, _), v in found.items() if c == "GRBM_COUNT"} == {
        (k, 8.0 + k) for k in range(3)
    }
    assert {p for _, c, p in found if c == "counted_duration_ns"} == {0, 1}
    assert counted.quality.counted["pass 0"] == {"gpu 0": 1.0}
    assert "kernel time with counters, pass 0: gpu 0 100.0 %" in counted.quality.lines()
    assert any("SQ_WAVES was counted in passes 0, 1" in note for note in counted.quality.notes)
    assert trace.counters.num_rows == 0


def test_counters_in_a_run_folder_are_read_with_it_and_new_ones_are_noticed(tmp_path):
    run = write_run(tmp_path / "run")
    first = write_pass(run_folder.pass_folder(run, "rocprofv3", 0), "abc", {"X": 1})
    trace = read_trace(run)
    assert sorted(trace.counters["counter"].unique().to_pylist()) == ["X", "counted_duration_ns"]
    same = read_trace(run)
    assert same.counters.to_pylist() == trace.counters.to_pylist()
    assert same.quality == trace.quality
    write_pass(run_folder.pass_folder(run, "rocprofv3", 1), "abc", {"Y": 1}, 901)
    assert "Y" in read_trace(run).counters["counter"].unique().to_pylist()
    shutil.rmtree(first.parent)
    assert "X" not in read_trace(run).counters["counter"].unique().to_pylist()
    assert add_counters(read_trace(run), run).counters.num_rows > 0


def test_counters_that_do_not_fit_do_not_keep_a_run_from_being_read(tmp_path):
    run = write_run(tmp_path / "run")
    write_pass(run_folder.pass_folder(run, "rocprofv3", 0), ["a", "x", "y"], {"X": 1})
    for _ in range(2):  # read, then from the cache
        with pytest.warns(PartialTraceWarning, match=r"counters of the run could not be used: 3\d"):
            trace = read_trace(run)
        assert trace.counters.num_rows == 0
        assert trace.kernels.num_rows == 3
    partial = add_counters(trace, run, partial=True)
    assert partial.counters["kernel_id"].unique().to_pylist() == [0]
    assert partial.quality.counted["op"]["aten::mm"] == pytest.approx(1 / 3, rel=0.01)
    with pytest.raises(
        AlignmentError, match=r"90.0 % are needed; first mismatch: the trace has 'b'"
    ):
        add_counters(trace, run)
    assert add_counters(trace, run, min_rate=0.3).counters.num_rows > 0


def test_an_unreadable_pass_is_named(tmp_path):
    run = write_run(tmp_path / "run")
    folder = run_folder.pass_folder(run, "rocprofv3", 0)
    folder.mkdir(parents=True)
    (folder / "900_counter_collection.csv").write_text("")
    with pytest.warns(PartialTraceWarning, match="counters of the run could not be used"):
        assert read_trace(run).kernels.num_rows == 3
    with pytest.raises(TraceFormatError):
        add_counters(read_trace_quietly(run), run)


def read_trace_quietly(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)
        return read_trace(path)


def test_a_share_is_a_share(tmp_path):
    with pytest.raises(ValueError, match="between 0 and 1"):
        add_counters(trace_of([]), tmp_path, min_rate=90)
    with pytest.raises(FileNotFoundError):
        add_counters(trace_of([]), tmp_path / "nothing")


def test_a_filtered_trace_gets_the_counters_of_what_it_kept():
    work = Training(layers=2, iterations=2)
    trace = work.trace()
    some = trace.filter(op="1.3", iteration=1)
    counted = with_counters(some, [work.counted()])
    assert (
        counted.counters["kernel_id"].unique().to_pylist() == some.kernels["kernel_id"].to_pylist()
    )
    places = [r["value"] for r in counted.counters.to_pylist() if r["counter"] == "place"]
    assert places == [expected("1.3")]


def test_runs_of_several_tools_keep_their_passes_apart():
    work = Training(layers=1, iterations=1)
    trace = with_counters(work.trace(), [work.counted(passes=2), work.counted(tool="ncu")])
    assert sorted(trace.quality.counted) == ["op", "pass 0", "pass 1", "pass 2"]
    again = with_counters(trace, [work.counted()])
    assert "pass 3" in again.quality.counted
    pairs = list(
        zip(*(again.counters[c].to_pylist() for c in ("kernel_id", "counter")), strict=True)
    )
    assert len(set(pairs)) == len(pairs)
    assert any("was counted in passes 0, 2" in note for note in trace.quality.notes)


def test_iterations_without_counters_are_named():
    work = Training(layers=1, iterations=3)
    trace = with_counters(work.trace(), [work.counted(1, warm_up=0, after=0)])
    assert "of 3 iterations, 2 have counters" in trace.quality.notes


def test_what_an_importer_skipped_is_told():
    trace = with_counters(
        trace_of([{"name": "a", "grid": "1,1,1", "block": "64,1,1"}]),
        [counted_run([{"name": "a", "group_items": 64, "counters": {"X": 1}}],
                     skipped={"odd rows": 2}, repairs={"cut": 1})],
    )  # fmt: skip
    assert trace.quality.skipped == {"counters: odd rows": 2}
    assert trace.quality.repairs == {"counters: cut": 1}
    assert Trace.from_tables(trace.tables).counters.num_rows == 1


def test_counters_and_rates_survive_saving(tmp_path):
    work = Training(layers=1, iterations=1)
    trace = with_counters(work.trace(), [work.counted()])
    again = Trace.open(trace.save(tmp_path / "saved"))
    assert again.quality == trace.quality
    assert again.counters.to_pylist() == trace.counters.to_pylist()


def test_telemetry_lies_on_the_clock_and_the_gpus_of_a_run(tmp_path):
    run = write_run(tmp_path / "run", ranks=2, host="node")
    rows = [sample(0, 1_005_000, 10), sample(1, 1_005_000, 20), sample(None, 1_006_000, 0.5, "cpu")]
    write_telemetry(run, rows)
    trace = read_trace(run)
    found = trace.telemetry.to_pylist()
    assert [(r["gpu"], r["value"], r["metric"]) for r in found] == [
        (0, 10, "power_w"), (1, 20, "power_w"), (None, 0.5, "cpu"),
    ]  # fmt: skip
    assert [r["time_ns"] + trace.info.origin_ns - BASE_NS for r in found] == [
        1_005_000, 1_005_000, 1_006_000,
    ]  # fmt: skip
    assert {r["host"] for r in found} == {"node"}
    assert read_trace(run).telemetry.to_pylist() == found
    write_telemetry(run, [sample(0, 1_007_000, 30)], part=1)
    assert read_trace(run).telemetry.num_rows == 4


def gpus(*rows):
    base = {"rank": None, "host": None, "name": None, "device": 0, "offset_ns": 0}
    return [{**base, "gpu": i, **row} for i, row in enumerate(rows)]


def placed(tmp_path, rows, samples, host="node"):
    """Attach samples to a trace with these GPUs."""
    kernels = trace_of([{"gpu": i, "start_ns": 0, "dur_ns": 10**7} for i in range(len(rows))])
    tables = kernels.tables | {"gpus": pa.Table.from_pylist(rows)}
    trace = Trace.from_tables(tables, kernels.info)
    info = type(trace.info)(origin_ns=BASE_NS)
    trace = Trace.from_tables(tables, info)
    write_telemetry(tmp_path, samples, host=host)
    return add_telemetry(trace, tmp_path)


def test_where_each_process_sees_its_gpu_as_number_0_they_are_told_by_order(tmp_path):
    rows = gpus(*({"rank": r, "host": "node"} for r in (0, 1, 2)))
    trace = placed(tmp_path, rows, [sample(d, 5, d) for d in (0, 1, 2)])
    assert [(r["gpu"], r["value"]) for r in trace.telemetry.to_pylist()] == [(0, 0), (1, 1), (2, 2)]
    assert any("taken for its GPUs in order" in note for note in trace.quality.notes)


def test_gpus_that_nobody_can_tell_apart_get_no_samples(tmp_path):
    rows = gpus(*({"rank": r, "host": "node"} for r in (0, 1)))
    trace = placed(tmp_path, rows, [sample(d, 5, d) for d in (0, 1, 2, 3)])
    assert trace.telemetry.num_rows == 0
    assert trace.quality.skipped[f"telemetry: {STRANGE_GPU}"] == 4


def test_numbers_of_nodes_are_gpus_in_order(tmp_path):
    rows = gpus({"device": 2, "rank": 0}, {"device": 3, "rank": 1})
    trace = placed(tmp_path, rows, [sample(0, 5, 0), sample(1, 5, 1)])
    assert trace.telemetry["gpu"].to_pylist() == [0, 1]


def test_samples_of_other_gpus_and_hosts_are_counted(tmp_path):
    rows = gpus({"device": 1, "rank": 0, "host": "node"}, {"device": 0, "rank": 1, "host": "other"})
    trace = placed(tmp_path, rows, [sample(d, 5, d) for d in (0, 1, 5)])
    assert [(r["gpu"], r["value"]) for r in trace.telemetry.to_pylist()] == [(0, 1)]
    assert trace.quality.skipped == {f"telemetry: {STRANGE_GPU}": 2}
    again = placed(tmp_path / "b", rows, [sample(0, 5)], host="third")
    assert again.quality.skipped == {f"telemetry: {STRANGE_HOST}": 1}


def test_samples_move_with_the_clock_of_their_host(tmp_path):
    rows = gpus({"rank": 0, "host": "a"}, {"rank": 1, "host": "node", "offset_ns": 700})
    trace = placed(tmp_path, rows, [sample(0, 5)])
    assert trace.telemetry["time_ns"].to_pylist() == [705]
    assert trace.telemetry["gpu"].to_pylist() == [1]


def test_telemetry_of_another_time_is_refused(tmp_path):
    with pytest.raises(AlignmentError, match=r"60\.0 s after the trace"):
        placed(tmp_path, gpus({}), [sample(0, 60_010_000_000)])
    with pytest.raises(AlignmentError, match=r"60\.0 s before the trace"):
        placed(tmp_path / "b", gpus({}), [sample(0, -60_000_000_000)])
    run = write_run(tmp_path / "run")
    write_telemetry(run, [sample(0, 10**12)])
    with pytest.warns(PartialTraceWarning, match="telemetry of the run could not be used"):
        assert read_trace(run).telemetry.num_rows == 0


def test_a_part_cut_short_loses_only_itself(tmp_path):
    run = write_run(tmp_path / "run")
    write_telemetry(run, [sample(0, 1_005_000)])
    path = write_telemetry(run, [sample(0, 1_006_000)], part=1)
    os.truncate(path, path.stat().st_size // 2)
    trace = read_trace_quietly(run)
    assert trace.telemetry.num_rows == 1
    assert sum(trace.quality.repairs.values()) == 1

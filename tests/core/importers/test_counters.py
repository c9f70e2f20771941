"""Counters of rocprofv3, rocprof-compute and Nsight Compute: read right, or refused with reason."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counters import read_counters

FOLDER = os.environ.get("CHOPPER_REAL_DATA")
COUNTERS = Path(FOLDER) / "counters" if FOLDER else None

LONG = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,"
    "Kernel_Name,Workgroup_Size,LDS_Block_Size,Counter_Name,Counter_Value,Start_Timestamp,"
    "End_Timestamp"
)


def long_row(
    dispatch, counter, value, *, agent='"Agent 1"', name="gemm", start=100, end=150, pid=7
):
    return (
        f'{dispatch},{dispatch},{agent},1,{pid},7,2048,5,"{name}",256,0,{counter},{value},'
        f"{start},{end}"
    )


def long_file(path, rows, end="\n", head=LONG):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((end.join([head, *rows]) + end).encode())
    return path


def table(run) -> dict:
    """Return the values of each kernel: {(pass, order): {counter: value}}."""
    key = list(zip(run.counted["pass"].to_pylist(), run.counted["order"].to_pylist(), strict=True))
    found: dict = {k: {} for k in key}
    for i, counter, value in zip(
        run.values["counted_id"].to_pylist(), run.values["counter"].to_pylist(),
        run.values["value"].to_pylist(), strict=True,
    ):  # fmt: skip
        found[key[i]][counter] = value
    return found


class TestRocprof:
    def test_a_row_per_counter(self, tmp_path):
        rows = [long_row(1, "SQ_WAVES", "16.000000"), long_row(1, "GUI", "0.00000000e+00"),
                long_row(2, "SQ_WAVES", "4.34259040e-02", name="void f<int>(int, int)"),
                ]  # fmt: skip
        (run,) = read_counters(long_file(tmp_path / "7_counter_collection.csv", rows))
        assert table(run) == {
            (0, 1): {"SQ_WAVES": 16, "GUI": 0, COUNTED_DURATION: 50},
            (0, 2): {"SQ_WAVES": 0.0434259040, COUNTED_DURATION: 50},
        }
        assert run.counted["name"].to_pylist() == ["gemm", "void f<int>(int, int)"]
        assert run.counted["work_items"].to_pylist() == [2048, 2048]
        assert run.counted["group_items"].to_pylist() == [256, 256]

    def test_quotes_and_line_ends_do_not_matter(self, tmp_path):
        plain = long_file(tmp_path / "a.csv", [long_row(1, "A", "2"), long_row(2, "A", "3")])
        quoted = [",".join(f'"{v}"' for v in r.replace('"', "").split(","))
                  for r in (long_row(1, "A", "2"), long_row(2, "A", "3"))]  # fmt: skip
        other = long_file(tmp_path / "b.csv", quoted, end="\r\n", head=LONG.upper())
        assert table(read_counters(plain)[0]) == table(read_counters(other)[0])

    def test_damage_is_counted(self, tmp_path):
        rows = [long_row(1, "A", "2"), long_row(1, "A", "4"), long_row(2, "A", "nan?"),
                long_row(3, "A", "5"), "4,4,Agent"]  # fmt: skip
        (run,) = read_counters(long_file(tmp_path / "a.csv", rows))
        assert table(run)[0, 1]["A"] == 3
        assert table(run)[0, 2] == {COUNTED_DURATION: 50}  # it ran, which its neighbours need
        assert set(table(run)) == {(0, 1), (0, 2), (0, 3)}
        assert sum(run.skipped.values()) == 1
        assert sum(run.repairs.values()) == 2  # the repeated counter, the row cut short

    def test_passes_and_processes(self, tmp_path):
        for number in (0, 1, 10):
            for pid in (31, 30):
                folder = tmp_path / f"pass_{number}" / "node1"
                rows = [long_row(1, f"C{number}", pid, pid=pid)]
                long_file(folder / f"{pid}_counter_collection.csv", rows)
        (run,) = read_counters(tmp_path)
        assert sorted(set(run.counted["pass"].to_pylist())) == [0, 1, 2]
        assert run.counted["process"].to_pylist() == [30, 31] * 3
        assert run.values["counter"].to_pylist()[-1] in {"C10", COUNTED_DURATION}

    def test_devices_are_numbered_by_the_list_of_agents(self, tmp_path):
        info = (
            "Node_Id,Logical_Node_Id,Agent_Type,Cu_Count,Simd_Per_Cu,Num_Xcc,Location_Id,"
            "Max_Engine_Clk_Fcompute,Name,Product_Name\n0,0,CPU,0,0,0,0,0,cpu,CPU\n"
            "2,2,GPU,304,4,8,4352,2100,gfx942,AMD Instinct MI300X\n"
            "3,3,GPU,304,4,8,4608,2100,gfx942,AMD Instinct MI300X\n"
        )
        (tmp_path / "7_agent_info.csv").write_text(info)
        rows = [long_row(1, "A", 1, agent='"Agent 3"'), long_row(2, "A", 1, agent='"Agent 2"')]
        (run,) = read_counters(long_file(tmp_path / "7_counter_collection.csv", rows))
        assert run.counted["device"].to_pylist() == [1, 0]
        assert run.agents[0]["num_xcc"] == 8
        assert run.agents[1]["max_clock_mhz"] == 2100

    def test_the_same_kernel_number_in_two_processes(self, tmp_path):
        rows = [long_row(1, "A", 1, pid=10), long_row(1, "A", 2, pid=11)]
        (run,) = read_counters(long_file(tmp_path / "a.csv", rows))
        assert run.counted.num_rows == 2


class TestDatabases:
    def test_rocpd(self, tmp_path):
        path = tmp_path / "results.db"
        with closing(sqlite3.connect(path)) as db:
            db.execute(
                "CREATE TABLE counters_collection (guid, dispatch_id, pid, agent_abs_index, "
                "queue_id, grid_size, workgroup_size, kernel_name, counter_name, value, start, end)"
            )
            rows = [("g", 1, 7, 4, 1, 2048, 256, "gemm", "A", 3.0, 10, 30),
                    ("g", 1, 7, 4, 1, 2048, 256, "gemm", "B", 4.0, 10, 30),
                    ("g", 2, 7, 5, 1, 2048, 256, None, "A", 9.0, 40, 50)]  # fmt: skip
            db.executemany("INSERT INTO counters_collection VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", rows)
            db.commit()
        (run,) = read_counters(path)
        assert table(run) == {(0, 1): {"A": 3, "B": 4, COUNTED_DURATION: 20}}
        assert sum(run.skipped.values()) == 1

    def test_json_adds_instances_up(self, tmp_path):
        size = {"x": 4, "y": 2, "z": 1}
        data = {
            "dispatch_info": {"dispatch_id": 9, "agent_id": {"handle": 77}, "kernel_id": 5,
                              "queue_id": {"handle": 2}, "grid_size": size, "workgroup_size": size},
            "start_timestamp": 5, "end_timestamp": 9,
        }  # fmt: skip
        records = [{"counter_id": {"handle": 1}, "value": v} for v in (1.0, 2.0)]
        collected = [{"dispatch_data": data, "records": records}]
        tool = {
            "metadata": {"pid": 3}, "agents": [{"id": {"handle": 77}, "node_id": 4}],
            "counters": [{"id": {"handle": 1}, "name": "A"}],
            "kernel_symbols": [{"kernel_id": 5, "formatted_kernel_name": "gemm"}],
            "callback_records": {"counter_collection": collected},
        }  # fmt: skip
        path = tmp_path / "results.json.gz"
        path.write_bytes(gzip.compress(json.dumps({"rocprofiler-sdk-tool": [tool]}).encode()))
        (run,) = read_counters(path)
        assert table(run) == {(0, 9): {"A": 3, COUNTED_DURATION: 4}}
        assert run.counted["work_items"].to_pylist() == [8]


HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC"]  # fmt: skip


def ncu(path, metrics, units, *kernels, before=""):
    def line(values):
        return ",".join('"' + str(v).replace('"', '""') + '"' for v in values)

    rows = [[i, 4711, "python", "h", "gemm", 1, 20, "(384, 1, 1)", "(10, 2, 1)", 0, "9.0", *values]
            for i, values in enumerate(kernels)]  # fmt: skip
    lines = [line([*HEAD, *metrics]), line([""] * len(HEAD) + units), *map(line, rows)]
    path.write_text(before + "\n".join(lines) + "\n")
    return path


class TestNsightCompute:
    def test_units_and_numbers(self, tmp_path):
        path = ncu(
            tmp_path / "ncu.csv",
            ["gpu__time_duration.sum", "dram__bytes_read.sum", "ops.sum", "clock", "share"],
            ["us", "Mbyte", "", "Ghz", "%"],
            ["12.5", "1,236.5", "1,236,950,581,248", "1.05", "63.62"],
            before="==PROF== Connected to process 1\nsome output of the program\n",
        )
        (run,) = read_counters(path)
        assert table(run)[0, 0] == {
            "gpu__time_duration.sum": 12_500, "dram__bytes_read.sum": 1_236_500_000,
            "ops.sum": 1_236_950_581_248, "clock": 1.05e9, "share": 63.62,
            COUNTED_DURATION: 12_500,
        }  # fmt: skip
        assert run.counted["work_items"].to_pylist() == [384 * 20]
        assert run.counted["dur_ns"].to_pylist() == [12_500]

    def test_decimal_commas(self, tmp_path):
        path = ncu(tmp_path / "ncu.csv", ["a", "b"], ["", ""], ["1.236.950", "762,6"])
        assert table(read_counters(path)[0])[0, 0] == {"a": 1_236_950, "b": 762.6}

    def test_a_log_of_errors_is_refused_with_its_words(self, tmp_path):
        path = tmp_path / "ncu.csv"
        path.write_text(
            "==PROF== Connected\n==ERROR== The application returned an error code (1).\n"
        )
        with pytest.raises(TraceFormatError, match="returned an error code"):
            read_counters(path)

    def test_a_cut_row_is_counted(self, tmp_path):
        path = ncu(tmp_path / "ncu.csv", ["a", "b"], ["", ""], [1, 2], [3, 4])
        path.write_text(path.read_text() + '"2","4711"\n')
        (run,) = read_counters(path)
        assert run.counted.num_rows == 2
        assert sum(run.repairs.values()) == 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "is empty"),
            ("a,b\n1,2\n", "its columns are a, b"),
            ("Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr\n", "rocprof v1"),
            ('{"traceEvents": []}', "not the JSON of rocprofv3"),
            ("SQLite format 3\x00 but no more", "SQLite"),
        ],
    )
    def test_the_reason_is_named(self, tmp_path, text, words):
        path = tmp_path / "x.csv"
        path.write_text(text)
        with pytest.raises(TraceFormatError, match=words):
            read_counters(path)

    def test_an_empty_folder_and_none(self, tmp_path):
        with pytest.raises(TraceFormatError, match="holds no counters"):
            read_counters(tmp_path)
        with pytest.raises(FileNotFoundError):
            read_counters(tmp_path / "none")


@pytest.mark.real
class TestOracles:
    """Identities that hold in the files, whoever reads them."""

    def test_utilisation_of_the_matrix_units_two_ways(self):
        (run,) = read_counters(COUNTERS / "rocprofv3" / "mi210_vllm_packed")
        found = []
        for values in table(run).values():
            cycles = values["GRBM_GUI_ACTIVE"]
            busy = values["SQ_VALU_MFMA_BUSY_CYCLES"] / (cycles * 104 * 4)
            flops = 196608 * 16384 / (cycles * 104 * 1024)
            assert busy == pytest.approx(flops, rel=1e-12)
            found.append(round(100 * busy, 3))
        assert found == [25.830, 26.314, 25.630]

    def test_operations_of_a_product_of_4096(self):
        (run,) = read_counters(COUNTERS / "rocprofv3" / "mi210_pytorch_gemm")
        counted = [v for v in table(run).values() if v.get("SQ_INSTS_MFMA") == 8388608]
        assert counted
        assert counted[0]["SQ_INSTS_MFMA"] * 16384 == 2 * 4096**3
        cycles = [v for v in table(run).values() if v.get("GRBM_GUI_ACTIVE") == 1536252]
        assert cycles[0]["GRBM_GUI_ACTIVE"] / cycles[0][COUNTED_DURATION] * 1e3 == pytest.approx(
            1323, abs=1
        )
        assert {a["cu_count"] for a in run.agents.values()} == {104}

    def test_bytes_written_by_a_copy(self):
        (run,) = read_counters(
            COUNTERS / "rocprof_compute" / "no_roof" / "MI350" / "pmc_perf_4.csv"
        )
        written = [64 * v["TCC_EA0_WRREQ_64B_sum"] for v in table(run).values()]
        assert 8 * 2**20 in written

    def test_joined_passes_have_no_times(self):
        folder = COUNTERS / "rocprof_compute" / "no_roof" / "MI300X_A1"
        (run,) = read_counters(folder / "pmc_perf.csv")
        assert COUNTED_DURATION not in run.values["counter"].to_pylist()
        assert run.counted["dur_ns"].null_count == run.counted.num_rows

    def test_operations_and_activity_of_the_tensor_cores(self):
        folder = COUNTERS / "nvidia" / "ncu" / "b30z_moe_gemm"
        (run,) = read_counters(folder / "ernie_shape_ncu_s78b_gemms_raw.csv")
        ops = []
        for values in table(run).values():
            (count,) = [
                v for n, v in values.items()
                if n.split("tensor_")[-1] == "op_utcqmma_src_fp8_dst_fp32_sparsity_off.sum"
            ]  # fmt: skip
            ops.append(int(count))
            share = 100 * count / (values["sm__cycles_elapsed.avg"] * 148 * 16384)
            (told,) = [
                v for n, v in values.items()
                if n == "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
            ]  # fmt: skip
            assert share == pytest.approx(told, abs=1e-5)
        assert {1_236_950_581_248, 618_475_290_624} == set(ops)

    def test_two_passes_of_llama_cpp_have_the_same_kernels(self):
        folder = COUNTERS / "rocprofv3" / "gfx1151_llamacpp"
        for what, count in (("decode", 34), ("prefill", 54)):
            orders = [
                read_counters(folder / f"{what}_{part}_counter_collection.csv")[0].counted["order"]
                for part in ("stall", "fetch")
            ]
            assert orders[0].to_pylist() == orders[1].to_pylist()
            assert len(orders[0]) == count

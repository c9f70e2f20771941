"""Files of rocprof-compute: one row per kernel, channels, joined passes, copied times."""

from __future__ import annotations

import pytest
from counter_files import by_kernel, compute_csv, sysinfo

from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counters import read_counters

JOINED = ("Queue_ID", "PID", "TID")


def test_a_pass_has_kernels_counters_and_times_of_its_own(tmp_path):
    rows = [{"Dispatch_ID": n, "SQ_WAVES": 4.0 + n, "GRBM_GUI_ACTIVE": 8} for n in (1, 0)]
    (run,) = read_counters(compute_csv(tmp_path / "pmc_perf_0.csv", rows))
    assert run.tool == "rocprof-compute"
    own = {"GRBM_GUI_ACTIVE": 8, COUNTED_DURATION: 500}
    assert by_kernel(run) == {(0, 7, 0): {"SQ_WAVES": 4, **own}, (0, 7, 1): {"SQ_WAVES": 5, **own}}
    assert run.counted["name"].to_pylist() == ["gemm(int) [clone .kd]"] * 2
    assert run.counted["work_items"].to_pylist() == [2048, 2048]


def test_columns_that_joining_repeats_are_no_counters(tmp_path):
    more = {"Wave_Size_1": 64, "Correlation_ID_12": 1, "XCC_Index_3": 0, "obj_2": 5}
    path = compute_csv(
        tmp_path / "pmc_perf.csv", [{"SQC_DCACHE_REQ_READ_16": 3, **more}], drop=JOINED
    )
    (run,) = read_counters(path)
    assert by_kernel(run) == {(0, None, 0): {"SQC_DCACHE_REQ_READ_16": 3}}


def test_times_of_joined_passes_are_not_used(tmp_path):
    rows = [{"SQ_WAVES": 4, "Start_Timestamp": 1000.5, "End_Timestamp": 1500.5}]
    (run,) = read_counters(compute_csv(tmp_path / "pmc_perf.csv", rows, drop=JOINED))
    assert run.counted["dur_ns"].to_pylist() == [None]
    assert any("joins several passes" in note for note in run.notes)


@pytest.mark.parametrize(("more", "passes"), [({}, 2), ({"SQ_OTHER": 1}, 3)])
def test_the_join_is_read_only_for_what_its_passes_lack(tmp_path, more, passes):
    compute_csv(tmp_path / "pmc_perf_0.csv", [{"A": 1}])
    compute_csv(tmp_path / "pmc_perf_1.csv", [{"B": 2, "PID": 8, "Start_Timestamp": 1100}])
    compute_csv(tmp_path / "pmc_perf.csv", [{"A": 1, "B": 2, **more}], drop=JOINED)
    (run,) = read_counters(tmp_path)
    assert run.counted.num_rows == passes
    assert bool(run.skipped) == (not more)


class TestChannels:
    def test_they_are_added_up(self, tmp_path):
        sysinfo(tmp_path)
        row = {f"TCC_HIT[{n}]": 10**n for n in (2, 0, 3, 1)} | {"TCC_HIT_other": 7}
        (run,) = read_counters(compute_csv(tmp_path / "pmc_perf.csv", [row], drop=JOINED))
        assert by_kernel(run)[0, None, 0] == {"TCC_HIT_sum": 1111, "TCC_HIT_other": 7}

    def test_a_sum_that_is_there_is_kept(self, tmp_path):
        row = {"TCC_HIT[0]": 1, "TCC_HIT[1]": 2, "TCC_HIT_sum": 5}
        (run,) = read_counters(compute_csv(tmp_path / "pmc_perf.csv", [row], drop=JOINED))
        assert by_kernel(run)[0, None, 0] == {"TCC_HIT_sum": 5}

    @pytest.mark.parametrize("numbers", [(0, 1, 3), (0, 1, 2)])
    def test_what_is_not_all_there_has_no_sum(self, tmp_path, numbers):
        sysinfo(tmp_path)  # says that there are four
        row = {f"TCC_HIT[{n}]": 1 for n in numbers} | {"A": 2}
        (run,) = read_counters(compute_csv(tmp_path / "pmc_perf.csv", [row], drop=JOINED))
        assert by_kernel(run)[0, None, 0] == {"A": 2}
        assert list(run.skipped.values()) == [3]

    def test_an_empty_channel_leaves_no_sum(self, tmp_path):
        rows = [{"A": 1, "TCC_HIT[0]": 1, "TCC_HIT[1]": ""}]
        (run,) = read_counters(compute_csv(tmp_path / "pmc_perf.csv", rows, drop=JOINED))
        assert by_kernel(run)[0, None, 0] == {"A": 1}


class TestTimes:
    def test_those_of_the_timing_run_are_of_no_pass(self, tmp_path):
        compute_csv(tmp_path / "timestamps.csv", [{"PID": 99}])
        compute_csv(tmp_path / "SQ_LEVEL_WAVES.csv", [{"SQ_WAVES": 1}])
        compute_csv(tmp_path / "pmc_perf_0.csv", [{"A": 1, "Start_Timestamp": 1200}])
        (run,) = read_counters(tmp_path)
        assert by_kernel(run) == {
            (0, 7, 0): {"SQ_WAVES": 1},
            (1, 7, 0): {"A": 1, COUNTED_DURATION: 300},
        }
        (alone,) = read_counters(tmp_path / "SQ_LEVEL_WAVES.csv")
        assert alone.counted["dur_ns"].to_pylist() == [None]
        with pytest.raises(TraceFormatError, match="only timed"):
            read_counters(tmp_path / "timestamps.csv")

    def test_those_that_several_passes_share_are_of_none(self, tmp_path):
        for n in (0, 1):
            compute_csv(tmp_path / f"pmc_perf_{n}.csv", [{f"C{n}": 1, "PID": n + 1}])
        (run,) = read_counters(tmp_path)
        assert run.counted["dur_ns"].to_pylist() == [None, None]
        assert list(run.repairs.values()) == [2]


def test_an_accumulated_level_is_named_by_the_level(tmp_path):
    row = {"SQ_IFETCH": 2, "SQ_IFETCH_LEVEL": 3, "SQ_ACCUM_PREV_HIRES": 9}
    (run,) = read_counters(compute_csv(tmp_path / "x.csv", [row]))
    assert by_kernel(run)[0, 7, 0]["SQ_IFETCH_LEVEL_ACCUM"] == 9


class TestMachine:
    def test_its_facts_are_those_of_all_devices(self, tmp_path):
        sysinfo(tmp_path)
        rows = [{"GPU_ID": 60633, "A": 1}, {"GPU_ID": 11995, "A": 1, "Dispatch_ID": 1}]
        (run,) = read_counters(compute_csv(tmp_path / "pmc_perf_0.csv", rows))
        assert run.counted["device"].to_pylist() == [1, 0]
        facts = {
            "product_name": "MI300X_A1", "architecture": "gfx942", "num_xcc": 8, "cu_count": 304,
            "simd_per_cu": 4, "max_clock_mhz": 2100,
        }  # fmt: skip
        assert run.agents == {0: facts, 1: facts}

    def test_zeros_blanks_and_wrong_numbers_are_absent(self, tmp_path):
        sysinfo(tmp_path, gpu_arch="gfx950", cu_per_gpu=128, max_sclk=0, num_xcd="")
        (run,) = read_counters(compute_csv(tmp_path / "pmc_perf_0.csv", [{"A": 1}]))
        assert run.agents[0] == {"product_name": "MI300X_A1", "architecture": "gfx950",
                                 "simd_per_cu": 4}  # fmt: skip
        assert any("128 compute units" in note for note in run.notes)

    def test_a_part_of_a_gpu_has_fewer_units(self, tmp_path):
        sysinfo(tmp_path, cu_per_gpu=38, num_xcd=1, compute_partition="CPX")
        (run,) = read_counters(compute_csv(tmp_path / "pmc_perf_0.csv", [{"A": 1}]))
        assert run.agents[0]["cu_count"] == 38


class TestRefusals:
    def test_rocprof_v2(self, tmp_path):
        path = compute_csv(tmp_path / "results_host_7.csv", [{"A": 1}], drop=("Kernel_ID",))
        with pytest.raises(TraceFormatError, match="rocprof v2, which is not supported"):
            read_counters(path)
        sysinfo(tmp_path)
        assert read_counters(path)[0].tool == "rocprof-compute"

    def test_rocprof_v1_in_a_folder_is_named(self, tmp_path):
        (tmp_path / "results.csv").write_text("Index,KernelName,gpu-id,queue-id,pid\n0,k,0,0,1\n")
        with pytest.raises(TraceFormatError, match="rocprof v1, which is not supported"):
            read_counters(tmp_path)

    def test_kernels_without_counters(self, tmp_path):
        with pytest.raises(TraceFormatError, match="only kernels"):
            read_counters(compute_csv(tmp_path / "pmc_dispatch.csv", [{}]))

    def test_a_cut_last_row_is_left_out(self, tmp_path):
        path = compute_csv(tmp_path / "x.csv", [{"A": 1234}, {"A": 56, "Dispatch_ID": 1}], tail="")
        (run,) = read_counters(path)
        assert set(by_kernel(run)) == {(0, 7, 0)}
        assert list(run.repairs.values()) == [1]

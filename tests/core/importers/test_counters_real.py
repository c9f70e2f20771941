"""Real counter files: which are read, why others are not, identities between their numbers."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from counter_files import by_kernel

from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counters import read_counters

FOLDER = os.environ.get("CHOPPER_REAL_DATA")
COUNTERS = Path(FOLDER) / "counters" if FOLDER else None
FILES = sorted(p for p in COUNTERS.rglob("*") if p.is_file()) if COUNTERS else []
CHIPS = ("MI100", "MI200", "MI300A_A1", "MI300X_A1", "MI350")

pytestmark = pytest.mark.real

READ = (
    r"rocprofv3/.*counter_collection\.csv|rocprofv3/docs_rocm\d+/kernel_names\.csv|"
    r"rocprof_compute/no_roof/.*/(SQ_\w+|pmc_perf(_\d)?)\.csv|nvidia/ncu/.*\.csv"
)
REFUSED = {
    r"nvidia/nsys/": "trace of Nsight Systems",
    r"analysis_db/": "analysis of rocprof-compute",
    r"/timestamps\.csv": "only timed",
    r"/(sysinfo|pmc_dispatch_info)\.csv": "holds no counters: its columns are",
    r"908_results": "without `--pmc`",
    r"agent_info": "lists the devices",
    r"(kernel|hip_api|hip|hsa_\w+|marker_api|memory_copy|rccl|hip_runtime|hip_compile)_trace\.csv":
        "trace of rocprofv3",
    r"rocprofv3/(schema|input_examples|gfx1151_llamacpp)/.*\.json": "not the JSON of rocprofv3",
}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(COUNTERS).as_posix())
def test_every_file_is_read_or_refused_for_its_reason(path):
    name = path.relative_to(COUNTERS).as_posix()
    if re.fullmatch(READ, name):
        (run,) = read_counters(path)
        assert run.counted.num_rows
        assert run.values.num_rows >= run.counted.num_rows
        assert set(run.values["counted_id"].to_pylist()) <= set(range(run.counted.num_rows))
        assert np.isfinite(run.values["value"].to_numpy()).all()
        return
    reason = next(
        (words for what, words in REFUSED.items() if re.search(what, name)), "no counters"
    )
    with pytest.raises(TraceFormatError, match=re.escape(reason)) as refusal:
        read_counters(path)
    assert path.name in str(refusal.value)


def test_no_rows_are_lost():
    path = COUNTERS / "rocprofv3/gfx1151_llamacpp/prefill_stall_counter_collection.csv"
    (run,) = read_counters(path)
    rows = path.read_text().count("\n") - 1
    assert run.values.num_rows == rows + run.counted.num_rows  # each has its duration, too
    assert not run.skipped
    assert not run.repairs


def test_bytes_an_elementwise_kernel_reads():
    (run,) = read_counters(COUNTERS / "rocprofv3/mi210_pytorch_gemm")
    found = [v["TCC_EA_RDREQ_sum"] for v in by_kernel(run).values() if "TCC_EA_RDREQ_sum" in v]
    assert 4_194_345 in found  # of 64 bytes: 67,108,864 fp32 numbers and 2.6 kB
    near = [requests for requests in found if abs(64 * requests / (4 * 2**26) - 1) < 1e-4]
    assert len(near) == 2


def test_the_clock_of_a_pass_where_the_times_are_of_it():
    (run,) = read_counters(COUNTERS / "rocprofv3/mi210_vllm_packed")
    clocks = [v["GRBM_GUI_ACTIVE"] / v[COUNTED_DURATION] * 1e3 for v in by_kernel(run).values()]
    assert [round(clock) for clock in clocks] == [1759, 1752, 1756]
    (run,) = read_counters(COUNTERS / "rocprofv3/mi210_pytorch_gemm")
    timed = [key for key, values in by_kernel(run).items() if COUNTED_DURATION in values]
    assert {number for number, _, _ in timed} == {0}  # later passes copy the times of the first


@pytest.mark.parametrize("chip", CHIPS)
def test_rocprof_compute_has_durations_only_where_passes_were_timed(chip):
    (run,) = read_counters(COUNTERS / "rocprof_compute/no_roof" / chip)
    timed = {key[0] for key, values in by_kernel(run).items() if COUNTED_DURATION in values}
    assert timed == (set(range(13)) if chip == "MI350" else set())


@pytest.mark.parametrize("chip", CHIPS)
def test_channels_add_up_to_what_the_tool_says(chip):
    """Where the same kernels' sums were counted in another pass, by about the same."""
    path = COUNTERS / "rocprof_compute/no_roof" / chip / "pmc_perf.csv"
    (run,) = read_counters(path)
    text = path.read_text().splitlines()
    names, row = text[0].split(","), re.sub(r'"[^"]*"', "x", text[1]).split(",")
    shown = dict(zip(names, row, strict=True))
    own = by_kernel(run)[0, None, 0]
    assert not [name for name in own if "[" in name]
    for name in ("TCC_READ", "TCC_WRITE"):
        channels = [float(v) for k, v in shown.items() if k.startswith(f"{name}[")]
        if f"{name}_sum" not in shown and chip != "MI350":
            assert own[f"{name}_sum"] == sum(channels)
        elif f"{name}_sum" in shown:
            assert own[f"{name}_sum"] == float(shown[f"{name}_sum"])


def test_a_copy_writes_what_it_copies():
    (run,) = read_counters(COUNTERS / "rocprof_compute/no_roof/MI350")
    (first, *_) = [v for v in by_kernel(run).values() if "TCC_EA0_WRREQ_64B_sum" in v]
    assert 64 * first["TCC_EA0_WRREQ_64B_sum"] == 8 * 2**20
    assert 128 * first["TCC_EA0_RDREQ_DRAM_sum"] == pytest.approx(8 * 2**20, rel=2e-3)
    assert "cu_count" not in run.agents[0]  # the file says 128 of 256


def test_both_pages_of_one_report_agree():
    folder = COUNTERS / "nvidia/ncu/b30z_moe_gemm"
    raw, details = (
        read_counters(folder / f"ernie_shape_ncu_s78b_gemms_{page}.csv")[0]
        for page in ("raw", "details")
    )
    shown = {
        "GPU Speed Of Light Throughput / Duration": "gpu__time_duration.sum",
        "GPU Speed Of Light Throughput / SM Frequency": "gpc__cycles_elapsed.avg.per_second",
        "GPU Speed Of Light Throughput / Elapsed Cycles": "gpc__cycles_elapsed.max",
        "Memory Workload Analysis / Memory Throughput": "dram__bytes.sum.per_second",
    }
    exact, rounded = by_kernel(raw), by_kernel(details)
    assert list(exact) == list(rounded)
    for key, values in exact.items():
        for title, name in shown.items():
            assert rounded[key][title] == pytest.approx(values[name], rel=6e-3)
    assert raw.agents[0]["product_name"] == "NVIDIA B30Z"
    assert raw.agents[0]["cu_count"] == 148
    (run,) = read_counters(folder)
    assert run.counted.num_rows == 6
    assert run.values.equals(raw.values)


def test_rates_are_counts_over_the_duration():
    (run,) = read_counters(COUNTERS / "nvidia/ncu/b30z_moe_gemm/ernie_shape_ncu_s78b_gemms_raw.csv")
    for values in by_kernel(run).values():
        seconds = values[COUNTED_DURATION] / 1e9
        for name in ("gpc__cycles_elapsed.avg", "dram__bytes_read.sum", "sm__cycles_elapsed.sum"):
            assert values[name] / seconds == pytest.approx(values[f"{name}.per_second"], rel=1e-5)
        assert values["dram__bytes_read.sum"] == int(values["dram__bytes_read.sum"])


def test_passes_of_one_program_lie_side_by_side():
    (run,) = read_counters(COUNTERS / "rocprofv3/gfx1151_llamacpp")
    sizes = run.counted["pass"].value_counts().to_pylist()
    assert sorted(part["counts"] for part in sizes) == [34, 34, 54, 54]

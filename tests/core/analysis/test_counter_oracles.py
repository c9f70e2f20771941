"""Identities of real counter files through the whole way: read, matched, worked out."""

from __future__ import annotations

import csv
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from counted_traces import counted_trace, rocprof_rows

from chopper_jupyter import add_counters, efficiency, read_trace
from chopper_jupyter.core import hardware
from chopper_jupyter.core.analysis import counted
from chopper_jupyter.core.analysis.counted import counted_measures, doubtful_cycles
from chopper_jupyter.core.errors import AlignmentError, PartialTraceWarning

FOLDER = os.environ.get("CHOPPER_REAL_DATA")
COUNTERS = Path(FOLDER or "", "counters")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(FOLDER is None, reason="CHOPPER_REAL_DATA is not set"),
]

CLOCKS = {  # GHz of cycles over times, whose highest real clock is 1.5 to 2.4
    "MI300X_A1": ("MI300X", [21.35, 18.98, 23.54]),
    "MI300A_A1": ("MI300A", [11.69, 16.27, 16.54]),
    "MI350": ("MI350X", [0.450, 0.478, 0.466]),
    "MI200": ("MI210", [1.41, 2.59, 2.51]),
    "MI100": ("MI100", [1.98, 2.27, 2.21]),
}


@pytest.mark.parametrize("chip", CLOCKS)
def test_cycles_of_tiny_kernels_are_of_no_use(chip):
    """Cycles and times are of different passes, and the window is longer than the kernel."""
    gpu, expected = CLOCKS[chip]
    path = COUNTERS / "rocprof_compute" / "no_roof" / chip / "pmc_perf.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    times = np.array([float(r["End_Timestamp"]) - float(r["Start_Timestamp"]) for r in rows])
    known = hardware.named(gpu)
    cycles = np.array([float(r["GRBM_GUI_ACTIVE"]) for r in rows]) / known.dies
    np.testing.assert_allclose(cycles / times, expected, rtol=5e-3)
    assert times.max() < 25_000
    trace = counted_trace(
        [
            {"dur_ns": round(t), "counters": {"GRBM_GUI_ACTIVE": c * known.dies}}
            for t, c in zip(times, cycles, strict=True)
        ],
        f"AMD Instinct {gpu}",
    )
    counts = counted_measures(trace, trace.kernels)
    np.testing.assert_allclose(counts["cycles"], cycles)
    assert "counted_ns" not in counts  # no clock of a pass: these times are of none
    assert doubtful_cycles(counts, np.zeros(len(rows), int), times, {0: known}).all()


def test_cycles_of_long_kernels_are_of_use():
    """66 µs at 3 % above the highest clock: the window is a little longer than the kernel."""
    root = COUNTERS / "rocprofv3" / "mi210_vllm_packed"
    rows = rocprof_rows(*root.rglob("*counter_collection.csv"))
    rows = [row | {"op": "linear", "flops": 1, "name": "gemm_bf16"} for row in rows]
    answer = efficiency(counted_trace(rows, "AMD Instinct MI210"), "kernel")
    assert answer["utilization_percent"].iloc[0] == pytest.approx(25.92, abs=0.05)
    assert "for 0 % of the time not known" in answer.attrs["sources"]["utilization"]


def test_a_product_of_4096_from_its_files_to_its_op():
    """Three passes of one PyTorch program; the times of two of them are copies."""
    names = ("Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV", "void at::native::vectorized_elementwise_kernel")
    (path,) = (COUNTERS / "rocprofv3/mi210_pytorch_gemm").rglob("782163_counter_collection.csv")
    rows = [
        {"name": row["name"], "start_ns": row["start_ns"], "dur_ns": row["dur_ns"],
         "op": "mm" if row["name"].startswith(names[0]) else "add",
         "flops": 2 * 4096**3 if row["name"].startswith(names[0]) else None}
        for row in rocprof_rows(path)
    ]  # fmt: skip
    assert [row["op"] for row in rows] == ["mm", "mm", "add", "add"]
    trace = add_counters(counted_trace(rows, "AMD Instinct MI210"), path.parents[3])
    assert {k for k in trace.quality.counted if k != "op"} == {"pass 0", "pass 1", "pass 2"}
    assert all(share == 1 for one in trace.quality.counted.values() for share in one.values())
    counted.add([{"measure": "matrix_flops_bf16", "vendor": "amd", "arch": "gfx90a",
                  "expression": "16384 * SQ_INSTS_MFMA"}])  # fmt: skip
    try:
        answer = efficiency(trace).set_index("op")
        counts = counted_measures(trace, trace.kernels)
    finally:
        counted._added.clear()
    assert answer.loc["mm", "matrix_flops"] == 2 * 2 * 4096**3
    assert answer.loc["mm", "padding"] == 1
    assert answer.loc["add", "matrix_flops"] == 0
    clock = 1e3 * counts["cycles"] / counts["counted_ns"]
    np.testing.assert_allclose(clock, [1323, 1331, 1618, 1660], atol=1)
    reads = {r["kernel_id"]: r["value"] for r in trace.counters.to_pylist()
             if r["counter"] == "TCC_EA_RDREQ_sum"}  # fmt: skip
    assert reads == {0: 3362736, 1: 3359357, 2: 4194345, 3: 4194310}


def quietly(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)
        return read_trace(path)


@pytest.mark.parametrize(("what", "kernels"), [("prefill", 38), ("decode", 30)])
def test_only_name_and_place_can_join_what_was_dispatched_under_other_numbers(what, kernels):
    folder = COUNTERS / "rocprofv3" / "gfx1151_llamacpp"
    trace = quietly(folder / f"{what}_kernel_trace.csv")
    passes = [folder / f"{what}_{part}_counter_collection.csv" for part in ("stall", "fetch")]
    with pytest.raises(AlignmentError, match="are needed; first mismatch"):
        add_counters(trace, passes[0])  # an excerpt: two kernels of each name
    names = dict(zip(*(trace.kernels[c].to_pylist() for c in ("kernel_id", "name")), strict=True))
    found = {}
    for path in passes:
        added = add_counters(trace, path, partial=True).counters.to_pylist()
        assert {row["matched_by"] for row in added} == {"sequence"}
        found[path] = {row["kernel_id"] for row in added}
        with path.open(newline="", encoding="utf-8") as file:
            told = {row["Kernel_Name"].removesuffix(" [clone .kd]") for row in csv.DictReader(file)}
        assert {names[kernel] for kernel in found[path]} <= told
        assert len(found[path]) == kernels
    assert found[passes[0]] == found[passes[1]]  # both passes dispatched the same kernels

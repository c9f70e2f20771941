"""The paper's breakdown against its formulas, worked out with loops."""

import os
import statistics
from pathlib import Path

import pytest
from counted_traces import counted_trace, rocprof_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from overhead_runs import overhead_run
from paper_formulas import INSTANCE, paper
from simulated_runs import simulated_trace
from timed_traces import by_key

from chopper_jupyter import add_counters
from chopper_jupyter.core.analysis.overheads import overheads
from chopper_jupyter.core.errors import MissingDataError, SchemaError
from chopper_jupyter.simulate import Injections

FOLDER = os.environ.get("CHOPPER_REAL_DATA")


def check(trace, rows, **hardware):
    expected = paper(rows, **hardware)
    answer = by_key(overheads(trace, "instance", method="chopper"), INSTANCE)
    assert set(answer) == set(expected)
    for key, one in expected.items():
        row = answer[key]
        for name, column, scale in (
            ("D_act", "actual_ms", 1e3), ("D_thr", "theoretical_ms", 1e3),
            ("D_peak", "peak_ms", 1e3), ("Ovr_inst", "instruction", 1),
            ("Ovr_util", "utilization", 1), ("Ovr_overlap", "overlap", 1),
            ("Ovr_freq", "frequency", 1),
        ):  # fmt: skip
            want = one[name]
            assert row[column] == (None if want is None else pytest.approx(scale * want)), column
        assert row["overlap_ratio"] == pytest.approx(one["ratio"])
        assert row["elapsed_ms"] == pytest.approx(one["elapsed"] * 1e3)
    return expected


@st.composite
def kernels(draw):
    """Kernels of two ops with communication; some lack counters, some are no products."""
    rows = []
    for gpu in range(draw(st.integers(1, 2))):
        now = 0
        for _ in range(draw(st.integers(1, 9))):
            now += draw(st.integers(0, 30))
            row = {
                "gpu": gpu, "iteration": draw(st.integers(0, 1)), "phase": "forward",
                "layer": draw(st.sampled_from(["layers.0", "layers.1"])),
                "op": draw(st.sampled_from("ab")), "start_ns": now,
                "dur_ns": draw(st.integers(1, 40)), "name": "gemm_bf16_64x64",
                "flops": draw(st.none() | st.integers(1, 10**9)), "counters": {},
            }  # fmt: skip
            if draw(st.integers(0, 5)):
                row["counters"] = {
                    "GRBM_GUI_ACTIVE": draw(st.integers(1, 10**6)),
                    "SQ_VALU_MFMA_BUSY_CYCLES": draw(st.integers(0, 10**6)),
                    "SQ_INSTS_VALU_MFMA_MOPS_BF16": draw(st.integers(0, 10**6)),
                }
            if draw(st.integers(0, 3)) == 0:
                row |= {"kind": "collective", "flops": None, "counters": {}, "op": "all_gather"}
            rows.append(row)
            now += draw(st.integers(-10, 30)) if now > 10 else 0
    rows.append({
        "gpu": 0, "iteration": 0, "phase": "forward", "layer": "layers.0", "op": "c",
        "start_ns": now + 99, "dur_ns": 10, "name": "gemm_bf16_64x64", "flops": 10**6,
        "counters": {"GRBM_GUI_ACTIVE": 10, "SQ_VALU_MFMA_BUSY_CYCLES": 9,
                     "SQ_INSTS_VALU_MFMA_MOPS_BF16": 8},
    })  # fmt: skip
    return rows


@settings(max_examples=60, deadline=None)
@given(kernels())
def test_against_the_formulas(rows):
    check(counted_trace(rows), rows)


def test_product_of_the_factors_is_the_actual_time():
    run = overhead_run(layers=4, iterations=2)
    answer = overheads(run.trace, "instance", method="chopper")
    products = answer[answer["op"] != "norm"]
    assert len(products) == 2 * 2 * 4 * 2
    chain = products["theoretical_ms"]
    for name in ("instruction", "utilization", "overlap", "frequency"):
        chain = chain * products[name]
    for made, actual in zip(chain, products["actual_ms"], strict=True):
        assert made == pytest.approx(actual, rel=1e-12)
    vector = answer[answer["op"] == "norm"]
    assert (
        vector[["theoretical_ms", "instruction", "utilization", "frequency"]].isna().all(axis=None)
    )


def test_groups_show_medians_and_stack_them():
    run = overhead_run(layers=4, iterations=2, noise=0.05)
    single = overheads(run.trace, "instance", method="chopper")
    grouped = by_key(overheads(run.trace, ["gpu", "op"], method="chopper"), ["gpu", "op"])
    for (gpu, op), row in grouped.items():
        mine = single[(single["gpu"] == gpu) & (single["op"] == op)]
        assert row["instances"] == len(mine) == 8
        assert row["actual_ms"] == pytest.approx(statistics.median(mine["actual_ms"]))
        if op == "norm":
            continue
        base = row["theoretical_ms"]
        for name in ("instruction", "utilization", "overlap", "frequency"):
            assert row[name] == pytest.approx(statistics.median(mine[name]))
            assert row[f"{name}_ms"] == pytest.approx(base * (row[name] - 1))
            base *= row[name]


def test_recomputation_and_micro_batches_are_runs_of_their_own():
    base = {"op": "a", "phase": "backward", "flops": 10**6, "name": "gemm_bf16_64x64",
            "counters": {"GRBM_GUI_ACTIVE": 8, "SQ_VALU_MFMA_BUSY_CYCLES": 9}}  # fmt: skip
    rows = [
        base | {"start_ns": 100 * i, "recompute": r, "micro_batch": m}
        for i, (r, m) in enumerate([(True, 0), (False, 0), (False, 1), (False, 1)])
    ]
    answer = overheads(counted_trace(rows), "instance", method="chopper")
    times = dict(zip(answer["recompute"], answer["actual_ms"], strict=True))
    assert sorted(answer["actual_ms"]) == pytest.approx([1e-5, 1e-5, 2e-5])
    assert times[True] == pytest.approx(1e-5)


def test_errors_say_what_is_missing():
    trace = counted_trace([{"op": "a", "flops": 5, "name": "gemm_bf16_64x64"}])
    with pytest.raises(MissingDataError, match="hardware counters"):
        overheads(trace, method="chopper")
    with pytest.raises(SchemaError, match="did you mean 'chopper'"):
        overheads(trace, method="choper")
    with pytest.raises(SchemaError, match="no level of an op named 'kernel'"):
        overheads(trace, "kernel", method="chopper")


def rows_of(trace):
    """Kernels with their counters, a dict each."""
    counters = {}
    for row in trace.counters.to_pylist():
        counters.setdefault(row["kernel_id"], {}).setdefault(row["counter"], []).append(
            row["value"]
        )
    return [
        row
        | {
            "counters": {
                n: statistics.fmean(v) for n, v in counters.get(row["kernel_id"], {}).items()
            }
        }
        for row in trace.kernels.to_pylist()
        if row["kind"] in ("compute", "collective") and row["iteration"] is not None
    ]


def test_a_simulated_run_against_the_formulas():
    trace = simulated_trace(
        Injections(padding={"mlp.down_proj": 1.2}, overlap_contention=1.2, noise=0.01)
    )
    rows = rows_of(trace)
    expected = check(trace, rows)
    products = [one for one in expected.values() if one["D_thr"] is not None]
    assert len(products) > 50
    assert all(one["Ovr_freq"] > 1 for one in products)


@pytest.mark.real
@pytest.mark.skipif(FOLDER is None, reason="CHOPPER_REAL_DATA is not set")
def test_real_mi210_counters_against_the_formulas():
    root = Path(FOLDER, "counters", "rocprofv3", "mi210_vllm_packed")
    rows = rocprof_rows(*root.rglob("*counter_collection.csv"))
    for i, row in enumerate(rows):
        row |= {"gpu": 0, "iteration": i, "phase": "forward", "layer": None, "op": "linear"}
        row |= {"flops": 196608 * 16384, "name": "gemm_bf16_128x32"}  # MFMA of 16384 FLOP each
        row["counters"]["SQ_INSTS_VALU_MFMA_MOPS_BF16"] = 196608 * 16384 / 512
    trace = counted_trace(rows, "AMD Instinct MI210")
    peak = 104 * 1024 * 1.7e9
    expected = check(trace, rows, units=104, dies=1, peak=peak, clock=1.7e9)
    for one in expected.values():
        assert one["Ovr_inst"] == 1
        chain = one["D_thr"] * one["Ovr_inst"] * one["Ovr_util"]
        assert chain == pytest.approx(one["D_peak"], rel=1e-12)


@pytest.mark.real
@pytest.mark.skipif(FOLDER is None, reason="CHOPPER_REAL_DATA is not set")
def test_real_mi210_counters_that_were_read_and_matched_against_the_formulas():
    root = Path(FOLDER, "counters", "rocprofv3", "mi210_vllm_packed")
    rows = rocprof_rows(*root.rglob("*counter_collection.csv"))
    place = {"gpu": 0, "phase": "forward", "layer": None, "op": "linear", "kind": "compute"}
    rows = [
        row | place | {"iteration": i, "flops": 196608 * 16384} for i, row in enumerate(rows)
    ]  # the timed run is the one that counted, without its counters
    timed = counted_trace([row | {"counters": {}} for row in rows], "AMD Instinct MI210")
    trace = add_counters(timed, root)
    assert set(trace.quality.counted["op"].values()) == {1.0}
    expected = check(
        trace, rows, units=104, dies=1, peak=104 * 1024 * 1.7e9, clock=1.7e9
    )  # instructions by format were not counted, so that factor is null
    found = [100 / one["Ovr_util"] for one in expected.values()]
    assert found == pytest.approx([25.830, 26.314, 25.630], abs=5e-4)

"""Measures from counters: formulas of each architecture worked out by hand, and real files."""

import csv
import math
import os
from pathlib import Path

import numpy as np
import pytest
from counted_traces import counted_trace, rocprof_rows
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.analysis import counted, expressions
from chopper_jupyter.core.errors import SchemaError

FOLDER = os.environ.get("CHOPPER_REAL_DATA")


def measures(counters, gpu="AMD Instinct MI300X"):
    """Measures of one kernel."""
    trace = counted_trace([{"counters": counters}], gpu)
    found = counted.counted_measures(trace, trace.kernels)
    return {name: float(values[0]) for name, values in found.items()}


def test_amd_cycles_and_utilisation():
    found = measures(
        {"GRBM_GUI_ACTIVE": 800_000, "SQ_VALU_MFMA_BUSY_CYCLES": 60_800_000, "SQ_WAVES": 3}
    )
    assert found == {
        "cycles": 100_000,
        "matrix_busy_cycles": 60_800_000,
        "matrix_capacity_cycles": 4 * 304 * 100_000,
    }


def test_amd_operations_by_format_add_up():
    found = measures({"SQ_INSTS_VALU_MFMA_MOPS_BF16": 10, "SQ_INSTS_VALU_MFMA_MOPS_F8": 3})
    assert found == {
        "matrix_flops_bf16": 5120,
        "matrix_flops_fp8": 1536,
        "matrix_flops": 6656,
    }


READS = {
    "AMD Instinct MI210": (
        {"TCC_EA_RDREQ_sum": 10, "TCC_EA_RDREQ_32B_sum": 4}, 4 * 32 + 6 * 64),
    "AMD Instinct MI300X": (
        {"TCC_EA0_RDREQ_sum": 10, "TCC_EA0_RDREQ_32B_sum": 4, "TCC_BUBBLE_sum": 1},
        128 + 5 * 64 + 4 * 32),
    "AMD Instinct MI355X": (
        {"TCC_EA0_RDREQ_32B_sum": 4, "TCC_EA0_RDREQ_64B_sum": 5, "TCC_EA0_RDREQ_128B_sum": 6},
        4 * 32 + 5 * 64 + 6 * 128),
}  # fmt: skip
WRITES = {
    "AMD Instinct MI210": ("TCC_EA_WRREQ_sum", "TCC_EA_WRREQ_64B_sum"),
    "AMD Instinct MI300X": ("TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum"),
    "AMD Instinct MI355X": ("TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum"),
}


@pytest.mark.parametrize("gpu", READS)
def test_amd_memory_traffic_of_each_generation(gpu):
    counters, expected = READS[gpu]
    all_, large = WRITES[gpu]
    found = measures(counters | {all_: 10, large: 7}, gpu)
    assert found == {"hbm_read_bytes": expected, "hbm_write_bytes": 3 * 32 + 7 * 64}


def test_sizes_derived_by_the_tool_stand_in_except_where_they_are_wrong():
    derived = {"FETCH_SIZE": 2, "WRITE_SIZE": 3}
    assert measures(derived) == {"hbm_read_bytes": 2048, "hbm_write_bytes": 3072}
    assert measures(derived, "AMD Instinct MI355X") == {"hbm_write_bytes": 3072}
    counters, expected = READS["AMD Instinct MI300X"]
    assert measures(derived | counters)["hbm_read_bytes"] == expected


OPS = "sm__ops_path_tensor_"


def test_nvidia_operations_of_one_level_only():
    leaves = {
        OPS + "op_hgmma_src_bf16_dst_fp32_sparsity_off.sum": 100,
        OPS + "op_hmma_src_bf16_dst_fp32_sparsity_off.sum": 20,
        OPS + "op_hmma_src_bf16_dst_fp32_sparsity_on.sum": 3,
    }
    parents = {OPS + "src_bf16_dst_fp32.sum": 123, OPS + "src_bf16.sum": 123}
    whole = {OPS + "op_imma_src_int8_sparsity_off.sum": 999}
    gpu = "NVIDIA H100 80GB HBM3"
    for counters in (leaves | parents | whole, parents, {OPS + "src_bf16.sum": 123}):
        assert measures(counters, gpu) == {"matrix_flops_bf16": 123, "matrix_flops": 123}


def test_nvidia_cycles_utilisation_and_memory():
    found = measures(
        {
            "gpc__cycles_elapsed.max": 1000,
            "sm__cycles_elapsed.avg": 900,
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 40,
            "dram__bytes_read.sum": 5,
            "dram__bytes_write.sum": 6,
            "gpu__time_duration.sum": 700,
        },
        "NVIDIA H100 80GB HBM3",
    )
    assert found == {
        "cycles": 1000,
        "matrix_busy_cycles": 0.4 * 900 * 132,
        "matrix_capacity_cycles": 900 * 132,
        "hbm_read_bytes": 5,
        "hbm_write_bytes": 6,
        "counted_ns": 700,
    }


def test_what_is_not_counted_is_not_zero():
    rows = [
        {"counters": {"GRBM_GUI_ACTIVE": 800, "SQ_VALU_MFMA_BUSY_CYCLES": 0}},
        {"counters": {"GRBM_GUI_ACTIVE": 1600}},
        {},
        {"counters": {"SQ_VALU_MFMA_BUSY_CYCLES": 7}},
    ]
    trace = counted_trace(rows)
    found = counted.counted_measures(trace, trace.kernels)
    np.testing.assert_array_equal(found["cycles"], [100, 200, np.nan, np.nan])
    np.testing.assert_array_equal(found["matrix_busy_cycles"], [0, np.nan, np.nan, np.nan])
    capacity = [4 * 304 * 100, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(found["matrix_capacity_cycles"], capacity)


def test_a_counter_of_several_passes_is_averaged():
    assert measures({"GRBM_GUI_ACTIVE": [800, 840]})["cycles"] == 102.5


def test_kernels_in_any_order_and_selection():
    rows = [{"kernel_id": 9 - i, "counters": {"GRBM_GUI_ACTIVE": 8 * i}} for i in range(4)]
    trace = counted_trace(rows)
    some = trace.kernels.take([3, 1])
    np.testing.assert_array_equal(counted.counted_measures(trace, some)["cycles"], [3, 1])


def test_several_gpus_use_their_own_hardware():
    rows = [{"gpu": g, "counters": {"GRBM_GUI_ACTIVE": 800}} for g in (0, 1)]
    trace = counted_trace(rows)
    names = trace.gpus.set_column(4, "name", [["AMD Instinct MI300X", "AMD Instinct MI210"]])
    mixed = type(trace).from_tables({**trace.tables, "gpus": names})
    found = counted.counted_measures(mixed, mixed.kernels)["cycles"]
    np.testing.assert_array_equal(found, [100, 800])


def test_an_unknown_gpu_has_what_needs_no_hardware():
    counters = {"GRBM_GUI_ACTIVE": 800, "SQ_INSTS_VALU_MFMA_MOPS_F16": 2, "FETCH_SIZE": 1}
    found = measures(counters, "AMD Radeon Graphics")
    assert found == {"matrix_flops_fp16": 1024, "matrix_flops": 1024}


def test_no_counters_no_measures():
    trace = counted_trace([{}])
    assert counted.counted_measures(trace, trace.kernels) == {}


def test_added_expressions_come_first():
    counted.add([{"measure": "cycles", "vendor": "amd", "expression": "2 * GRBM_GUI_ACTIVE"}])
    try:
        assert measures({"GRBM_GUI_ACTIVE": 800})["cycles"] == 1600
    finally:
        counted._added.clear()
    with pytest.raises(SchemaError, match="columns"):
        counted.add([{"measure": "cycles"}])
    with pytest.raises(SchemaError, match="not an expression"):
        counted.add([{"measure": "cycles", "expression": "__import__('os')"}])


# --- Expressions --------------------------------------------------------------------------

TREES = st.recursive(
    st.integers(1, 9).map(str) | st.sampled_from(["a", "b.sum", "c_1"]),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(
        lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
    ),
    max_leaves=8,
)


@given(TREES)
def test_arithmetic_equals_pythons(text):
    values = {"a": 3.0, "b.sum": 0.5, "c_1": 7.0}
    plain = text.replace("b.sum", "0.5").replace("c_1", "7.0").replace("a", "3.0")
    try:
        expected = eval(plain)  # noqa: S307  digits and signs drawn above
    except ZeroDivisionError:
        return
    arrays = {name: np.array([value]) for name, value in values.items()}
    found = expressions.evaluate(expressions.parse(text), arrays, 1)[0]
    assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)


def test_products_bind_closer_than_sums_and_all_from_the_left():
    for text, value in (("2 + 3 * 4", 14), ("9 - 3 - 2", 4), ("8 / 4 / 2", 1), ("7 - 8 / 4", 5)):
        assert expressions.evaluate(expressions.parse(text), {}, 1)[0] == value


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "(1", "1)", "a b", "a ** b", "f(a)", "total(a)", 'total("a"', '"a"', "a[0]",
     "a; b", "1 +" * 900, "-a", "total()"],
)  # fmt: skip
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(SchemaError, match="not an expression"):
        expressions.parse(text)


# --- Real counters ------------------------------------------------------------------------

real = pytest.mark.real
needs_data = pytest.mark.skipif(FOLDER is None, reason="CHOPPER_REAL_DATA is not set")


@real
@needs_data
def test_mi210_utilisation_is_what_the_instructions_say():
    root = Path(FOLDER, "counters", "rocprofv3", "mi210_vllm_packed")
    trace = counted_trace(
        rocprof_rows(*root.rglob("*counter_collection.csv")), "AMD Instinct MI210"
    )
    found = counted.counted_measures(trace, trace.kernels)
    utilisation = found["matrix_busy_cycles"] / found["matrix_capacity_cycles"]
    np.testing.assert_allclose(100 * utilisation, [25.830, 26.314, 25.630], atol=5e-4)
    by_flops = 196608 * 16384 / (found["cycles"] * 104 * 1024)
    np.testing.assert_allclose(utilisation, by_flops, rtol=1e-12)
    clock = 1e3 * found["cycles"] / found["counted_ns"]
    np.testing.assert_allclose(clock, [1759, 1752, 1756], atol=0.6)
    np.testing.assert_array_equal(found["hbm_read_bytes"], 64 * np.array([569473, 569471, 569455]))


@real
@needs_data
def test_mi350_writes_exactly_what_was_copied():
    path = Path(FOLDER, "counters", "rocprof_compute", "no_roof", "MI350", "pmc_perf.csv")
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    wanted = ("TCC_EA0_WRREQ_64B_sum", "TCC_EA0_WRREQ_sum")
    rows = [{"counters": {n: float(line[n]) for n in wanted if line.get(n)}} for line in lines]
    trace = counted_trace(rows, "AMD Instinct MI355X")
    found = counted.counted_measures(trace, trace.kernels)["hbm_write_bytes"]
    np.testing.assert_allclose(found, 2**20 * 8, rtol=1e-3)


@real
@needs_data
def test_b30z_operations_are_the_analytic_ones():
    folder = Path(FOLDER, "counters", "nvidia", "ncu", "b30z_moe_gemm")
    with next(folder.glob("*raw.csv")).open(newline="") as file:
        lines = [line for line in csv.reader(file) if line]
    head = next(i for i, line in enumerate(lines) if line[0] == "ID")
    names, rows = lines[head], []
    for line in lines[head + 2 :]:
        cells = dict(zip(names, line, strict=True))
        kept = {n: v.replace(",", "") for n, v in cells.items() if n.startswith(("sm__", "gpc__"))}
        rows.append({"counters": {n: float(v) for n, v in kept.items() if v}})
    trace = counted_trace(rows, "B30Z")
    found = counted.counted_measures(trace, trace.kernels)
    assert set(found["matrix_flops"]) <= {1_236_950_581_248.0, 618_475_290_624.0}
    np.testing.assert_array_equal(found["matrix_flops"], found["matrix_flops_fp8"])
    elapsed = np.array([float(row["counters"]["sm__cycles_elapsed.avg"]) for row in rows])
    share = found["matrix_flops"] / (elapsed * 148 * 16384)
    busy = found["matrix_busy_cycles"] / found["matrix_capacity_cycles"]
    np.testing.assert_allclose(busy, share, rtol=1e-7)
    assert 100 * share[0] == pytest.approx(63.62018847)


@given(
    st.lists(st.integers(0, 40) | st.integers(-(2**62), 2**62), max_size=20),
    st.lists(st.integers(-5, 45) | st.integers(-(2**63), 2**63 - 1), max_size=20),
)
def test_rows_are_found_by_their_ids(ids, wanted):
    wanted = wanted + ids[::2]
    first = {one: row for row, one in reversed(list(enumerate(ids)))}
    found = counted.rows_of(np.array(ids, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [first.get(one, -1) for one in wanted]

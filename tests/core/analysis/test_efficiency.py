"""Operations, bytes and the roofline, against loops over calls and kernels."""

import json

import pytest
from counted_traces import counted_trace
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_runs import simulated_trace
from timed_traces import by_key

from chopper_jupyter.core.analysis.efficiency import efficiency
from chopper_jupyter.core.analysis.metrics import METRICS
from chopper_jupyter.core.errors import MissingDataError, SchemaError

PEAK, SPEED = 1307.4432e12, 5300e9  # MI300X, bf16 and memory
SHORTEST = 50_000  # ns in which AMD's cycles are worth something
B = "c10::BFloat16"
GEMM = {
    "name": "aten::mm", "input_shapes": "[[64, 32], [32, 16]]",
    "input_dtypes": json.dumps([B, B]), "flops": 2 * 64 * 32 * 16,
}  # fmt: skip
RELU = {"name": "aten::relu", "input_shapes": "[[64, 32]]", "input_dtypes": json.dumps([B])}
UNKNOWN = {"name": "aten::topk", "input_shapes": "[[64, 32]]", "input_dtypes": json.dumps([B])}
KINDS = [GEMM, RELU, UNKNOWN]
BYTES = {"aten::mm": 2 * (64 * 32 + 32 * 16 + 64 * 16), "aten::relu": 4 * 64 * 32}


@st.composite
def calls(draw):
    """Calls with one to three kernels each; any of them may have been counted."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(KINDS))
        kernels = []
        for _ in range(draw(st.integers(1, 3))):
            counters = {}
            if draw(st.booleans()):
                counters["SQ_INSTS_VALU_MFMA_MOPS_BF16"] = draw(st.integers(0, 300))
            if draw(st.booleans()):
                counters |= {"FETCH_SIZE": draw(st.integers(0, 9)), "WRITE_SIZE": 3}
            if draw(st.booleans()):
                counters |= {"GRBM_GUI_ACTIVE": 8000, "SQ_VALU_MFMA_BUSY_CYCLES": 50_000}
            dur = draw(st.integers(1, 50)) * draw(st.sampled_from((1, 5000)))
            kernels.append({"dur_ns": dur, "counters": counters})
        longest = max(range(len(kernels)), key=lambda i: kernels[i]["dur_ns"])
        for i, kernel in enumerate(kernels):
            kernel["flops"] = kind.get("flops") if i == longest else None
            kernel |= {"op": draw(st.sampled_from("ab")), "iteration": 0, "op_id": number}
        found.append((kind, longest, kernels))
    return found


def trace_of_calls(found):
    ops = [{"op_id": i, **kind} for i, (kind, _, _) in enumerate(found)]
    rows = [row for _, _, kernels in found for row in kernels]
    start = 0
    for row in rows:
        row["start_ns"], start = start, start + row["dur_ns"]
        row["name"] = "Cijk_BBS_gemm"
    return counted_trace(rows, ops=ops)


def known(values):
    values = [v for v in values if v is not None]
    return sum(values) if values else None


def divided(above, below, scale=1.0):
    return None if above is None or not below else pytest.approx(scale * above / below)


def by_hand(found, op):
    """One row of the answer, by loops."""
    rows = []
    for kind, longest, kernels in found:
        name = kind["name"]
        counted = [k["counters"].get("SQ_INSTS_VALU_MFMA_MOPS_BF16") for k in kernels]
        for i, kernel in enumerate(kernels):
            counters = kernel["counters"]
            row = {"op": kernel["op"], "time": kernel["dur_ns"]}
            row["flops"] = None
            if "flops" in kind:
                row["flops"] = kind["flops"] if i == longest else 0
            if "FETCH_SIZE" in counters:
                row["bytes"] = 1024 * (counters["FETCH_SIZE"] + 3)
            elif name in BYTES:
                row["bytes"] = BYTES[name] if i == longest else 0
            else:
                row["bytes"] = None
            row["matrix"] = None if counted[i] is None else 512 * counted[i]
            row["comparable"] = "flops" in kind and counted[longest] is not None
            long = kernel["dur_ns"] >= SHORTEST
            row["busy"] = 50_000 if "GRBM_GUI_ACTIVE" in counters and long else None
            rows.append(row)
    mine = [row for row in rows if row["op"] == op]
    peak = known(None if r["flops"] is None else 1e9 * r["flops"] / PEAK for r in mine)
    memory = known(None if r["bytes"] is None else 1e9 * r["bytes"] / SPEED for r in mine)
    least = []
    for r in mine:
        parts = [1e9 * r["flops"] / PEAK] if r["flops"] is not None else []
        parts += [1e9 * r["bytes"] / SPEED] if r["bytes"] is not None else []
        least.append((max(parts), r) if parts else None)
    least = [x for x in least if x is not None]
    both = [r for r in mine if r["flops"] is not None and r["bytes"] is not None]
    time = sum(r["time"] for r in mine)
    moving = sum(r["time"] for r in mine if r["bytes"] is not None)
    flops = known(r["flops"] for r in mine)
    compared = [r for r in mine if r["comparable"]]
    busy = known(r["busy"] for r in mine)
    products = [(t, r) for t, r in least if r["flops"] is not None]
    return {
        "time_ms": pytest.approx(time * 1e-6),
        "flops": flops,
        "matrix_flops": known(r["matrix"] for r in mine),
        "moved_bytes": known(r["bytes"] for r in mine),
        "bytes_known_percent": pytest.approx(100 * moving / time),
        "bandwidth_share_percent": divided(memory, moving, 100),
        "tflops": divided(flops, time, 1e-3),
        "peak_share_percent": divided(peak, time, 100),
        "bandwidth_gb_s": divided(known(r["bytes"] for r in mine), moving),
        "intensity_flop_per_byte": divided(
            known(r["flops"] for r in both), known(r["bytes"] for r in both)
        ),
        "roofline_percent": divided(
            known(t for t, _ in least), sum(r["time"] for _, r in least), 100
        ),
        "attainable_tflops": divided(
            known(r["flops"] for _, r in products), known(t for t, _ in products), 1e-3
        ),
        "utilization_percent": divided(
            busy, None if busy is None else busy / 50_000 * 4 * 304 * 1000, 100
        ),
        "padding": divided(
            known(r["matrix"] or 0 for r in compared), known(r["flops"] for r in compared)
        ),
        "bound": None if memory is None else "compute" if (peak or 0) > memory else "memory",
    }


@settings(max_examples=60, deadline=None)
@given(calls())
def test_against_loops(found):
    trace = trace_of_calls(found)
    try:
        answer = by_key(efficiency(trace), ["op"])
    except MissingDataError:
        assert not any(
            "flops" in kind or kind["name"] in BYTES or "FETCH_SIZE" in k["counters"]
            for kind, _, kernels in found
            for k in kernels
        )
        return
    for (op,), row in answer.items():
        expected = by_hand(found, op)
        assert {name: row[name] for name in expected} == expected


def test_parts_add_up_to_the_whole():
    rows = [
        {"op": "a", "gpu": g, "iteration": i, "flops": 3, "dur_ns": 7, "op_id": 0}
        for g in (0, 1)
        for i in (0, 1)
    ]
    trace = counted_trace(rows, ops=[{"op_id": 0, **GEMM}])
    whole = efficiency(trace, None).iloc[0]
    parts = efficiency(trace, ["gpu", "iteration"])
    assert whole["flops"] == 3
    assert parts["flops"].sum() / 4 == whole["flops"]
    assert parts["tflops"].tolist() == [pytest.approx(3 / 7 * 1e-3)] * 4


def test_communication_and_copies_are_left_out():
    rows = [
        {"op": "a", "flops": 3, "dur_ns": 7},
        {"op": "a", "kind": "collective", "dur_ns": 100},
        {"op": "b", "kind": "memcpy", "dur_ns": 100},
    ]
    answer = efficiency(counted_trace(rows))
    assert answer["op"].tolist() == ["a"]
    assert answer["tflops"].tolist() == [pytest.approx(3 / 7 * 1e-3)]


def test_what_the_hardware_table_lacks_is_null():
    answer = efficiency(counted_trace([{"flops": 3, "op": "a"}], "AMD Radeon Graphics")).iloc[0]
    assert answer["tflops"] > 0
    assert all(answer.isna()[n] for n in ("peak_share_percent", "bound", "attainable_tflops"))


def test_points_of_a_roofline_lie_below_their_roofs():
    answer = efficiency(simulated_trace(), ["phase", "op"])
    (roofs, _) = answer.attrs["peaks"].values()
    points = answer[answer["tflops"].gt(0) & answer["intensity_flop_per_byte"].notna()]
    assert len(points) > 10
    for row in points.to_dict("records"):
        below_memory = row["intensity_flop_per_byte"] * roofs["bandwidth_gb_s"] * 1e-3
        assert row["attainable_tflops"] <= min(below_memory, roofs["tflops"]["bf16"]) * (1 + 1e-9)
        assert row["tflops"] <= row["attainable_tflops"]


def test_a_trace_that_tells_nothing_says_how_to_record():
    with pytest.raises(MissingDataError, match="record with shapes on"):
        efficiency(counted_trace([{"op": "a"}]))
    with pytest.raises(SchemaError, match="did you mean 'op'"):
        efficiency(counted_trace([{"op": "a"}]), "opp")


def test_attributes_say_units_and_sources():
    rows = [{"op": "a", "flops": 3, "name": "gemm_bf16_64x64", "iteration": 1}]
    answer = efficiency(counted_trace(rows, warmup=0))
    units = answer.attrs["units"]
    assert units["tflops"] == "TFLOP/s"
    assert set(units) == set(answer.columns) - {"op", "bound", "bytes_source"}
    assert answer.attrs["hardware"] == {0: "MI300X"}
    roofs = {"tflops": {"bf16": pytest.approx(PEAK * 1e-12)}, "bandwidth_gb_s": SPEED * 1e-9}
    assert answer.attrs["peaks"] == {0: roofs}
    assert "counters" in answer.attrs["sources"]["matrix_flops"]
    assert answer.attrs["included"] == "iteration 1"


def test_ratios_are_those_of_the_table_of_metrics():
    rows = [{"op": "a", "flops": 3, "name": "gemm_bf16_64x64"}]
    columns = set(efficiency(counted_trace(rows)).columns)
    for name in ("tflops", "peak_share", "bandwidth", "intensity", "roofline", "utilization"):
        assert METRICS[name].column in columns

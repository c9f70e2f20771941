"""Bytes of single calls, worked out by hand: reads plus writes."""

import json

import pytest
from counted_traces import counted_trace
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.analysis import byte_model
from chopper_jupyter.core.analysis.byte_model import bytes_of
from chopper_jupyter.core.analysis.counted import hardware_of
from chopper_jupyter.core.analysis.modelled import modelled

B, F, L = "c10::BFloat16", "float", "long int"

CALLS = [
    ("relu", [[4, 8]], [B], 2 * 32 + 2 * 32),
    ("add", [[4, 8], [8], []], [B, B, "Scalar"], 2 * 32 + 2 * 8 + 2 * 32),
    ("mul", [[4, 1], [1, 8]], [F, B], 4 * 4 + 2 * 8 + 4 * 32),
    ("mul", [[4, 8], []], [B, "double"], 2 * 32 + 8 + 2 * 32),
    ("add_", [[4, 8], [4, 8], []], [B, B, "Scalar"], 3 * 64),
    ("eq", [[4, 8], []], [L, "Scalar"], 8 * 32 + 32),
    ("where", [[4, 8], [4, 8], []], ["bool", F, F], 32 + 4 * 32 + 4 + 4 * 32),
    ("silu_backward", [[4, 8], [4, 8]], [B, B], 3 * 64),
    ("copy_", [[4, 8], [4, 8], []], [B, F, "Scalar"], 2 * 32 + 4 * 32),
    ("fill_", [[4, 8], []], [F, "Scalar"], 4 * 32),
    ("sum", [[4, 8], [], [], []], [F, "ScalarList", "Scalar", ""], 4 * 32),
    ("_softmax", [[4, 8], [], []], [B, "Scalar", "Scalar"], 2 * 64),
    ("_softmax_backward_data", [[4, 8], [4, 8], [], []], [B, B, "Scalar", "Scalar"], 3 * 64),
    ("native_layer_norm", [[4, 8], [], [8], [8], []], [B, "ScalarList", B, B, "Scalar"],
     64 + 16 + 16 + 64),
    ("native_layer_norm_backward", [[4, 8], [4, 8], [], [4, 1], [4, 1], [8], [8], []],
     [B, B, "ScalarList", F, F, B, B, "ScalarList"], 64 + 64 + 16 + 16 + 16 + 16 + 64 + 32),
    ("embedding", [[100, 8], [2, 3], [], [], []], [B, L, "Scalar", "Scalar", "Scalar"],
     8 * 6 + 2 * 6 * 8 * 2),
    ("nll_loss_forward", [[6, 100], [6], [], [], []], [F, L, "", "Scalar", "Scalar"],
     6 * 8 + 6 * 4),
    ("mm", [[4, 8], [8, 16]], [B, B], 2 * (32 + 128 + 64)),
    ("addmm", [[16], [4, 8], [8, 16], [], []], [F, F, F, "", ""], 4 * (16 + 32 + 128 + 64)),
    ("bmm", [[2, 4, 8], [2, 8, 16]], [B, B], 2 * 2 * (32 + 128 + 64)),
    ("linear", [[2, 4, 8], [16, 8], []], [B, B, ""], 2 * (64 + 128 + 128)),
    ("_scaled_mm", [[16, 32], [32, 16], [], []], ["c10::Float8_e4m3fn"] * 2 + [F, F],
     512 + 512 + 2 * 256),
    ("scaled_dot_product_attention", [[2, 6, 4, 8], [2, 3, 5, 8], [2, 3, 5, 8]], [B] * 3,
     2 * (384 + 240 + 240 + 384)),
    ("_flash_attention_backward", [[2, 4, 6, 8]] * 5 + [[2, 6, 4]], [B] * 5 + [F],
     2 * 2 * 4 * 384),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "dtypes", "expected"), CALLS)
def test_calls(name, shapes, dtypes, expected):
    found = bytes_of(f"aten::{name}", json.dumps(shapes), json.dumps(dtypes))
    assert found == (expected, 0)


def test_convolutions_need_their_operations_to_know_their_output():
    shapes, kinds = [[2, 3, 9, 9], [4, 3, 3, 3], []], [F, F, ""]
    flops = 2 * 2 * 49 * 4 * 27
    found = bytes_of("aten::conv2d", json.dumps(shapes), json.dumps(kinds), flops)
    assert found.known == 4 * (2 * 3 * 81 + 4 * 27 + 2 * 4 * 49)
    shapes = [[2, 4, 7, 7], [2, 3, 9, 9], [4, 3, 3, 3], []]
    found = bytes_of("aten::convolution_backward", json.dumps(shapes), json.dumps([F] * 3 + [""]))
    assert found.known == 4 * (2 * 4 * 49 + 2 * 2 * 3 * 81 + 2 * 4 * 27)


LISTS = [
    ("_foreach_add_", [[[4, 8], [3]], [[4, 8], [3]], []], 3 * 35),
    ("_foreach_mul_", [[[4, 8], [3]], []], 2 * 35),
    ("_foreach_addcdiv_", [[[35]], [[35]], [[35]], []], 4 * 35),
    ("_foreach_copy_", [[[35]], [[35]], []], 2 * 35),
    ("_foreach_zero_", [[[35]]], 35),
    ("_foreach_norm", [[[35]], []], 35),
    ("_fused_adamw_", [[[35]], [[35]], [[35]], [[35]], [], [[1]]], 7 * 35 + 1),
    ("cat", [[[4, 8], [3, 8]], []], 2 * 56),
]


@pytest.mark.parametrize(("name", "shapes", "elements"), LISTS)
def test_lists_of_tensors_count_elements(name, shapes, elements):
    kinds = ["TensorList" if s and isinstance(s[0], list) else "Scalar" for s in shapes]
    found = bytes_of(f"aten::{name}", json.dumps(shapes), json.dumps(kinds))
    assert found == (0, elements)


def test_fused_kernels_touch_each_buffer_once():
    shapes, kinds = [[4, 8], [4, 8], []], [B, F, "Scalar"]
    found = bytes_of("triton_poi_fused_add_0", json.dumps(shapes), json.dumps(kinds))
    assert found.known == 2 * 32 + 4 * 32


@pytest.mark.parametrize(
    ("name", "shapes", "kinds"),
    [
        ("aten::topk", [[4, 8]], [F]),
        ("aten::relu", [[4, 8]], ["c10::Unheard"]),
        ("aten::relu", [[4, 8]], [F, F]),
        ("aten::relu", [[4, "8"]], [F]),
        ("aten::relu", [], []),
        ("aten::relu", {}, [F]),
        ("aten::cat", [[], []], ["TensorList", "Scalar"]),
        ("aten::_grouped_mm", [[7, 96], [96, 20], [4]], [B, B, "int"]),
    ],
)
def test_what_is_not_known_is_not_zero(name, shapes, kinds):
    assert bytes_of(name, json.dumps(shapes), json.dumps(kinds)) is None
    assert bytes_of(name, None, json.dumps(kinds)) is None
    assert bytes_of(name, json.dumps(shapes), None) is None


NAMES = sorted([*byte_model._MODELS, *byte_model._LISTS, "aten::mm", "aten::conv2d"])


@given(
    st.sampled_from(NAMES),
    st.recursive(st.integers(-2, 9) | st.none(), lambda inner: st.lists(inner, max_size=4)),
    st.lists(st.sampled_from([F, B, L, "", "Scalar", "TensorList", "x"]), max_size=5),
)
def test_nonsense_is_unknown_or_a_number(name, shapes, kinds):
    found = bytes_of(name, json.dumps(shapes), json.dumps(kinds))
    assert found is None or (found.known >= 0 and found.elements >= 0)


# --- On kernels ---------------------------------------------------------------------------


def op(op_id, name, shapes, kinds, parent=None, flops=None):
    return {
        "op_id": op_id, "name": name, "input_shapes": json.dumps(shapes),
        "input_dtypes": json.dumps(kinds), "parent_id": parent, "flops": flops,
    }  # fmt: skip


def model_of(rows, ops, gpu="AMD Instinct MI300X"):
    trace = counted_trace(rows, gpu, ops=ops)
    return trace, modelled(trace, trace.kernels)


def nan_to_none(values):
    return [None if v != v else v for v in values.tolist()]  # noqa: PLR0124  NaN


def test_a_call_puts_its_bytes_on_the_longest_kernel():
    ops = [op(1, "aten::relu", [[4, 8]], [B]), op(2, "aten::topk", [[4, 8]], [B])]
    rows = [
        {"op_id": 1, "dur_ns": 5},
        {"op_id": 1, "dur_ns": 9},
        {"op_id": 2},
        {"op_id": None},
        {"op_id": 1, "dur_ns": 99, "kind": "memcpy"},
    ]
    _, found = model_of(rows, ops)
    assert nan_to_none(found.bytes) == [0, 128, None, None, None]


def test_the_innermost_known_operator_counts_bytes_and_the_counted_one_operations():
    ops = [
        op(1, "aten::linear", [[4, 8], [16, 8], []], [F, F, ""], flops=1024),
        op(2, "aten::copy_", [[4, 8], [4, 8], []], [B, F, "Scalar"], parent=1),
        op(3, "aten::mm", [[4, 8], [8, 16]], [B, B], parent=1),
        op(4, "aten::resolve_conj", [[4, 8]], [B], parent=3),
    ]
    rows = [
        {"op_id": 2, "family": "copy"},
        {"op_id": 4, "flops": 1024, "dur_ns": 20},
        {"op_id": 3, "flops": None, "dur_ns": 10},
    ]
    trace, found = model_of(rows, ops)
    assert nan_to_none(found.bytes) == [2 * 32 + 4 * 32, 2 * (32 + 128 + 64), 0]
    assert nan_to_none(found.flops) == [0, 1024, 0]
    assert len(set(found.call.tolist())) == 1
    assert [found.formats[f] for f in found.form.tolist()][1] == "bf16"
    peaks = found.peaks(trace.kernels["gpu"].to_numpy(), hardware_of(trace))
    assert peaks[1] == pytest.approx(1307.4e12, rel=1e-3)


@pytest.mark.parametrize(
    ("kernel", "kinds", "gpu", "tflops"),
    [
        ("sm90_xmma_gemm_f32f32_tf32f32_f32", [F, F], "NVIDIA H100 80GB HBM3", 494.7),
        ("sgemm_128x128", [F, F], "NVIDIA H100 80GB HBM3", 66.9),
        ("Cijk_SB", [F, F], "AMD Instinct MI210", 45.26),
        ("Cijk_BBS", ["c10::Float8_e4m3fnuz", B], "AMD Instinct MI300X", 2614.9),
        ("Cijk_BBS", ["double", "double"], "AMD Instinct MI300X", None),
        ("Cijk_BBS", [B, B], "AMD Radeon Graphics", None),
    ],
)
def test_the_peak_is_that_of_the_format_that_runs(kernel, kinds, gpu, tflops):
    ops = [op(1, "aten::mm", [[4, 8], [8, 16]], kinds, flops=1024)]
    trace, found = model_of([{"op_id": 1, "flops": 1024, "name": kernel}], ops, gpu)
    peak = found.peaks(trace.kernels["gpu"].to_numpy(), hardware_of(trace))[0]
    assert peak != peak if tflops is None else peak == pytest.approx(tflops * 1e12, rel=2e-4)  # noqa: PLR0124


def test_without_operators_the_kernel_tells_its_format():
    _, found = model_of([{"flops": 9, "name": "nvjet_tst_128x256_bf16"}, {"flops": 9}], [])
    assert found.call[0] != found.call[1]
    assert nan_to_none(found.bytes) == [None, None]
    assert found.form.tolist()[1] == -1


def test_lists_take_their_element_size_from_the_kernel():
    ops = [op(1, "aten::_foreach_mul_", [[[35]], []], ["TensorList", "Scalar"])]
    named = "multi_tensor_apply_kernel<BinaryOpScalarFunctor<c10::BFloat16, 1, 1, 0>>"
    _, found = model_of([{"op_id": 1, "name": named}], ops)
    assert found.bytes.tolist() == [2 * 70]
    _, found = model_of([{"op_id": 1, "name": "opaque"}], ops)
    assert nan_to_none(found.bytes) == [None]

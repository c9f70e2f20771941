"""Each call counts once, on one kernel; whole programs against torch's own counter."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from builders import Rank
from models import Llama, batch, cross_entropy

from chopper_jupyter import read_trace
from chopper_jupyter.core.align.link import link
from chopper_jupyter.core.importers.json_events import Document
from chopper_jupyter.core.importers.kineto_events import events_of

torch = pytest.importorskip("torch")

FOLDER = os.environ.get("CHOPPER_REAL_DATA")
PRODUCT = {"Input Dims": [[6, 4], [8, 4], [8]]}
INNER = {"Input Dims": [[8], [6, 4], [4, 8], [], []]}
COUNT = 2 * 6 * 4 * 8


def linked(rank):
    document = rank.document()
    return link(events_of(Document(document.pop("traceEvents"), document), "test"))


def of_ops(made):
    return {row["name"]: row["flops"] for row in made.ops.to_pylist()}


def of_kernels(made):
    return {row["name"]: row["flops"] for row in made.kernels.to_pylist()}


def test_nested_operators_count_once():
    rank = Rank()
    with (
        rank.op("aten::linear", **PRODUCT),
        rank.op("aten::addmm", **INNER),
        rank.annotation("mine"),
        rank.op("aten::mm", **{"Input Dims": [[6, 4], [4, 8]]}),
    ):
        rank.launch("Cijk_gemm")
    made = linked(rank)
    assert of_ops(made) == {"aten::linear": COUNT, "aten::addmm": None, "aten::mm": None}
    assert of_kernels(made) == {"Cijk_gemm": COUNT}


def test_an_operator_of_unknown_shapes_leaves_the_count_to_one_inside():
    rank = Rank()
    with rank.op("aten::linear"), rank.op("aten::addmm", **INNER):
        rank.launch("Cijk_gemm")
    assert of_ops(linked(rank)) == {"aten::linear": None, "aten::addmm": COUNT}


def test_the_longest_matrix_kernel_carries_all_of_a_call():
    rank = Rank()
    with rank.op("aten::linear", **PRODUCT), rank.op("aten::addmm", **INNER):
        rank.launch("elementwise_kernel", dur=90)
        rank.launch("Cijk_gemm_one", dur=10)
        rank.launch("Cijk_gemm_two", dur=20)
        rank.launch("Memset", dur=99, kernel_cat="gpu_memset")
    with rank.op("aten::mm", **{"Input Dims": [[3, 3], [3, 3]]}):
        rank.launch("some_kernel", dur=4)
        rank.launch("another_kernel", dur=5)
    found = of_kernels(linked(rank))
    assert {name: flops for name, flops in found.items() if flops is not None} == {
        "Cijk_gemm_two": COUNT,
        "another_kernel": 54,
    }


ATTENTION = {"Input Dims": [[2, 4, 8, 16]] * 3}
CAUSAL = ["", "", "", "", "0.", "True", "", "False"]


def test_a_call_that_knows_its_mask_counts_before_one_that_does_not():
    rank = Rank()
    with (
        rank.op("FlashAttnFunc", **{"Input Dims": [[2, 8, 4, 16]] * 3}),
        rank.op("aten::scaled_dot_product_attention", **ATTENTION, **{"Concrete Inputs": CAUSAL}),
    ):
        rank.launch("flash_fwd_kernel")
    made = linked(rank)
    half = 2 * 2 * 4 * 8 * 8 * 16
    assert of_ops(made) == {"FlashAttnFunc": None, "aten::scaled_dot_product_attention": half}
    assert made.quality.notes == ()


def test_calls_that_hide_their_mask_are_noted():
    rank = Rank()
    with (
        rank.op("aten::scaled_dot_product_attention", **ATTENTION),
        rank.op("aten::_scaled_dot_product_flash_attention", **ATTENTION),
    ):
        rank.launch("flash_fwd_kernel")
    made = linked(rank)
    assert sum(n or 0 for n in of_ops(made).values()) == 4 * 2 * 4 * 8 * 8 * 16
    (note,) = made.quality.notes
    assert note.startswith("1 attention calls do not tell whether they are causal")


def test_shapes_too_large_for_any_gpu_are_unknown():
    rank = Rank()
    with rank.op("aten::mm", **{"Input Dims": [[2**40, 2**40], [2**40, 2**40]]}):
        rank.launch("Cijk_gemm")
    assert of_kernels(linked(rank)) == {"Cijk_gemm": None}


def test_a_recording_without_shapes_has_no_flops():
    rank = Rank()
    with rank.op("aten::mm"):
        rank.launch("Cijk_gemm")
    rank.launch("unlinked")
    made = linked(rank)
    assert made.kernels["flops"].null_count == 2
    assert made.ops["flops"].null_count == made.ops.num_rows


def test_small_llama_equals_the_counter_of_torch(tmp_path):
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415  heavy

    model = Llama()
    tokens, targets = batch()
    counter = FlopCounterMode(display=False)
    with counter:
        cross_entropy(model(tokens), targets).backward()
    expected = counter.get_flop_counts()["Global"]
    path = tmp_path / "trace.json"
    with torch.profiler.profile(record_shapes=True, acc_events=True) as recording:
        cross_entropy(model(tokens), targets).backward()
    recording.export_chrome_trace(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = read_trace(path)
    found = trace.ops.select(["name", "flops"]).to_pylist()
    attention = [r["flops"] for r in found if r["flops"] and "dot_product" in r["name"]]
    products = sum(r["flops"] for r in found if r["flops"]) - sum(attention)
    assert products == expected[torch.ops.aten.mm]
    half = 2 * 2 * 4 * 16 * 16 * 8  # batch 2, 4 heads of 8, 16 x 16 positions, causal
    assert sorted(attention) == [half] * 4 + [half * 5 // 2] * 4
    kernels = trace.kernels["flops"].drop_null().to_numpy()
    assert kernels.sum() == products + np.sum(attention)


BERT_SMALL = {
    (141, 512, 512): 17,  # query, key, value and output of 4 layers, and the head's transform
    (141, 512, 2048): 4,
    (141, 2048, 512): 4,
    (141, 512, 30522): 1,
}
"""(m, k, n) of every product of one forward pass, and how often it occurs."""


@pytest.mark.real
@pytest.mark.skipif(FOLDER is None, reason="CHOPPER_REAL_DATA is not set")
@pytest.mark.parametrize("gpu", ["h100", "mi300"])
def test_products_of_bert_small(gpu):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = read_trace(Path(FOLDER, "traces", "tracelens", f"{gpu}_bert_small.json.gz"))
    rows = [r for r in trace.kernels.to_pylist() if r["flops"]]
    gemms = sorted(r["flops"] for r in rows if r["family"] == "gemm")
    expected = [2 * m * k * n for (m, k, n), times in BERT_SMALL.items() for _ in range(times)]
    assert gemms == sorted(expected)
    attention = [r["flops"] for r in rows if r["family"] == "attention"]
    assert attention == [4 * 8 * 141 * 141 * 64] * 4  # BERT sees both ways

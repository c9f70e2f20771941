"""Levels of kernels in small ranks written as a program would run them."""

from __future__ import annotations

import pytest
from builders import Rank

from chopper_jupyter.core.align.link import link
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.json_events import Document
from chopper_jupyter.core.importers.kineto_events import events_of


def linked(rank: Rank):
    document = rank.document()
    return link(events_of(Document(document.pop("traceEvents"), document), "test"))


def rows(rank: Rank) -> dict[str, dict]:
    """Kernels by name; tests give each its own."""
    return {row["name"]: row for row in linked(rank).kernels.to_pylist()}


def levels(row: dict) -> tuple:
    return row["phase"], row["layer"], row["op"]


def train_step(r: Rank, iteration: int, layers: int = 2, flows: bool = True) -> None:
    """One iteration of a small model: blocks with a norm and a linear, head, loss, step."""
    r.mark(iteration)
    base = 100 * iteration
    made = []
    with r.module("", "Net"):
        for i in range(layers):
            with r.module(f"blocks.{i}", "Block"):
                with r.module(f"blocks.{i}.fc", "Linear"), r.op("aten::linear", seq=base + i) as op:
                    r.launch(f"fc{i}_{iteration}")
                    made.append(op)
                with r.op("aten::add", seq=base + 20 + i):
                    r.launch(f"add{i}_{iteration}")
        with r.module("head", "Linear"), r.op("aten::linear", seq=base + 40) as op:
            r.launch(f"head_{iteration}")
            made.append(op)
    with r.op("aten::cross_entropy_loss", seq=base + 41) as op:
        r.launch(f"loss_{iteration}")
        made.append(op)
    for op, number in zip(made[::-1], [41, 40, *range(layers - 1, -1, -1)], strict=True):
        name = {41: "loss", 40: "head"}.get(number, f"fc{number}")
        with r.backward("Backward0", base + number, tid=999) as node:
            r.launch(f"{name}_back_{iteration}")
            if flows:
                r.pair(op, node)
        with r.range("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
                     tid=999), r.op("aten::add_"):  # fmt: skip
            r.launch(f"{name}_grad_{iteration}")
    with r.op("aten::_foreach_norm"):
        r.launch(f"clip_{iteration}")
    with r.annotation("Optimizer.step#AdamW.step"), r.op("aten::_fused_adamw_"):
        r.launch(f"step_{iteration}")


@pytest.mark.parametrize("flows", [True, False])
@pytest.mark.parametrize("amd", [True, False])
def test_every_kernel_of_a_training_step_has_its_levels(flows, amd):
    r = Rank(amd=amd)
    train_step(r, 0, flows=flows)
    train_step(r, 1, flows=flows)
    found = rows(r)
    for k in (0, 1):
        expected = {
            f"fc0_{k}": ("forward", "blocks.0", "fc"),
            f"add1_{k}": ("forward", "blocks.1", "aten::add"),
            f"head_{k}": ("forward", "head", "head"),
            f"loss_{k}": ("forward", None, "loss"),
            f"loss_back_{k}": ("backward", None, "loss"),
            f"head_back_{k}": ("backward", "head", "head"),
            f"fc1_back_{k}": ("backward", "blocks.1", "fc"),
            f"fc0_grad_{k}": ("backward", "blocks.0", "fc"),
            f"clip_{k}": ("optimizer", None, "clip"),
            f"step_{k}": ("optimizer", None, "optimizer_step"),
        }
        assert {name: levels(found[name]) for name in expected} == expected
        assert {found[name]["iteration"] for name in expected} == {k}
    assert found["fc1_1"]["module"] == "blocks.1.fc"
    assert all(row["launch_kind"] == "runtime" for row in found.values())


def test_sequence_numbers_of_another_thread_are_not_taken():
    r = Rank()
    for thread, path in ((1, "a"), (2, "b")):
        r.tid = thread
        with r.module(path, "Linear", root=f"M{path}"), r.op("aten::mm", seq=5):
            r.launch(f"{path}_forward")
        with r.module(f"{path}{path}", "Linear", root=f"M{path}"), r.op("aten::mm", seq=5 + thread):
            r.launch(f"{path}_unique")
    for thread, path in ((1, "a"), (2, "b")):  # unique numbers teach which id is which thread
        with r.backward("MmBackward0", 5 + thread, fwd=thread, tid=77):
            r.launch(f"{path}_unique_back")
        with r.backward("MmBackward0", 5, fwd=thread, tid=77):
            r.launch(f"{path}_back")
    found = rows(r)
    assert found["a_back"]["module"] == "a"
    assert found["b_back"]["module"] == "b"


def test_an_unknown_forward_gives_no_layer_instead_of_a_wrong_one():
    r = Rank()
    with r.module("head", "Linear"), r.op("aten::mm", seq=1):
        r.launch("forward")
    with r.backward("MmBackward0", 99):
        r.launch("back")
    assert levels(rows(r)["back"]) == ("backward", None, "MmBackward0")


def test_a_compiled_region_names_its_work_in_its_module():
    r = Rank()
    for block in range(2):
        with (
            r.module(f"blocks.{block}", "OptimizedModule"),
            r.op("Torch-Compiled Region: 0/0"), r.op("CompiledFunction", seq=block),
            r.op("aten::mm"),
        ):  # fmt: skip
            r.launch(f"forward_{block}")
    with r.backward("CompiledFunctionBackward", 1, tid=9):
        r.launch("back_1")
    made = linked(r)
    assert [note for note in made.quality.notes if "torch.compile calls no modules" in note]
    found = {row["name"]: row for row in made.kernels.to_pylist()}
    region = "Torch-Compiled Region: 0/0"
    assert levels(found["forward_0"]) == ("forward", "blocks.0", region)
    assert levels(found["back_1"]) == ("backward", "blocks.1", region)


def test_recomputed_forward_is_backward_and_marked():
    r = Rank()
    with r.module("blocks.0", "Block"), r.module("blocks.0.fc"), r.op("aten::mm", seq=1):
        r.launch("first")
    with r.module("blocks.1", "Block"), r.module("blocks.1.fc"), r.op("aten::mm", seq=2):
        r.launch("second")
    with (
        r.backward("CheckpointFunctionBackward", 1, tid=9),
        r.module("blocks.0", "Block"), r.module("blocks.0.fc"), r.op("aten::mm", seq=3),
    ):  # fmt: skip
        r.launch("again")
    row = rows(r)["again"]
    assert levels(row) == ("backward", "blocks.0", "fc")
    assert row["recompute"]
    assert not rows(r)["first"]["recompute"]


def test_micro_batches_count_pairs_inside_an_iteration():
    r = Rank()
    for k in range(2):
        r.mark(k)
        for m in range(3):
            with r.module("fc", "Linear"), r.op("aten::mm", seq=10 * k + m):
                r.launch(f"f{k}{m}")
            with r.backward("MmBackward0", 10 * k + m, tid=9):
                r.launch(f"b{k}{m}")
        with r.annotation("Optimizer.step#SGD.step"), r.op("aten::add_"):
            r.launch(f"s{k}")
    found = rows(r)
    for k in range(2):
        for m in range(3):
            assert found[f"f{k}{m}"]["micro_batch"] == found[f"b{k}{m}"]["micro_batch"] == m
        assert found[f"s{k}"]["micro_batch"] is None
        assert found[f"s{k}"]["iteration"] == k


def scaled_step(r: Rank, number: int) -> None:
    """One iteration with a GradScaler, from its mark to the update; kernels are numbered."""
    r.mark(number)
    with r.module("fc", "Linear"), r.op("aten::mm", seq=number):
        r.launch(f"forward_{number}")
    with r.backward("MmBackward0", number, tid=9):
        r.launch(f"back_{number}")
    for name in ("reciprocal", "full", "_amp_foreach_non_finite_check_and_unscale_"):
        with r.op(f"aten::{name}"):
            r.launch(f"{name}_{number}")
    with r.op("aten::reciprocal"):
        r.launch(f"clip_{number}")
    with r.annotation("Optimizer.step#SGD.step"), r.op("aten::add_"):
        r.launch(f"step_{number}")
    for name in ("to", "add_", "_amp_update_scale_"):
        with r.op(f"aten::{name}"):
            r.launch(f"{name}_{number}")
    with r.annotation("Optimizer.zero_grad#SGD.zero_grad"), r.op("aten::zero_"):
        r.launch(f"zero_{number}")


def test_what_a_grad_scaler_runs_is_part_of_the_iteration_it_ends():
    r = Rank()
    for number in range(2):
        with r.op("aten::to"):
            r.launch(f"loading_{number}")
        scaled_step(r, number)
    found = rows(r)
    for number in range(2):
        assert levels(found[f"clip_{number}"]) == ("optimizer", None, "clip")
        unscaling = ("reciprocal", "full", "_amp_foreach_non_finite_check_and_unscale_")
        for name in (*unscaling, "to", "add_", "_amp_update_scale_"):
            assert levels(found[f"{name}_{number}"]) == ("optimizer", None, "unscale")
            assert found[f"{name}_{number}"]["iteration"] == number
        assert found[f"zero_{number}"]["iteration"] == number
        assert found[f"loading_{number}"]["iteration"] == number
        assert found[f"loading_{number}"]["phase"] != "optimizer"


def test_a_user_range_names_the_operation_only_where_no_module_is_inside():
    r = Rank()
    with r.annotation("train step"), r.module("mlp", "MLP"):
        with r.annotation("gate"), r.op("aten::mul"):
            r.launch("inside")
        with r.module("mlp.up", "Linear"), r.op("aten::mm"):
            r.launch("leaf")
    with r.annotation("my loss"), r.op("aten::sum"):
        r.launch("outside")
    found = rows(r)
    assert levels(found["inside"]) == ("forward", "mlp", "gate")
    assert levels(found["leaf"]) == ("forward", "mlp", "up")
    assert found["outside"]["op"] == "my loss"


def test_fsdp_communication_takes_its_layer_from_the_range():
    r = Rank()
    for i in range(2):
        with r.module(f"layers.{i}", "Block"):
            with r.annotation(f"FSDP::pre_forward (layers.{i})"):
                with r.op("fsdp::all_gather_copy_in"):
                    r.launch(f"copy{i}")
                with r.op("c10d::_allgather_base_"), r.range("nccl:_all_gather_base"):
                    r.launch(f"ncclDevKernel_AllGather_RING_LL_{i}", stream=20)
            with r.module(f"layers.{i}.fc"), r.op("aten::mm"):
                r.launch(f"mm{i}")
    found = rows(r)
    gathered = found["ncclDevKernel_AllGather_RING_LL_1"]
    assert levels(gathered) == ("forward", "layers.1", "all_gather")
    assert (gathered["kind"], gathered["collective"]) == ("collective", "all_gather")
    assert levels(found["copy1"]) == ("forward", "layers.1", "fsdp_copy")
    assert found["copy1"]["kind"] == "compute"
    assert levels(found["mm1"]) == ("forward", "layers.1", "fc")


def test_graph_launches_share_one_call_and_have_no_launch_length():
    r = Rank()
    with r.op("replay"):
        r.launch("graphed", call="hipGraphLaunch", count=4)
    table = linked(r)
    assert table.kernels["launch_kind"].to_pylist() == ["graph"] * 4
    assert table.kernels["launch_ns"].null_count == 0
    assert table.kernels["launch_dur_ns"].null_count == 4
    assert any("share their launch call" in note for note in table.quality.notes)


def test_kernels_without_a_launch_stay_and_are_counted():
    r = Rank()
    with r.op("aten::mm"):
        (event,) = r.launch("kept")
    event["args"] |= {"correlation": 424242, "External id": 0}
    table = linked(r)
    assert table.kernels.num_rows == 1
    assert table.kernels["launch_ns"].to_pylist() == [None]
    assert table.quality.linked["launch"] == 0


def test_without_correlation_the_external_id_finds_the_operator():
    r = Rank()
    with r.module("fc", "Linear"), r.op("aten::mm"):
        (event,) = r.launch("k")
    event["args"].pop("correlation")
    assert levels(rows(r)["k"]) == ("forward", "fc", "fc")


def test_a_fused_file_with_colliding_ids_is_refused():
    a, b = Rank(pid=1), Rank(pid=2, device=1)
    for r in (a, b):
        with r.op("aten::mm"):
            r.launch("k")
    a.events += b.events
    with pytest.raises(TraceFormatError, match="several processes"):
        linked(a)


def test_cpu_only_traces_have_the_operators_that_compute_as_kernels():
    r = Rank(gpu=None)
    with r.module("fc", "Linear"), r.op("aten::linear"):
        with r.op("aten::t"):
            r.now += 20
        with r.op("aten::addmm"):
            r.now += 50
    table = linked(r)
    assert table.device_kind == "cpu"
    assert table.kernels["name"].to_pylist() == ["aten::t", "aten::addmm"]
    assert table.kernels["layer"].to_pylist() == ["fc", "fc"]


@pytest.mark.parametrize(
    ("names", "told"),
    [(["all_reduce"], ["all_reduce"]), (["new"], ["collective"])],
)
def test_collectives_of_gloo_are_kernels_that_name_themselves(names, told):
    r = Rank(gpu=None)
    with r.module("fc", "Linear"), r.op("aten::mm"):
        r.now += 50
    for name in names:
        with r.annotation(f"gloo:{name}"):
            r.now += 20
    table = linked(r).kernels.to_pylist()
    assert [(row["kind"], row["collective"], row["op"]) for row in table] == [
        ("compute", None, "fc"), *(("collective", name, name) for name in told),
    ]  # fmt: skip


def test_an_operator_that_only_asks_a_flag_of_another_is_no_kernel():
    r = Rank(gpu=None)
    with r.op("aten::matmul"), r.op("aten::mm") as mm:
        with r.op("aten::resolve_conj"):
            pass
        r.now += 500
    with r.op("aten::resolve_conj"):
        pass
    table = linked(r)
    assert table.kernels["name"].to_pylist() == ["aten::mm", "aten::resolve_conj"]
    assert table.kernels["dur_ns"][0].as_py() == round(mm["dur"] * 1000)


def test_stack_rows_give_layers_where_nothing_is_annotated():
    r = Rank()

    def module(label: str):
        return r.range(f"nn.Module: {label}", "python_function")

    with module("Llama_0"):
        for i in range(2):
            with module(f"Block_{i}"):
                for j in (2 * i, 2 * i + 1):
                    with module(f"Linear_{j}"), r.op("aten::mm"):
                        r.launch(f"k{j}")
    found = rows(r)
    assert levels(found["k0"]) == ("forward", "Block.0", "Linear.0")
    assert levels(found["k3"]) == ("forward", "Block.1", "Linear.1")


def test_phases_without_any_module_come_from_the_engine():
    r = Rank()
    with r.op("aten::linear", seq=1) as forward:
        r.launch("f")
    with r.backward("AddmmBackward0", 1, tid=9) as node:
        r.launch("b")
    r.pair(forward, node)
    with r.annotation("Optimizer.step#SGD.step"), r.op("aten::add_"):
        r.launch("s")
    found = rows(r)
    assert levels(found["f"]) == ("forward", None, "aten::linear")
    assert levels(found["b"]) == ("backward", None, "aten::linear")
    assert levels(found["s"]) == ("optimizer", None, "optimizer_step")


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        ("cudaStreamSynchronize", True),
        ("cudaDeviceSynchronize_v3020", True),
        ("hipEventSynchronize", True),
        ("cuCtxSynchronize", True),
        ("hipMemcpyWithStream", True),
        ("cudaMemcpyAsync", False),
        ("cudaEventRecord", False),
        ("cudaStreamSynchronizeLater", False),
    ],
)
def test_calls_that_wait_for_the_gpu_are_spans(call, waits):
    rank = Rank()
    rank.mark(3)
    with rank.module("head", "Linear"), rank.op("aten::item"):
        rank.launch("copy")
        with rank.range(call, "cuda_runtime", tid=7):
            pass
        with rank.range(call, "cuda_runtime"):
            pass
    spans = linked(rank).spans.to_pylist()
    (module,) = (span for span in spans if span["kind"] == "module")
    found = [
        (span["name"], span["iteration"], span["parent_id"])
        for span in spans
        if span["kind"] == "sync"
    ]
    inside = [(call, 3, None), (call, 3, module["span_id"])]
    assert sorted(found, key=str) == sorted(inside, key=str) * waits
    assert [span["span_id"] for span in spans] == list(range(len(spans)))


def test_waits_are_spans_where_nothing_else_of_the_host_was_recorded():
    rank = Rank()
    with rank.range("hipDeviceSynchronize", "cuda_runtime"):
        pass
    (span,) = linked(rank).spans.to_pylist()
    assert (span["kind"], span["name"]) == ("sync", "hipDeviceSynchronize")
    assert (span["parent_id"], span["iteration"]) == (None, None)

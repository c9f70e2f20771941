"""One training iteration of a sharded Llama: input, forward, loss, backward, clipping, step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chopper_jupyter.core.annotations import iteration_mark
from chopper_jupyter.simulate.iteration.llama_layers import Llama
from chopper_jupyter.simulate.iteration.script import Label, Script, Tensor
from chopper_jupyter.simulate.iteration.sharding import ROOT, Sharding
from chopper_jupyter.simulate.iteration.tape import Call, Tape, run
from chopper_jupyter.simulate.model_shape import FP32, INT64, ModelShape

if TYPE_CHECKING:
    from chopper_jupyter.simulate.iteration.kernel_catalog import Catalog

MARK = iteration_mark(0).removesuffix("0") + "\0"
"""Name of the iteration mark; a writer puts the number in place of the last character."""

STEP = "ProfilerStep#\0"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
OPTIMIZER_OPS = (
    ("aten::_foreach_mul_", "BinaryOpScalarFunctor<float, 1, 1, 0>", 1),
    ("aten::_foreach_lerp_", "TernaryOpScalarFunctor<float, 2, 2, 0>", 2),
    ("aten::_foreach_mul_", "BinaryOpScalarFunctor<float, 1, 1, 0>", 1),
    ("aten::_foreach_addcmul_", "PointwiseOpScalarFunctor<float, 3, 3, 0>", 3),
    ("aten::_foreach_sqrt", "UnaryOpFunctor<float, 2, 1, 1>", 1),
    ("aten::_foreach_add_", "BinaryOpScalarFunctor<float, 1, 1, 0>", 1),
    ("aten::_foreach_addcdiv_", "PointwiseOpScalarFunctor<float, 3, 3, 0>", 3),
)
"""Calls of AdamW over lists: operator, functor, tensors read."""


@dataclass(frozen=True)
class Step:
    """What one iteration is made of."""

    llama: Llama
    sharding: Sharding

    @property
    def script(self) -> Script:
        """The script that is written."""
        return self.llama.tape.script


def training_step(shape: ModelShape, kernels: Catalog, version: int, ranks: int) -> Script:
    """Write the script of one iteration.

    Examples
    --------
    >>> from chopper_jupyter.simulate.iteration.kernel_catalog import Catalog
    >>> script = training_step(ModelShape(layers=2), Catalog(amd=True), 2, 8)
    >>> sum(launch.work.kind == "collective" for launch in script.launches)
    9
    """
    script = Script()
    step = Step(Llama(shape, kernels, Tape(script)), Sharding(script, kernels, version, ranks))
    script.stall("iteration_boundary")
    with script.annotation(STEP):
        _input(step)
        _forward(step)
        step.llama.loss()
        step.llama.seed()
        step.llama.tape.backward()
        _optimizer(step)
        script.stall("sync")
    return script


def layer_path(number: int) -> str:
    """Return the path of a layer."""
    return f"model.layers.{number}"


def _input(step: Step) -> None:
    shape, script = step.llama.shape, step.script
    with script.annotation(LOADER):
        script.stall("input")
    tokens = Tensor((shape.batch, shape.sequence), "long int")
    work = step.llama.kernels.to_device(shape.tokens * INT64)
    with script.op("aten::to", tokens), script.op("aten::_to_copy", tokens):
        run(script, Call("aten::copy_", (tokens, tokens), (work,)), Label(None, None, "aten::to"))


def _forward(step: Step) -> None:
    llama, sharding = step.llama, step.sharding
    shape, tape = llama.shape, llama.tape
    with tape.module("", "LlamaForCausalLM"):
        with step.script.range(MARK):
            pass
        sharding.gather(ROOT, shape.outer_weights, "forward")
        sharding.gather(layer_path(0), shape.layer_weights, "forward")
        sharding.use(ROOT, shape.outer_weights, "forward")
        tape.note("RegisterPostBackwardFunction", "RegisterPostBackwardFunctionBackward", None,
                  ROOT, lambda: sharding.scatter(ROOT, shape.outer_weights))  # fmt: skip
        with tape.module("model", "LlamaModel"):
            llama.embedding()
            for number in range(shape.layers):
                if number == shape.layers // 2:
                    step.script.stall("host_sync")
                    step.script.stall("host_late")
                with tape.module(layer_path(number), "LlamaDecoderLayer"):
                    _layer(step, number)
            llama.norm("model.norm", ("model.norm", "norm"))
        last = layer_path(shape.layers - 1)
        llama.linear("lm_head", ("lm_head", "lm_head"), shape.width, shape.vocabulary)
        tape.note("aten::view_as", "ViewBackward0", None, ROOT,
                  lambda: sharding.gather(last, shape.layer_weights, "backward"))  # fmt: skip


def _layer(step: Step, number: int) -> None:
    llama, sharding = step.llama, step.sharding
    shape, tape, layer = llama.shape, llama.tape, layer_path(number)
    weights = shape.layer_weights
    if number + 1 < shape.layers:
        sharding.gather(layer_path(number + 1), weights, "forward")
    sharding.use(layer, weights, "forward")
    tape.note("RegisterPostBackwardFunction", "RegisterPostBackwardFunctionBackward", layer,
              COPY_OP, lambda: sharding.scatter(layer, weights))  # fmt: skip
    llama.norm(f"{layer}.input_layernorm", (layer, "input_layernorm"))
    with tape.module(f"{layer}.self_attn", "LlamaAttention"):
        for name, out in (("q_proj", shape.width), ("k_proj", shape.kv_width),
                          ("v_proj", shape.kv_width)):  # fmt: skip
            _linear(step, layer, f"self_attn.{name}", shape.width, out)
        llama.rotary(layer, shape.heads)
        llama.rotary(layer, shape.kv_heads)
        llama.attention(layer)
        _linear(step, layer, "self_attn.o_proj", shape.width, shape.width)
    llama.residual(layer)
    llama.norm(f"{layer}.post_attention_layernorm", (layer, "post_attention_layernorm"))
    with tape.module(f"{layer}.mlp", "LlamaMLP"):
        _linear(step, layer, "mlp.gate_proj", shape.width, shape.hidden)
        llama.gate(layer)
        _linear(step, layer, "mlp.up_proj", shape.width, shape.hidden)
        llama.gated(layer)
        _linear(step, layer, "mlp.down_proj", shape.hidden, shape.width)
    llama.residual(layer)
    tape.note("aten::view_as", "ViewBackward0", layer, COPY_OP,
              lambda: _before_backward(step, number))  # fmt: skip


COPY_OP = "aten::view_as"


def _linear(step: Step, layer: str, name: str, wide: int, out: int) -> None:
    step.llama.linear(f"{layer}.{name}", (layer, name), wide, out)


def _before_backward(step: Step, number: int) -> None:
    weights = step.llama.shape.layer_weights
    if number > 0:
        step.sharding.gather(layer_path(number - 1), weights, "backward")
    step.sharding.use(layer_path(number), weights, "backward")


def _optimizer(step: Step) -> None:
    llama, script = step.llama, step.script
    share = -(-llama.shape.weights // step.sharding.ranks)
    grads = (Tensor((share,), "TensorList"),)
    script.wait(step.sharding.scattered)
    norm = llama.kernels.foreach("LpNormFunctor<float, NormType::L2, float>", share, 1, FP32)
    scale = llama.kernels.foreach("BinaryOpListAlphaFunctor<float, 1, 1, 0>", share, 1, FP32)
    clip = Label("optimizer", None, "clip")
    run(script, Call("aten::_foreach_norm", grads, (norm,)), clip)
    step.sharding.sum_norm()
    run(script, Call("aten::_foreach_mul_", grads, (scale,)), clip)
    with script.annotation("Optimizer.step#AdamW.step"):
        for name, functor, tensors in OPTIMIZER_OPS:
            work = llama.kernels.foreach(functor, share, tensors, FP32)
            run(script, Call(name, grads, (work,)), Label("optimizer", None, "optimizer_step"))
    with script.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
        pass

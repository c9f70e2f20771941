"""The forward of a Llama, operator by operator, with the gradients that it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chopper_jupyter.simulate.iteration.script import Label, Tensor
from chopper_jupyter.simulate.iteration.tape import Call, Tape, run
from chopper_jupyter.simulate.model_shape import FP32, INT64, ModelShape

if TYPE_CHECKING:
    from chopper_jupyter.simulate.iteration.kernel_catalog import Catalog

SDPA = "aten::scaled_dot_product_attention"
FLASH = "aten::_scaled_dot_product_flash_attention"
_NUMBER = Tensor(kind="Scalar")
_CAUSAL = (Tensor(kind="Scalar", concrete="0."), Tensor(kind="Scalar", concrete="True"))


@dataclass(frozen=True)
class Llama:
    """A model of a shape, made of the kernels of a catalog."""

    shape: ModelShape
    kernels: Catalog
    tape: Tape

    def embedding(self) -> None:
        """Run the token embedding."""
        s, kernels = self.shape, self.kernels
        path, table, index = "model.embed_tokens", (s.vocabulary, s.width), (s.batch, s.sequence)
        rows = s.tokens * s.width
        gather = kernels.elementwise("index_kernel_impl<OpaqueType<2> >", rows)
        add = kernels.elementwise("embedding_backward_feature_kernel", rows)
        inputs = (Tensor(table), Tensor(index, "long int"))
        with self.tape.module(path, "Embedding"):
            self.tape.forward(
                (), Call("aten::embedding", inputs, (gather,)), (path, "embed_tokens"),
                "EmbeddingBackward0",
                Call("aten::embedding_dense_backward", (Tensor((*index, s.width)),), (add,)),
            )  # fmt: skip

    def norm(self, path: str, at: tuple[str | None, str]) -> None:
        """Run an RMSNorm."""
        s, kernels, tape = self.shape, self.kernels, self.tape
        size, whole = s.tokens * s.width, Tensor((s.batch, s.sequence, s.width))
        rows = Tensor((s.batch, s.sequence, 1))
        power = kernels.elementwise("pow_tensor_scalar_kernel_impl<float>", size, 1, FP32)
        mean = kernels.reduce("MeanOps<float, float>", size, s.tokens, FP32)
        scale = kernels.elementwise("BinaryFunctor<c10::BFloat16, MulFunctor<float> >", size, 2)
        spread = kernels.elementwise("div_true_kernel_cuda", size, 1, FP32)
        total = kernels.reduce("sum_functor<c10::BFloat16, float>", size, s.width)
        with tape.module(path, "LlamaRMSNorm"):
            tape.forward((), Call("aten::pow", (whole, _NUMBER), (power,)), at, "PowBackward0",
                         Call("aten::mul", (whole, whole), (scale,)))  # fmt: skip
            tape.forward((), Call("aten::mean", (whole,), (mean,)), at, "MeanBackward1",
                         Call("aten::div", (whole, _NUMBER), (spread,)))  # fmt: skip
            tape.forward((), Call("aten::mul", (whole, rows), (scale,)), at, "MulBackward0",
                         Call("aten::mul", (whole, rows), (scale,)),
                         Call("aten::sum", (whole,), (total,)))  # fmt: skip

    def linear(self, path: str, at: tuple[str | None, str], wide: int, out: int) -> None:
        """Run a linear layer without bias, from ``wide`` to ``out`` features."""
        s, gemm = self.shape, self.kernels.gemm
        n = s.tokens
        outer = (Tensor((s.batch, s.sequence, wide)), Tensor((out, wide)), Tensor(kind=""))
        product = (Tensor((n, wide)), Tensor((wide, out)))
        with self.tape.module(path, "Linear"), self.tape.script.op("aten::linear", *outer):
            self.tape.forward(
                (), Call("aten::mm", product, (gemm(n, out, wide, "forward"),)), at,
                "MmBackward0",
                Call("aten::mm", (Tensor((out, n)), Tensor((n, wide))),
                     (gemm(out, wide, n, "wgrad"),)),
                Call("aten::mm", (Tensor((n, out)), Tensor((out, wide))),
                     (gemm(n, wide, out, "dgrad"),)),
            )  # fmt: skip

    def rotary(self, layer: str, heads: int) -> None:
        """Turn queries or keys by their positions."""
        s, kernels, tape = self.shape, self.kernels, self.tape
        size, whole = s.tokens * heads * s.head_size, self._heads(heads)
        multiply = kernels.elementwise("BinaryFunctor<c10::BFloat16, MulFunctor<float> >", size, 2)
        join = kernels.copy("CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, 64, 64>", size)
        add = kernels.elementwise("CUDAFunctor_add<c10::BFloat16>", size, 2)
        tape.forward((), Call("aten::mul", (whole, whole), (multiply,)), (layer, "aten::mul"),
                     "MulBackward0", Call("aten::mul", (whole, whole), (multiply,)))  # fmt: skip
        tape.forward((), Call("aten::cat", (whole,), (join,)), (layer, "aten::cat"), "CatBackward0")
        tape.forward((), Call("aten::add", (whole, whole), (add,)), (layer, "aten::add"),
                     "AddBackward0")  # fmt: skip

    def attention(self, layer: str) -> None:
        """Run causal attention."""
        s, kernels = self.shape, self.kernels
        size = (s.batch, s.heads, s.sequence, s.head_size)
        q, k = self._heads(s.heads), self._heads(s.kv_heads)
        lse = Tensor((s.batch, s.heads, s.sequence), "float")
        mask = Tensor(kind="")
        forward = kernels.attention(*size)
        elements = s.tokens * s.width
        dot = kernels.copy(
            "bwd_preprocess" if kernels.amd else "flash_bwd_dot_do_o_kernel", elements
        )
        backward = (
            q, q, k, k, q, lse, mask, mask, _NUMBER, _NUMBER, *_CAUSAL, mask, mask, _NUMBER
        )  # fmt: skip
        with self.tape.script.op(SDPA, q, k, k, mask, *_CAUSAL, _NUMBER, _NUMBER):
            self.tape.forward(
                (), Call(FLASH, (q, k, k, *_CAUSAL, _NUMBER, _NUMBER), (forward,)), (layer, SDPA),
                "ScaledDotProductFlashAttentionBackward0",
                Call(FLASH + "_backward", backward, (dot, kernels.attention_backward(*size))),
            )  # fmt: skip

    def residual(self, layer: str) -> None:
        """Add a block's output to its input."""
        s = self.shape
        whole = Tensor((s.batch, s.sequence, s.width))
        add = self.kernels.elementwise("CUDAFunctor_add<c10::BFloat16>", s.tokens * s.width, 2)
        self.tape.forward((), Call("aten::add", (whole, whole, _NUMBER), (add,)),
                          (layer, "aten::add"), "AddBackward0")  # fmt: skip

    def gate(self, layer: str) -> None:
        """Apply SiLU to the gate."""
        s, kernels = self.shape, self.kernels
        size, whole = s.tokens * s.hidden, Tensor((s.batch, s.sequence, s.hidden))
        path = f"{layer}.mlp.act_fn"
        silu = kernels.elementwise("silu_kernel", size)
        back = kernels.elementwise("silu_backward_kernel", size, 2)
        with self.tape.module(path, "SiLU"):
            self.tape.forward((), Call("aten::silu", (whole,), (silu,)), (layer, "mlp.act_fn"),
                              "SiluBackward0",
                              Call("aten::silu_backward", (whole, whole), (back,)))  # fmt: skip

    def gated(self, layer: str) -> None:
        """Multiply gate and up projection."""
        s = self.shape
        size, whole = s.tokens * s.hidden, Tensor((s.batch, s.sequence, s.hidden))
        functor = "BinaryFunctor<c10::BFloat16, MulFunctor<float> >"
        multiply = Call("aten::mul", (whole, whole), (self.kernels.elementwise(functor, size, 2),))
        self.tape.forward((), multiply, (layer, "aten::mul"), "MulBackward0", multiply, multiply)

    def loss(self) -> None:
        """Run the cross-entropy of all tokens, outside the model."""
        s, kernels, tape = self.shape, self.kernels, self.tape
        size = s.tokens * s.vocabulary
        logits, labels = Tensor((s.tokens, s.vocabulary)), Tensor((s.tokens,), "long int")
        softmax = kernels.copy("cunn_SoftMaxForward<8, c10::BFloat16, float, float>", size)
        soft_back = kernels.copy("cunn_SoftMaxBackward<8, c10::BFloat16, float, float>", size)
        pick = kernels.copy("nll_loss_forward_reduce_cuda_kernel_2d<float>", s.tokens, INT64)
        put = kernels.copy("nll_loss_backward_reduce_cuda_kernel_2d<float>", s.tokens, INT64)
        at = (None, "loss")
        with tape.script.op("aten::cross_entropy_loss", logits, labels):
            tape.forward(
                ("aten::log_softmax",),
                Call("aten::_log_softmax", (logits,), (softmax,)),
                at,
                "LogSoftmaxBackward0",
                Call("aten::_log_softmax_backward_data", (logits, logits), (soft_back,)),
            )
            tape.forward(("aten::nll_loss",),
                         Call("aten::nll_loss_forward", (logits, labels), (pick,)),
                         at, "NllLossBackward0",
                         Call("aten::nll_loss_backward", (logits, labels), (put,)))  # fmt: skip

    def seed(self) -> None:
        """Start the backward with a gradient of one."""
        one = self.kernels.elementwise("FillFunctor<float>", 1, 0, FP32)
        run(self.tape.script, Call("aten::ones_like", (Tensor((), "float"),), (one,)),
            Label("backward", None, "loss"))  # fmt: skip

    def _heads(self, heads: int) -> Tensor:
        s = self.shape
        return Tensor((s.batch, heads, s.sequence, s.head_size))

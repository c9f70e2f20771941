"""Device kernels as the libraries of each vendor name and launch them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from chopper_jupyter.simulate.iteration.script import Collective, Work
from chopper_jupyter.simulate.model_shape import BF16

ELEMENTS_PER_BLOCK = 1024
TILE = 256
LARGEST_GRID = 1 << 20

_LAYOUTS = {
    "forward": ("Alik_Bljk", "TN"),
    "dgrad": ("Ailk_Bljk", "NN"),
    "wgrad": ("Ailk_Bjlk", "NT"),
}
"""Storage of the operands of the three products of a linear layer, by AMD's and NVIDIA's words."""


@dataclass(frozen=True)
class Catalog:
    """Kernels of one vendor.

    Parameters
    ----------
    amd : bool
        Whether the names are those of ROCm's libraries.

    Examples
    --------
    >>> Catalog(amd=True).gemm(256, 512, 64, "forward").flops
    16777216
    """

    amd: bool

    def gemm(self, m: int, n: int, k: int, use: str) -> Work:
        """Return a bf16 matrix product of (m, k) by (k, n)."""
        amd, nvidia = _LAYOUTS[use]
        tiles = -(-m // TILE) * -(-n // TILE)
        name = (
            f"Cijk_{amd}_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_GRVWA8"
            if self.amd
            else f"nvjet_tst_256x256_64x4_2x1_v_bz_coopA_{nvidia}T"
        )
        moved = BF16 * (m * k + k * n)
        return Work(name, (tiles, 1, 1), (256, 1, 1), 2 * m * n * k, moved, BF16 * m * n)

    def attention(self, batch: int, heads: int, sequence: int, size: int) -> Work:
        """Return causal flash attention forward."""
        name = "attn_fwd" if self.amd else f"void pytorch_flash::flash_fwd_kernel<{size}, 128, 128>"
        grid = (-(-sequence // 128), heads, batch)
        moved = BF16 * batch * heads * sequence * size
        return Work(
            name, grid, (256, 1, 1), 2 * batch * heads * sequence**2 * size, 3 * moved, moved
        )

    def attention_backward(self, batch: int, heads: int, sequence: int, size: int) -> Work:
        """Return the main kernel of causal flash attention backward."""
        name = "bwd_kernel_fuse" if self.amd else (
            f"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<{size}, 64, 128>"
        )  # fmt: skip
        grid = (-(-sequence // 128), heads, batch)
        moved = BF16 * batch * heads * sequence * size
        flops = 5 * batch * heads * sequence**2 * size
        return Work(name, grid, (256, 1, 1), flops, 5 * moved, 3 * moved)

    def elementwise(self, functor: str, elements: int, inputs: int = 1, size: int = BF16) -> Work:
        """Return an elementwise kernel that writes ``elements`` from as many of each input."""
        name = (
            f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}, "
            f"std::array<char*, {inputs + 1}ul> >"
        )
        return _vector(name, elements, inputs * elements * size, elements * size)

    def reduce(self, functor: str, elements: int, results: int, size: int = BF16) -> Work:
        """Return a reduction of ``elements`` to ``results``."""
        name = f"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, {functor}> >"
        return _vector(name, elements, elements * size, results * size)

    def copy(self, what: str, elements: int, size: int = BF16) -> Work:
        """Return a kernel that moves ``elements``."""
        return _vector(f"void at::native::(anonymous namespace)::{what}", elements,
                       elements * size, elements * size)  # fmt: skip

    def foreach(self, functor: str, elements: int, tensors: int, size: int) -> Work:
        """Return one fused kernel over a list of tensors; ``tensors`` are read, one is written."""
        name = (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
            f"TensorListMetadata<{tensors}>, {functor}>"
        )
        return _vector(name, elements, tensors * elements * size, elements * size)

    def collective(self, kind: str, elements_in: int, elements_out: int) -> Work:
        """Return a collective's kernel; ``kind`` is all_gather, reduce_scatter or all_reduce."""
        title, recorded = {
            "all_gather": ("AllGather", "_allgather_base"),
            "reduce_scatter": ("ReduceScatter_Sum_bf16", "_reduce_scatter_base"),
            "all_reduce": ("AllReduce_Sum_f32", "allreduce"),
        }[kind]
        name = "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<4096ul>)" if self.amd else (
            f"ncclDevKernel_{title}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        )  # fmt: skip
        moved = Collective(recorded, elements_in, elements_out)
        return Work(name, (32, 1, 1), (512, 1, 1), kind="collective", collective=moved)

    def to_device(self, size: int) -> Work:
        """Return a copy of ``size`` bytes from the host."""
        name = "CopyHostToDevice" if self.amd else "Memcpy HtoD (Pinned -> Device)"
        return Work(name, read=0, written=size, kind="memcpy")


def _vector(name: str, elements: int, read: int, written: int) -> Work:
    blocks = min(-(-elements // ELEMENTS_PER_BLOCK), LARGEST_GRID)
    return Work(name, (blocks, 1, 1), (256, 1, 1), 0, read, written)


def threads(work: Work) -> int:
    """Return the work-items of a launch.

    Examples
    --------
    >>> threads(Catalog(amd=True).elementwise("AddFunctor", 4096))
    1024
    """
    return prod(work.grid) * prod(work.block)

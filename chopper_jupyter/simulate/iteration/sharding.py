"""Fully sharded data parallelism: gathers weights before layers, scatters gradients after them.

Version 1 keeps the weights of a layer in one flat tensor and gathers straight into it. Version 2
keeps each weight as it is: it copies before and after each gather, and before each scatter, on
the stream of the computation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chopper_jupyter.simulate.iteration.script import COMMUNICATION, Label, Script, Tensor, Work
from chopper_jupyter.simulate.model_shape import FP32

if TYPE_CHECKING:
    from chopper_jupyter.simulate.iteration.kernel_catalog import Catalog

V1 = "FullyShardedDataParallel._"
COPY = "fsdp_copy"


@dataclass
class Sharding:
    """Communication of one training process.

    Parameters
    ----------
    version : int
        1 or 2.
    ranks : int
        Ranks over which everything is sharded.
    gathered : dict
        Launch number of the last gather of each group that was not yet waited for.
    """

    script: Script
    kernels: Catalog
    version: int
    ranks: int
    gathered: dict[str, int] = field(default_factory=dict)
    scattered: int = -1

    def gather(self, group: str, weights: int, phase: str) -> None:
        """Issue the gather of a group's weights."""
        with self.script.annotation(self._range("all_gather", "unshard", group)):
            share = -(-weights // self.ranks)
            name = "fsdp::all_gather_copy_in" if self.version == 2 else "aten::copy_"  # noqa: PLR2004
            copied = self.kernels.copy("foreach_copy_kernel<c10::BFloat16, float>", share, FP32)
            self._copy(name, copied, group, phase)
            work = self.kernels.collective("all_gather", share, share * self.ranks)
            label = Label(phase, self._layer(group), "all_gather")
            self.gathered[group] = self._collective("c10d::_allgather_base_", work, label)

    def use(self, group: str, weights: int, phase: str) -> None:
        """Wait for the gather of a group and make its weights usable."""
        self.script.wait(self.gathered.pop(group))
        if self.version == 2:  # noqa: PLR2004
            with self.script.annotation(f"FSDP::all_gather_copy_out ({group})"):
                work = self.kernels.copy("split_with_sizes_copy_out_contiguous_no_cast", weights)
                self._copy("fsdp::split_with_sizes_copy", work, group, phase)

    def scatter(self, group: str, weights: int) -> None:
        """Reduce a group's gradients and keep this rank's share."""
        with self.script.annotation(self._range("post_backward_reduce", "reduce_grad", group)):
            if self.version == 2:  # noqa: PLR2004
                work = self.kernels.copy("chunk_cat_cuda_kernel<float, c10::BFloat16>", weights)
                self._copy("fsdp::chunk_cat", work, group, "backward")
            share = -(-weights // self.ranks)
            work = self.kernels.collective("reduce_scatter", share * self.ranks, share)
            label = Label("backward", self._layer(group), "reduce_scatter")
            self.scattered = self._collective("c10d::_reduce_scatter_base_", work, label)

    def sum_norm(self) -> None:
        """Add up the squared norm of the gradients over all ranks, and wait for it."""
        work = self.kernels.collective("all_reduce", 1, 1)
        label = Label("optimizer", None, "all_reduce")
        self.script.wait(self._collective("c10d::allreduce_", work, label))

    def _collective(self, name: str, work: Work, label: Label) -> int:
        moved = work.collective
        with (
            self.script.op(name, Tensor((moved.elements_out if moved else 0,))),
            self.script.range("record_param_comms", collective=moved),
        ):
            return self.script.launch(work, label, COMMUNICATION)

    def _copy(self, name: str, work: Work, group: str, phase: str) -> None:
        with self.script.op(name):
            self.script.launch(work, Label(phase, self._layer(group), COPY))

    def _range(self, v2: str, v1: str, group: str) -> str:
        return f"FSDP::{v2} ({group})" if self.version == 2 else f"{V1}{v1}"  # noqa: PLR2004

    def _layer(self, group: str) -> str | None:
        """Return the layer that a reader can know: version 1 does not name it."""
        return group if self.version == 2 and group != ROOT else None  # noqa: PLR2004


ROOT = "model"
"""The group of the weights outside the layers."""

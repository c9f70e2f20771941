"""Names of host ranges that mean something to attribution."""

from __future__ import annotations

import re

from chopper_jupyter.core.align.iterations import PROFILER_STEP
from chopper_jupyter.core.annotations import strip_wrappers
from chopper_jupyter.core.names import collective_of

COMMUNICATION = (
    "FSDP::",
    "fsdp::",
    "FullyShardedDataParallel._",
    "torch.distributed.ddp.reducer::",
    "c10d::",
    "nccl:",
    "rccl:",
    "gloo:",
    "ucc:",
    "mpi:",
    "record_param_comms",
)
"""Starts of the ranges inside which work is communication or its copies."""

WRAPPERS = COMMUNICATION[:4]
"""Those of FSDP and DDP, which prepare and finish collectives around the user's model."""

BUCKET = "torch.distributed.ddp.reducer::"
COMPILED_REGION = "Torch-Compiled Region"
"""Start of the range in which torch.compile runs code of its own; no modules are in there."""

OPTIMIZER_STEP = "Optimizer.step"
ZERO_GRAD = "Optimizer.zero_grad"

_OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#")
_NO_OPERATION = re.compile(
    r"enumerate\(DataLoader\)|DistributedDataParallel\.forward|FullyShardedDataParallel\.forward"
)
_FORWARD = re.compile(r"(?:DistributedDataParallel|FullyShardedDataParallel)\.forward")
_FSDP_PATH = re.compile(r"\(([^()]*)\)\s*$|\bfor\s+([\w.]+)\s*$")


def is_communication(name: str) -> bool:
    """Say whether a range is communication (collectives, FSDP and DDP bookkeeping)."""
    return name.startswith(COMMUNICATION)


def is_wrapper(name: str) -> bool:
    """Say whether a range is FSDP's or DDP's own work around collectives."""
    return name.startswith(WRAPPERS)


def is_collective_call(name: str) -> bool:
    """Say whether a range is a collective itself, not FSDP's or DDP's work around one.

    Examples
    --------
    >>> is_collective_call("c10d::_allgather_base_"), is_collective_call("FSDP::all_gather (m.0)")
    (True, False)
    """
    return is_communication(name) and not is_wrapper(name)


def is_forward(name: str) -> bool:
    """Say whether a range is the forward of a wrapped model."""
    return _FORWARD.match(name) is not None


def is_optimizer(name: str) -> bool:
    """Say whether a range is an optimizer's step or zero_grad."""
    return _OPTIMIZER.match(name) is not None


def names_an_operation(annotation: str) -> bool:
    """Say whether a user range may name the operation inside it (the profiler's own do not)."""
    return not (
        PROFILER_STEP.match(annotation)
        or is_optimizer(annotation)
        or is_communication(annotation)
        or _NO_OPERATION.match(annotation)
    )


def communication_op(name: str) -> str | None:
    """Name the operation of a communication range.

    Examples
    --------
    >>> communication_op("c10d::allreduce_"), communication_op("FSDP::pre_forward (layers.0)")
    ('all_reduce', 'fsdp_copy')
    """
    if name.startswith(BUCKET):
        return "bucket_copy"
    if name.startswith(("FSDP::", "fsdp::", "FullyShardedDataParallel._")):
        return "fsdp_copy"
    return collective_of(name)


def fsdp_path(name: str) -> str | None:
    """Return the module path that an FSDP range names, if it names one.

    Examples
    --------
    >>> fsdp_path("FSDP::all_gather (layers.0)"), fsdp_path("FSDP::backward_prefetch for layers.1")
    ('layers.0', 'layers.1')
    >>> fsdp_path("FSDP::pre_forward") is None
    True
    """
    if not name.startswith("FSDP::"):
        return None
    match = _FSDP_PATH.search(name)
    return strip_wrappers(match[1] or match[2] or "") or None if match else None

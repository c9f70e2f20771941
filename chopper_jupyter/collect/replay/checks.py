"""What is checked before a replay: permission to count, and memory for a second process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from chopper_jupyter.collect.replay.tools import Tool

NVIDIA_PARAMS = Path("/proc/driver/nvidia/params")
AMD_DEVICE = Path("/dev/kfd")
HELD_SHARE = 0.1
"""Share of a GPU's memory that this process may hold before that is worth a word."""


def problems(
    tool: Tool,
    *,
    nvidia_params: Path = NVIDIA_PARAMS,
    amd_device: Path = AMD_DEVICE,
    is_root: Callable[[], bool] = lambda: hasattr(os, "geteuid") and os.geteuid() == 0,
) -> list[str]:
    """Return why the tool will not be allowed to count, as sentences; empty if nothing is known.

    Parameters
    ----------
    tool : Tool
        The counter tool.
    nvidia_params, amd_device : Path
        Where the drivers say who may.
    is_root : callable
        Whether this process may do everything.
    """
    if tool.name == "ncu" and not is_root():
        try:
            text = nvidia_params.read_text(encoding="utf-8")
        except OSError:
            return []
        if "RmProfilingAdminOnly: 1" in text:
            return [
                (
                    "the NVIDIA driver lets only administrators count: load the module with "
                    "NVreg_RestrictProfilingToAdminUsers=0 "
                    "(https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
                )
            ]
    if tool.name == "rocprofv3" and amd_device.exists() and not os.access(amd_device, os.R_OK):
        return [f"{amd_device} is not readable: add this user to the groups render and video"]
    return []


def held_memory() -> str | None:
    """Say how much memory this process holds on the GPU, if that is much; None otherwise."""
    import torch  # noqa: PLC0415  seconds

    if not torch.cuda.is_available() or not torch.cuda.memory_reserved():
        return None
    free, total = torch.cuda.mem_get_info()
    return held_text(torch.cuda.memory_reserved(), free, total)


def held_text(reserved: int, free: int, total: int) -> str | None:
    """Say how to free memory that the replay will need.

    Examples
    --------
    >>> held_text(1 << 30, 70 << 30, 80 << 30) is None
    True
    >>> print(held_text(60 << 30, 19 << 30, 80 << 30))
    this process holds 60.0 GiB of the GPU's memory and 19.0 GiB are free: the replay needs as \
much as the loop; free it with `del model, optimizer; torch.cuda.empty_cache()`, or restart the \
Jupyter kernel and use `chopper-jupyter counters`
    """
    if reserved < HELD_SHARE * total:
        return None
    gib = 1 << 30
    return (
        f"this process holds {reserved / gib:.1f} GiB of the GPU's memory and {free / gib:.1f} "
        "GiB are free: the replay needs as much as the loop; free it with `del model, optimizer; "
        "torch.cuda.empty_cache()`, or restart the Jupyter kernel and use `chopper-jupyter "
        "counters`"
    )

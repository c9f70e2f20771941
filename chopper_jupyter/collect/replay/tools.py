"""The counter tools: which one this machine has, and the command line of one pass."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import CollectError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RANGE = "chopper_replay"
"""NVTX or roctx range around the iterations to count."""

HOW_TO_INSTALL = {
    "rocprofv3": "it comes with ROCm 6.2 and later, in the package rocprofiler-sdk",
    "ncu": "it comes with the CUDA toolkit, in the package cuda-nsight-compute",
}


@dataclass(frozen=True)
class Tool:
    """A counter tool.

    Parameters
    ----------
    name : {"rocprofv3", "ncu"}
        The program.
    path : str
        Where it lies.
    architecture : str or None
        Of the GPU, as the vendor names it (``gfx942``).
    """

    name: str
    path: str
    architecture: str | None = None


def find_tool(vendor: str | None, architecture: str | None = None) -> Tool:
    """Find the counter tool of this machine.

    Parameters
    ----------
    vendor : {"amd", "nvidia"} or None
        Of the GPU; None if there is none.
    architecture : str, optional
        Of the GPU.

    Raises
    ------
    CollectError
        If there is no GPU, or the tool of its vendor is not on the PATH.
    """
    if vendor is None:
        msg = "hardware counters need a GPU; torch finds none on this machine"
        raise CollectError(msg)
    name = {"amd": "rocprofv3", "nvidia": "ncu"}[vendor]
    path = shutil.which(name)
    if path is None:
        msg = f"{name} is not on the PATH: {HOW_TO_INSTALL[name]}"
        raise CollectError(msg)
    return Tool(name, path, architecture)


def gpu_of_torch() -> tuple[str | None, str | None]:
    """Return vendor and architecture of the first GPU that torch sees; None if it sees none."""
    import torch  # noqa: PLC0415  seconds

    if not torch.cuda.is_available():
        return None, None
    if torch.version.hip:
        return "amd", str(torch.cuda.get_device_properties(0).gcnArchName).split(":")[0]
    major, minor = torch.cuda.get_device_capability(0)
    return "nvidia", f"sm_{major}{minor}"


def command_of(tool: Tool, counters: Sequence[str], folder: Path, script: Path) -> list[str]:
    """Return the command line of one pass.

    Examples
    --------
    >>> from pathlib import Path
    >>> tool = Tool("rocprofv3", "rocprofv3")
    >>> command_of(tool, ["SQ_WAVES"], Path("p"), Path("replay.py"))[:5]
    ['rocprofv3', '--pmc', 'SQ_WAVES', '--kernel-exclude-regex', 'nccl.*']
    """
    run = [sys.executable, str(script)]
    if tool.name == "rocprofv3":
        # RCCL kernels wait for each other, which serialised ones never end doing.
        options = ["--pmc", *counters, "--kernel-exclude-regex", "nccl.*"]
        return [tool.path, *options, "--output-format", "csv", "-d", str(folder), "--", *run]
    options = ["--target-processes", "all", "--replay-mode", "kernel", "--clock-control", "none"]
    options += ["--nvtx", "--nvtx-include", f"{RANGE}/", "--metrics", ",".join(counters)]
    options += ["--csv", "--page", "raw", "--print-units", "base"]
    return [tool.path, *options, "--log-file", str(folder / "ncu.csv"), *run]


def output_of(tool: Tool, folder: Path) -> list[Path]:
    """Return the files with counters that a pass left in its folder."""
    pattern = "*counter_collection*.csv" if tool.name == "rocprofv3" else "ncu.csv"
    return sorted(path for path in folder.rglob(pattern) if path.stat().st_size)

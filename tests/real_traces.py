"""Real recordings of several ranks, read once for all tests that walk them."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

from chopper_jupyter import read_trace
from chopper_jupyter.core.errors import ClockWarning, PartialTraceWarning
from chopper_jupyter.core.trace import Trace

RANK_SETS = {"megatron_tp8": None, "hpc_ddp4_mi": "derived_*"}
"""Folders with several ranks (NVIDIA, AMD), and which of their files these are."""


@functools.cache
def ranks_of(folder: Path, name: str) -> Trace:
    """Read a set of ranks; that part of a real one is damaged or unlinked is not the point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)
        warnings.simplefilter("ignore", ClockWarning)
        return read_trace(folder / "traces" / name, pattern=RANK_SETS[name])

"""Simulated runs, each made once per test session: known answers for whatever reads runs."""

from __future__ import annotations

import atexit
import gzip
import json
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from chopper_jupyter import read_trace
from chopper_jupyter.core.run_folder import rank_file
from chopper_jupyter.core.trace import Trace
from chopper_jupyter.simulate import Injections, llama_fsdp

SMALL = {"layers": 2, "ranks": 2, "iterations": 3}
"""Two layers of Llama 3 8B on two GPUs."""

_made: dict[str, Path] = {}


def simulated_run(injections: Injections | None = None, **options) -> Path:
    """Write a small run, or return the one that was written with the same arguments."""
    key = repr((injections, sorted(options.items())))
    if key not in _made:
        folder = _home() / f"run_{len(_made)}"
        _made[key] = llama_fsdp(folder, injections=injections, **{**SMALL, **options})
    return _made[key]


def simulated_trace(injections: Injections | None = None, **options) -> Trace:
    """Read a small run."""
    return read_trace(simulated_run(injections, **options))


def truth_of(run: Path) -> pd.DataFrame:
    """Return what really happened: one row per kernel."""
    return pq.read_table(run / "truth.parquet").to_pandas()


def facts_of(run: Path) -> dict:
    """Return what the run was told to suffer from."""
    return json.loads((run / "truth.json").read_text(encoding="utf-8"))


def document_of(run: Path, rank: int = 0) -> dict:
    """Return one rank's file as it is written."""
    return json.loads(gzip.decompress(rank_file(run, rank).read_bytes()))


@lru_cache(maxsize=1)
def _home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="chopper_simulated_"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home

"""Make a run folder and describe the machine that records into it. Needs no torch."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from chopper_jupyter._version import __version__
from chopper_jupyter.core.errors import CollectError
from chopper_jupyter.core.run_folder import (
    CACHE_DIR,
    COUNTERS_DIR,
    NOTES_DIR,
    RUN_FILE,
    TELEMETRY_DIR,
    is_run_folder,
    rank_stem,
)

DEFAULT_PARENT = "chopper_runs"

_LEFT_OVER = (".segment_", ".lock", "rank_", "process_")
"""How the names of files begin that processes of a run write, besides ``run.json``."""


def known_rank() -> tuple[int, int] | None:
    """Return (rank, world size) of this process; None if it is in no distributed job.

    From torch.distributed, else from the environment that launchers make.
    """
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return None


def rank_of_many() -> tuple[int, int] | None:
    """Return (rank, world size) if this is one of several ranks."""
    known = known_rank()
    return known if known is not None and known[1] > 1 else None


def make_run_folder(run_dir: str | os.PathLike[str] | None, label: str) -> Path:
    """Create the folder, or empty the run folder that is there.

    Without a name it is ``chopper_runs/<time>-<label>`` below the current folder, and
    ``chopper_runs`` is kept out of git.

    Raises
    ------
    CollectError
        If the folder holds something else than a run, or cannot be written.
    """
    try:
        if run_dir is None:
            return _new_default_folder(label).absolute()
        folder = Path(run_dir).absolute()  # the block may change the current folder
        folder.mkdir(parents=True, exist_ok=True)
        _empty(folder)
    except OSError as error:
        msg = f"cannot write the run folder: {error}; give another one with run_dir"
        raise CollectError(msg) from error
    return folder


def shown_path(folder: Path) -> str:
    """Return a path as people read it: relative to the current folder if it lies below it."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def _new_default_folder(label: str) -> Path:
    if rank_of_many():
        msg = "give run_dir: all ranks of a run must write to the same folder"
        raise CollectError(msg)
    parent = Path(DEFAULT_PARENT)
    parent.mkdir(exist_ok=True)
    ignore = parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{label}"
    name, number = stem, 1
    while True:
        folder = parent / name
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            name = f"{stem}-{number}"
        else:
            return folder


def _empty(folder: Path) -> None:
    """Remove an earlier recording; that of other ranks may be part of the one now made."""
    if not is_run_folder(folder):
        # Files of other ranks that begin at the same time are no obstacle.
        strange = [p.name for p in folder.iterdir() if not _ours(p)]
        if strange:
            msg = (
                f"{folder} holds {min(strange)!r} and is not a run folder; "
                "give another run_dir, or empty it"
            )
            raise CollectError(msg)
        return
    known = rank_of_many()
    if known is not None and known[0]:
        _remove(folder, rank_stem(known[0]) + ".")
        return
    begins = (rank_stem(0) + ".", "process_") if known else (*_LEFT_OVER, RUN_FILE)
    _remove(folder, *begins)
    for name in (NOTES_DIR, CACHE_DIR, *(() if known else (TELEMETRY_DIR, COUNTERS_DIR))):
        shutil.rmtree(folder / name, ignore_errors=True)


def _remove(folder: Path, *begins: str) -> None:
    for path in folder.iterdir():
        if path.name.startswith(begins):
            path.unlink(missing_ok=True)


def _ours(path: Path) -> bool:
    return path.name.startswith((*_LEFT_OVER, RUN_FILE, NOTES_DIR, TELEMETRY_DIR))


def describe_machine() -> dict[str, Any]:
    """Return what ``run.json`` says about the machine and the code."""
    return {
        "created_ns": time.time_ns(),
        "host": platform.node(),
        "versions": {"chopper_jupyter": __version__, "python": platform.python_version()},
        "git_commit": _git_commit(),
        "simulated": False,
    }


def describe_torch() -> dict[str, Any]:
    """Return what it says about torch and its devices; imports torch."""
    import torch  # noqa: PLC0415  a command that only starts others needs none

    return {
        "versions": {
            "chopper_jupyter": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
        },
        "device_kind": "gpu" if torch.accelerator.is_available() else "cpu",
    }


def _git_commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603  a fixed command without input
            [git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None

"""Make a run folder and write what was recorded into it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from chopper_jupyter._version import __version__
from chopper_jupyter.core.errors import CollectError, TraceFormatError
from chopper_jupyter.core.run_folder import (
    CACHE_DIR,
    COUNTERS_DIR,
    RUN_FILE,
    TELEMETRY_DIR,
    is_run_folder,
    rank_files,
    read_run,
    write_run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_PARENT = "chopper_runs"

_LOCK_PATIENCE_S = 10.0


def process_rank() -> tuple[int, int]:
    """Return (rank, world size) of this process, from torch.distributed or the environment."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1


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
    if process_rank()[1] > 1:
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
    rank, world_size = process_rank()
    for owner, _, path in rank_files(folder):
        if owner == rank or world_size == 1:
            path.unlink()
    if world_size == 1:
        (folder / RUN_FILE).unlink()
        for name in (CACHE_DIR, TELEMETRY_DIR, COUNTERS_DIR):
            shutil.rmtree(folder / name, ignore_errors=True)


def _ours(path: Path) -> bool:
    return path.name.startswith((".segment_", ".lock", "rank_", RUN_FILE, TELEMETRY_DIR))


def describe_process() -> dict[str, Any]:
    """Return what ``run.json`` says about this process and machine."""
    return {
        "created_ns": time.time_ns(),
        "host": platform.node(),
        "versions": _versions(),
        "git_commit": _git_commit(),
        "simulated": False,
        "device_kind": "gpu" if torch.accelerator.is_available() else "cpu",
    }


def _versions() -> dict[str, str | None]:
    return {
        "chopper_jupyter": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
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


def save_run(folder: Path, run: dict[str, Any], state: str) -> None:
    """Write ``run.json`` with this rank's state; what other ranks said about theirs stays."""
    rank, world_size = process_rank()
    with _locked(folder) if world_size > 1 else _unlocked():
        ranks = {str(r): "missing" for r in range(world_size)}
        before = _readable_run(folder) if world_size > 1 else {}
        ranks |= before.get("ranks", {}) | {str(rank): state}
        described = before if rank and before else run
        write_run(folder, {**described, "world_size": world_size, "ranks": ranks})


def _readable_run(folder: Path) -> dict[str, Any]:
    try:
        return read_run(folder) if is_run_folder(folder) else {}
    except TraceFormatError:
        return {}


@contextmanager
def _unlocked() -> Iterator[None]:
    yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other ranks out; a lock left by one that died is broken after some seconds."""
    lock = folder / ".lock"
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    while time.monotonic() < deadline:
        try:
            lock.touch(exist_ok=False)
            break
        except FileExistsError:
            time.sleep(0.02)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)

"""Starts the sampling process beside a recording, and ends it with it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chopper_jupyter.core.run_folder import TELEMETRY_DIR, telemetry_files

if TYPE_CHECKING:
    from pathlib import Path

GPU_PERIOD_S = 0.01
CPU_PERIOD_S = 0.1
PATIENCE_S = 5.0
"""How long a sampler gets to write its last samples."""


@dataclass
class Sampler:
    """A running sampler; ``stop`` it when the window closes."""

    process: subprocess.Popen[bytes] | None
    claim: Path | None
    failure: str | None = None

    def stop(self) -> None:
        """End the process and wait until its samples are on disk. Never raises."""
        process, self.process = self.process, None
        if process is not None:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.failure = "the sampler did not end in time and was stopped"
            if process.returncode not in {0, None} and self.failure is None:
                self.failure = f"the sampler ended with status {process.returncode}"
        if self.claim is not None:
            self.claim.unlink(missing_ok=True)
            self.claim = None


def start_sampler(folder: Path, host: str, *, expect_gpu: bool) -> Sampler:
    """Start sampling this host into a run folder, unless another rank of the run does already.

    Parameters
    ----------
    folder : Path
        The run folder.
    host : str
        Name of the host, as ``run.json`` says it.
    expect_gpu : bool
        Whether it is worth a note if no GPU sensor answers.

    Returns
    -------
    Sampler
        With a ``failure`` if it could not be started; a recording goes on without it.
    """
    try:
        claim = _claim(folder, host)
        if claim is None:
            return Sampler(None, None)
        for owner, _, _, path in telemetry_files(folder):
            if owner == host:  # of an earlier run
                path.unlink()
        command = [sys.executable, "-m", "chopper_jupyter.collect.sampler", str(folder), host]
        command += ["--gpu-period", str(GPU_PERIOD_S), "--cpu-period", str(CPU_PERIOD_S)]
        command += ["--expect-gpu"] if expect_gpu else []
        process = subprocess.Popen(  # noqa: S603  our own program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the cell is not for it
        )
    except OSError as error:
        return Sampler(None, None, f"the sampler could not start: {error}")
    return Sampler(process, claim)


def _claim(folder: Path, host: str) -> Path | None:
    """Claim the sampling of this host; None if a living process has it."""
    claim = folder / TELEMETRY_DIR / f".{host}.sampler"
    claim.parent.mkdir(parents=True, exist_ok=True)
    if claim.exists() and not _alive(claim):  # its owner died
        claim.unlink(missing_ok=True)
    try:
        with claim.open("x", encoding="ascii") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return None
    return claim


def _alive(claim: Path) -> bool:
    import psutil  # noqa: PLC0415  only where two ranks share a host

    try:
        return bool(psutil.pid_exists(int(claim.read_text(encoding="ascii"))))
    except (OSError, ValueError):
        return False

"""Telemetry of GPUs and hosts from any file that is known, told apart by content."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers import (
    telemetry_csv,
    telemetry_json,
    telemetry_parquet,
)
from chopper_jupyter.core.importers.telemetry_run import TelemetryRun, join_runs
from chopper_jupyter.core.run_folder import TELEMETRY_DIR, telemetry_files

if TYPE_CHECKING:
    from collections.abc import Iterable

LOST_PART = "telemetry files that are damaged or cut short: left out"
OTHER_FILE = "files beside telemetry that are none: left out"


def read_telemetry(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    timezone: str | None = None,
    host: str | None = None,
    origin_ns: int | None = None,
) -> TelemetryRun:
    """Read telemetry files of any known kind.

    Parameters
    ----------
    path : path or several paths
        A file, several, a folder of them, or a run folder: what this package's sampler wrote,
        CSV of nvidia-smi, amd-smi, rocm-smi, DCGM or CPU samplers, JSON of amd-smi.
    timezone : str, optional
        Zone of times that name none (nvidia-smi writes local time), for instance
        ``"Europe/Berlin"``. By default UTC; ``notes`` say so.
    host : str, optional
        Host of the sensors where a file does not say it.
    origin_ns : int, optional
        Unix time of samples that carry none.

    Returns
    -------
    TelemetryRun
        Metrics and units are those of ``telemetry_run.METRICS``. Of several files, those that
        are damaged are left out and counted, if another one can be read: a sampler that was
        killed leaves a last part cut short.

    Raises
    ------
    TraceFormatError
        If nothing can be read; the message names the file and the reason.
    FileNotFoundError
        If a path does not exist.
    """
    files, chosen = _files(path)
    runs: list[TelemetryRun] = []
    failures: list[TraceFormatError] = []
    others = 0
    for file in files:
        if not chosen and not is_telemetry(file):
            others += 1
            continue
        try:
            runs.append(_read(file, timezone, host, origin_ns))
        except TraceFormatError as error:
            failures.append(error)
    if not runs:
        if failures:
            raise failures[0]
        msg = f"{path} holds no telemetry files"
        raise TraceFormatError(msg)
    joined = join_runs(runs)
    repairs = Counter(joined.repairs) + Counter({LOST_PART: len(failures)})
    skipped = Counter(joined.skipped) + Counter({OTHER_FILE: others})
    notes = (*joined.notes, *(str(error) for error in failures))
    return replace(joined, repairs=dict(repairs), skipped=dict(skipped), notes=notes)


def _files(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> tuple[list[Path], bool]:
    """List the files to read, and whether each of them was asked for."""
    if not isinstance(path, (str, os.PathLike)):
        return [Path(one) for one in path], True
    one = Path(path)
    if not one.exists():
        msg = f"no such file or folder: {one}"
        raise FileNotFoundError(msg)
    if not one.is_dir():
        return [one], True
    if (one / TELEMETRY_DIR).is_dir():
        one = one / TELEMETRY_DIR
    parts = telemetry_files(one.parent) if one.name == TELEMETRY_DIR else []
    own = [part for *_, part in parts]
    rest = sorted(file for file in one.iterdir() if file.is_file() and file not in set(own))
    return [*own, *rest], False


def is_telemetry(path: str | os.PathLike[str]) -> bool:
    """Say whether a file looks like telemetry; its content decides, not its name.

    Of JSON files, only small ones are looked at: amd-smi prints kilobytes.
    """
    file = Path(path)
    with file.open("rb") as stream:
        head = stream.read(1 << 12)
    if telemetry_parquet.is_parquet(head):
        return True
    if head.lstrip()[:1] in (b"{", b"["):
        return file.stat().st_size < MAX_JSON and _is_json(file)
    return b"\x00" not in head and telemetry_csv.is_telemetry(file)


MAX_JSON = 64 << 20


def _is_json(file: Path) -> bool:
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
        first = json.JSONDecoder().raw_decode(text.lstrip())[0]
    except (ValueError, RecursionError):
        return False
    return telemetry_json.is_telemetry(first)


def _read(
    file: Path, timezone: str | None, host: str | None, origin_ns: int | None
) -> TelemetryRun:
    with file.open("rb") as stream:
        head = stream.read(1 << 12)
    if not head.strip():
        msg = f"{file.name} is empty"
        raise TraceFormatError(msg)
    if telemetry_parquet.is_parquet(head) or file.suffix == ".parquet":
        return telemetry_parquet.read_parquet(file)
    if head.lstrip()[:1] in (b"{", b"["):
        return telemetry_json.read_json(file, host=host, timezone=timezone, origin_ns=origin_ns)
    return telemetry_csv.read_csv(file, timezone=timezone, host=host)

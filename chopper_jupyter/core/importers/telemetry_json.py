"""Telemetry in the JSON of ``amd-smi metric --json``, of all versions, one or many samples."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.telemetry_run import TelemetryRun, samples_table
from chopper_jupyter.core.importers.telemetry_time import wall_ns
from chopper_jupyter.core.importers.telemetry_words import ABSENT_NUMBERS, NO_READING, factor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIELDS = (
    ("usage", "gfx_activity", "utilization_ratio", "%"),
    ("usage", "umc_activity", "memory_utilization_ratio", "%"),
    ("power", "socket_power", "power_w", "w"),
    ("power", "current_socket_power", "power_w", "w"),
    ("power", "average_socket_power", "power_w", "w"),
    ("energy", "total_energy_consumption", "energy_j", "j"),
    ("temperature", "hotspot", "temperature_c", "c"),
    ("temperature", "edge", "temperature_c", "c"),
    ("temperature", "mem", "memory_temperature_c", "c"),
    ("mem_usage", "used_vram", "memory_used_bytes", "mib"),
)
"""Section, field, metric and unit; of several fields for one metric the first that is there."""

SECTIONS = {section for section, *_ in FIELDS} | {"clock"}


def is_telemetry(document: Any) -> bool:
    """Say whether a decoded JSON document is amd-smi's."""
    return next(_gpus(document), None) is not None


def _gpus(document: Any, time: Any = None) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield what is said of each GPU, with the time of the sample if there is one."""
    if isinstance(document, list):
        for one in document:
            yield from _gpus(one, time)
    elif isinstance(document, dict):
        time = document.get("timestamp", time)
        if "gpu" in document and SECTIONS & set(document):
            yield document, time
        elif isinstance(document.get("gpu_data"), list):
            yield from _gpus(document["gpu_data"], time)


def read_json(
    path: Path,
    *,
    host: str | None = None,
    timezone: str | None = None,
    origin_ns: int | None = None,
) -> TelemetryRun:
    """Read what ``amd-smi metric --json`` printed: a list (before 7) or ``gpu_data`` (since).

    Parameters
    ----------
    path : pathlib.Path
        One document, or one a line.
    host : str, optional
        Host of the GPUs; the file does not say it.
    timezone : str, optional
        Zone of times that name none.
    origin_ns : int, optional
        Unix time of the samples that carry none, which is how amd-smi prints them.

    Raises
    ------
    TraceFormatError
        If it is not amd-smi's JSON, holds no reading, or samples without a time.
    """
    found = list(_gpus(_documents(path)))
    if not found:
        msg = f"{path.name} is JSON but not what `amd-smi metric --json` prints"
        raise TraceFormatError(msg)
    skipped: Counter[str] = Counter()
    times, notes = wall_ns(pa.array([_text(time) for _, time in found], pa.string()), timezone)
    rows = []
    for (gpu, _), time in zip(found, times.to_pylist(), strict=True):
        at = origin_ns if time is None else time
        if at is None:
            msg = (
                f"{path.name} holds samples without a time: give it as origin_ns=, or record with "
                "`amd-smi metric --csv --watch 1`"
            )
            raise TraceFormatError(msg)
        number = gpu["gpu"]
        device = number if isinstance(number, int) else None
        rows += [(at, device, metric, value) for metric, value in _readings(gpu, skipped)]
    if not rows:
        msg = f"{path.name} is amd-smi's JSON but holds no reading that is known"
        raise TraceFormatError(msg)
    at_, device_, metric_, value_ = zip(*rows, strict=True)
    columns = {
        "source": pa.array(["amd-smi"] * len(rows), pa.string()),
        "host": pa.array([host] * len(rows), pa.string()),
        "device": pa.array(device_, pa.int32()), "wall_ns": pa.array(at_, pa.int64()),
        "metric": pa.array(metric_, pa.string()), "value": pa.array(value_, pa.float64()),
    }  # fmt: skip
    return TelemetryRun(
        samples_table(columns),
        notes=tuple(f"{path.name}: {note}" for note in notes),
        skipped={reason: count for reason, count in skipped.items() if count},
        sources=(path.name,),
    )


def _documents(path: Path) -> Any:
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    try:
        return json.loads(text)
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            return [json.loads(line) for line in lines]
        except ValueError:
            msg = f"{path.name} is not valid JSON ({error})"
            raise TraceFormatError(msg) from error


def _text(time: Any) -> str | None:
    return None if time is None else str(time)


def _readings(gpu: dict[str, Any], skipped: Counter[str]) -> Iterator[tuple[str, float]]:
    taken: set[str] = set()
    for section, name, metric, unit in FIELDS:
        part = gpu.get(section)
        if metric in taken or not isinstance(part, dict) or name not in part:
            continue
        value = _reading(part[name], metric, unit)
        if value is None:
            skipped[NO_READING] += 1
            continue
        taken.add(metric)
        yield metric, value
    clock = gpu.get("clock")
    for prefix, metric in (("gfx", "gpu_clock_mhz"), ("mem", "memory_clock_mhz")):
        found = _clocks(clock if isinstance(clock, dict) else {}, prefix, metric)
        if found:
            yield metric, sum(found) / len(found)


def _clocks(clock: dict[str, Any], prefix: str, metric: str) -> list[float]:
    """Return the clocks of all dies that give one."""
    said = [
        value.get("clk", value.get("cur_clk"))
        for key, value in clock.items()
        if key.startswith(prefix) and isinstance(value, dict)
    ]
    read = [_reading(value, metric, "mhz") for value in said]
    return [value for value in read if value is not None]


def _reading(said: Any, metric: str, unit: str) -> float | None:
    """Read a number, or ``{"value": number, "unit": text}``; None for N/A."""
    if isinstance(said, dict):
        unit = str(said.get("unit") or unit)
        said = said.get("value")
    scale = factor(metric, unit)
    try:
        number = float(said)
    except (TypeError, ValueError):
        return None
    absent = isinstance(said, bool) or number in ABSENT_NUMBERS or number != number  # noqa: PLR0124
    return None if absent or scale is None else number * scale

"""Processor cores and memory of the host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from chopper_jupyter.collect.sampler.source import Reading, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOPOLOGY = Path("/sys/devices/system/cpu")
POWERCAP = Path("/sys/class/powercap")
_PERCENT = 0.01
_MICRO = 1e-6


def host_source(period_s: float) -> Source:
    """Return utilisation of every logical core, memory in use, and power where it is readable.

    The map from logical to physical cores is among the first readings.
    """
    psutil.cpu_percent(percpu=True)  # the first call only starts the interval
    meter = _package_power(POWERCAP)
    first = _physical_cores(TOPOLOGY, psutil.cpu_count() or 1)

    def read() -> Sequence[Reading]:
        used = psutil.cpu_percent(percpu=True)
        readings = [
            Reading("cpu_utilization_ratio", value * _PERCENT, core=core)
            for core, value in enumerate(used)
        ]
        readings.append(Reading("host_memory_used_bytes", float(psutil.virtual_memory().used)))
        watts = meter() if meter else None
        if watts is not None:
            readings.append(Reading("cpu_power_w", watts))
        while first:
            readings.append(first.pop())
        return readings

    return Source("psutil", period_s, read)


def _physical_cores(topology: Path, logical: int) -> list[Reading]:
    """Return the physical core of each logical one; nothing where the system does not tell."""
    names: list[tuple[str, str]] = []
    for core in range(logical):
        folder = topology / f"cpu{core}" / "topology"
        try:
            package = (folder / "physical_package_id").read_text(encoding="ascii").strip()
            names.append((package, (folder / "core_id").read_text(encoding="ascii").strip()))
        except OSError:
            return []
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return [
        Reading("physical_core", float(number[name]), core=core) for core, name in enumerate(names)
    ]


def _package_power(powercap: Path) -> Callable[[], float | None] | None:
    """Return a function that tells the power of all processor packages since its last call."""
    counters = [p / "energy_uj" for p in powercap.glob("intel-rapl:*") if p.name.count(":") == 1]

    def total() -> float:
        return sum(int(path.read_text(encoding="ascii")) for path in counters) * _MICRO

    try:
        before = (time.monotonic(), total())
    except (OSError, ValueError):
        return None
    if not counters:
        return None

    def power() -> float | None:
        nonlocal before
        try:
            now = (time.monotonic(), total())
        except (OSError, ValueError):
            return None
        (then, joules), before = before, now
        elapsed, drawn = now[0] - then, now[1] - joules
        return drawn / elapsed if elapsed > 0 and drawn >= 0 else None  # the counter wraps around

    return power

"""AMD GPUs, by AMD SMI."""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import TYPE_CHECKING, Any

from chopper_jupyter.collect.sampler.source import Reading, Source
from chopper_jupyter.collect.sampler.visible import HIP, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ABSENT = 0xFFFF
_PERCENT = 0.01
_ENERGY_UNIT_J = 15.259e-6
"""What one count of the energy accumulator is worth (AMD SMI documentation)."""

_FIRST_OF = {
    "gpu_clock_mhz": ("current_gfxclk", "average_gfxclk_frequency"),
    "memory_clock_mhz": ("current_uclk", "average_uclk_frequency"),
    "power_w": ("current_socket_power", "average_socket_power"),
    "temperature_c": ("temperature_hotspot",),
    "memory_temperature_c": ("temperature_mem",),
    "utilization_ratio": ("average_gfx_activity",),
    "memory_utilization_ratio": ("average_umc_activity",),
}
"""Entries of the table of metrics: MI300 fills the current ones, MI200 the averages."""

_RATIOS = {"utilization_ratio", "memory_utilization_ratio"}


def amdsmi_source(period_s: float, environment: Mapping[str, str]) -> Source | str:
    """Return the sensors of the visible AMD GPUs, or the reason why there are none.

    Parameters
    ----------
    period_s : float
        How often to read them.
    environment : mapping
        Environment of the training process; it may limit the GPUs.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints when its library is missing
            smi = importlib.import_module("amdsmi")
            smi.amdsmi_init()
            handles = list(smi.amdsmi_get_processor_handles())
            uuids = [str(smi.amdsmi_get_gpu_device_uuid(handle)) for handle in handles]
    except Exception as error:  # noqa: BLE001  it raises KeyError where its library is missing
        return f"AMD SMI: {error!r}"
    seen = visible(environment, HIP, uuids)
    if not seen:
        return "AMD SMI: no visible GPU"
    notes: list[str] = []
    alive = dict(enumerate(seen))
    before: dict[int, Mapping[str, Any]] = {}

    def read() -> Sequence[Reading]:
        readings: list[Reading] = []
        for device, index in list(alive.items()):
            try:
                table = smi.amdsmi_get_gpu_metrics_info(handles[index])
            except smi.AmdSmiException as error:
                del alive[device]
                notes.append(f"GPU {device}: no more samples: {error}")
                continue
            readings += readings_of(table, before.get(device, {}), device)
            before[device] = table
        return readings

    devices = [
        {
            "device": d,
            "uuid": uuids[index],
            "bus_id": str(smi.amdsmi_get_gpu_device_bdf(handles[index])),
            "name": str(smi.amdsmi_get_gpu_asic_info(handles[index]).get("market_name", "")),
        }
        for d, index in enumerate(seen)
    ]
    return Source("amdsmi", period_s, read, devices, notes)


def readings_of(table: Mapping[str, Any], before: Mapping[str, Any], device: int) -> list[Reading]:
    """Return the readings in one table of GPU metrics; what it leaves out has none.

    Parameters
    ----------
    table, before : mapping
        What ``amdsmi_get_gpu_metrics_info`` tells now, and told the last time.
    device : int
        The GPU.

    Examples
    --------
    >>> readings_of({"current_gfxclk": 1500, "current_uclk": "N/A"}, {}, 0)
    [Reading(metric='gpu_clock_mhz', value=1500.0, device=0, core=None)]
    """
    found = []
    for metric, entries in _FIRST_OF.items():
        value = next((v for v in (_number(table.get(e)) for e in entries) if v is not None), None)
        if value is not None:
            found.append(Reading(metric, value * (_PERCENT if metric in _RATIOS else 1), device))
    energy = _number(table.get("energy_accumulator"))
    if energy is not None:
        found.append(Reading("energy_j", energy * _ENERGY_UNIT_J, device))
    throttled = _throttled(table, before)
    if throttled is not None:
        found.append(Reading("throttle_ratio", throttled, device))
    return found


def _throttled(table: Mapping[str, Any], before: Mapping[str, Any]) -> float | None:
    """Return the share of the time since the last table in which a limit held the clock down."""
    steps = _step(table, before, "accumulation_counter")
    if not steps:
        return None
    limits = ("ppt", "socket_thm", "vr_thm", "hbm_thm", "prochot")
    held = [_step(table, before, f"{limit}_residency_acc") for limit in limits]
    known = [h for h in held if h is not None]
    return min(1.0, max(known) / steps) if known else None


def _step(table: Mapping[str, Any], before: Mapping[str, Any], entry: str) -> float | None:
    now, then = _number(table.get(entry)), _number(before.get(entry))
    return None if now is None or then is None else now - then


def _number(value: Any) -> float | None:
    """Return a number; lists (one entry per die) by their mean of what is there."""
    if isinstance(value, (list, tuple)):
        known = [v for v in map(_number, value) if v is not None]
        return sum(known) / len(known) if known else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value == ABSENT:
        return None
    return float(value)

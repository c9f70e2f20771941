"""NVIDIA GPUs, by NVML."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from chopper_jupyter.collect.sampler.source import Reading, Source
from chopper_jupyter.collect.sampler.visible import CUDA, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MILLI = 1e-3
_PERCENT = 0.01
SLOW_EVERY = 10
"""Temperature, memory and utilisation change slowly: they are read every tenth time."""


def nvml_source(period_s: float, environment: Mapping[str, str]) -> Source | str:
    """Return the sensors of the visible NVIDIA GPUs, or the reason why there are none.

    Parameters
    ----------
    period_s : float
        How often to read clocks, power and energy.
    environment : mapping
        Environment of the training process; it may limit the GPUs.
    """
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        uuids = [_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    except nvml.NVMLError as error:
        return f"NVML: {error}"
    seen = visible(environment, CUDA, uuids)
    if not seen:
        return "NVML: no visible GPU"
    notes: list[str] = []
    sensors = {d: _sensors(nvml, handles[index]) for d, index in enumerate(seen)}
    turn = 0

    def read() -> Sequence[Reading]:
        nonlocal turn
        readings: list[Reading] = []
        for device, (fast, slow) in list(sensors.items()):
            for metrics in (fast, slow) if turn % SLOW_EVERY == 0 else (fast,):
                readings += _read(nvml, device, metrics, notes)
            if not fast and not slow:
                del sensors[device]
        turn += 1
        return readings

    devices = [
        {
            "device": d,
            "uuid": uuids[index],
            "bus_id": _text(nvml.nvmlDeviceGetPciInfo(handles[index]).busId),
            "name": _text(nvml.nvmlDeviceGetName(handles[index])),
        }
        for d, index in enumerate(seen)
    ]
    return Source("nvml", period_s, read, devices, notes)


Sensors = dict[str, "Callable[[], list[tuple[str, float]]]"]


def _sensors(nvml: Any, handle: Any) -> tuple[Sensors, Sensors]:
    """Return what can be read of one GPU: quickly changing, and slowly changing."""

    def clock(kind: int) -> Callable[[], float]:
        return lambda: nvml.nvmlDeviceGetClockInfo(handle, kind)

    def one(metric: str, call: Callable[[], float], scale: float = 1.0) -> Sensors:
        return {metric: lambda: [(metric, float(call()) * scale)]}

    def use() -> list[tuple[str, float]]:
        rates = nvml.nvmlDeviceGetUtilizationRates(handle)
        return [
            ("utilization_ratio", rates.gpu * _PERCENT),
            ("memory_utilization_ratio", rates.memory * _PERCENT),
        ]

    def power() -> float:
        return _instant_power(nvml, handle)

    fast = (
        one("gpu_clock_mhz", clock(nvml.NVML_CLOCK_SM))
        | one("memory_clock_mhz", clock(nvml.NVML_CLOCK_MEM))
        | one("power_w", power, _MILLI)
        | one("energy_j", lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle), _MILLI)
        | one("throttle_reasons", lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    )
    slow = (
        one(
            "temperature_c",
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        )
        | one("memory_used_bytes", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used)
        | {"utilization_ratio": use}
    )
    return fast, slow


def _instant_power(nvml: Any, handle: Any) -> float:
    """Return power in mW of this moment; what the plain call tells is the mean of a second."""
    field = getattr(nvml, "NVML_FI_DEV_POWER_INSTANT", None)
    if field is not None:
        value = nvml.nvmlDeviceGetFieldValues(handle, [field])[0]
        if value.nvmlReturn == nvml.NVML_SUCCESS:
            return float(value.value.uiVal)
    return float(nvml.nvmlDeviceGetPowerUsage(handle))


def _read(nvml: Any, device: int, metrics: Sensors, notes: list[str]) -> list[Reading]:
    """Read sensors; those that fail are not asked again, and the notes say why."""
    readings = []
    for metric, call in list(metrics.items()):
        try:
            readings += [Reading(name, value, device) for name, value in call()]
        except (nvml.NVMLError, AttributeError) as error:  # noqa: PERF203  old drivers lack some
            del metrics[metric]
            notes.append(f"GPU {device}: no more {metric}: {error}")
    return readings


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

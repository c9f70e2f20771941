"""What columns of telemetry files mean: which metric, in which unit; and readings to numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.importers.csv_columns import real_numbers

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

COLUMNS: dict[str, tuple[str, str]] = {
    # of several columns for one metric in a file the one that stands first here is used
    "power.draw.instant": ("power_w", "w"),
    "power.draw": ("power_w", "w"),
    "power.draw.average": ("power_w", "w"),
    "socket_power": ("power_w", "w"),
    "current_socket_power": ("power_w", "w"),
    "average_socket_power": ("power_w", "w"),
    "power_usage": ("power_w", "w"),
    "power_w": ("power_w", "w"),
    "power_watts": ("power_w", "w"),
    "current socket graphics package power": ("power_w", "w"),
    "average graphics package power": ("power_w", "w"),
    "total_energy_consumption": ("energy_j", "j"),
    "energy_j": ("energy_j", "j"),
    "energy_mj": ("energy_j", "mj"),
    "clocks.current.sm": ("gpu_clock_mhz", "mhz"),
    "clocks.sm": ("gpu_clock_mhz", "mhz"),
    "clocks.current.graphics": ("gpu_clock_mhz", "mhz"),
    "clocks.gr": ("gpu_clock_mhz", "mhz"),
    "gpu_clock_mhz": ("gpu_clock_mhz", "mhz"),
    "sm_clock_mhz": ("gpu_clock_mhz", "mhz"),
    "gfx_clk": ("gpu_clock_mhz", "mhz"),
    "gfx_clock": ("gpu_clock_mhz", "mhz"),
    "sclk clock speed:": ("gpu_clock_mhz", "mhz"),
    "clocks.current.memory": ("memory_clock_mhz", "mhz"),
    "clocks.mem": ("memory_clock_mhz", "mhz"),
    "memory_clock_mhz": ("memory_clock_mhz", "mhz"),
    "mem_clock_mhz": ("memory_clock_mhz", "mhz"),
    "mem_0_clk": ("memory_clock_mhz", "mhz"),
    "mem_clk": ("memory_clock_mhz", "mhz"),
    "mem_clock": ("memory_clock_mhz", "mhz"),
    "mclk clock speed:": ("memory_clock_mhz", "mhz"),
    "temperature.gpu": ("temperature_c", "c"),
    "hotspot": ("temperature_c", "c"),
    "hotspot_temperature": ("temperature_c", "c"),
    "temp_junction_celsius": ("temperature_c", "c"),
    "temperature (sensor junction)": ("temperature_c", "c"),
    "temp_c": ("temperature_c", "c"),
    "temperature_c": ("temperature_c", "c"),
    "edge": ("temperature_c", "c"),
    "temp_edge_celsius": ("temperature_c", "c"),
    "temperature (sensor edge)": ("temperature_c", "c"),
    "temperature.memory": ("memory_temperature_c", "c"),
    "memory_temperature": ("memory_temperature_c", "c"),
    "memory_temperature_c": ("memory_temperature_c", "c"),
    "mem_temp_c": ("memory_temperature_c", "c"),
    "mem": ("memory_temperature_c", "c"),
    "temperature (sensor memory)": ("memory_temperature_c", "c"),
    "utilization.gpu": ("utilization_ratio", "%"),
    "gpu_use_percent": ("utilization_ratio", "%"),
    "gfx_util": ("utilization_ratio", "%"),
    "gfx_activity": ("utilization_ratio", "%"),
    "average_gfx_activity": ("utilization_ratio", "%"),
    "gpu_util_pct": ("utilization_ratio", "%"),
    "gpu_util": ("utilization_ratio", "%"),
    "gpu use": ("utilization_ratio", "%"),
    "utilization.memory": ("memory_utilization_ratio", "%"),
    "umc_activity": ("memory_utilization_ratio", "%"),
    "average_umc_activity": ("memory_utilization_ratio", "%"),
    "mem_util": ("memory_utilization_ratio", "%"),
    "mem_util_pct": ("memory_utilization_ratio", "%"),
    "memory.used": ("memory_used_bytes", "mib"),
    "used_vram": ("memory_used_bytes", "mib"),
    "vram_used": ("memory_used_bytes", "mib"),
    "vram_used_bytes": ("memory_used_bytes", "b"),
    "mem_used_mb": ("memory_used_bytes", "mib"),
    "mem_used_mib": ("memory_used_bytes", "mib"),
    "fb_used_mb": ("memory_used_bytes", "mib"),
    "clocks_event_reasons.active": ("throttle_reasons", "bits"),
    "clocks_throttle_reasons.active": ("throttle_reasons", "bits"),
    "throttle_reasons": ("throttle_reasons", "bits"),
    "cpu_idle_percent": ("cpu_utilization_ratio", "% idle"),
    "cpu_percent": ("cpu_utilization_ratio", "%"),
    "cpu_util_percent": ("cpu_utilization_ratio", "%"),
    "used_gb": ("host_memory_used_bytes", "gib"),
    "host_memory_used_bytes": ("host_memory_used_bytes", "b"),
    "cpu_power_w": ("cpu_power_w", "w"),
}
"""Metric and unit by column, lower case, without a unit in brackets, which would win."""

DCGM: dict[str, tuple[str, str]] = {
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": ("power_w", "w"),
    "DCGM_FI_DEV_BOARD_POWER_INSTANT_WATTS": ("power_w", "w"),
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", "w"),
    "DCGM_FI_DEV_BOARD_POWER_WATTS": ("power_w", "w"),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_j", "mj"),
    "DCGM_FI_DEV_SM_CLOCK": ("gpu_clock_mhz", "mhz"),
    "DCGM_FI_DEV_MEM_CLOCK": ("memory_clock_mhz", "mhz"),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature_c", "c"),
    "DCGM_FI_DEV_MEMORY_TEMP": ("memory_temperature_c", "c"),
    "DCGM_FI_DEV_GPU_UTIL": ("utilization_ratio", "%"),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_utilization_ratio", "%"),
    "DCGM_FI_DEV_FB_USED": ("memory_used_bytes", "mib"),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("throttle_reasons", "bits"),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": ("throttle_reasons", "bits"),
}
"""Metric and unit by field of NVIDIA's DCGM."""

SCALES: dict[str, dict[str, float]] = {
    "_w": {"w": 1.0, "mw": 1e-3, "uw": 1e-6, "kw": 1e3},
    "_j": {"j": 1.0, "mj": 1e-3, "uj": 1e-6, "kj": 1e3},
    "_mhz": {"mhz": 1.0, "ghz": 1e3, "khz": 1e-3, "hz": 1e-6},
    "_c": {"c": 1.0, "°c": 1.0, "celsius": 1.0},
    "_ratio": {"%": 0.01, "percent": 0.01, "ratio": 1.0, "% idle": -0.01},
    "_bytes": {
        "b": 1.0, "bytes": 1.0, "kib": 2.0**10, "kb": 2.0**10, "mib": 2.0**20, "mb": 2.0**20,
        "gib": 2.0**30, "gb": 2.0**30,
    },
    "_reasons": {"bits": 1.0},
}  # fmt: skip
"""Factor to the unit of a metric's suffix. The tools' MB and GB are binary."""

ABSENT_NUMBERS = (65535.0, 4294967295.0, 18446744073709551615.0)
"""All bits set: how AMD's tools say that a sensor is not there."""

NO_READING = "readings that the sensor does not give (N/A)"
ODD_UNIT = "readings in an unknown unit"
NO_SHARE = "readings that are no share (a count that runs)"

_READING = r"^\(?\s*(?P<number>[+-]?[0-9.]+(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z%°]*)\s*\)?$"
_HEX = r"^0[xX](?P<digits>[0-9a-fA-F]{1,16})$"


def split_unit(header: str) -> tuple[str, str | None]:
    """Split ``power.draw [W]`` or ``GPU use (%)`` into name and unit, in lower case.

    Examples
    --------
    >>> split_unit("power.draw [W]"), split_unit("gpu use (%)"), split_unit("hotspot")
    (('power.draw', 'w'), ('gpu use', '%'), ('hotspot', None))
    """
    text = header.strip().lower()
    for opens, closes in ("[]", "()"):
        name, found, unit = text.rpartition(opens)
        if found and unit.endswith(closes) and len(unit) <= len("celsius)"):
            return name.strip(), unit[:-1].strip()
    return text, None


def factor(metric: str, unit: str) -> float | None:
    """Return what to multiply readings in a unit with; None for an unknown unit.

    Examples
    --------
    >>> factor("power_w", "mW"), factor("utilization_ratio", "%"), factor("power_w", "MHz")
    (0.001, 0.01, None)
    """
    return SCALES[f"_{metric.rpartition('_')[2]}"].get(unit.lower())


def readings(text: pa.Array, metric: str, unit: str, skipped: Counter[str]) -> pa.Array:
    """Turn readings, with or without a unit of their own, into float64; null for no reading.

    Parameters
    ----------
    text : pyarrow.Array
        Readings as text, for instance ``"187.80 W"``, ``"[N/A]"``, ``"0x4"``.
    metric, unit : str
        What the column means, and the unit of readings that do not name theirs.
    skipped : collections.Counter
        Readings that are none are counted here.
    """
    if metric == "throttle_reasons":
        values = _bits(text)
        skipped[NO_READING] += values.null_count
        return values
    parts = pc.extract_regex(text, _READING)
    number = real_numbers(pc.struct_field(parts, "number"))
    number = pc.if_else(pc.is_in(number, pa.array(ABSENT_NUMBERS)), None, number)
    own = pc.utf8_lower(pc.fill_null(pc.struct_field(parts, "unit"), ""))
    skipped[NO_READING] += number.null_count
    values = _scaled(number, own, metric, unit, skipped)
    if metric.endswith("_ratio"):
        largest = pc.max(values).as_py()
        if largest is not None and largest > MAX_SHARE:
            skipped[NO_SHARE] += len(values) - values.null_count
            return pa.nulls(len(values), pa.float64())
    return values


MAX_SHARE = 1.05
"""Above this, readings of a share are none. Tools round, and some count time unevenly."""


def _scaled(
    number: pa.Array, own: pa.Array, metric: str, unit: str, skipped: Counter[str]
) -> pa.Array:
    """Multiply each reading by the factor of its own unit, else of the column's."""
    values = pa.nulls(len(number), pa.float64())
    for word in pc.unique(own).to_pylist():
        scale = factor(metric, word or unit)
        here = pc.and_(pc.equal(own, word), pc.is_valid(number))
        if scale is None:
            skipped[ODD_UNIT] += pc.sum(here).as_py() or 0
            continue
        scaled = pc.multiply(number, scale)
        values = pc.if_else(here, pc.add(scaled, 1.0) if scale < 0 else scaled, values)
    return values


def _bits(text: pa.Array) -> pa.Array:
    """Read a bit mask, hexadecimal or decimal."""
    digits = pc.struct_field(pc.extract_regex(text, _HEX), "digits")
    distinct = pc.unique(digits).drop_null().to_pylist()
    table = {word: float(int(word, 16)) for word in distinct if word}
    known = pa.array(list(table), pa.string())
    values = pa.array(list(table.values()), pa.float64())
    by_hex = values.take(pc.index_in(digits, known))
    return pc.coalesce(by_hex, real_numbers(text))


def chosen(columns: Mapping[str, object]) -> dict[str, str]:
    """Choose the column of each metric among those that a file has.

    Parameters
    ----------
    columns : mapping
        Keys are names without units.

    Returns
    -------
    dict of str to str
        Column by metric.

    Examples
    --------
    >>> chosen({"power.draw": 0, "power.draw.instant": 0, "fan.speed": 0})
    {'power_w': 'power.draw.instant'}
    """
    found: dict[str, str] = {}
    for name, (metric, _) in COLUMNS.items():
        if name in columns:
            found.setdefault(metric, name)
    return found

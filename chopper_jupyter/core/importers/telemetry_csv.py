"""Telemetry in CSV: nvidia-smi, amd-smi, rocm-smi and wrappers, DCGM exporters, CPU samplers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.csv_columns import header_of, read_columns
from chopper_jupyter.core.importers.telemetry_run import TelemetryRun, samples_table
from chopper_jupyter.core.importers.telemetry_time import wall_ns
from chopper_jupyter.core.importers.telemetry_words import (
    COLUMNS,
    DCGM,
    NO_READING,
    chosen,
    readings,
    split_unit,
)

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

TIME = ("timestamp", "time", "wall_time", "timestamp_ns")
DEVICE = ("gpu_id", "index", "gpu", "device", "card")
HOST = ("hostname", "host", "node")
CORE = ("core", "cpu")
CORE_SHARE = ("percent", "utilization_percent", "cpu_percent")
PRODUCT = ("gpu_model", "modelname", "name", "gpu_name")
UUID = ("uuid", "gpu_uuid")
BUS = ("pci.bus_id", "gpu_bus_id", "bdf")
ABOUT = (*TIME, *DEVICE, *HOST, *PRODUCT, *UUID, *BUS)

SOURCES = (
    ("nvidia-smi", ("power.draw", "utilization.", "clocks.", "temperature.gpu", "memory.used")),
    ("amd-smi", ("socket_power", "gfx_clk", "gfx_util", "umc_activity", "power_usage", "gfx_0_")),
    ("rocm-smi", ("gpu_use_percent", "power_watts", "temp_junction", "sclk", "package power")),
    ("dcgm", ("metric_name", "sm_active", "dram_active", "tensor_active")),
    ("cpu", ("cpu", "core", "used_gb")),
)
"""Tools by the words that only their columns hold."""

_GFX_CLOCK = re.compile(r"gfx_\d+_clk$")
_CORE_COLUMN = re.compile(r"(?:cpu|core)[_ ]?(\d+)(?:[_ ]?(?:percent|pct|util\w*|%))?$")


def is_telemetry(path: Path) -> bool:
    """Say whether a CSV file's header is that of telemetry."""
    return _recognised([split_unit(name)[0] for name in header_of(path)])


def _recognised(names: list[str]) -> bool:
    if not any(time in names for time in TIME):
        return False
    known = any(name in COLUMNS or _GFX_CLOCK.match(name) for name in names)
    by_core = any(_CORE_COLUMN.match(name) for name in names) or _names_cores(names)
    return known or by_core or "metric_name" in names


def _names_cores(names: Container[str]) -> bool:
    """Say whether each row names its processor core."""
    return any(name in names for name in CORE) and any(name in names for name in CORE_SHARE)


def read_csv(path: Path, *, timezone: str | None = None, host: str | None = None) -> TelemetryRun:
    """Read a telemetry CSV, told apart by its header.

    Parameters
    ----------
    path : pathlib.Path
        Output of ``nvidia-smi --query-gpu=timestamp,index,... --format=csv``, ``amd-smi metric
        --csv``, ``amd-smi monitor --csv``, or another file with a time, a device and columns
        that are known.
    timezone : str, optional
        Zone of times that name none.
    host : str, optional
        Host, if the file does not say it.

    Raises
    ------
    TraceFormatError
        If no column is known, or none holds a reading with a time.
    """
    file = read_columns(path, pad=True)
    units = {name: split_unit(header)[1] for header in file.columns for name in [_name(header)]}
    columns = {_name(header): values for header, values in file.columns.items()}
    if not _recognised(list(columns)):
        found = ", ".join(list(file.columns)[:6])
        msg = (
            f"{path.name} is no telemetry that is known: it needs a column 'timestamp' and one "
            f"like 'power.draw [W]' or 'socket_power' (found {found}); was it written with "
            "a header?"
        )
        raise TraceFormatError(msg)
    text = _first(columns, TIME)
    times, notes = wall_ns(text if text is not None else pa.nulls(file.rows, pa.string()), timezone)
    keys = _keys(columns, file.rows, host)
    whole = pc.and_(pc.is_valid(times), pc.or_(pc.invert(keys.needed), pc.is_valid(keys.device)))
    repairs = file.repairs + Counter({NO_KEY: file.rows - (pc.sum(whole).as_py() or 0)})
    columns = {name: values.filter(whole) for name, values in columns.items()}
    keys = Keys(*(values.filter(whole) for values in (keys.device, keys.host, keys.needed)))
    skipped: Counter[str] = Counter()
    if "metric_name" in columns and "value" in columns:
        parts = _long(columns, skipped)
    else:
        parts = [*_wide(columns, units, skipped), *_cores(columns, skipped)]
    table = _below_each_other(parts, keys, times.filter(whole), _source(list(columns)))
    if not table.num_rows:
        msg = f"{path.name} has the header of telemetry but no reading with a time and a value"
        raise TraceFormatError(msg)
    return TelemetryRun(
        table,
        _devices(columns, keys),
        notes=tuple(f"{path.name}: {note}" for note in notes),
        skipped={reason: count for reason, count in skipped.items() if count},
        repairs={reason: count for reason, count in repairs.items() if count},
        sources=(path.name,),
    )


NO_KEY = "telemetry rows without a usable time or device: left out"


@dataclass(frozen=True)
class Keys:
    """Device and host of each row, and whether the file says a device at all."""

    device: pa.Array
    host: pa.Array
    needed: pa.Array


def _name(header: str) -> str:
    return split_unit(header)[0]


def _first(columns: dict[str, pa.Array], names: tuple[str, ...]) -> pa.Array | None:
    return next((columns[name] for name in names if name in columns), None)


def _keys(columns: dict[str, pa.Array], rows: int, host: str | None) -> Keys:
    named, hosts = _first(columns, DEVICE), _first(columns, HOST)
    device = pa.nulls(rows, pa.int32())
    if named is not None:
        parts = pc.extract_regex(named, r"(?P<number>\d{1,9})\s*$")
        digits = pc.struct_field(parts, "number")
        device = pc.if_else(pc.equal(digits, ""), None, digits).cast(pa.int32())
    return Keys(
        device,
        pa.array([host] * rows, pa.string()) if hosts is None else hosts,
        pa.array(np.full(rows, named is not None)),
    )


Part = tuple[str, pa.Array, dict[str, Any]]
"""A metric, its readings by row of the file, and what differs from the file's keys."""


def _wide(
    columns: dict[str, pa.Array],
    units: dict[str, str | None],
    skipped: Counter[str],
) -> list[Part]:
    """Read the files that have a column for each metric."""
    of_cores = {*CORE, *CORE_SHARE} if _names_cores(columns) else set()
    wanted = chosen({name: None for name in columns if name not in of_cores})
    parts: list[Part] = []
    clocks = [name for name in columns if _GFX_CLOCK.match(name)]
    if clocks and "gpu_clock_mhz" not in wanted:
        parts.append(("gpu_clock_mhz", _mean_clock([columns[n] for n in clocks], skipped), {}))
    for metric, name in wanted.items():
        unit = units[name] or COLUMNS[name][1]
        if COLUMNS[name][1] == "% idle":
            unit = "% idle"
        parts.append((metric, readings(columns[name], metric, unit, skipped), {}))
    used = {*wanted.values(), *clocks, *of_cores, *ABOUT}
    for name, values in columns.items():
        if name not in used and not _CORE_COLUMN.match(name):
            skipped[f"column {name!r} of telemetry is not used"] += len(values)
    return parts


def _mean_clock(columns: list[pa.Array], skipped: Counter[str]) -> pa.Array:
    """Return the mean clock of the dies of a GPU, of those that give one."""
    read = [readings(column, "gpu_clock_mhz", "mhz", Counter()) for column in columns]
    total, count = pa.scalar(0.0), pa.scalar(0.0)
    for values in read:
        total = pc.add(total, pc.fill_null(values, 0.0))
        count = pc.add(count, pc.is_valid(values).cast(pa.float64()))
    mean = pc.divide(total, pc.if_else(pc.greater(count, 0.0), count, None))
    skipped[NO_READING] += mean.null_count
    return mean


def _cores(columns: dict[str, pa.Array], skipped: Counter[str]) -> list[Part]:
    """Read the use of single processor cores: a column each, or a column that names the core."""
    parts: list[Part] = []
    metric = "cpu_utilization_ratio"
    for name, values in columns.items():
        match = _CORE_COLUMN.match(name)
        if match:
            core = pa.array(np.full(len(values), int(match[1])), pa.int32())
            parts.append((metric, readings(values, metric, "%", skipped), {"core": core}))
    named, share = _first(columns, CORE), _first(columns, CORE_SHARE)
    if named is not None and share is not None:
        number = pc.struct_field(pc.extract_regex(named, r"(?P<n>\d{1,6})\s*$"), "n")
        core = pc.if_else(pc.equal(number, ""), None, number).cast(pa.int32())
        parts.append((metric, readings(share, metric, "%", skipped), {"core": core}))
    return parts


def _long(columns: dict[str, pa.Array], skipped: Counter[str]) -> list[Part]:
    """Read the files that have a row for each reading."""
    names = columns["metric_name"]
    counts = {word["values"]: word["counts"] for word in pc.value_counts(names).to_pylist()}
    parts: list[Part] = []
    taken: set[str] = set()
    for field, (metric, unit) in DCGM.items():
        if field in counts and metric not in taken:
            taken.add(metric)
            here = pc.equal(names, field)
            text = pc.if_else(here, columns["value"], None)
            values = readings(text, metric, unit, Counter())
            skipped[NO_READING] += counts.pop(field) - (len(values) - values.null_count)
            parts.append((metric, values, {}))
    for field, count in counts.items():
        skipped[f"readings of {field} are not used"] += count
    return parts


def _source(names: list[str]) -> str:
    for source, words in SOURCES:
        if any(name.startswith(word) for name in names for word in words):
            return source
    return "csv"


def _below_each_other(parts: list[Part], keys: Keys, times: pa.Array, source: str) -> pa.Table:
    """Put the readings of all metrics into one table."""
    tables = []
    for metric, values, own in parts:
        every = {"device": keys.device, "host": keys.host, "wall_ns": times, **own}
        rows = pa.table({**every, "value": values}).filter(pc.is_valid(values))
        named = {"metric": metric, "source": source}
        for column, word in named.items():
            words = pa.array([word]).take(pa.array(np.zeros(rows.num_rows, np.int64)))
            rows = rows.append_column(column, words)
        tables.append(rows)
    table = pa.concat_tables(tables, promote_options="default")
    return samples_table({name: table[name] for name in table.column_names})


def _devices(columns: dict[str, pa.Array], keys: Keys) -> tuple[dict[str, Any], ...]:
    """List the GPUs that the file describes."""
    found = {"name": PRODUCT, "uuid": UUID, "bus_id": BUS}
    said = {key: _first(columns, names) for key, names in found.items()}
    said = {key: values for key, values in said.items() if values is not None}
    if not said:
        return ()
    table = pa.table({"device": keys.device, "host": keys.host, **said})
    distinct = table.group_by(table.column_names).aggregate([]).to_pylist()
    known = [row for row in distinct if row["device"] is not None]
    return tuple(sorted(known, key=lambda row: (str(row["host"]), row["device"])))

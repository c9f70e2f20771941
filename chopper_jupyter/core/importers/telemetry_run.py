"""What a telemetry importer returns: samples of sensors over wall time, in one form."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = pa.dictionary(pa.int32(), pa.string())

SAMPLES = pa.schema(
    [
        pa.field("source", NAME, nullable=False),
        pa.field("host", NAME),
        pa.field("device", pa.int32()),  # number of the GPU on its host
        pa.field("core", pa.int32()),  # logical processor core
        pa.field("wall_ns", pa.int64(), nullable=False),  # Unix time
        pa.field("metric", NAME, nullable=False),  # unit in its suffix
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""One row per reading. ``device`` and ``core`` are null for what concerns the whole host."""

METRICS = (
    "gpu_clock_mhz", "memory_clock_mhz", "power_w", "energy_j", "temperature_c",
    "memory_temperature_c", "utilization_ratio", "memory_utilization_ratio", "memory_used_bytes",
    "throttle_reasons", "throttle_ratio", "cpu_utilization_ratio", "physical_core",
    "host_memory_used_bytes", "cpu_power_w",
)  # fmt: skip
"""The metrics that importers give, of GPUs first."""


@dataclass(frozen=True)
class TelemetryRun:
    """Samples of one or several telemetry files.

    Parameters
    ----------
    table : pyarrow.Table
        By ``SAMPLES``, in order of time.
    devices : tuple of mappings
        What the file says of each GPU: ``device``, ``uuid``, ``bus_id``, ``name``, ``host``.
    simulated : bool
        True if a model of a machine wrote it.
    notes : tuple of str
        What a reader should know, as plain sentences.
    skipped, repairs : mapping of str to int
        Counts by reason.
    sources : tuple of str
        File names, for messages.
    """

    table: pa.Table
    devices: tuple[Mapping[str, Any], ...] = ()
    simulated: bool = False
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()


def samples_table(columns: Mapping[str, Any]) -> pa.Table:
    """Build a table by ``SAMPLES`` from columns of the same length, in order of time.

    Absent columns that may be null become null.
    """
    rows = len(columns["value"])
    arrays = []
    for one in SAMPLES:
        values = columns.get(one.name)
        if values is None:
            values = pa.nulls(rows, one.type)
        arrays.append(_as_type(values, one.type))
    table = pa.table(arrays, schema=SAMPLES)
    keys = ("wall_ns", "metric", "device", "core", "source", "host")
    plain = {key: _plain(table[key]) for key in keys}
    order = pc.sort_indices(pa.table(plain), [(key, "ascending") for key in keys])
    return table.take(order)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _as_type(values: Any, kind: pa.DataType) -> Any:
    made = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    if made.type == kind:
        return made
    if pa.types.is_dictionary(kind):
        return made.cast(pa.string()).dictionary_encode()
    return made.cast(kind)


def join_runs(runs: Sequence[TelemetryRun]) -> TelemetryRun:
    """Join samples of several files.

    Raises
    ------
    TraceFormatError
        If there are none.
    """
    if not runs:
        msg = "no telemetry files"
        raise TraceFormatError(msg)
    if len(runs) == 1:
        return runs[0]
    table = pa.concat_tables([run.table for run in runs]).unify_dictionaries()
    skipped: Counter[str] = Counter()
    repairs: Counter[str] = Counter()
    for run in runs:
        skipped.update(run.skipped)
        repairs.update(run.repairs)
    devices = {str(sorted(one.items(), key=str)): one for run in runs for one in run.devices}
    return TelemetryRun(
        samples_table({name: table[name] for name in table.column_names}),
        tuple(devices.values()),
        any(run.simulated for run in runs),
        tuple(dict.fromkeys(note for run in runs for note in run.notes)),
        dict(skipped),
        dict(repairs),
        tuple(source for run in runs for source in run.sources),
    )

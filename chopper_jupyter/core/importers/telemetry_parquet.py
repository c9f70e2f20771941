"""Telemetry that this package's own sampler wrote: Parquet files, several parts a source."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.telemetry_run import TelemetryRun, samples_table
from chopper_jupyter.core.run_folder import TELEMETRY_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

METADATA = b"chopper"
"""Key of the facts about a file in the metadata of its Parquet schema, as JSON."""

MAGIC = b"PAR1"


def is_parquet(head: bytes) -> bool:
    """Say whether a file that begins like this is Parquet."""
    return head.startswith(MAGIC)


def read_parquet(path: Path) -> TelemetryRun:
    """Read one part.

    Raises
    ------
    TraceFormatError
        If the file is damaged or cut short (a sampler that was killed leaves one such part),
        or is another kind of Parquet file.
    """
    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = f"{path.name} is damaged or cut short ({reason})"
        raise TraceFormatError(msg) from error
    absent = [name for name in TELEMETRY_COLUMNS if name not in table.column_names]
    if absent:
        msg = f"{path.name} is Parquet but no telemetry: it has no column {absent[0]!r}"
        raise TraceFormatError(msg)
    facts = _facts(path, table.schema.metadata or {})
    skipped: Counter[str] = Counter()
    usable = pc.and_(pc.is_valid(table["wall_ns"]), pc.is_finite(table["value"].cast(pa.float64())))
    usable = pc.fill_null(pc.and_(usable, pc.is_valid(table["metric"])), fill_value=False)
    kept = table.filter(usable)
    if kept.num_rows < table.num_rows:
        skipped["samples without a usable time, metric or value"] += table.num_rows - kept.num_rows
    host = facts.get("host")
    columns = {name: kept[name] for name in TELEMETRY_COLUMNS if name != "monotonic_ns"}
    columns["source"] = pa.array([str(facts.get("source", "sampler"))] * kept.num_rows, pa.string())
    columns["host"] = pa.array([host if isinstance(host, str) else None] * kept.num_rows)
    named = [one for one in _list(facts.get("devices")) if isinstance(one, dict)]
    return TelemetryRun(
        samples_table(columns),
        tuple({**one, "host": host} for one in named),
        bool(facts.get("simulated")),
        tuple(str(note) for note in _list(facts.get("notes"))),
        dict(skipped),
        {},
        (path.name,),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _facts(path: Path, metadata: dict[bytes, bytes]) -> dict[str, Any]:
    try:
        facts = json.loads(metadata.get(METADATA, b"{}"))
    except ValueError as error:
        msg = f"{path.name}: what it says about itself is not valid JSON"
        raise TraceFormatError(msg) from error
    return facts if isinstance(facts, dict) else {}

"""A saved Trace: a folder with one Parquet file per table and a versioned ``trace.json``."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.schema import SCHEMA_VERSION, TABLES, conform

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFEST = "trace.json"

_DELTA = {
    "kernels": ["kernel_id", "start_ns", "dur_ns", "launch_ns", "correlation_id", "op_id"],
    "ops": ["op_id", "parent_id", "start_ns", "dur_ns"],
    "spans": ["span_id", "parent_id", "start_ns", "dur_ns"],
}
"""Columns of times and ids: delta encoding makes them several times smaller than dictionaries."""


def is_saved_trace(folder: Path) -> bool:
    """Say whether a folder is a saved Trace (it holds ``trace.json``)."""
    return (folder / MANIFEST).is_file()


def write(folder: Path, tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> None:
    """Write all tables and, last, the manifest: a folder without it is not a saved Trace."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    for name, table in tables.items():
        delta = _DELTA.get(name, [])
        pq.write_table(
            table,
            folder / f"{name}.parquet",
            compression="zstd",
            use_dictionary=[c for c in table.column_names if c not in delta],
            column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED") or None,
        )
    text = json.dumps({"schema_version": SCHEMA_VERSION, **manifest}, indent=1, sort_keys=True)
    partial = folder / (MANIFEST + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, folder / MANIFEST)  # noqa: PTH105  atomic on every platform


def read(folder: Path) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """Read what ``write`` wrote.

    Raises
    ------
    TraceFormatError
        If the manifest or a table is absent or damaged, or of a newer version.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = int(manifest["schema_version"])
    except FileNotFoundError as error:
        msg = f"{folder} is not a saved Trace: it has no {MANIFEST}"
        raise TraceFormatError(msg) from error
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{path} is damaged ({error!r}); read the original recording again"
        raise TraceFormatError(msg) from error
    if version > SCHEMA_VERSION:
        msg = f"{path} has schema_version {version}; this version reads up to {SCHEMA_VERSION}"
        raise TraceFormatError(msg)
    return {name: _read_table(folder, name) for name in TABLES}, manifest


def _read_table(folder: Path, name: str) -> pa.Table:
    path = folder / f"{name}.parquet"
    try:
        return conform(name, pq.read_table(path))
    except (OSError, ValueError, pa.ArrowException) as error:
        msg = f"{path} is absent or damaged ({error}); read the original recording again"
        raise TraceFormatError(msg) from error

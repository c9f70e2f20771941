"""A saved Trace: a folder with one Parquet file per table and a versioned ``trace.json``."""

from __future__ import annotations

import json
import os
import threading
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.schema import SCHEMA_VERSION, SINCE, TABLES, conform

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFEST = "trace.json"
FILES, SIZE, CHECKSUM = "files", "bytes", "checksum"
BLOCK = 4 << 20

_DELTA = {
    "kernels": ["kernel_id", "start_ns", "dur_ns", "launch_ns", "correlation_id", "op_id"],
    "ops": ["op_id", "parent_id", "start_ns", "dur_ns"],
    "spans": ["span_id", "parent_id", "start_ns", "dur_ns"],
    "memory": ["time_ns", "allocated_bytes", "op_id"],
}
"""Columns of times and ids: delta encoding makes them several times smaller than dictionaries."""


class UnreadTable:
    """A table that stays in its file until it is asked for.

    The file is open from the beginning: it may be replaced or removed meanwhile. It is not
    memory-mapped: the columns are compressed, so nothing would be gained, and a mapped file
    that somebody cuts short kills the process.

    Parameters
    ----------
    folder : pathlib.Path
        A saved Trace.
    name : str
        The table.
    facts : mapping
        What the manifest says of the file: its size and checksum, if anything.

    Raises
    ------
    TraceFormatError
        If the file is absent, has another size, or holds no such table.
    """

    def __init__(self, folder: Path, name: str, facts: Mapping[str, Any]) -> None:
        self._path, self._name, self._facts = folder / f"{name}.parquet", name, facts
        self._lock = threading.Lock()
        self._table: pa.Table | None = None
        try:
            self._source = pa.OSFile(str(self._path))
            self._check_size()
            self._file = pq.ParquetFile(self._source)
            conform(name, self._file.schema_arrow.empty_table())
            self.num_rows = int(self._file.metadata.num_rows)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._damaged(error) from error
        if os.name != "posix":
            self.read()  # an open file could be neither replaced nor removed there

    def read(self) -> pa.Table:
        """Return the table; read once.

        Raises
        ------
        TraceFormatError
            If the file is damaged.
        """
        with self._lock:
            if self._table is None:
                try:
                    self._check_content()
                    self._table = conform(self._name, self._file.read())
                except (OSError, ValueError, pa.ArrowException) as error:
                    raise self._damaged(error) from error
                self._source.close()
            return self._table

    def _check_size(self) -> None:
        found, expected = self._source.size(), self._facts.get(SIZE)
        if expected is not None and found != expected:
            msg = f"{found} bytes instead of {expected}"
            raise OSError(msg)

    def _check_content(self) -> None:
        self._source.seek(0)
        expected = self._facts.get(CHECKSUM)
        if expected is not None and _checksum(self._source) != expected:
            msg = "its checksum is wrong"
            raise OSError(msg)

    def _damaged(self, error: Exception) -> TraceFormatError:
        return TraceFormatError(
            f"{self._path} is absent or damaged ({error}); read the original recording again"
        )


def is_saved_trace(folder: Path) -> bool:
    """Say whether a folder is a saved Trace (it holds ``trace.json``)."""
    return (folder / MANIFEST).is_file()


def write(folder: Path, tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> None:
    """Write all tables and, last, the manifest: a folder without it is not a saved Trace.

    Files are replaced, not overwritten: a Trace that was opened from them stays whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    files = {}
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        partial = folder / f"{path.name}.partial"
        delta = _DELTA.get(name, [])
        pq.write_table(
            table,
            partial,
            compression="zstd",
            use_dictionary=[c for c in table.column_names if c not in delta],
            column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED") or None,
        )
        files[path.name] = {SIZE: partial.stat().st_size, CHECKSUM: _checksum_at(partial)}
        os.replace(partial, path)  # noqa: PTH105  atomic on every platform
    whole = {"schema_version": SCHEMA_VERSION, **manifest, FILES: files}
    whole[CHECKSUM] = _checksum_of(whole)
    partial = folder / (MANIFEST + ".partial")
    partial.write_text(json.dumps(whole, indent=1, sort_keys=True), encoding="utf-8")
    os.replace(partial, folder / MANIFEST)  # noqa: PTH105  atomic on every platform


def read(folder: Path) -> tuple[dict[str, UnreadTable], dict[str, Any]]:
    """Open what ``write`` wrote; tables are read when they are asked for.

    Tables that the version which wrote it did not know are left out.

    Raises
    ------
    TraceFormatError
        If the manifest or a table is absent or damaged, or of a newer version. Damage inside
        of a table shows when it is read.
    """
    manifest = read_manifest(folder)
    files = manifest.get(FILES, {})  # older versions wrote none
    version = manifest["schema_version"]
    there = [name for name in TABLES if SINCE.get(name, 1) <= version]
    tables = {name: UnreadTable(folder, name, files.get(f"{name}.parquet", {})) for name in there}
    return tables, manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read ``trace.json``; see ``read`` for errors."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = int(manifest["schema_version"])
        for facts in manifest.get(FILES, {}).values():
            int(facts[SIZE]), int(facts[CHECKSUM])
    except FileNotFoundError as error:
        msg = f"{folder} is not a saved Trace: it has no {MANIFEST}"
        raise TraceFormatError(msg) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{path} is damaged ({error!r}); read the original recording again"
        raise TraceFormatError(msg) from error
    if version > SCHEMA_VERSION:
        msg = f"{path} has schema_version {version}; this version reads up to {SCHEMA_VERSION}"
        raise TraceFormatError(msg)
    return dict(manifest)


def is_intact(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Say whether every byte of a saved Trace is as ``write`` wrote it."""
    if manifest.get(CHECKSUM) != _checksum_of(manifest):
        return False
    return all(
        _checksum_at(folder / name) == facts[CHECKSUM] for name, facts in manifest[FILES].items()
    )


def _checksum_at(path: Path) -> int:
    with path.open("rb") as file:
        return _checksum(file)


def _checksum(file: Any) -> int:
    total = 0
    while block := file.read(BLOCK):
        total = zlib.crc32(block, total)
    return total


def _checksum_of(manifest: Mapping[str, Any]) -> int:
    """Return the checksum of a manifest's content; its formatting does not count."""
    content = {key: value for key, value in manifest.items() if key != CHECKSUM}
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())

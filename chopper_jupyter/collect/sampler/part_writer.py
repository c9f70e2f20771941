"""Writes samples as Parquet as they come, in parts: what is written stays, whatever happens."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from chopper_jupyter.core.run_folder import telemetry_file
from chopper_jupyter.core.schema import TELEMETRY_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.collect.sampler.source import Reading, Source

PART_ROWS = 50_000


class PartWriter:
    """Collects the samples of one source and writes them part by part.

    Parameters
    ----------
    folder : Path
        The run folder.
    host : str
        Name of the host.
    source : Source
        Whose samples they are.
    """

    def __init__(self, folder: Path, host: str, source: Source) -> None:
        self._folder, self._host, self._source = folder, host, source
        self._part = 0
        self._notes_written = 0
        self._rows: list[tuple[int, int, int | None, int | None, str, float]] = []

    def add(self, monotonic_ns: int, wall_ns: int, readings: Sequence[Reading]) -> None:
        """Keep the readings of one moment; a full part is written."""
        self._rows += [
            (monotonic_ns, wall_ns, r.device, r.core, r.metric, r.value) for r in readings
        ]
        if len(self._rows) >= PART_ROWS:
            self.write()

    def write(self) -> None:
        """Write what is there, if anything is, in one step."""
        notes = self._source.notes
        if not self._rows and len(notes) == self._notes_written:
            return
        path = telemetry_file(self._folder, self._host, self._source.name, self._part)
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = list(zip(*self._rows, strict=True)) or [()] * len(TELEMETRY_FILE)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, TELEMETRY_FILE, strict=True)]
        facts = {
            "host": self._host,
            "source": self._source.name,
            "period_ns": round(self._source.period_s * 1e9),
            "devices": list(self._source.devices),
            "notes": list(notes),
            "simulated": False,
        }
        schema = TELEMETRY_FILE.with_metadata({"chopper": json.dumps(facts)})
        unfinished = path.with_suffix(".unfinished")
        pq.write_table(pa.table(arrays, schema=schema), unfinished, compression="zstd")
        os.replace(unfinished, path)  # noqa: PTH105  atomic on every platform
        self._part += 1
        self._notes_written = len(notes)
        self._rows.clear()

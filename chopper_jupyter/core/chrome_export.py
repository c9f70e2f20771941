"""All ranks in one Chrome trace file that opens in Perfetto."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa


def write(path: Path, tables: Mapping[str, pa.Table], *, name: str) -> Path:
    """Write the tables of a Trace as Chrome trace events."""
    raise NotImplementedError

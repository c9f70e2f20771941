"""Decodes JSON files that are one value, plain or gzip."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.json_events import GZIP_MAGIC, without_gc

if TYPE_CHECKING:
    from pathlib import Path


def head_of(path: Path, size: int = 1 << 16) -> bytes:
    """Return the beginning of a file, decompressed if it is gzip; empty if that fails."""
    with path.open("rb") as file:
        head = file.read(size)
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, size)
    except zlib.error:
        return b""


def as_document(path: Path) -> Any:
    """Decode a JSON file.

    Raises
    ------
    TraceFormatError
        If it is damaged or cut short.
    """
    try:
        data = path.read_bytes()
        text = gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data
        with without_gc():
            return json.loads(text.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError, OSError, EOFError, zlib.error) as error:
        msg = f"{path.name} is damaged or cut short ({error})"
        raise TraceFormatError(msg) from error

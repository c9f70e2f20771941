"""JSON for the browser, compressed; the same data gives the same bytes every time."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

_LEVEL_TO_MEASURE = 6
_LEVEL_TO_KEEP = 9


def to_json(data: Any) -> bytes:
    """Write compact JSON in plain ASCII, so that no text of a trace can break the encoding."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode("ascii")


def pack(data: Any) -> str:
    """Compress JSON data with gzip and write it as base64; the file time is left at zero.

    Examples
    --------
    >>> unpack(pack({"a": [1, 2]}))
    {'a': [1, 2]}
    """
    return base64.b64encode(gzip.compress(to_json(data), _LEVEL_TO_KEEP, mtime=0)).decode("ascii")


def unpack(packed: str) -> Any:
    """Read back what ``pack`` wrote."""
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def packed_size(data: Any) -> int:
    """Estimate the length of ``pack(data)``, at most a few percent above."""
    return 4 * len(gzip.compress(to_json(data), _LEVEL_TO_MEASURE, mtime=0)) // 3

"""Whether this machine has compiled the scanner already: what users are told, nothing else."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

SOURCE = Path(__file__).with_name("event_scan.py")
INDEX = "event_scan.scan-*.nbi"


def is_prepared() -> bool:
    """Say whether the scanner can start at once: it is compiled, or there is no compiler."""
    if importlib.util.find_spec("numba") is None:
        return True
    written = SOURCE.stat().st_mtime if SOURCE.exists() else 0.0
    return any(
        index.stat().st_mtime >= written
        for place in _places()
        if place.is_dir()
        for index in place.rglob(INDEX)
    )


def _places() -> list[Path]:
    """Return where numba keeps compiled code: a named folder, beside the source, at home."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return [Path(named)]
    return [SOURCE.parent / "__pycache__", Path.home() / ".cache" / "numba"]

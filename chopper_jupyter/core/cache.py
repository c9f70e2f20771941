"""The cache in a run folder: a saved Trace of what was read from it, found by its sources.

It may be removed at any time. Nothing depends on it: where it cannot be written, or is stale or
damaged, the run is read again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chopper_jupyter._version import __version__
from chopper_jupyter.core import storage
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.run_folder import CACHE_DIR
from chopper_jupyter.core.schema import SCHEMA_VERSION
from chopper_jupyter.core.trace import Trace, altered

if TYPE_CHECKING:
    from collections.abc import Iterable

PROBE = 1 << 16
"""Bytes at the head and the tail of a source that its key covers."""

KEY = "cache_key"
PREFIX = "trace."
WRITING = ".writing."
ABANDONED_S = 3600
"""Age at which what a reader began to write counts as left behind."""


def key_of(sources: Iterable[Path]) -> str | None:
    """Return a text that changes with the sources and with what reads them.

    Parameters
    ----------
    sources : iterable of pathlib.Path
        All files that the Trace is made of.

    Returns
    -------
    str or None
        Covers names, sizes, times of change, head and tail of each file, the version of the
        schema and of the package, and its code. None if a file cannot be read.
    """
    try:
        files = [_facts(path) for path in sorted(sources)]
    except OSError:
        return None
    return json.dumps([SCHEMA_VERSION, __version__, _code(), files])


def _facts(path: Path) -> list[Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(PROBE))
        facts = os.fstat(file.fileno())
        if facts.st_size > PROBE:
            file.seek(max(facts.st_size - PROBE, PROBE))
            digest.update(file.read())
    return [path.name, facts.st_size, facts.st_mtime_ns, digest.hexdigest()]


@functools.cache
def _code() -> str:
    """Hash the core's own code and data: two versions may read the same files differently."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.csv")]):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def opened(run: Path, key: str) -> Trace | None:
    """Open the cached Trace of a run folder, if there is one with this key and it is intact."""
    folder = _place(run, key)
    try:
        manifest = storage.read_manifest(folder)
        if manifest.get(KEY) != key or not storage.is_intact(folder, manifest):
            return None
        trace = Trace.open(folder)
    except (TraceFormatError, OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # whatever is wrong with it, the sources are there
    # The run folder may have been renamed together with its cache.
    return altered(trace, info=replace(trace.info, name=run.name))


def write(run: Path, key: str, trace: Trace) -> None:
    """Keep a Trace for the next reader; where that is impossible, do nothing.

    Several readers may do this at the same time: each writes apart and renames at the end.
    """
    target = _place(run, key)
    written = _aside(target)
    manifest = {KEY: key, "info": trace.info.to_dict(), "quality": trace.quality.to_dict()}
    try:
        storage.write(written, trace.tables, manifest)
        _remove(target)
        written.rename(target)
        _tidy(target)
    except (OSError, pa.ArrowException):
        shutil.rmtree(written, ignore_errors=True)


def _place(run: Path, key: str) -> Path:
    return run / CACHE_DIR / (PREFIX + hashlib.sha256(key.encode()).hexdigest()[:16])


def _tidy(kept: Path) -> None:
    """Remove stale Traces and what interrupted readers left behind."""
    for path in kept.parent.iterdir():
        with suppress(OSError):
            if path.name.startswith(PREFIX):
                left_behind = path != kept
            else:
                old = time.time() - path.stat().st_mtime > ABANDONED_S
                left_behind = path.name.startswith(WRITING) and old
            if left_behind:
                _remove(path)


def _remove(folder: Path) -> None:
    """Remove a folder in one step, so that no reader finds half of it."""
    if folder.exists():
        aside = _aside(folder)
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _aside(folder: Path) -> Path:
    return folder.with_name(WRITING + uuid.uuid4().hex)

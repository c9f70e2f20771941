"""Turn a raw Kineto file into a rank file of the run folder.

Three things change: the marks written at possible beginnings of iterations become iteration
marks or go, the absolute path that torch wrote into the file goes, and it is compressed.
Files reach hundreds of megabytes, so the text is cut and copied, never parsed.
"""

from __future__ import annotations

import gzip
import json
import mmap
import os
import re
from typing import TYPE_CHECKING

from chopper_jupyter.core.annotations import iteration_mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CANDIDATE_PREFIX = "chopper::candidate::"

_CANDIDATE = re.compile(rb'"name"\s*:\s*"(' + CANDIDATE_PREFIX.encode() + rb'(\d+))"')
_TRACE_NAME = re.compile(rb'"traceName"\s*:\s*("(?:[^"\\]|\\.)*")')
_TAIL = 16384
_CHUNK = 1 << 20


def candidate_mark(number: int) -> str:
    """Return the name of a mark of which is not known yet whether an iteration begins there."""
    return f"{CANDIDATE_PREFIX}{number}"


def write_rank_trace(raw: Path, target: Path, iterations: Mapping[int, int]) -> int:
    """Write the rank file in one step and remove the raw one, also when that fails.

    Parameters
    ----------
    raw : pathlib.Path
        What ``export_chrome_trace`` wrote.
    target : pathlib.Path
        The rank file; a reader sees all of it or nothing.
    iterations : mapping of int to int
        Iteration number of each candidate mark that begins one; the other marks go.

    Returns
    -------
    int
        Size of the rank file in bytes.
    """
    partial = target.with_name(target.name + ".partial")
    try:
        _write(raw, partial, target.name, iterations)
        os.replace(partial, target)  # noqa: PTH105  atomic on every platform
    finally:
        partial.unlink(missing_ok=True)
        raw.unlink()
    return target.stat().st_size


def _write(raw: Path, partial: Path, name: str, iterations: Mapping[int, int]) -> None:
    with (
        raw.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        partial.open("wb") as out,
        # No file name and no time in the gzip header: the same recording gives the same bytes.
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=out, mtime=0) as packed,
    ):
        position = 0
        for begin, end, new in _edits(text, name, iterations):
            _copy(text, position, begin, packed)
            packed.write(new)
            position = end
        _copy(text, position, len(text), packed)


def _copy(text: mmap.mmap, begin: int, end: int, out: gzip.GzipFile) -> None:
    for at in range(begin, end, _CHUNK):
        out.write(text[at : min(at + _CHUNK, end)])


def _edits(
    text: mmap.mmap, name: str, iterations: Mapping[int, int]
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (begin, end, replacement) in order."""
    for match in _CANDIDATE.finditer(text):
        number = iterations.get(int(match[2]))
        if number is None:
            yield (*_event_around(text, match.start()), b"")
        else:
            yield match.start(1), match.end(1), iteration_mark(number).encode()
    tail = max(len(text) - _TAIL, 0)
    for match in _TRACE_NAME.finditer(text, tail):
        yield match.start(1), match.end(1), json.dumps(name).encode()


def _event_around(text: mmap.mmap, at: int) -> tuple[int, int]:
    """Return the span of the event that holds a position, with the comma that follows it."""
    begin = text.rfind(b"{", 0, at)
    depth, end = 0, begin
    while end < len(text):  # a mark holds no braces in its strings, so counting them is enough
        depth += {b"{": 1, b"}": -1}.get(text[end : end + 1], 0)
        end += 1
        if depth == 0:
            break
    comma = re.compile(rb"\s*,").match(text, end)
    return begin, comma.end() if comma else end

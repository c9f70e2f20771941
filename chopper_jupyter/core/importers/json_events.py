"""Reads the JSON of a Chrome trace, whole or damaged, without losing what is intact."""

from __future__ import annotations

import gc
import json
import re
import zlib
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GZIP_MAGIC = b"\x1f\x8b"
BLOCK = 1 << 12
CUT_SHORT = "file cut short: read up to the cut"

ARRAY_START = re.compile(r'"traceEvents"\s*:\s*\[')
_NEXT_EVENT = re.compile(r'\}\s*,\s*(?=\{\s*")')
_SEPARATOR = re.compile(r"[\s,]*")

DECODER = json.JSONDecoder(
    parse_float=str,  # decimal text is kept: exact nanoseconds do not survive a float
    parse_constant=lambda _: None,  # NaN and Infinity mean "no value"
    strict=False,  # raw control characters in names are harmless
)


@dataclass(frozen=True)
class Document:
    """The events of one file, the values beside them, and what had to be repaired."""

    events: list[Any]
    meta: dict[str, Any] = field(default_factory=dict)
    repairs: Counter[str] = field(default_factory=Counter)


def read_document(path: Path) -> Document:
    """Read one trace file; plain or gzip, which its first bytes tell, not its name.

    Floats come back as their decimal text. A damaged file gives the events that are intact
    and a count of those that are not.

    Raises
    ------
    TraceFormatError
        If the file is empty, is not JSON, or holds no trace events.
    """
    repairs: Counter[str] = Counter()
    text = _decode(_inflate(path, repairs), repairs)
    if not text.strip():
        msg = f"{path} is empty; was the recording stopped before it was written?"
        raise TraceFormatError(msg)
    with without_gc():
        try:
            document = DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            return _salvage(path, text, error, repairs)
    if isinstance(document, list):
        _refuse_other_lists(path, document)
        return Document(document, {}, repairs)
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(events, list):
        found = sorted(document)[:8] if isinstance(document, dict) else type(document).__name__
        msg = f"{path} is JSON but no trace: it has no 'traceEvents' list (found {found})"
        raise TraceFormatError(msg)
    meta = {key: value for key, value in document.items() if key != "traceEvents"}
    return Document(events, meta, repairs)


def _refuse_other_lists(path: Path, entries: list[Any]) -> None:
    """Refuse a list that holds objects, none of which is an event."""
    objects = [entry for entry in entries if isinstance(entry, dict)]
    if objects and not any("ph" in entry for entry in objects):
        msg = f"{path} is a JSON list but no trace: none of its entries is an event (has a 'ph')"
        raise TraceFormatError(msg)


def _inflate(path: Path, repairs: Counter[str]) -> bytes:
    data = path.read_bytes()
    if not data.startswith(GZIP_MAGIC):
        return data
    parts: list[bytes] = []
    while data.startswith(GZIP_MAGIC):  # several members may follow each other
        stream = zlib.decompressobj(wbits=31)
        try:
            parts += [stream.decompress(data), stream.flush()]
        except zlib.error as error:
            parts += _inflate_intact(data)
            if not any(parts):
                msg = f"{path} starts like gzip but cannot be decompressed ({error})"
                raise TraceFormatError(msg) from error
            repairs["gzip stream damaged: read up to the damage"] += 1
            break
        if not stream.eof:
            repairs["gzip stream cut short: read up to the cut"] += 1
        data = stream.unused_data
    return b"".join(parts)


def _inflate_intact(data: bytes) -> list[bytes]:
    """Decompress block by block up to the first damaged one."""
    stream = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    with suppress(zlib.error):
        parts.extend(stream.decompress(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK))
    return parts


def _decode(data: bytes, repairs: Counter[str]) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8-sig", errors="replace")
        repairs["bytes that are not UTF-8 replaced"] += max(text.count("\ufffd"), 1)
        return text


@contextmanager
def without_gc() -> Iterator[None]:
    """Pause the garbage collector, which doubles the time of making a million small objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _salvage(path: Path, text: str, error: Exception, repairs: Counter[str]) -> Document:
    """Decode event by event, stepping over the damaged ones."""
    match = ARRAY_START.search(text)
    start = match.end() if match else (1 if text.lstrip()[:1] == "[" else -1)
    if match is None and start == 1:
        start = text.index("[") + 1
    if start < 0:
        where = getattr(error, "pos", 0)
        msg = (
            f"{path} is not a trace: not valid JSON at character {where} ({error}), "
            "and no 'traceEvents' list was found to read event by event"
        )
        raise TraceFormatError(msg) from error
    with without_gc():
        events, end = salvage_events(text, start, repairs)
    if not events:
        msg = f"{path} is damaged from its first event on ({error})"
        raise TraceFormatError(msg) from error
    meta = _salvage_meta(text[: match.start()], text[end:]) if match else {}
    return Document(events, meta, repairs)


def salvage_events(text: str, at: int, repairs: Counter[str]) -> tuple[list[Any], int]:
    """Decode the events from ``at`` on, counting repairs; return them and where they end."""
    events: list[Any] = []
    while True:
        gap = _SEPARATOR.match(text, at)
        if gap is not None:
            if gap.group().count(",") > 1:
                repairs["stray commas between events ignored"] += 1
            at = gap.end()
        if at >= len(text):
            repairs[CUT_SHORT] += 1
            return events, at
        if text[at] == "]":
            if events and text[:at].rstrip().endswith(","):
                repairs["stray commas between events ignored"] += 1
            return events, at + 1
        try:
            event, at = DECODER.raw_decode(text, at)
            events.append(event)
        except (ValueError, RecursionError):
            following = _NEXT_EVENT.search(text, at)
            if following is None:
                repairs[CUT_SHORT] += 1
                return events, len(text)
            repairs["damaged events left out"] += 1
            at = following.end()


def _salvage_meta(before: str, after: str) -> dict[str, Any]:
    """Read the values beside the events as far as they are intact."""
    meta: dict[str, Any] = {}
    tail = after.strip().removeprefix(",")
    for candidate in (before.rstrip().rstrip(",") + "}", "{" + tail):
        try:
            part = DECODER.decode(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(part, dict):
            meta |= part
    return meta

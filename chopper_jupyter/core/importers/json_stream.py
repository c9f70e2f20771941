"""A trace file as a stream of its text: where the events begin, block by block."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.importers.json_events import ARRAY_START, DECODER, GZIP_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = 1 << 20
"""Size of the pieces of text: small, so that they stay in the processor's cache."""

READ = 1 << 18
"""How much of a gzip file is read at once."""

MAX_HEAD = 64 << 20
UTF8_BOM = b"\xef\xbb\xbf"
BLANKS = " \t\r\n"
"""What JSON allows between values; Python's own idea of white space holds more."""

_ARRAY_START = re.compile(rb'"traceEvents"[ \t\r\n]*:[ \t\r\n]*\[')


class NotPlain(Exception):  # noqa: N818  not an error: the plain reader takes the file
    """The file is damaged or unusual in a way that only the plain reader handles."""


def blocks(path: Path) -> Iterator[bytes]:
    """Yield the file's text in blocks, decompressed.

    Raises
    ------
    NotPlain
        If a gzip stream is damaged or cut short.
    """
    with path.open("rb") as file:
        first = file.read(BLOCK)
        if not first.startswith(GZIP_MAGIC):
            while first:
                yield first
                first = file.read(BLOCK)
            return
        yield from _inflated(file, first)


def _inflated(file: Any, data: bytes) -> Iterator[bytes]:
    make, failure = _inflater()
    stream = make()
    while True:
        try:
            while data and not stream.eof:
                text = stream.decompress(data, BLOCK)
                if text:  # what is left may be the checksum alone
                    yield text
                data = stream.unconsumed_tail
        except failure as error:
            raise NotPlain from error
        if stream.eof:
            rest = stream.unused_data
            if not rest.startswith(GZIP_MAGIC):
                rest += (
                    file.read(len(GZIP_MAGIC) - len(rest)) if len(rest) < len(GZIP_MAGIC) else b""
                )
            if not rest.startswith(GZIP_MAGIC):
                return
            stream, data = make(), rest
            continue
        data = file.read(READ)
        if not data:
            raise NotPlain


def _inflater() -> tuple[Any, type[Exception]]:
    """Return the fastest gzip decompressor there is: ISA-L takes a third of zlib's time."""
    try:
        from isal import isal_zlib  # noqa: PLC0415  optional
    except ImportError:
        return (lambda: zlib.decompressobj(wbits=31)), zlib.error
    failure: Any = isal_zlib.error
    return (lambda: isal_zlib.decompressobj(wbits=31)), failure


def split_head(stream: Iterator[bytes]) -> tuple[str, bytes]:
    """Read up to the first event; return the text before the array and the text behind it.

    Raises
    ------
    NotPlain
        If no event array is found early in the file, or the text before it is not UTF-8.
    """
    data = b""
    for block in stream:
        data += block
        text = data.removeprefix(UTF8_BOM)
        if text.lstrip(BLANKS.encode())[:1] == b"[":
            return "", text[text.index(b"[") + 1 :]
        match = _ARRAY_START.search(text)
        if match:
            return utf8(text[: match.start()]), text[match.end() :]
        if len(data) > MAX_HEAD:
            break
    raise NotPlain


def values_beside(head: str, tail: bytes) -> dict[str, Any]:
    """Return the values before and behind the event array.

    Raises
    ------
    NotPlain
        If they are not what a valid document has around the array.
    """
    rest = utf8(tail).strip(BLANKS)
    if not head:
        if rest:
            raise NotPlain
        return {}
    mark = 7
    while str(mark) in head or str(mark) in rest:
        mark += 1
    try:
        document = DECODER.decode(f'{head}"traceEvents":{mark}{rest}')
    except (ValueError, RecursionError) as error:
        raise NotPlain from error
    if not isinstance(document, dict) or document.get("traceEvents") != mark:
        raise NotPlain  # the array found is another one: of an inner object, or overridden later
    return {key: value for key, value in document.items() if key != "traceEvents"}


def values_before(head: str) -> dict[str, Any]:
    """Return the values before the event array of a file that ends inside it.

    Raises
    ------
    NotPlain
        If the plain reader might take another array for that of the events.
    """
    if not head or ARRAY_START.search(head):
        raise NotPlain
    try:
        document = DECODER.decode(head.rstrip().rstrip(",") + "}")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def utf8(data: bytes) -> str:
    """Decode bytes; raise NotPlain if they are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotPlain from error


def read_value(text: str) -> Any:
    """Decode one JSON value; raise NotPlain where Python refuses what the grammar allows."""
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotPlain from error

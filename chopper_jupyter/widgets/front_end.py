"""The built front end: two JavaScript files beside the Python code."""

from __future__ import annotations

import base64
import gzip
from functools import cache
from pathlib import Path

from chopper_jupyter.core.errors import ChopperError

STATIC_FOLDER = Path(__file__).resolve().parent.parent / "static"
WIDGET_FILE = "widget.js"
STATIC_FILE = "static.js"

_BOOTSTRAP = (
    'var bytes=Uint8Array.from(atob("PACKED"),function(c){return c.charCodeAt(0)});'
    'new Response(new Response(bytes).body.pipeThrough(new DecompressionStream("gzip"))).text()'
    '.then(function(text){var element=document.createElement("script");element.textContent=text;'
    "document.head.append(element);element.remove();CALL});"
)


class FrontEndMissingError(ChopperError, FileNotFoundError):
    """The JavaScript of the explorer was not built; the message says how to build it."""


def is_built(name: str) -> bool:
    """Say whether a file of the front end is there (a wheel always carries both)."""
    return (STATIC_FOLDER / name).is_file()


def read(name: str) -> str:
    """Return the text of a built file.

    Raises
    ------
    FrontEndMissingError
        If it was not built, as in a source checkout before ``make js``.
    """
    path = STATIC_FOLDER / name
    if not path.is_file():
        msg = (
            f"the front end is not built: {path} is missing; run `make js` in the source folder "
            "(needs Node.js 20 or newer), or install a wheel, which carries it"
        )
        raise FrontEndMissingError(msg)
    return _read(path, path.stat().st_mtime_ns)


@cache
def _read(path: Path, _changed_ns: int) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _packed(script: str) -> str:
    return base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode("ascii")


def bootstrap(name: str, call: str) -> str:
    """Return a script that unpacks a built file, runs it, and then makes a call into it.

    The file travels compressed, a third of its size. It runs as an inline script element,
    which is allowed wherever the bootstrap itself is.

    Parameters
    ----------
    name : str
        The built file.
    call : str
        A JavaScript expression.
    """
    return _BOOTSTRAP.replace("PACKED", _packed(read(name))).replace("CALL", call)

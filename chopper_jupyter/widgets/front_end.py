"""The built front end: two JavaScript files beside the Python code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from chopper_jupyter.core.errors import ChopperError

STATIC_FOLDER = Path(__file__).resolve().parent.parent / "static"
WIDGET_FILE = "widget.js"
STATIC_FILE = "static.js"

_ENDS_SCRIPT = re.compile(r"<(?=/script|!--)", re.IGNORECASE)


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


def inline(script: str) -> str:
    r"""Make a script safe inside a ``<script>`` element: nothing in it ends the element.

    Examples
    --------
    >>> inline("a = '</script>'")
    "a = '\\x3c/script>'"
    """
    return _ENDS_SCRIPT.sub(r"\\x3c", script)

"""Every error and warning the package raises, as one tree.

Each error also inherits the builtin that a Python user would expect for it, so that
``except ValueError`` and ``except ChopperError`` both work.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ChopperError(Exception):
    """Base of all errors raised by chopper_jupyter."""


class TraceFormatError(ChopperError, ValueError):
    """A file is not what it should be; the message names it, the place and what was tried."""


class SchemaError(ChopperError, KeyError):
    """A level, column, measure or metric does not exist; the message names the nearest ones."""

    def __str__(self) -> str:
        """Return the plain message (KeyError would show it quoted)."""
        return str(self.args[0]) if self.args else ""


class MissingDataError(ChopperError, LookupError):
    """The question needs data that this trace does not hold; the message says how to record it."""


class AlignmentError(ChopperError, ValueError):
    """Two recordings could not be matched; the message gives the rate found and needed."""


class CollectError(ChopperError, RuntimeError):
    """Recording could not start or finish; the message says why and what to do next."""


class PartialTraceWarning(UserWarning):
    """Part of the input was dropped or could not be linked; the message gives the share."""


class ClockWarning(UserWarning):
    """Clocks of several ranks or devices disagree; the message gives the offset."""


def unknown_name(what: str, name: str, known: Iterable[str]) -> SchemaError:
    """Build the SchemaError for a name that does not exist, with the nearest valid ones.

    Parameters
    ----------
    what : str
        What the name should have been, for instance ``"level"``.
    name : str
        The name that was given.
    known : iterable of str
        The valid names.

    Returns
    -------
    SchemaError
        Ready to be raised.

    Examples
    --------
    >>> str(unknown_name("level", "layr", ["layer", "op"]))
    "no level named 'layr'; did you mean 'layer'? valid: layer, op"
    """
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    return SchemaError(f"no {what} named {name!r}{hint} valid: {', '.join(names)}")

"""What the browser may ask while a Jupyter kernel runs, and the answers.

A query ``{"kind": "query", "id": 7, "levels": [...], "filters": [["phase", 0]]}`` gets
``{"kind": "answer", "id": 7, "cube": {...}}`` or ``{"kind": "failure", "id": 7, "message": ...}``.
A cancelled query needs no reply: answers are given one after another, and the browser ignores
the ids it no longer waits for.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.cube import cube
from chopper_jupyter.core.errors import ChopperError, unknown_name
from chopper_jupyter.core.schema import LEVELS
from chopper_jupyter.widgets.embedding import cube_json

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.cube import LevelCodes

MOST_ROWS = 100_000
"""Rows of one answer; more would keep the browser busy for seconds."""

_LOG = logging.getLogger(__name__)


class QueryError(ChopperError, ValueError):
    """A message from the browser is no query that can be answered; the message says why."""


def reply_to(message: Any, codes: LevelCodes) -> dict[str, Any] | None:
    """Answer one message; None if it needs no reply.

    Whatever goes wrong is said to the asker, who would else wait for ever.
    """
    if not isinstance(message, dict) or message.get("kind") != "query":
        return None
    reply = {"id": message.get("id")}
    try:
        return reply | {"kind": "answer", "cube": _answer(message, codes)}
    except ChopperError as error:
        return reply | {"kind": "failure", "message": str(error)}
    except Exception as error:  # noqa: BLE001  see above; the log keeps where it happened
        _LOG.exception("a query of the explorer failed")
        return reply | {"kind": "failure", "message": f"{type(error).__name__}: {error}"}


def _answer(message: dict[str, Any], codes: LevelCodes) -> dict[str, Any]:
    levels = _levels(message.get("levels"))
    sums = cube(codes, levels, _filters(message.get("filters", []), codes))
    if len(sums) > MOST_ROWS:
        msg = f"{len(sums):,} rows are too many to show at once; select something first"
        raise QueryError(msg)
    return cube_json(sums)


def _levels(asked: Any) -> list[str]:
    if not isinstance(asked, list):
        msg = "a query needs a list of levels"
        raise QueryError(msg)
    return [_level(name) for name in asked]


def _level(name: Any) -> str:
    if name not in LEVELS:
        raise unknown_name(what="level", name=str(name), known=LEVELS)
    return str(name)


def _filters(asked: Any, codes: LevelCodes) -> list[tuple[str, int]]:
    """Read pairs of level and code; a code is a position among the members of its level."""
    if not isinstance(asked, list) or not all(isinstance(p, list) and len(p) == 2 for p in asked):  # noqa: PLR2004  pairs
        msg = "the filters of a query are pairs of level and code"
        raise QueryError(msg)
    found = []
    for name, code in asked:
        level = _level(name)
        members = len(codes.keys[level].values)
        if type(code) is not int or not -1 <= code < members:
            msg = f"level {level!r} has codes -1 to {members - 1}, not {code!r}"
            raise QueryError(msg)
        found.append((level, code))
    return found

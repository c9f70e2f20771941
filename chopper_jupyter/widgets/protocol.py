"""What the browser may ask while a Jupyter kernel runs, and the answers.

A query ``{"kind": "query", "id": 7, "levels": [...], "filters": [["phase", 0]]}`` gets
``{"kind": "answer", "id": 7, "cube": {...}}`` or ``{"kind": "failure", "id": 7, "message": ...}``.
With ``"of": "parts"`` the sums are those of the parts of wall time.

A window ``{"kind": "timeline", "id": 8, "gpus": [0, 1], "from": 0, "to": 10, "width": 900,
"filters": [...]}`` gets ``{"kind": "answer", "id": 8, "timeline": {...}}``, and a kernel
``{"kind": "kernel", "id": 9, "kernel": 123}`` gets ``{..., "details": {...}}``. The way from
theoretical to actual time of a selection, ``{"kind": "overheads", "id": 10, "filters": [...]}``,
gets ``{..., "overheads": {...}}``.

A cancelled query needs no reply: answers are given one after another, and the browser ignores
the ids it no longer waits for.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeGuard

from chopper_jupyter.core.analysis.cube import cube
from chopper_jupyter.core.analysis.kernel_details import kernel_details
from chopper_jupyter.core.analysis.op_instances import LEVELS as INSTANCE_LEVELS
from chopper_jupyter.core.analysis.timeline_slices import Window
from chopper_jupyter.core.errors import ChopperError, unknown_name
from chopper_jupyter.core.schema import LEVELS
from chopper_jupyter.widgets.embedding import cube_json
from chopper_jupyter.widgets.kernel_text import details_json
from chopper_jupyter.widgets.overhead_tables import overheads_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from chopper_jupyter.core.analysis.cube import LevelCodes
    from chopper_jupyter.widgets.sources import Sources

MOST_ROWS = 100_000
"""Rows of one answer; more would keep the browser busy for seconds."""

MOST_PIXELS = 4000
"""Width of one window; no screen is wider."""

_LOG = logging.getLogger(__name__)


class QueryError(ChopperError, ValueError):
    """A message from the browser is no query that can be answered; the message says why."""


def reply_to(message: Any, sources: Sources) -> dict[str, Any] | None:
    """Answer one message; None if it needs no reply.

    Whatever goes wrong is said to the asker, who would else wait for ever.
    """
    kind = message.get("kind") if isinstance(message, dict) else None
    answer = _ANSWERS.get(kind) if isinstance(kind, str) else None
    if answer is None:
        return None
    reply = {"id": message.get("id")}
    try:
        return reply | {"kind": "answer"} | answer(message, sources)
    except ChopperError as error:
        return reply | {"kind": "failure", "message": str(error)}
    except Exception as error:  # noqa: BLE001  see above; the log keeps where it happened
        _LOG.exception("a query of the explorer failed")
        return reply | {"kind": "failure", "message": f"{type(error).__name__}: {error}"}


def _sums(message: dict[str, Any], sources: Sources) -> dict[str, Any]:
    levels = _levels(message.get("levels"))
    filters = _filters(message.get("filters", []), sources.codes)
    sums = cube(_measured(message.get("of"), sources), levels, filters)
    if len(sums) > MOST_ROWS:
        msg = f"{len(sums):,} rows are too many to show at once; select something first"
        raise QueryError(msg)
    return {"cube": cube_json(sums)}


def _measured(what: Any, sources: Sources) -> LevelCodes:
    if what not in (None, "parts"):
        msg = f"there are no sums of {what!r}"
        raise QueryError(msg)
    return sources.parts if what == "parts" else sources.codes


def _window(message: dict[str, Any], sources: Sources) -> dict[str, Any]:
    data = sources.timeline
    gpus, start, end, width = (message.get(name) for name in ("gpus", "from", "to", "width"))
    known = set(data.gpus)
    if not isinstance(gpus, list) or not gpus or not all(gpu in known for gpu in gpus):
        msg = f"the timeline has the GPUs {sorted(known)}, not {gpus!r}"
        raise QueryError(msg)
    if not (_is_int(start) and _is_int(end) and _is_int(width) and start < end and width > 0):
        msg = "a window of the timeline needs whole numbers: from, a later to, and a width"
        raise QueryError(msg)
    filters = _filters(message.get("filters", []), sources.codes)
    values = sources.codes.dictionaries
    wanted = {v: [None if code < 0 else values[v][code]] for v, code in filters if v != "gpu"}
    window = Window(gpus, start, end, min(width, MOST_PIXELS))
    return {"timeline": data.window(window, wanted)}


def _kernel(message: dict[str, Any], sources: Sources) -> dict[str, Any]:
    kernel = message.get("kernel")
    if not _is_int(kernel):
        msg = f"a kernel is named by a whole number, not {kernel!r}"
        raise QueryError(msg)
    data = sources.timeline
    return {"details": details_json(kernel_details(data.trace, data.index, kernel))}


def _overheads(message: dict[str, Any], sources: Sources) -> dict[str, Any]:
    filters = _filters(message.get("filters", []), sources.codes)
    if any(level not in INSTANCE_LEVELS for level, _ in filters):
        msg = "counters and shapes tell about runs of ops, not about single kernels"
        raise QueryError(msg)
    table = overheads_of(sources, filters)
    if table is None:
        msg = "this trace has no counters, or nobody knows how fast its kernels could be"
        raise QueryError(msg)
    return {"overheads": table}


_ANSWERS: dict[str, Callable[[dict[str, Any], Sources], dict[str, Any]]] = {
    "query": _sums,
    "timeline": _window,
    "kernel": _kernel,
    "overheads": _overheads,
}


def _is_int(value: Any) -> TypeGuard[int]:
    return type(value) is int


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

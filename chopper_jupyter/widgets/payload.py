"""Everything the explorer's front end needs to know about a trace, as one JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.breakdown import PARTS, breakdown
from chopper_jupyter.core.analysis.metrics import MEASURES, metrics_for
from chopper_jupyter.core.schema import FAMILIES
from chopper_jupyter.widgets.embedding import Embedding, embed
from chopper_jupyter.widgets.facts import facts_of
from chopper_jupyter.widgets.members import members_of
from chopper_jupyter.widgets.packing import packed_size
from chopper_jupyter.widgets.wording import clip, printable

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.cube import LevelCodes
    from chopper_jupyter.core.trace import Trace

PAYLOAD_VERSION = 1
BUDGET = 150_000
"""Bytes of a packed payload, unless the page says otherwise."""

ORDER = ("phase", "op", "layer", "kernel", "gpu", "iteration")
"""Levels from the outside in, as the explorer first shows them: alike layers say little."""

FAMILY_TITLES = {
    "gemm": "GEMM",
    "attention": "Attention",
    "norm": "Norm",
    "elementwise": "Elementwise",
    "communication": "Communication",
    "copy": "Copy",
    "optimizer": "Optimizer",
}

_LONGEST_LINE = 300
_MOST_LINES = 40
_TRIES = 6


def payload_of(
    trace: Trace, codes: LevelCodes, *, merge: bool, budget: int = BUDGET
) -> dict[str, Any]:
    """Describe a trace for the front end.

    Parameters
    ----------
    trace : Trace
        The trace.
    codes : LevelCodes
        Its encoded levels.
    merge : bool
        Whether small members may be merged to stay within the budget, for a saved page. Else
        the codes of the members are those of ``codes``, so that Python can answer for them.
    budget : int
        Bytes of the packed payload.

    Returns
    -------
    dict
        JSON data; times are int nanoseconds, summed over all included iterations and GPUs.
    """
    base = _description(trace, codes)
    members = members_of(codes, trace.info.device_kind)
    if not merge:
        return base | _embedded(embed(codes, members, budget, merge=False))
    room = budget - packed_size(base)
    for attempt in range(_TRIES):
        # Sizes of parts only estimate the size of the whole, so a miss is tried again smaller.
        tried = 0 if attempt == _TRIES - 1 else int(room * 0.85**attempt)
        payload = base | _embedded(embed(codes, members, tried))
        if packed_size(payload) <= budget:
            break
    return payload


def _embedded(embedding: Embedding) -> dict[str, Any]:
    iterations = embedding.members["iteration"]
    return {
        "dictionaries": embedding.members,
        "iteration_numbers": [member["value"] for member in iterations],
        "cubes": embedding.cubes,
    }


def _description(trace: Trace, codes: LevelCodes) -> dict[str, Any]:
    included = codes.included
    totals = codes.totals
    kind = trace.info.device_kind
    return {
        "version": PAYLOAD_VERSION,
        "title": _line(trace.info.name),
        "device_kind": kind,
        "simulated": trace.info.simulated,
        "facts": [{k: _line(v) for k, v in fact.items()} for fact in facts_of(trace, included)],
        "quality": _quality(trace),
        "included": _line(included.phrase()),
        "instances": {
            "gpus": max(1, len(included.gpus)),
            "iterations": included.instances_of(["gpu"]),
        },
        "order": list(ORDER),
        "families": [{"name": name, "title": FAMILY_TITLES[name]} for name in FAMILIES],
        "measures": [MEASURES[name].to_dict() for name in codes.measures],
        "metrics": [metric.to_dict() for metric in metrics_for(codes.measures, kind)],
        "totals": {**totals, "wall_ns": totals["busy_ns"] + totals["idle_ns"]},
        "breakdown": _breakdown(trace),
    }


def _breakdown(trace: Trace) -> list[dict[str, Any]]:
    row = breakdown(trace).iloc[0]
    return [
        {"name": part, "title": title, "ns": int(row[f"{part}_ns"])}
        for part, title in PARTS.items()
    ]


def _quality(trace: Trace) -> dict[str, Any]:
    quality = trace.quality
    lines = [_line(line) for line in quality.lines()]
    left = len(lines) - _MOST_LINES
    if left > 0:
        lines = [*lines[:_MOST_LINES], f"and {left:,} more lines: trace.quality.lines()"]
    phrase = quality.phrase()
    return {"phrase": phrase, "good": phrase.startswith("Data good"), "lines": lines}


def _line(text: str) -> str:
    return clip(printable(text), _LONGEST_LINE)

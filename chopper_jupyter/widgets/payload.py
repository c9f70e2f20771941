"""Everything the explorer's front end needs to know about a trace, as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.breakdown import PARTS, breakdown
from chopper_jupyter.core.analysis.metrics import MEASURES, metrics_for
from chopper_jupyter.core.analysis.parts import parts_for
from chopper_jupyter.core.analysis.sharing import sharing
from chopper_jupyter.core.schema import FAMILIES
from chopper_jupyter.widgets.comparison import METRICS as COMPARISON_METRICS
from chopper_jupyter.widgets.comparison import comparison_of
from chopper_jupyter.widgets.embedding import Embedding, embed
from chopper_jupyter.widgets.evidence import missing_from
from chopper_jupyter.widgets.extra_cubes import matched_cubes
from chopper_jupyter.widgets.facts import facts_of
from chopper_jupyter.widgets.overhead_tables import embedded_overheads
from chopper_jupyter.widgets.packing import packed_size
from chopper_jupyter.widgets.timeline_data import embedded_timeline
from chopper_jupyter.widgets.wording import clip, printable

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace
    from chopper_jupyter.widgets.members import Members
    from chopper_jupyter.widgets.sources import Sources

PAYLOAD_VERSION = 1
BUDGET = 190_000
"""Bytes of a packed payload, unless the page says otherwise."""

_TIMELINE_SHARE = 0.2

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


PART_WISHES = (
    (("phase", "op", "layer"), ("phase", "op"), ("phase",), ()),
    (("gpu", "iteration", "phase"), ("gpu", "iteration"), ("gpu",)),
)
"""Levels over which the parts of wall time are embedded."""

_PARTS_SHARE = 0.08
_OVERHEADS_SHARE = 0.06
_COMPARISON_SHARE = 0.1

SIZES = {
    "time_ns": "Time",
    "busy_ns": "Exclusive time",
    "idle_ns": "Idle before",
    "count": "Kernels",
    "flops": "FLOPs",
    "message_bytes": "Message",
}
"""Measures that can size the icicle, in its words."""

SPREAD: dict[str, Any] = {
    "name": "spread",
    "title": "Spread",
    "unit": "%",
    "numerator": {},
    "denominator": {},
    "meaning": "standard deviation over iterations, of their mean",
    "needs": None,
    "over": "iteration",
}
"""Not a ratio of sums: the front end takes it over the iterations of a row."""


def payload_of(sources: Sources, *, merge: bool, budget: int = BUDGET) -> dict[str, Any]:
    """Describe a trace for the front end.

    Parameters
    ----------
    sources : Sources
        The trace and what was made from it.
    merge : bool
        Whether small members may be merged to stay within the budget, for a saved page. Else
        the codes of the members are those of ``sources.codes``, so that Python can answer for
        them.
    budget : int
        Bytes of the packed payload.

    Returns
    -------
    dict
        JSON data; times are int nanoseconds, summed over all included iterations and GPUs.
    """
    with sharing(sources.trace):
        return _payload_of(sources, merge=merge, budget=budget)


def _payload_of(sources: Sources, *, merge: bool, budget: int) -> dict[str, Any]:
    base = _description(sources)
    base |= {"timeline": embedded_timeline(sources.timeline, _TIMELINE_SHARE * budget)}
    if not merge:
        embedding = embed(sources.codes, sources.members, budget, merge=False)
        return base | _embedded(embedding) | _extra(sources, embedding.members, budget)
    room = budget - packed_size(base)
    for attempt in range(_TRIES):
        # Sizes of parts only estimate the size of the whole, so a miss is tried again smaller.
        tried = 0 if attempt == _TRIES - 1 else room * 0.85**attempt
        share = 1 - _PARTS_SHARE - (_COMPARISON_SHARE if sources.other else 0)
        share -= _OVERHEADS_SHARE if sources.apart else 0
        embedding = embed(sources.codes, sources.members, int(share * tried))
        payload = base | _embedded(embedding) | _extra(sources, embedding.members, int(tried))
        if packed_size(payload) <= budget:
            break
    return payload


def _extra(sources: Sources, listed: Members, budget: int) -> dict[str, Any]:
    """Sum beside the measures what the panels on the right show."""
    room = _PARTS_SHARE * budget
    made = matched_cubes(sources.parts, sources.members, listed, PART_WISHES, room)
    extra: dict[str, Any] = {
        "part_cubes": made,
        "overheads": embedded_overheads(sources, listed, _OVERHEADS_SHARE * budget),
    }
    other = sources.other
    if other is not None:
        extra["compare"] = comparison_of(other, sources, listed, _COMPARISON_SHARE * budget)
    return extra


def _embedded(embedding: Embedding) -> dict[str, Any]:
    iterations = embedding.members["iteration"]
    return {
        "dictionaries": embedding.members,
        "iteration_numbers": [member["value"] for member in iterations],
        "cubes": embedding.cubes,
    }


def _description(sources: Sources) -> dict[str, Any]:
    trace, codes = sources.trace, sources.codes
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
        "metrics": _metrics(sources),
        "sizes": [{"name": n, "title": t} for n, t in SIZES.items() if n in codes.measures],
        "findings": sources.findings,
        "missing": missing_from(trace),
        "totals": {**totals, "wall_ns": totals["busy_ns"] + totals["idle_ns"]},
        "breakdown": _breakdown(trace),
        "parts": [asdict(part) for part in parts_for(kind)],
    }


def _metrics(sources: Sources) -> list[dict[str, Any]]:
    found = metrics_for(sources.codes.measures, sources.trace.info.device_kind)
    more = [SPREAD] if len(sources.codes.included.iterations) > 1 else []
    made = [*(metric.to_dict() for metric in found), *more]
    if sources.other:
        made[2:2] = COMPARISON_METRICS  # beside time and share
    return made


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

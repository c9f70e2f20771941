"""The header line of the explorer: a few facts about the run, formatted for reading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from chopper_jupyter.core.analysis.iteration_time import iteration_time
from chopper_jupyter.core.analysis.quantities import counted, duration, number, percent
from chopper_jupyter.core.analysis.surroundings import clocks_text, cores_text
from chopper_jupyter.widgets.wording import TIMES_SIGN, typeset

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.trace import Trace

Fact = dict[str, str]

_MOST_RANKS = 8
_VENDOR_AND_MEMORY = re.compile(r"^(?:NVIDIA|AMD)\s+(?:Instinct\s+)?|\s+\d+GB.*$", re.IGNORECASE)


def facts_of(trace: Trace, included: Included) -> list[Fact]:
    """List label and value of what is known about the run; a value may need no label."""
    facts = [("", _devices(trace)), ("", "simulated" if trace.info.simulated else "")]
    if included.iterations:
        facts.append(("", counted(len(included.iterations), "iteration")))
    found = iteration_time(trace)
    if found is not None:
        label = "Iteration" if found.iterations else "Wall time"
        facts.append((label, typeset(duration(found.median_ns))))
        if found.tokens_per_second:
            facts.append(("Tokens/s", typeset(number(found.tokens_per_second))))
    facts.append(("Processors", cores_text(trace)))
    facts.append(("Clocks", clocks_text(trace)))
    facts.append(("Recording cost", _cost(trace.info.run.get("profiler_cost"))))
    facts.append(("Missing ranks", _ranks(trace.info.missing_ranks)))
    return [{"label": label, "value": value} for label, value in facts if value]


def _cost(noted: object) -> str:
    """Say how much slower iterations ran while they were recorded; empty if not known."""
    ratio = noted.get("ratio") if isinstance(noted, Mapping) else None
    slower = ratio - 1 if isinstance(ratio, int | float) and ratio > 0 else None
    return "" if slower is None else typeset(percent(max(slower, 0.0)))


def _ranks(ranks: tuple[int, ...]) -> str:
    named = ", ".join(map(str, ranks[:_MOST_RANKS]))
    return f"{named} and {len(ranks) - _MOST_RANKS} more" if len(ranks) > _MOST_RANKS else named


def _devices(trace: Trace) -> str:
    """Count the devices by product, vendor and memory size left out."""
    if trace.info.device_kind == "cpu":
        ranks = trace.gpus.num_rows
        return "CPU operators" + (f" of {ranks} ranks" if ranks > 1 else "")
    names = [name for name in trace.gpus["name"].to_pylist() if name]
    if not names:
        return counted(trace.gpus.num_rows, "GPU")
    products = Counter(_VENDOR_AND_MEMORY.sub("", name) for name in names)
    return ", ".join(f"{n} {TIMES_SIGN} {product}" for product, n in products.items())

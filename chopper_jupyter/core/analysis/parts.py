"""The parts of wall time as measures of kernels, so that any group of kernels has its breakdown."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chopper_jupyter.core.analysis.breakdown import PARTS, parts_of
from chopper_jupyter.core.analysis.idle_causes import CAUSES, split_idle
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.errors import PartialTraceWarning

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.cube import LevelCodes
    from chopper_jupyter.core.analysis.grouping import Ints
    from chopper_jupyter.core.trace import Trace


@dataclass(frozen=True)
class Part:
    """A share of wall time.

    Parameters
    ----------
    name, title : str
        Identity, and words for a display.
    idle : bool
        True if the GPU did nothing.
    """

    name: str
    title: str
    idle: bool


def parts_for(device_kind: str) -> list[Part]:
    """List the parts in reading order; without a GPU nothing tells why it was idle.

    Examples
    --------
    >>> [part.name for part in parts_for("cpu")]
    ['compute', 'exposed_communication', 'memory', 'idle']
    """
    busy = [Part(name, title, idle=False) for name, title in PARTS.items() if name != "idle"]
    if device_kind == "cpu":
        return [*busy, Part("idle", PARTS["idle"], idle=True)]
    return [*busy, *(Part(name, title, idle=True) for name, title in CAUSES.items())]


def part_codes(trace: Trace, codes: LevelCodes) -> LevelCodes:
    """Return the same kernels with the parts of their wall time as measures, in ns.

    The measures are named after the parts and add up to busy plus idle time exactly.

    Examples
    --------
    >>> from chopper_jupyter.core.analysis.cube import level_codes
    >>> from chopper_jupyter.core.trace import Trace
    >>> trace = Trace.from_tables({})
    >>> part_codes(trace, level_codes(trace)).totals["compute"]
    0
    """
    measures = parts_of(codes.included.kernels)
    idle = measures.pop("idle")
    return replace(codes, measures=measures | _idle(trace, codes, idle))


def _idle(trace: Trace, codes: LevelCodes, idle: Ints) -> dict[str, Ints]:
    if trace.info.device_kind == "cpu":
        return {"idle": idle}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)  # what was filtered away is said
        line = timeline(trace, codes.included, "the split of idle time")
    return {cause: line.of_covered(time) for cause, time in split_idle(trace, line).items()}

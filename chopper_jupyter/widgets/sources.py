"""What the explorer of one trace is made from, each part made once and when first needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.colour_measures import colour_measures
from chopper_jupyter.core.analysis.cube import LevelCodes, level_codes
from chopper_jupyter.core.analysis.parts import part_codes
from chopper_jupyter.core.analysis.taken_apart import TakenApart, take_apart
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.widgets.evidence import found_in
from chopper_jupyter.widgets.members import Members, members_of
from chopper_jupyter.widgets.timeline_data import TimelineData

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace


@dataclass(frozen=True)
class Sources:
    """A trace with its encoded levels, parts of wall time and timeline.

    Parameters
    ----------
    trace : Trace
        The trace to explore.
    compare_to : Trace, optional
        Another one that it is compared with.
    """

    trace: Trace
    compare_to: Trace | None = None

    @cached_property
    def codes(self) -> LevelCodes:
        """Levels and measures of the included kernels, with those that only colour them."""
        made = level_codes(self.trace)
        more = colour_measures(self.trace, made.included)
        return replace(made, measures={**made.measures, **more}) if more else made

    @cached_property
    def members(self) -> Members:
        """Members of each level by code."""
        return members_of(self.codes, self.trace.info.device_kind)

    @cached_property
    def parts(self) -> LevelCodes:
        """The same levels, with the parts of wall time as measures."""
        return part_codes(self.trace, self.codes)

    @cached_property
    def apart(self) -> TakenApart | None:
        """From theoretical to actual time; None without counters, or where nothing is known."""
        if not self.trace.counters.num_rows:
            return None
        try:
            return take_apart(self.trace, "measured")
        except MissingDataError:
            return None

    @cached_property
    def other(self) -> Sources | None:
        """The trace that it is compared with."""
        return None if self.compare_to is None else Sources(self.compare_to)

    @cached_property
    def findings(self) -> list[dict[str, Any]]:
        """Findings about the trace, for the browser."""
        return found_in(self.trace)

    @cached_property
    def timeline(self) -> TimelineData:
        """The timeline."""
        return TimelineData(self.trace)

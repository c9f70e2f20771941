"""What the recording itself cost, measured while it ran."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

KEEP = 32
"""Iterations measured after the window; more would say nothing new."""


@dataclass
class Pace:
    """When iterations ended, while recording and after it.

    An optimizer's steps tell it; where there are none, the backward passes; without either the
    pace stays unknown. Times are seconds of one monotonic clock.
    """

    recorded: dict[Any, list[float]] = field(default_factory=lambda: defaultdict(list))
    unrecorded: dict[Any, list[float]] = field(default_factory=lambda: defaultdict(list))

    def beat(self, what: Any, now: float, *, recorded: bool) -> None:
        """Note that one iteration's step (``what`` is the optimizer) or backward ended."""
        beats = (self.recorded if recorded else self.unrecorded)[what]
        if recorded or len(beats) <= KEEP:
            beats.append(now)

    def seconds(self, warmup: int) -> tuple[float | None, float | None]:
        """Return the median iteration time while recording (warm-up left out) and after it."""
        known = sorted(self.recorded, key=lambda what: what == BACKWARD)  # steps first
        if not known:
            return None, None
        what = known[0]
        before = _between(self.recorded[what])
        return _median(before[warmup:] or before), _median(_between(self.unrecorded[what]))


BACKWARD = "backward"


@dataclass
class Cost:
    """Seconds and bytes that recording took."""

    start_s: float = 0.0
    stop_s: float = 0.0
    export_s: float = 0.0
    bytes_written: int = 0

    def to_dict(self, pace: Pace, warmup: int) -> dict[str, float | int | None]:
        """Return the entry of ``run.json``; null where the cell did not tell.

        ``ratio`` is the time of a recorded iteration over that of one after the window.
        """
        recorded, unrecorded = pace.seconds(warmup)
        return {
            "start_s": self.start_s,
            "stop_s": self.stop_s,
            "export_s": self.export_s,
            "bytes": self.bytes_written,
            "recorded_iteration_s": recorded,
            "unrecorded_iteration_s": unrecorded,
            "ratio": recorded / unrecorded if recorded and unrecorded else None,
        }


def _between(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None

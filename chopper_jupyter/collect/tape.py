"""The segments of one recording, with what the training loop did during each."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chopper_jupyter.collect.annotate import Switch, mark
from chopper_jupyter.collect.cost import Cost
from chopper_jupyter.collect.iterations import Call, Event, completed, starts
from chopper_jupyter.collect.rank_trace import candidate_mark
from chopper_jupyter.collect.segment import OF_ONE_THREAD, Segment, SegmentOptions
from chopper_jupyter.collect.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Stretch:
    """What the loop did during one segment, and where the segment's raw file lies."""

    raw: Path
    log: list[Event] = field(default_factory=list)


class Tape:
    """Begins and ends segments, and counts the iterations on them."""

    def __init__(self, folder: Path, options: SegmentOptions, switch: Switch) -> None:
        self.stretches: list[Stretch] = []
        self.cost = Cost()
        self.switching = False
        self._folder, self._options, self._switch = folder, options, switch
        self._segment: Segment | None = None
        self._marks = 0

    @property
    def running(self) -> bool:
        """Whether a segment records at the moment."""
        return self._segment is not None

    @property
    def log(self) -> list[Event]:
        """What the loop did in the running segment."""
        return self.stretches[-1].log

    def begin(self) -> None:
        """Start a segment."""
        raw = self._folder / f".segment_{os.getpid()}_{len(self.stretches)}.json"
        with uninterrupted():
            self.switching = True
            try:
                self._segment = Segment(self._options)
            finally:
                self.switching = False
            self.cost.start_s += self._segment.start_s
            self.stretches.append(Stretch(raw))
            self._switch.recording = True

    def end(self, *, keep: bool = True) -> None:
        """Stop the running segment, if any, and put it on disk or drop it.

        Raises
        ------
        RuntimeError
            If only another thread can stop it.
        """
        with uninterrupted():
            segment = self._segment
            if segment is None:
                return
            if not segment.can_stop:
                raise RuntimeError(OF_ONE_THREAD)
            self._segment = None
            self._switch.recording = False
            self.switching = True
            try:
                segment.stop()
            finally:
                self.switching = False
            self.cost.stop_s += segment.stop_s
            if not keep:
                self.stretches.pop()
                return
            begun = time.perf_counter()
            segment.export(self.stretches[-1].raw)
            self.cost.export_s += time.perf_counter() - begun

    def drop(self) -> None:
        """Stop what still runs after a failure, if this thread can."""
        if self._segment is not None and self._segment.can_stop:
            self.end(keep=False)

    def call(self, call: Call) -> None:
        """Write down a call and mark its moment in the trace."""
        self._marks += 1
        mark(candidate_mark(self._marks))
        self.log.append(call._replace(mark=self._marks))

    def completed(self, current: Call) -> int:
        """Count the iterations that are over if ``current`` is called now."""
        earlier = sum(completed(stretch.log) for stretch in self.stretches[:-1])
        return earlier + completed(self.log, current)

    def recorded(self, *, whole: bool) -> int:
        """Count the complete iterations; ``whole`` says that the last call came to its end."""
        total = 0
        for stretch in self.stretches:
            last = stretch is self.stretches[-1]
            only_calls = all(isinstance(event, Call) for event in stretch.log)
            if only_calls and (whole or not last):
                total += len(starts(stretch.log))
            else:
                total += completed(stretch.log)
        return total

    def iteration_numbers(self) -> list[dict[int, int]]:
        """Return, for each stretch, the iteration number of each mark that begins one."""
        numbers, number = [], 0
        for stretch in self.stretches:
            begun = starts(stretch.log)
            numbers.append({call.mark: number + i for i, call in enumerate(begun)})
            number += len(begun)
        return numbers

"""One process's part of a recording: its window, and the files that come of it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from chopper_jupyter.collect.annotate import Switch
from chopper_jupyter.collect.rank_trace import write_rank_trace
from chopper_jupyter.collect.segment import SegmentOptions
from chopper_jupyter.collect.tape import Tape
from chopper_jupyter.collect.window import Window
from chopper_jupyter.core.run_folder import part_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chopper_jupyter.collect.options import ProfileOptions


@final
class Session:
    """The window of this process in a recording; ``window.open()`` opens it.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    options : ProfileOptions
        What to record.
    stem : callable
        Says how the names of this process's files begin, when they are written.
    saved : callable
        Called when they are.
    may_begin : callable, optional
        Makes the window wait for training, and says then whether to record it.
    """

    def __init__(
        self,
        folder: Path,
        options: ProfileOptions,
        stem: Callable[[], str],
        saved: Callable[[], None],
        may_begin: Callable[[], bool] | None = None,
    ) -> None:
        switch = Switch()
        recorded = SegmentOptions(options.shapes, options.stacks, options.memory)
        self.tape = Tape(folder, recorded, switch)
        limit = options.warmup + options.iterations
        self.window = Window(self.tape, switch, limit, self._save, may_begin)
        self.recorded_iterations = 0
        self.files: list[Path] = []
        self.size_bytes = 0
        self._folder, self._options = folder, options
        self._stem, self._saved = stem, saved
        self._ended_well = True

    @property
    def failure(self) -> Exception | None:
        """What made the recording fail, if anything did."""
        return self.window.failure

    @property
    def state(self) -> str:
        """What a reader can expect: complete, partial, or missing if nothing is saved."""
        if self.failure is not None or not self.files:
            return "missing"
        return "complete" if self.window.complete or self._ended_well else "partial"

    def finish(self, *, well: bool) -> None:
        """Close the window if it is open; ``well`` says whether the training ended by itself."""
        self._ended_well = self._ended_well and well
        self.window.finish()
        if self.failure is not None:
            for stretch in self.tape.stretches:
                with suppress(OSError):
                    stretch.raw.unlink(missing_ok=True)

    def _save(self) -> None:
        """Write the trace files; called when the window closes, on the training thread."""
        begun = time.perf_counter()
        self.recorded_iterations = self.tape.recorded(whole=self._ended_well)
        stem = self._stem()
        numbers = self.tape.iteration_numbers()
        for segment, (stretch, marks) in enumerate(zip(self.tape.stretches, numbers, strict=True)):
            target = part_file(self._folder, stem, segment)
            self.size_bytes += write_rank_trace(stretch.raw, target, marks)
            self.files.append(target)
        self.tape.cost.bytes_written = self.size_bytes
        self.tape.cost.export_s += time.perf_counter() - begun
        self._saved()

    def facts(self) -> dict[str, Any]:
        """Return what this process can say of its recording, for ``run.json`` or its status."""
        return {
            "profiler_cost": self.tape.cost.to_dict(self.window.pace, self._options.warmup),
            "recorded_iterations": self.recorded_iterations,
            "notes": self.notes() if self.files else [],
        }

    def notes(self) -> list[str]:
        """Return what a reader should know about the recording, as sentences."""
        o, notes = self._options, []
        asked = o.warmup + o.iterations
        if not (self.window.modules_seen or self.window.missed_calls):
            notes.append("No nn.Module was called; the block was recorded from its beginning.")
        elif self.recorded_iterations < asked:
            notes.append(
                f"{self.recorded_iterations} of {asked} iterations asked for "
                f"({o.warmup} warm-up) were recorded: the block ended before."
            )
        if o.memory:
            notes.append(
                "With memory, torch.profiler records the training thread and autograd's threads "
                "only: what other threads ran is not in this recording."
            )
        if self.window.interrupted:
            notes.append(
                "Another torch profiler ran for a while; what it saw is not in this recording."
            )
        return notes

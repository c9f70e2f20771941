"""``profile()``: record the training loop inside a ``with`` block into a run folder."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from chopper_jupyter.collect.annotate import Switch
from chopper_jupyter.collect.rank_trace import write_rank_trace
from chopper_jupyter.collect.run_writer import (
    describe_process,
    make_run_folder,
    process_rank,
    save_run,
    shown_path,
)
from chopper_jupyter.collect.segment import SegmentOptions, profiler_running
from chopper_jupyter.collect.tape import Tape
from chopper_jupyter.collect.telemetry import Sampler, start_sampler
from chopper_jupyter.collect.window import Window
from chopper_jupyter.core.errors import CollectError
from chopper_jupyter.core.run_folder import rank_file

if TYPE_CHECKING:
    import os
    from pathlib import Path
    from types import TracebackType

    from chopper_jupyter.core.trace import Trace


@dataclass(frozen=True)
class ProfileOptions:
    """What to record; see ``profile`` for the meaning of each."""

    warmup: int = 2
    iterations: int = 5
    tokens: int | None = None
    shapes: bool = True
    stacks: bool = False
    telemetry: bool = True

    def __post_init__(self) -> None:
        if self.warmup < 0 or self.iterations < 1:
            msg = f"warmup={self.warmup}, iterations={self.iterations}: at least 0 and 1 are needed"
            raise ValueError(msg)
        if self.tokens is not None and self.tokens < 1:
            msg = f"tokens={self.tokens}: give the tokens of one iteration over all ranks"
            raise ValueError(msg)


def profile(
    run_dir: str | os.PathLike[str] | None = None,
    *,
    warmup: int = 2,
    iterations: int = 5,
    tokens: int | None = None,
    shapes: bool = True,
    stacks: bool = False,
    telemetry: bool = True,
) -> Recording:
    """Record the training loop that runs inside the ``with`` block.

    Recording begins at the first call of a module and ends after ``warmup + iterations``
    iterations; the block then runs on at full speed. Nothing in the loop needs to change:
    iterations are told apart by the optimizer's steps.

    Parameters
    ----------
    run_dir : path, optional
        The run folder to write; a run that is there is replaced. By default
        ``chopper_runs/<time>-profile``. All ranks of a run name the same folder.
    warmup : int
        First iterations to record but to leave out of summaries.
    iterations : int
        Iterations to record after these.
    tokens : int, optional
        Tokens that one iteration trains on over all ranks; makes tokens/s known.
    shapes : bool
        Record the shapes of operator inputs.
    stacks : bool
        Record Python stacks; slower, and file paths get into the recording.
    telemetry : bool
        Sample processor use, and clocks, power, energy and temperature of the GPUs, in a process
        of its own while the window is open. Sensors that do not answer are noted, no error.

    Returns
    -------
    Recording
        A context manager with ``run_dir`` and, after the block, ``trace``.

    Raises
    ------
    CollectError
        If something else records already, the folder cannot be written, or saving failed.
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> import tempfile, torch
    >>> model = torch.nn.Linear(4, 1)
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with profile(tempfile.mkdtemp(), warmup=0, iterations=2) as recording:
    ...     for _ in range(3):
    ...         model(torch.ones(2, 4)).sum().backward()
    ...         sgd.step()
    >>> recording.recorded_iterations
    2
    """
    options = ProfileOptions(warmup, iterations, tokens, shapes, stacks, telemetry)
    return Recording(options, run_dir)


@final
class Recording:
    """One recording of this process, as a context manager.

    Parameters
    ----------
    options : ProfileOptions
        What to record.
    run_dir : path, optional
        The run folder; None for a new one in ``chopper_runs``.
    label : str
        How the new folder's name ends.

    Attributes
    ----------
    run_dir : pathlib.Path
        The run folder, once recording has begun.
    recorded_iterations : int
        Complete iterations in it, warm-up included, once recording has ended.
    size_bytes : int
        What the recording takes on disk.
    """

    _active: Recording | None = None
    _activating = threading.Lock()

    def __init__(
        self,
        options: ProfileOptions,
        run_dir: str | os.PathLike[str] | None = None,
        *,
        label: str = "profile",
    ) -> None:
        self.run_dir: Path
        self.recorded_iterations = 0
        self.size_bytes = 0
        self.cell_source: str | None = None
        self._options, self._wanted_dir, self._label = options, run_dir, label
        self._ended_well = True
        self._saved = False
        self._sampler = Sampler(None, None)

    def __enter__(self) -> Recording:
        if hasattr(self, "_window"):
            msg = f"this recording is already in {shown_path(self.run_dir)}; call profile() again"
            raise CollectError(msg)
        self._activate()
        try:
            self._open()
        except (OSError, RuntimeError) as error:
            Recording._active = None
            if isinstance(error, CollectError):
                raise
            msg = f"recording could not start: {error}"
            raise CollectError(msg) from error
        except BaseException:
            Recording._active = None
            raise
        return self

    def _open(self) -> None:
        self.run_dir = make_run_folder(self._wanted_dir, self._label)
        self._process = describe_process()
        switch = Switch()
        options = SegmentOptions(self._options.shapes, self._options.stacks)
        self._tape = Tape(self.run_dir, options, switch)
        limit = self._options.warmup + self._options.iterations
        self._window = Window(self._tape, switch, limit, self._save)
        self._write_run("missing")
        if self._options.telemetry:
            host, kind = self._process["host"], self._process["device_kind"]
            self._sampler = start_sampler(self.run_dir, host, expect_gpu=kind == "gpu")
        try:
            self._window.open()
        except BaseException:
            self._sampler.stop()
            raise

    def _activate(self) -> None:
        with Recording._activating:
            other = Recording._active
            if other is not None:
                where = shown_path(other.run_dir) if hasattr(other, "run_dir") else "a run folder"
                msg = f"already recording into {where}; end that recording first"
                raise CollectError(msg)
            if profiler_running():
                msg = "a torch profiler is running already; stop it before recording"
                raise CollectError(msg)
            Recording._active = self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended_well = error is None
        try:
            self._window.finish()
        finally:
            Recording._active = None
            self._sampler.stop()
        if self.failure is not None:
            self._give_up()
            if error is None:
                msg = f"the recording in {shown_path(self.run_dir)} is lost: {self.failure}"
                raise CollectError(msg) from self.failure
            return
        with suppress(OSError):  # run.json is there; new is only the pace after the window
            self._write_run(self._state())

    def _give_up(self) -> None:
        """Leave a folder that says that nothing is in it, if it can still be written."""
        with suppress(OSError):
            for stretch in self._tape.stretches:
                stretch.raw.unlink(missing_ok=True)
            self._write_run("missing")

    @cached_property
    def trace(self) -> Trace:
        """The recording as a Trace, read when first asked for."""
        from chopper_jupyter.core.read import read_trace  # noqa: PLC0415  costs nothing if unused

        return read_trace(self.run_dir)

    @property
    def failure(self) -> Exception | None:
        """What made the recording fail, if anything did."""
        return self._window.failure

    def _save(self) -> None:
        """Write the rank files; called when the window closes, on the training thread."""
        begun = time.perf_counter()
        self._sampler.stop()
        self.recorded_iterations = self._tape.recorded(whole=self._ended_well)
        rank, _ = process_rank()
        size = 0
        numbers = self._tape.iteration_numbers()
        for segment, (stretch, marks) in enumerate(zip(self._tape.stretches, numbers, strict=True)):
            target = rank_file(self.run_dir, rank, segment)
            size += write_rank_trace(stretch.raw, target, marks)
        self.size_bytes = size
        self._tape.cost.bytes_written = size
        self._tape.cost.export_s += time.perf_counter() - begun
        self._saved = True
        self._write_run(self._state())

    def _state(self) -> str:
        return "complete" if self._window.complete or self._ended_well else "partial"

    def _write_run(self, state: str) -> None:
        o = self._options
        facts: dict[str, Any] = {
            "options": {
                "warmup": o.warmup,
                "iterations": o.iterations,
                "tokens": o.tokens,
                "shapes": o.shapes,
                "stacks": o.stacks,
                "telemetry": o.telemetry,
                "memory": False,
            },
            "cell_source": self.cell_source,
            "profiler_cost": self._tape.cost.to_dict(self._window.pace, o.warmup),
            "recorded_iterations": self.recorded_iterations,
            "notes": self.notes() if self._saved else [],
        }
        save_run(self.run_dir, self._process | facts, state)

    def notes(self) -> list[str]:
        """Return what a reader should know about the recording, as sentences."""
        o, notes = self._options, []
        asked = o.warmup + o.iterations
        if not (self._window.modules_seen or self._window.missed_calls):
            notes.append("No nn.Module was called; the block was recorded from its beginning.")
        elif self.recorded_iterations < asked:
            notes.append(
                f"{self.recorded_iterations} of {asked} iterations asked for "
                f"({o.warmup} warm-up) were recorded: the block ended before."
            )
        if self._window.interrupted:
            notes.append(
                "Another torch profiler ran for a while; what it saw is not in this recording."
            )
        if self._sampler.failure:
            notes.append(f"Telemetry is incomplete: {self._sampler.failure}.")
        return notes

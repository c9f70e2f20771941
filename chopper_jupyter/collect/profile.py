"""``profile()``: record the training loop inside a ``with`` block into a run folder."""

from __future__ import annotations

import os
import threading
import time
import uuid
from contextlib import ExitStack, suppress
from functools import cached_property
from typing import TYPE_CHECKING, final

from chopper_jupyter.collect.joined import Joined, join, joined
from chopper_jupyter.collect.launches import launching
from chopper_jupyter.collect.options import ProfileOptions
from chopper_jupyter.collect.run_writer import (
    describe_machine,
    describe_torch,
    make_run_folder,
    rank_of_many,
    shown_path,
)
from chopper_jupyter.collect.segment import profiler_running
from chopper_jupyter.collect.session import Session
from chopper_jupyter.collect.telemetry import Sampler, start_sampler
from chopper_jupyter.collect.ticket import Ticket, announced
from chopper_jupyter.core import run_folder
from chopper_jupyter.core.errors import CollectError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from chopper_jupyter.core.trace import Trace


def profile(
    run_dir: str | os.PathLike[str] | None = None,
    *,
    warmup: int = 2,
    iterations: int = 5,
    tokens: int | None = None,
    shapes: bool = True,
    stacks: bool = False,
    telemetry: bool = True,
    memory: bool = False,
) -> Recording:
    """Record the training loop that runs inside the ``with`` block.

    Recording begins at the first call of a module and ends after ``warmup + iterations``
    iterations; the block then runs on at full speed. Nothing in the loop needs to change:
    iterations are told apart by the optimizer's steps.

    Processes that the block starts (``torch.multiprocessing``, ``torchrun``, ``subprocess``) and
    that train write their ranks into the same folder. In such a process the block joins the
    recording that is under way; ``run_dir`` and the options are then those of that recording.

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
    memory : bool
        Record what is allocated and freed on each GPU (without one, on the CPU), as the table
        ``memory`` of the Trace and the metrics ``peak_allocated`` and ``peak_reserved``. Slower;
        threads other than the training thread and autograd's are then not recorded.

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
    options = ProfileOptions(warmup, iterations, tokens, shapes, stacks, telemetry, memory)
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
    _of_parent: Recording | None = None

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
        self._host: Joined | None = None
        self._sampler = Sampler(None, None)
        self._around = ExitStack()
        self._open, self._has_status = True, False
        self._remarks: list[str] = []

    def __enter__(self) -> Recording:
        if hasattr(self, "run_dir"):
            msg = f"this recording is already in {shown_path(self.run_dir)}; call profile() again"
            raise CollectError(msg)
        if Recording._active is None:
            join()
            self._host = joined()
            if self._host is not None:
                self.run_dir = self._host.ticket.run_dir
                self._host.session.window.restart()
                return self
        self._activate()
        try:
            self._start()
        except (OSError, RuntimeError) as error:
            self._around.close()
            Recording._active = None
            if isinstance(error, CollectError):
                raise
            msg = f"recording could not start: {error}"
            raise CollectError(msg) from error
        except BaseException:
            self._around.close()
            Recording._active = None
            raise
        return self

    def _start(self) -> None:
        self.run_dir = make_run_folder(self._wanted_dir, self._label)
        self._facts = describe_machine() | describe_torch()
        self._own_stem = run_folder.process_stem(time.time_ns(), os.getpid())
        self._session = Session(self.run_dir, self._options, self._stem, self._saved)
        self.ticket = Ticket(self.run_dir, uuid.uuid4().hex, self._facts["host"], self._options)
        self._write()
        if self._options.telemetry:
            host, kind = self._facts["host"], self._facts["device_kind"]
            self._sampler = start_sampler(self.run_dir, host, expect_gpu=kind == "gpu")
            self._around.callback(self._sampler.stop)
        if rank_of_many() is None:  # ranks that record by themselves start none
            self._around.enter_context(announced(self.ticket))
            self._around.enter_context(launching(self.ticket, self._session.window.paused))
        self._session.window.open()

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
        if self._host is not None:
            self._host.finish(well=error is None)
            self._count()
            return
        try:
            self._session.finish(well=error is None)
        finally:
            Recording._active = None
            self._around.close()
        self._open = False
        with suppress(OSError):  # run.json is there; new are the pace after the window, other ranks
            self._conclude()
        if self.failure is not None and error is None:
            msg = f"the recording in {shown_path(self.run_dir)} is lost: {self.failure}"
            raise CollectError(msg) from self.failure

    @classmethod
    def leave_to_parent(cls) -> None:
        """Leave what is recorded to the process from which this one was forked, and join it."""
        active, cls._active = cls._active, None
        if active is None or not hasattr(active, "_session"):
            return
        cls._of_parent = active  # what it announced must stay: garbage collection would undo it
        with suppress(Exception):  # whatever runs in the fork must run
            active._session.window.abandon()  # noqa: SLF001  of this class
            join(active.ticket)

    @cached_property
    def trace(self) -> Trace:
        """The recording as a Trace, read when first asked for."""
        from chopper_jupyter.core.read import read_trace  # noqa: PLC0415  costs nothing if unused

        return read_trace(self.run_dir)

    @property
    def failure(self) -> Exception | None:
        """What made the recording fail, if anything did."""
        return (self._host.session if self._host is not None else self._session).failure

    def _stem(self) -> str:
        """Return how this process's files are named: by its rank, if it has one among many.

        Else its number depends on what other processes record, which is known at the end.
        """
        known = rank_of_many()
        return run_folder.rank_stem(known[0]) if known is not None else self._own_stem

    def _saved(self) -> None:
        if rank_of_many() is not None or not self._started_others():
            self._sampler.stop()  # else it goes on for the others
        self._write()
        self._count()

    def _started_others(self) -> bool:
        return bool(set(run_folder.process_numbers(self.run_dir)) - {self._stem()})

    def _conclude(self) -> None:
        """Settle this process's place among those it started, and describe the run."""
        if self._started_others() and rank_of_many() is None:
            if self._session.window.trained and self._session.files:
                self._write_status(self._own_stem, None)
            else:
                for path in self._session.files:
                    path.unlink()
                self._session.files.clear()
                self._remarks.append(ONLY_STARTED)
        elif self._stem() == self._own_stem:
            for segment, path in enumerate(self._session.files):
                path.replace(run_folder.rank_file(self.run_dir, 0, segment))
        self._write()
        self._count()

    def _count(self) -> None:
        session = self._session if self._host is None else self._host.session
        run = run_folder.read_run(self.run_dir) if self._host is None else {}
        self.recorded_iterations = run.get("recorded_iterations") or session.recorded_iterations
        paths = [path for _, _, path in run_folder.rank_files(self.run_dir)]
        self.size_bytes = sum(path.stat().st_size for path in paths)

    def _write(self) -> None:
        """Write ``run.json``; where there are several ranks, also what became of this one."""
        known = rank_of_many()
        state = self._session.state
        if known is not None:
            self._write_status(run_folder.rank_stem(known[0]), known[1])
            if known[0] and run_folder.is_run_folder(self.run_dir):
                return
        run = {
            **self._facts,
            **self._session.facts(),
            "recording": self.ticket.recording,
            "open": self._open,
            "options": self._options.to_dict(),
            "cell_source": self.cell_source,
            "notes": [*([] if self._has_status else self._own_notes()), *self._remarks],
            "world_size": known[1] if known is not None else 1,
            "ranks": {str(known[0] if known is not None else 0): state},
        }
        if not self._open:  # what the others said so far; readers hear what they say later
            run = run_folder.fold(run, run_folder.statuses(self.run_dir))
        run_folder.write_run(self.run_dir, run)

    def _write_status(self, stem: str, world_size: int | None) -> None:
        status = {
            **self._facts,
            **self._session.facts(),
            "pid": os.getpid(),
            "state": self._session.state,
            "world_size": world_size,
            "notes": self._own_notes(),
        }
        run_folder.write_status(self.run_dir, stem, status)
        self._has_status = True

    def _own_notes(self) -> list[str]:
        notes = self._session.notes() if self._session.files else []
        if self._sampler.failure:
            notes.append(f"Telemetry is incomplete: {self._sampler.failure}.")
        return notes

    def notes(self) -> list[str]:
        """Return what a reader should know about the recording, as sentences."""
        if self._host is not None:
            return self._host.session.notes()
        return list(run_folder.read_run(self.run_dir).get("notes") or ())


ONLY_STARTED = (
    "The process that started the ranks called no nn.Module itself: it is none of the ranks, and "
    "what it ran is not in the recording."
)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Recording.leave_to_parent)

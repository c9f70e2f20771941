"""The part of a recording in a process that a recorded cell or command started.

Joining costs next to nothing: hooks are set, the profiler is not started. Once the process
trains, it takes its rank's place in the run folder and records; what does not train (a launcher,
a data loader's worker, a compiler's helper) leaves no trace. Nothing here raises into the process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, final

from torch.utils.data import get_worker_info

from chopper_jupyter.collect.run_writer import describe_machine, describe_torch, known_rank
from chopper_jupyter.collect.session import Session
from chopper_jupyter.collect.telemetry import Sampler, start_sampler
from chopper_jupyter.collect.ticket import Ticket, from_environment
from chopper_jupyter.collect.uninterrupted import uninterrupted
from chopper_jupyter.core import run_folder

if TYPE_CHECKING:
    from types import FrameType

AT_EXIT_PRIORITY = 100
"""Before multiprocessing ends queues and managers, with which a loop may still be busy."""

_joined: Joined | None = None


def join(ticket: Ticket | None = None) -> Joined | None:
    """Join the recording this process was started in; joining twice is joining once.

    Parameters
    ----------
    ticket : Ticket, optional
        The recording; by default the one that the environment names.

    Returns
    -------
    Joined or None
        None if there is no recording, or joining failed; a note in the run folder says why.
    """
    global _joined  # noqa: PLW0603  a process has one recording
    if _joined is not None and _joined.pid == os.getpid():
        return _joined
    try:
        ticket = ticket or from_environment()
        if ticket is None or not ticket.is_open():
            return None
        if _joined is not None:  # of the process from which this one was forked
            _joined.session.window.abandon()
        _joined = Joined(ticket)
        _joined.session.window.open()
    except Exception as error:  # noqa: BLE001  the process is not ours to break
        _joined = None
        if ticket is not None:
            _tell(ticket, f"it could not join: {error!r}")
    return _joined


def joined() -> Joined | None:
    """Return what this process records as part of a recording started elsewhere, if anything."""
    if _joined is None or _joined.pid != os.getpid() or _joined.finished:
        return None
    return _joined


@final
class Joined:
    """What this process records for a recording that another process started."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.pid = os.getpid()
        self.finished = False
        self.session = Session(
            ticket.run_dir, ticket.options, self._stem_at_last, self._saved, self._begin
        )
        self._stem: str | None = None
        self._world_size: int | None = None
        self._facts: dict[str, Any] = {}
        self._sampler = Sampler(None, None)
        self._old_handler: Any = None

    def finish(self, *, well: bool) -> None:
        """Save what was recorded and let go of the process."""
        if self.finished or self.pid != os.getpid():
            return
        self.finished = True
        with uninterrupted():
            try:
                self.session.finish(well=well)
                if self.session.failure is not None:
                    _tell(self.ticket, f"its recording is lost: {self.session.failure!r}")
                self._write_status()
            except Exception as error:  # noqa: BLE001  a full disk, most likely
                _tell(self.ticket, f"its recording could not be saved: {error!r}")
            self._sampler.stop()
        self._leave_signals()

    def _begin(self) -> bool:
        """Take this process's place in the run folder; asked when it begins to train."""
        if get_worker_info() is not None or not self.ticket.is_open():
            return False
        known = known_rank()
        self._facts = describe_machine() | describe_torch()
        if known is None:
            self._stem = run_folder.process_stem(self._facts["created_ns"], self.pid)
        elif not self._take(*known):
            return False
        self._write_status()
        Finalize(None, _finish_at_exit, (self,), exitpriority=AT_EXIT_PRIORITY)
        self._hear_signals()
        options, host = self.ticket.options, self._facts["host"]
        if options.telemetry and host != self.ticket.host:
            gpu = self._facts["device_kind"] == "gpu"
            self._sampler = start_sampler(self.ticket.run_dir, host, expect_gpu=gpu)
        return True

    def _take(self, rank: int, world_size: int) -> bool:
        """Take a rank's place, unless an earlier process of that rank has filled it."""
        stem = run_folder.rank_stem(rank)
        path = run_folder.status_file(self.ticket.run_dir, stem)
        claim = json.dumps({**self._facts, "pid": self.pid, "state": "missing"})
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(claim)
        except FileExistsError:
            before = run_folder.read_status(self.ticket.run_dir, stem)
            if before.get("state") == "complete" or _lives(before, self._facts["host"]):
                _tell(self.ticket, f"an earlier process of the cell was rank {rank} already")
                return False
            for number, _, left in run_folder.rank_files(self.ticket.run_dir):
                if number == rank and left.name.startswith(stem + "."):  # of a try that failed
                    left.unlink(missing_ok=True)
        self._stem, self._world_size = stem, world_size
        return True

    def _stem_at_last(self) -> str:
        """Return how the files are named; a rank may have become known after the first call."""
        before, known = self._stem, known_rank()
        if self._world_size is None and known is not None and self._take(*known) and before:
            run_folder.status_file(self.ticket.run_dir, before).unlink(missing_ok=True)
        return self._stem or run_folder.process_stem(time.time_ns(), self.pid)

    def _saved(self) -> None:
        self._sampler.stop()
        self._write_status()

    def _write_status(self) -> None:
        if self._stem is None:  # it never trained
            return
        status = {
            **self._facts,
            **self.session.facts(),
            "pid": self.pid,
            "state": self.session.state,
            "world_size": self._world_size,
        }
        run_folder.write_status(self.ticket.run_dir, self._stem, status)

    # A launcher whose one rank failed ends the others by SIGTERM, which runs no exit handlers.

    def _hear_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._old_handler = signal.signal(signal.SIGTERM, self._terminated)

    def _leave_signals(self) -> None:
        if self._old_handler is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, self._old_handler)
        self._old_handler = None

    def _terminated(self, _number: int, _frame: FrameType | None) -> None:
        if self.pid == os.getpid():
            self.finish(well=False)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _finish_at_exit(process: Joined) -> None:
    """Finish when the process ends; an exception that ends it is on its way or was printed."""
    failed = sys.exc_info()[0] is not None or getattr(sys, "last_value", None) is not None
    process.finish(well=not failed)


def _lives(status: dict[str, Any], host: str) -> bool:
    pid = status.get("pid")
    if status.get("host") != host or not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _tell(ticket: Ticket, why: str) -> None:
    with suppress(OSError):
        if ticket.run_dir.is_dir():
            run_folder.add_note(ticket.run_dir, f"a process was not recorded: {why}")


def _after_fork() -> None:
    with suppress(Exception):
        if _joined is not None:
            join(_joined.ticket)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

if globals().get("join_when_complete"):  # set by sitecustomize, when half of this module was there
    join()

"""Loads many ranks: one after another, or in worker processes where that is faster.

Both ways give the same outcomes in the same order. What goes wrong with one rank is an outcome
too, be it a damaged file or a process that was killed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa

from chopper_jupyter.core import errors, rank_worker
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.compiled_cache import is_prepared
from chopper_jupyter.core.importers.kineto import TYPICAL_RATIO, WORTH_COMPILING
from chopper_jupyter.core.load_rank import LoadedRank, load_rank, take_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.progress import Progress

    Job = Sequence[Path]  # the files of one rank

PLAIN_PACE = 5e6
COMPILED_PACE = 50e6
"""Bytes of text that one process loads in a second, roughly, without and with the scanner."""

WORTH_A_POOL_S = 8.0
"""Expected time of one process from which several are started; each needs a second to start."""

MEMORY_PER_TEXT = 2
"""Bytes of memory that loading takes for a byte of text, generously."""

LOOK_AFTER_S = 1.0
"""How often to look whether a process that says nothing is still there."""

LONGEST_READ = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """What became of one rank: either ``loaded`` or ``error`` is set."""

    paths: tuple[Path, ...]
    loaded: LoadedRank | None = None
    error: Exception | None = None


def load_all(jobs: Sequence[Job], workers: int | None, progress: Progress) -> list[Outcome]:
    """Load ranks, each from its files.

    Parameters
    ----------
    jobs : sequence of sequences of pathlib.Path
        The files of each rank.
    workers : int or None
        Processes to use at most. None: as many as there are processors and memory for, if
        the files are large enough to be worth it.
    progress : Progress
        Told of every rank that is done.

    Returns
    -------
    list of Outcome
        One a job, in the order of the jobs.
    """
    sizes = [sum(text_size(path) for path in job) for job in jobs]
    if workers is None:
        workers = workers_worth_it(sizes)
    workers = min(workers, len(jobs)) if _can_start() else 1
    total = sum(sizes)  # not of each worker: how many there are must not matter
    if total >= WORTH_COMPILING and not is_prepared():
        progress.preparing()
    done = _pooled(jobs, sizes, workers, progress) if workers > 1 else {}
    for number, job in enumerate(jobs):
        if number not in done:
            done[number] = _load_here(job, total)
            progress.rank_done(file_size(job))
    return [done[number] for number in range(len(jobs))]


def file_size(job: Job) -> int:
    """Return the bytes of a rank's files, of those that are there."""
    return sum(path.stat().st_size for path in job if path.exists())


def text_size(path: Path) -> int:
    """Estimate the size of a file's text by its name, without opening it."""
    return file_size([path]) * (TYPICAL_RATIO if path.suffix == ".gz" else 1)


def workers_worth_it(text_sizes: Sequence[int]) -> int:
    """Return how many processes should load files of such sizes.

    Examples
    --------
    >>> workers_worth_it([10_000] * 64)
    1
    """
    total = sum(text_sizes)
    compiled = total >= WORTH_COMPILING and importlib.util.find_spec("numba") is not None
    if total < WORTH_A_POOL_S * (COMPILED_PACE if compiled else PLAIN_PACE):
        return 1
    room = psutil.virtual_memory().available // (MEMORY_PER_TEXT * max(text_sizes))
    return max(min(_processors(), int(room)), 1)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _can_start() -> bool:
    """Say whether there is a Python to start: not so inside of other programs."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def _load_here(job: Job, more_text: int) -> Outcome:
    try:
        return Outcome(tuple(job), load_rank(job, more_text=more_text))
    except Exception as error:  # noqa: BLE001  the caller decides if the others are enough
        return Outcome(tuple(job), error=error)


def _pooled(
    jobs: Sequence[Job], sizes: list[int], workers: int, progress: Progress
) -> dict[int, Outcome]:
    """Load in processes; what no process could be started or had room for is left to others."""
    done: dict[int, Outcome] = {}
    order = sorted(range(len(jobs)), key=lambda n: -sizes[n])  # the longest first
    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="chopper_jupyter-", ignore_cleanup_errors=True)
        )
        team = _Team(Path(folder), sum(sizes))
        stack.callback(team.close)
        threads = stack.enter_context(ThreadPoolExecutor(workers))
        stack.callback(team.end)
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        running = {threads.submit(team.load, jobs[n], n): n for n in order}
        for future in as_completed(running):
            outcome = future.result()
            if outcome is not None:
                done[running[future]] = outcome
                progress.rank_done(file_size(outcome.paths))
    return done


class _Team:
    """Worker processes, started when needed, each used for one rank after another."""

    def __init__(self, folder: Path, total_text: int) -> None:
        self._folder, self._total_text = folder, total_text
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._closed = False

    def load(self, job: Job, number: int) -> Outcome | None:
        """Load one rank; None if it must be loaded by other means."""
        worker = self._free()
        if worker is None:
            return None
        into = self._folder / f"rank_{number}"
        paths = [str(path) for path in job]
        task = {"paths": paths, "into": str(into), "more_text": self._total_text}
        said = worker.ask(task)
        if said is None:
            why = f"its process {worker.end()}"
            msg = f"{_names(job)} could not be read: {why}; is there enough memory?"
            return Outcome(tuple(job), error=TraceFormatError(msg))
        with self._lock:
            self._idle.append(worker)
        if "error" in said:
            return Outcome(tuple(job), error=_error(job, said))
        return _taken(job, into) if "done" in said else None

    def _free(self) -> _Worker | None:
        with self._lock:
            if self._closed:
                return None
            if self._idle:
                return self._idle.pop()
            try:
                worker = _Worker(self._folder / f"worker_{len(self._all)}.log")
            except OSError:
                self._closed = True  # there are no processes here
                return None
            self._all.append(worker)
        if worker.hear() == rank_worker.READY:
            return worker
        self._closed = True
        return None

    def end(self) -> None:
        """Kill all processes; those who wait for one get to know."""
        with self._lock:
            self._closed = True
            for worker in self._all:
                worker.end()

    def close(self) -> None:
        """Forget the processes; nobody may wait for one any more."""
        for worker in self._all:
            worker.close()


class _Worker:
    """One process of ``rank_worker`` and the lines to and from it."""

    def __init__(self, log: Path) -> None:
        with log.open("wb") as errors_go:
            self._process = subprocess.Popen(  # noqa: S603  this very Python and package
                [sys.executable, "-c", rank_worker.COMMAND, json.dumps(sys.path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors_go, bufsize=0,
            )  # fmt: skip

    def ask(self, task: dict[str, Any]) -> dict[str, Any] | None:
        """Give the process a task and wait for its answer; None if it died."""
        stdin = self._process.stdin
        try:
            if stdin is not None:
                stdin.write(json.dumps(task).encode() + b"\n")
        except (OSError, ValueError):  # the process is gone, or was ended and its pipe closed
            return None
        return self.hear()

    def hear(self) -> dict[str, Any] | None:
        """Wait for the next answer; None if the process died."""
        line = b""
        while not line.endswith(b"\n"):
            more = self._read()
            if not more:
                return None
            line += more
        return dict(json.loads(line))

    def _read(self) -> bytes:
        """Wait for some bytes of an answer; none if the process died.

        Other processes that were forked meanwhile may hold its end of the pipe, so that the
        pipe alone does not tell of its death.
        """
        stdout = self._process.stdout
        if stdout is None:
            return b""
        if os.name == "posix":
            with selectors.DefaultSelector() as selector:
                selector.register(stdout, selectors.EVENT_READ)
                while not selector.select(LOOK_AFTER_S):
                    if self._process.poll() is not None and not selector.select(0):
                        return b""
        return stdout.read(LONGEST_READ) or b""

    def end(self) -> str:
        """End the process and say how it ended."""
        if self._process.poll() is None:
            self._process.kill()
        code = self._process.wait()
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def close(self) -> None:
        """Close the pipes of a process that has ended."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not sent is of no use any more
                    stream.close()


def _names(job: Job) -> str:
    return ", ".join(path.name for path in job)


def _taken(job: Job, folder: Path) -> Outcome | None:
    try:
        return Outcome(tuple(job), take_over(folder))
    except (OSError, pa.ArrowException):  # somebody cleared the temporary files
        return None


def _error(job: Job, said: dict[str, Any]) -> Exception:
    """Make the error again that a process reported."""
    kind = getattr(errors, str(said["error"]), None)
    if isinstance(kind, type) and issubclass(kind, errors.ChopperError):
        return kind(said["message"])
    return RuntimeError(f"{_names(job)}: {said['error']}: {said['message']}")

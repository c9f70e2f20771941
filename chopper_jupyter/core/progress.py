"""One line of progress while files are read: bytes and ranks done."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from tqdm.std import tqdm

from chopper_jupyter.core.listening import front_end_listens

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 2.0
"""What takes no longer than this shows no bar."""

TICK_S = 1.0
"""Time between two states of the bar; notebooks run without a front end keep every one."""

FIRST_USE = "preparing the reader, once per machine"


class _Bar(tqdm):  # type: ignore[misc]  # tqdm is not typed
    """Plain text for terminal and notebook: a widget would stay in a saved notebook."""

    monitor_interval = 0  # its thread would outlive the bar


_Bar.set_lock(threading.RLock())  # the default one is for bars of several processes


class Progress:
    """Counts what was read; shows it if there is a bar.

    Parameters
    ----------
    ranks : int
        How many there are.
    bar : tqdm or None
        None counts silently.
    """

    def __init__(self, ranks: int, bar: _Bar | None = None) -> None:
        self.ranks, self.done = ranks, 0
        self._bar = bar
        self._lock = threading.Lock()

    def preparing(self) -> None:
        """Say that the first rank waits for the reader itself."""
        self._describe(FIRST_USE)

    def rank_done(self, size_bytes: int) -> None:
        """Count one rank and the bytes of its files."""
        self.done += 1
        self._describe(f"{self.done} of {self.ranks} ranks")
        self._advance(size_bytes)

    def tick(self) -> None:
        """Let the clock of the bar move on while one rank takes long."""
        self._advance(0)

    def _advance(self, size_bytes: int) -> None:
        if self._bar is not None:
            with self._lock:
                self._bar.update(size_bytes)

    def _describe(self, text: str) -> None:
        if self._bar is not None:
            with self._lock:
                self._bar.set_description_str(text, refresh=False)


@contextmanager
def progress_of(total_bytes: int, ranks: int, *, show: bool | None) -> Iterator[Progress]:
    """Open a progress line on the standard error stream; it is gone when the work is.

    In a notebook it is on the standard output stream: of the other an empty red box would stay.

    Parameters
    ----------
    total_bytes : int
        Size of all files.
    ranks : int
        How many ranks they are.
    show : bool or None
        True: at once. None: after two seconds, in a terminal or notebook. False: never.
    """
    if show is None:
        show, patience = _someone_watches(), PATIENCE_S
    else:
        patience = 0.0
    if not show:
        yield Progress(ranks)
        return
    with _Bar(
        total=total_bytes, unit="B", unit_scale=True, desc=f"0 of {ranks} ranks", file=_stream(),
        delay=patience, mininterval=TICK_S, miniters=0, dynamic_ncols=True, leave=False,
    ) as bar:  # fmt: skip
        progress = Progress(ranks, bar)
        with _ticking(progress):
            yield progress


@contextmanager
def _ticking(progress: Progress) -> Iterator[None]:
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(TICK_S):
            progress.tick()

    thread = threading.Thread(target=run, daemon=True, name="chopper_jupyter progress")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _someone_watches() -> bool:
    """Say whether the standard error stream is a terminal or the output of a live notebook.

    A notebook executed by a program would only keep the line.
    """
    if _is_notebook():
        return front_end_listens()
    return sys.stderr is not None and sys.stderr.isatty()


def _stream() -> TextIO:
    return sys.stdout if _is_notebook() else sys.stderr


def _is_notebook() -> bool:
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"

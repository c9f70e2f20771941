"""Finish a short piece of work before Ctrl-C (the Jupyter kernel's interrupt) gets through."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back interrupts; one that arrives is delivered when the context ends.

    A profiler that is interrupted halfway through its start or stop stays on for ever. Only
    the main thread receives signals, so elsewhere there is nothing to do.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    arrived: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *args: arrived.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived:
            before(*arrived[0])

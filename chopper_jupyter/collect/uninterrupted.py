"""Finish a short piece of work before Ctrl-C (the Jupyter kernel's interrupt) gets through."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD_BACK: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
"""Interrupts, and requests to end where somebody (we ourselves in ranks) handles them."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back signals that have a handler; those that arrive are delivered at the end.

    A profiler that is interrupted halfway through its start or stop stays on for ever. Only
    the main thread receives signals, so elsewhere there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[int, Any] = {}
    for number in HELD_BACK:
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
    arrived: dict[int, tuple[Any, ...]] = {}
    for number in handlers:
        signal.signal(number, lambda *args: arrived.setdefault(args[0], args))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, args in arrived.items():
            handlers[number](*args)

"""Lets the processes that ``torch.multiprocessing`` starts join the recording, however it does.

A fresh interpreter finds the recording by its environment, a forked one does not run
``sitecustomize``: so the function that the processes run is wrapped as well.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, final

import torch.multiprocessing

from chopper_jupyter.collect.joined import join
from chopper_jupyter.collect.replacing import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from chopper_jupyter.collect.ticket import Ticket


@final
class Worker:
    """The function that a started process runs; it can be pickled if the user's can."""

    def __init__(self, function: Callable[..., Any], ticket: Ticket) -> None:
        self.function, self.ticket = function, ticket
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the user's function, and save what was recorded when it ends."""
        __tracebackhide__ = True
        joined = join(self.ticket)
        well = False
        try:
            result = self.function(*args, **kwargs)
            well = True
        except SystemExit as ending:
            well = not ending.code
            raise
        finally:
            if joined is not None:
                joined.finish(well=well)
        return result


@contextmanager
def launching(ticket: Ticket, around: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Wrap what ``torch.multiprocessing`` starts as long as the context lasts.

    Parameters
    ----------
    ticket : Ticket
        The recording to join.
    around : callable
        Makes the context in which processes are started.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def start_processes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            with around():
                return original(Worker(fn, ticket), *args, **kwargs)

        return start_processes

    with ExitStack() as stack:
        # torch.multiprocessing.spawn, the attribute, is the function: the module hides behind it.
        for owner in (sys.modules["torch.multiprocessing.spawn"], torch.multiprocessing):
            stack.enter_context(replaced(owner, "start_processes", make))
        yield

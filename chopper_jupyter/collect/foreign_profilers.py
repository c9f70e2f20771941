"""Make way for a torch profiler that the user's own code starts.

Only one profiler can run in a process; the one started last silently takes everything. So ours
stops when another one starts, and starts again after that.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from torch.autograd import profiler

from chopper_jupyter.collect.replacing import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def making_way(
    *, ours: Callable[[], bool], leave: Callable[[], None], resume: Callable[[], None]
) -> Iterator[None]:
    """Watch for profilers of others as long as the context lasts.

    Parameters
    ----------
    ours : callable
        Says whether it is our own profiler that is being started or stopped right now.
    leave : callable
        Called before the first foreign profiler starts.
    resume : callable
        Called after the last foreign profiler has stopped.
    """
    running: set[int] = set()

    def entering(original: Callable[..., Any]) -> Callable[..., Any]:
        def _prepare_trace(self: Any) -> Any:
            if not ours():
                if not running:
                    leave()
                running.add(id(self))
            return original(self)

        return _prepare_trace

    def leaving(original: Callable[..., Any]) -> Callable[..., Any]:
        def __exit__(self: Any, *error: object) -> Any:  # noqa: N807
            result = original(self, *error)
            if id(self) in running:
                running.discard(id(self))
                if not running:
                    resume()
            return result

        return __exit__

    with ExitStack() as stack:
        stack.enter_context(replaced(profiler.profile, "_prepare_trace", entering))
        stack.enter_context(replaced(profiler.profile, "__exit__", leaving))
        yield

"""Open a range around every ``nn.Module`` call, without touching the user's model.

The class attribute ``nn.Module.__call__`` is replaced: unlike hooks this encloses hooks of
others (FSDP2's are module hooks), survives every exception, sees ``module.compile()``, and
puts nothing into the autograd graph. The backward is found from it by the reader.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._C._profiler import _RecordFunctionFast

from chopper_jupyter.collect.module_names import ModuleNames
from chopper_jupyter.collect.replacing import replaced

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


@dataclass
class Switch:
    """What the annotator may do at the moment; both off: calls go straight through.

    Parameters
    ----------
    watching : bool
        Tell of outermost calls.
    recording : bool
        Open ranges. Off while somebody else's profiler runs, whose trace is not ours to mark.
    """

    watching: bool = False
    recording: bool = False
    names: ModuleNames = field(default_factory=ModuleNames)


def annotated_calls(
    switch: Switch, on_root: Callable[[nn.Module], None]
) -> AbstractContextManager[None]:
    """Annotate module calls as long as the context lasts.

    Parameters
    ----------
    switch : Switch
        Turns parts of it on and off; must be off when the context has ended.
    on_root : callable
        Called before each outermost module call outside backward, on the calling thread.
    """
    return replaced(nn.Module, "__call__", lambda original: _call(original, switch, on_root))


def mark(name: str) -> None:
    """Write an empty range, which is how a moment is marked in a trace."""
    with _RecordFunctionFast(name):
        pass


def _call(
    original: Callable[..., Any], switch: Switch, on_root: Callable[[nn.Module], None]
) -> Callable[..., Any]:
    local = threading.local()
    is_compiling = torch.compiler.is_compiling
    graph_task = torch._C._current_graph_task_id  # noqa: SLF001  -1 outside of backward
    graph_module = torch.fx.GraphModule

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if is_compiling():
            return original(self, *args, **kwargs)
        __tracebackhide__ = True
        if not switch.watching or isinstance(self, graph_module):
            return original(self, *args, **kwargs)
        try:
            running = local.running
        except AttributeError:
            running = local.running = []
        if not running and graph_task() == -1:
            on_root(self)
        label = switch.names.label(self, running)
        opened = None
        if switch.recording:
            opened = _RecordFunctionFast(label)
            opened.__enter__()
        running.append(self)
        try:
            return original(self, *args, **kwargs)
        finally:
            running.pop()
            if opened is not None:
                _close(opened)

    return __call__


def _close(opened: _RecordFunctionFast) -> None:
    try:
        opened.__exit__(None, None, None)
    except RuntimeError:
        # Raised when a profiler was switched on since the range was opened: nothing to close.
        return

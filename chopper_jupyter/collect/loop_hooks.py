"""Hear of backward passes and optimizer steps, whoever's training loop it is."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from chopper_jupyter.collect.replacing import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Listener(Protocol):
    """Who is told; called on the thread that runs the loop."""

    def backward_begins(self) -> None:
        """Take note of a backward pass that is about to run."""

    def backward(self) -> None:
        """Take note of a backward pass that ended."""

    def step(self, optimizer: Optimizer) -> None:
        """Take note of an optimizer step, also of one that a GradScaler skipped."""

    def step_in_backward(self) -> None:
        """Take note of an optimizer that steps while gradients still arrive."""


@contextmanager
def loop_hooks(listener: Listener) -> Iterator[None]:
    """Tell the listener of every backward pass and step as long as the context lasts."""

    def after_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if _in_backward():
            listener.step_in_backward()
        else:
            listener.step(optimizer)

    def counting(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        stepped.add(id(optimizer))

    stepped: set[int] = set()
    with ExitStack() as stack:
        stack.callback(register_optimizer_step_post_hook(after_step).remove)
        stack.callback(register_optimizer_step_post_hook(counting).remove)
        # Both torch.autograd.backward and .grad end up here; one of the few places that a
        # name imported by the user beforehand cannot bypass.
        stack.enter_context(
            replaced(torch.autograd, "_engine_run_backward", lambda f: _backward(f, listener))
        )
        stack.enter_context(
            replaced(torch.amp.GradScaler, "step", lambda f: _scaled_step(f, listener, stepped))
        )
        yield


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1  # noqa: SLF001  no public way to ask


def _backward(original: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if _in_backward():  # reentrant checkpointing runs one inside another
            return original(*args, **kwargs)
        listener.backward_begins()
        result = original(*args, **kwargs)
        listener.backward()
        return result

    return run_backward


def _scaled_step(
    original: Callable[..., Any], listener: Listener, stepped: set[int]
) -> Callable[..., Any]:
    """Notice the steps that a GradScaler skips because gradients overflowed."""

    def step(scaler: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        stepped.clear()
        result = original(scaler, optimizer, *args, **kwargs)
        if id(optimizer) not in stepped:
            listener.step(optimizer)
        return result

    return step

"""Where iterations begin: a pure function of what the training loop did.

While recording, the loop is written down as a list of events: outermost module calls, backward
passes and optimizer steps. Which calls begin an iteration is decided over the whole list,
because it often shows only afterwards: whether a step comes at all, whether a second step
belongs to another optimizer.

The rule
--------
*With optimizer steps*, an iteration ends when an optimizer that already stepped in it is about
to step again; the next one begins at the first call after the last step before that. One
optimizer: after every step, however many micro-batches came before it. Several (a GAN, one per
parameter group): after each has stepped once.

*Backward passes but no steps* (or steps inside the backward): at the first call after a backward.

*Neither*: whenever a module called in this iteration is called again. For one model that is
every call; a model and its criterion count together.

A call under ``no_grad`` of a module that is also called with gradients is evaluation: it never
begins an iteration of training, so evaluation inside a training loop makes none. One that is
never called with gradients is part of the step (a frozen teacher). Calls of modules without any
state (losses, transforms, metrics) are not written down at all.

A loop that calls no module begins an iteration at its backward; the reader of the recording adds
what lies between it and the step before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence


class Call(NamedTuple):
    """An outermost call of a module with state, outside backward."""

    root: int
    """Identity of the module; 0 where no module is called at all (raw tensors)."""
    grad: bool
    """Whether gradients were enabled."""
    mark: int = -1
    """Number of the mark written into the trace at this moment; -1 if none was."""


class Backward(NamedTuple):
    """A backward pass that ended."""


class Step(NamedTuple):
    """An optimizer step outside backward."""

    optimizer: int
    """Identity of the optimizer."""


Event: TypeAlias = Call | Backward | Step

NOW = Call(root=-1, grad=True)
"""A call of an unknown module: append it to ask whether an iteration would begin now."""


def starts(log: Sequence[Event]) -> list[Call]:
    """Return the calls that begin an iteration.

    Examples
    --------
    >>> a, b, c = (Call(root=1, grad=True, mark=m) for m in range(3))
    >>> [call.mark for call in starts([a, Backward(), b, Backward(), Step(9), c])]
    [0, 2]
    """
    steps = [event.optimizer for event in log if isinstance(event, Step)]
    if steps:
        return _by_steps(_without_evaluation(log), set(steps))
    if any(isinstance(event, Backward) for event in log):
        return _by_backwards(_without_evaluation(log))
    return _by_calls(log)


def completed(log: Sequence[Event], current: Call = NOW) -> int:
    """Count the iterations that are over if ``current`` is called now."""
    begun = starts([*log, current])
    return len(begun) - 1 if begun and begun[-1] is current else max(len(begun) - 1, 0)


def _without_evaluation(log: Sequence[Event]) -> list[Event]:
    trained = {event.root for event in log if isinstance(event, Call) and event.grad}
    return [
        event
        for event in log
        if not isinstance(event, Call) or event.grad or event.root not in trained
    ]


def _by_steps(log: Sequence[Event], optimizers: set[int]) -> list[Call]:
    begun: list[Call] = []
    stepped: set[int] = set()
    first: Call | None = None  # the first call after the last step
    for event in log:
        if isinstance(event, Call):
            first = first or event
        elif isinstance(event, Step):
            if first is not None and (not begun or event.optimizer in stepped):
                begun.append(first)
                stepped = set()
            stepped.add(event.optimizer)
            first = None
    # Nothing has stepped after the last calls yet: a new iteration if all had stepped before.
    if first is not None and (not begun or stepped >= optimizers):
        begun.append(first)
    return begun


def _by_backwards(log: Sequence[Event]) -> list[Call]:
    begun: list[Call] = []
    due = True
    for event in log:
        if isinstance(event, Backward):
            due = True
        elif isinstance(event, Call) and due:
            begun.append(event)
            due = False
    return begun


def _by_calls(log: Sequence[Event]) -> list[Call]:
    begun: list[Call] = []
    called: set[int] = set()
    for event in log:
        if isinstance(event, Call):
            if not begun or event.root in called:
                begun.append(event)
                called = set()
            called.add(event.root)
    return begun

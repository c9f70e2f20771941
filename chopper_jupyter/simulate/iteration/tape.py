"""Forward work and the gradients that it leaves behind, as autograd's graph does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chopper_jupyter.core.annotations import module_range
from chopper_jupyter.simulate.iteration.script import (
    AUTOGRAD,
    MAIN,
    Label,
    Range,
    Script,
    Tensor,
    Work,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

ROOT_CLASS = "LlamaForCausalLM"

Hook = Callable[[], None]
"""What runs on the autograd thread before a gradient."""


@dataclass(frozen=True)
class Call:
    """An operator call and the kernels that it launches."""

    name: str
    inputs: tuple[Tensor, ...]
    works: tuple[Work, ...]


@dataclass(frozen=True)
class Gradient:
    """The backward of one forward operator: its node's name and what the node calls."""

    node: str
    forward: Range
    layer: str | None
    op: str
    calls: tuple[Call, ...]
    before: Hook | None = None


@dataclass
class Tape:
    """A script, and the gradients that its forward has left so far."""

    script: Script
    gradients: list[Gradient] = field(default_factory=list)

    def module(self, path: str, cls: str) -> AbstractContextManager[Range]:
        """Open the range of a module call."""
        return self.script.range(module_range(ROOT_CLASS, path, cls))

    def forward(
        self,
        outer: tuple[str, ...],
        call: Call,
        at: tuple[str | None, str],
        node: str,
        *gradient: Call,
    ) -> Range:
        """Run a forward operator and leave its gradient.

        Parameters
        ----------
        outer : tuple of str
            Operators around the call, outermost first; each has the inputs of the call.
        call : Call
            What launches kernels.
        at : tuple of (str or None, str)
            Layer and op.
        node : str
            Name of its backward node.
        *gradient : Call
            What the node calls.
        """
        seq = self.script.next_sequence()
        made = self._nested(outer, call, Label("forward", *at), seq)
        self.gradients.append(Gradient(node, made, *at, gradient))
        return made

    def _nested(self, outer: tuple[str, ...], call: Call, label: Label, seq: int) -> Range:
        if outer:
            with self.script.op(outer[0], *call.inputs):
                return self._nested(outer[1:], call, label, seq)
        with self.script.op(call.name, *call.inputs, seq=seq) as made:
            for work in call.works:
                self.script.launch(work, label)
        return made

    def note(self, name: str, node: str, layer: str | None, op: str, before: Hook) -> None:
        """Run a forward operator without kernels; ``before`` runs in its backward."""
        with self.script.op(name, seq=self.script.next_sequence()) as made:
            pass
        self.gradients.append(Gradient(node, made, layer, op, (), before))

    def backward(self) -> None:
        """Run all gradients, last one first, on the autograd thread."""
        self.script.thread = AUTOGRAD
        for gradient in reversed(self.gradients):
            self._backward(gradient)
        self.gradients.clear()
        self.script.thread = MAIN

    def _backward(self, gradient: Gradient) -> None:
        label = Label("backward", gradient.layer, gradient.op)
        with self.script.gradient(gradient.node, gradient.forward, gradient.before):
            for call in gradient.calls:
                run(self.script, call, label)


def run(script: Script, call: Call, label: Label) -> None:
    """Run an operator that leaves no gradient."""
    with script.op(call.name, *call.inputs):
        for work in call.works:
            script.launch(work, label)

"""Runs a training loop for a few iterations only, and then ends the script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import torch

from chopper_jupyter.collect.annotate import Switch
from chopper_jupyter.collect.iterations import Call, Event, completed, starts
from chopper_jupyter.collect.replay.tools import RANGE
from chopper_jupyter.collect.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from chopper_jupyter.collect.tape import Tape


@dataclass
class _Tape:
    """Counts iterations instead of recording them; stands for a ``Tape``."""

    first: int
    on_first: Callable[[], None]
    log: list[Event] = field(default_factory=list)
    running: bool = False
    switching: bool = False

    @property
    def stretches(self) -> list[_Tape]:
        return [self]

    def begin(self) -> None:
        self.running = True
        self.log = []

    def end(self, *, keep: bool = True) -> None:
        del keep
        self.running = False

    def call(self, call: Call) -> None:
        before = len(starts(self.log))
        self.log.append(call)
        if before <= self.first < len(starts(self.log)):
            self.on_first()

    def completed(self, current: Call) -> int:
        return completed(self.log, current)


def begin(*, warmup: int = 1, iterations: int = 1) -> None:
    """From here on run ``warmup + iterations`` iterations, then end the script.

    The last ``iterations`` lie inside an NVTX or roctx range. A loop that ends sooner ends the
    script as it always does.

    Parameters
    ----------
    warmup, iterations : int
        As for ``profile``.
    """
    counting = False

    def first() -> None:
        nonlocal counting
        counting = True
        _marked(torch.cuda.nvtx.range_push, RANGE)

    def last() -> None:
        if counting:
            _marked(torch.cuda.nvtx.range_pop)
        raise SystemExit(0)  # counter tools write when the interpreter ends as it should

    tape = _Tape(warmup, first)
    window = Window(cast("Tape", tape), Switch(), warmup + iterations, last)
    window.open()


def _marked(call: Callable[..., object], *arguments: str) -> None:
    """Open or close the range, once what was launched before has run."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        call(*arguments)

"""Guess whether a training step is still to come, before one was seen."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from torch.optim import Optimizer

if TYPE_CHECKING:
    from torch import nn


def step_expected(module: nn.Module) -> bool:
    """Say whether some living optimizer holds a parameter of the module.

    Ask once, and only when a decision cannot wait: it looks at every object of the process,
    which takes a fraction of a second.
    """
    # type(), not isinstance: some objects answer to __class__ by importing things.
    living = [thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer)]
    mine = {id(parameter) for parameter in module.parameters()}
    return any(
        id(parameter) in mine
        for optimizer in living
        for group in getattr(optimizer, "param_groups", [])
        for parameter in group["params"]
    )


def has_state(module: nn.Module) -> bool:
    """Say whether a module holds parameters, buffers or packed weights.

    Losses, metrics and transforms do not, and calling one begins no iteration.
    """
    for _ in module.parameters():
        return True
    for _ in module.buffers():
        return True
    return bool(module.state_dict())

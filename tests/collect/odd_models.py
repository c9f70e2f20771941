"""Models whose modules are shared, nested in lists, or hold their own autograd functions."""

from __future__ import annotations

import models
import torch
from torch import nn

WIDTH = 16


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x


class Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.parts = 2
        return x / ctx.parts

    @staticmethod
    def backward(ctx, gradient):
        return gradient / ctx.parts


class Cubed(nn.Module):
    def forward(self, x):
        return Cube.apply(x)


class Mix(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.cubed, self.norm = nn.Linear(WIDTH, WIDTH), Cubed(), nn.LayerNorm(WIDTH)

    def forward(self, x):
        mixed = models.direct("Halve", Halve.apply, self.cubed(self.lin(self.norm(x))))
        return models.direct("aten::add", torch.add, x, mixed)


class Zoo(nn.Module):
    """One linear layer is called twice, under two names; blocks lie in lists of lists."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.first = self.second = nn.Linear(WIDTH, WIDTH)
        self.stages = nn.ModuleList(nn.ModuleList(Mix() for _ in range(2)) for _ in range(2))
        self.head = nn.Linear(WIDTH, 64)

    def forward(self, x):
        x = self.first(self.stem(x))
        for stage in self.stages:
            for block in stage:
                x = block(x)
        return self.head(self.second(x))


def of_zoo(path):
    """Return layer and op of a module of the zoo."""
    parts = path.split(".")
    if parts[0] == "stages":
        return ".".join(parts[:2]), ".".join(parts[2:]) or None
    return path or None, path or None


def zoo_batch():
    """Return rows and their classes, always the same."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2, 4, WIDTH, generator=generator)
    return rows, torch.randint(0, 64, (2, 4), generator=generator)

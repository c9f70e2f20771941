"""A small Llama: RMSNorm, rotary positions, grouped-query attention with SDPA, SwiGLU.

Operations that no leaf module holds go through ``direct``, where a test can listen.
"""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

_around = None


def direct(name, function, *inputs, **options):
    """Call an operation; ``name`` is the operator it shows up as."""
    if _around is None:
        return function(*inputs, **options)
    return _around(name, lambda: function(*inputs, **options), inputs)


@contextmanager
def listening(around):
    """Let ``around(name, call, inputs)`` run every direct operation."""
    global _around  # noqa: PLW0603  models must stay free of test machinery
    _around = around
    try:
        yield
    finally:
        _around = None


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, cos, sin):
    first, second = direct("aten::chunk", torch.chunk, x, 2, -1)
    left = direct("aten::mul", torch.mul, first, cos)
    right = direct("aten::mul", torch.mul, second, sin)
    one = direct("aten::sub", torch.sub, left, right)
    left = direct("aten::mul", torch.mul, second, cos)
    right = direct("aten::mul", torch.mul, first, sin)
    two = direct("aten::add", torch.add, left, right)
    return direct("aten::cat", lambda *parts: torch.cat(parts, -1), one, two)


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, heads * self.size, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(heads * self.size, width, bias=False)

    def forward(self, x, cos, sin):
        q = self._split(self.q_proj(x), self.heads)
        k = self._split(self.k_proj(x), self.kv_heads)
        v = self._split(self.v_proj(x), self.kv_heads)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = direct(
            "aten::scaled_dot_product_attention",
            functional.scaled_dot_product_attention,
            q, k, v, is_causal=True, enable_gqa=True,
        )  # fmt: skip
        mixed = direct("aten::transpose", torch.transpose, mixed, 1, 2)
        return self.o_proj(direct("aten::reshape", torch.reshape, mixed, x.shape))

    def _split(self, x, heads):
        batch, length, _ = x.shape
        x = direct("aten::view", torch.Tensor.view, x, batch, length, heads, self.size)
        return direct("aten::transpose", torch.transpose, x, 1, 2)


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate = direct("aten::silu", functional.silu, self.gate_proj(x))
        return self.down_proj(direct("aten::mul", torch.mul, gate, self.up_proj(x)))


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.attn_norm, self.mlp_norm = RMSNorm(width), RMSNorm(width)
        self.attn = Attention(width, heads, kv_heads)
        self.mlp = MLP(width, hidden)

    def forward(self, x, cos, sin):
        x = direct("aten::add", torch.add, x, self.attn(self.attn_norm(x), cos, sin))
        return direct("aten::add", torch.add, x, self.mlp(self.mlp_norm(x)))


class Llama(nn.Module):
    """Logits of a batch of tokens.

    ``recompute`` is None, "reentrant" or "non-reentrant": how blocks are checkpointed.
    """

    def __init__(
        self, *, vocab=64, width=32, layers=4, heads=4, kv_heads=2, hidden=64, length=16,
        recompute=None,
    ):  # fmt: skip
        super().__init__()
        self.recompute = recompute
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length), 10000 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.layers:
            if self.recompute is None:
                x = block(x, self.cos, self.sin)
            else:
                reentrant = self.recompute == "reentrant"
                x = checkpoint(block, x, self.cos, self.sin, use_reentrant=reentrant)
        return self.lm_head(self.norm(x))


def batch(rows=2, length=16, vocab=64):
    """Return tokens and the tokens that follow them, always the same."""
    tokens = torch.randint(0, vocab, (rows, length + 1), generator=torch.Generator().manual_seed(0))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def cross_entropy(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

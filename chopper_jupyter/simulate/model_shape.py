"""Sizes of the simulated Llama."""

from __future__ import annotations

from dataclasses import dataclass

BF16, FP32, INT64 = 2, 4, 8
"""Bytes of an element."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a Llama and of one GPU's share of a batch; the defaults are Llama 3 8B.

    Parameters
    ----------
    batch, sequence : int
        Sequences per GPU and their tokens.
    layers, width, hidden, heads, kv_heads, vocabulary : int
        The model.
    """

    batch: int = 2
    sequence: int = 4096
    layers: int = 32
    width: int = 4096
    hidden: int = 14336
    heads: int = 32
    kv_heads: int = 8
    vocabulary: int = 128256

    @property
    def tokens(self) -> int:
        """Tokens of one GPU in one iteration."""
        return self.batch * self.sequence

    @property
    def head_size(self) -> int:
        """Size of one attention head."""
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        """Width of keys and of values."""
        return self.head_size * self.kv_heads

    @property
    def layer_weights(self) -> int:
        """Weights of one layer.

        Examples
        --------
        >>> ModelShape().layer_weights
        218112000
        """
        attention = 2 * self.width * self.width + 2 * self.width * self.kv_width
        return attention + 3 * self.width * self.hidden + 2 * self.width

    @property
    def outer_weights(self) -> int:
        """Weights outside the layers: embedding, last norm and head."""
        return 2 * self.vocabulary * self.width + self.width

    @property
    def weights(self) -> int:
        """All weights.

        Examples
        --------
        >>> ModelShape().weights
        8030261248
        """
        return self.layers * self.layer_weights + self.outer_weights

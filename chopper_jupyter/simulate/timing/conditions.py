"""What the versions of FSDP do to a GPU by themselves, and how well kernels use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Conditions:
    """How a run behaves with nothing injected.

    Parameters
    ----------
    clock : float
        Share of the matrix clock that a GPU holds under load.
    clock_spread : float
        Relative standard deviation of the clock over ranks and iterations.
    contention : float
        Factor by which compute kernels are slower while communication runs.
    """

    clock: float
    clock_spread: float
    contention: float


CONDITIONS = {1: Conditions(0.68, 0.02, 1.18), 2: Conditions(0.84, 0.002, 1.06)}
"""By version of FSDP: the irregular allocations of version 1 cost power, hence clock."""

COUNTING_CLOCK = 0.97
"""Share of the matrix clock while kernels run one by one for a counter tool."""

MATRIX_UTILISATION = {
    "self_attn.q_proj": 0.60,
    "self_attn.k_proj": 0.46,
    "self_attn.v_proj": 0.46,
    "self_attn.o_proj": 0.60,
    "mlp.gate_proj": 0.68,
    "mlp.up_proj": 0.68,
    "mlp.down_proj": 0.64,
    "lm_head": 0.66,
    "aten::scaled_dot_product_attention": 0.38,
}
"""Share of the peak that matrix instructions reach, by op."""

BACKWARD = 0.94
"""What backward reaches of that."""

MEMORY_EFFICIENCY = 0.80
"""Share of the memory bandwidth that large vector kernels reach."""

SHORTEST_NS = 1_500.0
"""Time that even an empty kernel takes."""

LINK_EFFICIENCY = 0.72
"""Share of the bandwidth of the links that collectives reach."""

COLLECTIVE_LATENCY_NS = 20_000.0
"""Time that even an empty collective takes after the last rank came."""

BETWEEN_HOSTS_GB_S = 50.0
"""Bandwidth of a GPU to other hosts."""

"""A training run as a list of kernels, timed once and counted in another run that differs.

What each kernel really is travels along, so that a test can tell a wrong match from a right one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from builders import trace_of
from counted_runs import counted_run

from chopper_jupyter.core.counter_events import CounterRun
from chopper_jupyter.core.trace import Trace

FORWARD = (
    "norm<bf16>", "gemm_qkv", "rope<4>", "flash_fwd<128>", "gemm_o", "add<bf16>",
    "norm<bf16>", "gemm_gate", "silu", "gemm_up", "mul<bf16>", "gemm_down", "add<bf16>",
)  # fmt: skip
BACKWARD = tuple(f"{name}_{of}" for name in reversed(FORWARD) for of in ("dx", "dw"))
EDGES = {
    "start": ("embedding", "cast<bf16>"),
    "middle": ("norm<f32>", "gemm_head", "log_softmax", "nll_loss", "nll_loss_back"),
    "end": ("embedding_back", "lpnorm", "clip", *("adamw<1>", "adamw<2>", "adamw<3>")),
}


def iteration(layers: int) -> list[tuple[str, str, int]]:
    """List name, op and size of the kernels of one iteration; equal names have several sizes."""
    names = [
        *((name, f"start.{name}") for name in EDGES["start"]),
        *((name, f"{layer}.{i}") for layer in range(layers) for i, name in enumerate(FORWARD)),
        *((name, f"middle.{name}") for name in EDGES["middle"]),
        *((name, f"{layer}.b{i}") for layer in range(layers) for i, name in enumerate(BACKWARD)),
        *((name, f"end.{name}") for name in EDGES["end"]),
    ]
    return [(name, op, 1 + len(op) % 3 if "gemm" in name else 1) for name, op in names]


@dataclass
class Training:
    """Iterations on some GPUs; the timed and the counted run are drawn from it."""

    layers: int = 4
    iterations: int = 3
    gpus: int = 1
    seed: int = 0
    kernels: list[tuple[str, str, int]] = field(init=False)

    def __post_init__(self):
        self.kernels = iteration(self.layers)
        self.random = np.random.default_rng(self.seed)

    def trace(self, missing: float = 0.0) -> Trace:
        """Time all iterations; ``op`` and ``iteration`` say what each kernel is."""
        rows: list[dict[str, Any]] = []
        for gpu in range(self.gpus):
            clock = 0
            for number in range(self.iterations):
                for name, op, size in self.kernels:
                    clock += 100
                    if self.random.random() < missing:
                        continue
                    rows.append({
                        "gpu": gpu, "name": f"void {name}(int, float)", "op": op, "start_ns": clock,
                        "dur_ns": 50 + len(name), "iteration": number, "grid": f"{size},2,1",
                        "block": "64,1,1", "launch_ns": clock - 50,
                    })  # fmt: skip
        return trace_of(rows)

    def counted(
        self,
        iterations: int | None = None,
        *,
        missing: float = 0.0,
        extra: float = 0.0,
        warm_up: int = 40,
        after: int = 10,
        spelling: str = "{} [clone .kd]",
        passes: int = 1,
        **facts: Any,
    ) -> CounterRun:
        """Count iterations, the last of which are those of the trace.

        The counters ``X`` and ``Y`` (in odd passes) are those of the name and size, as on real
        hardware; ``place`` tells the op and ``iteration`` the iteration, -1 for extra kernels.
        """
        rows: list[dict[str, Any]] = []
        for number in range(passes):
            for gpu in range(self.gpus):
                rows += self._pass(number, gpu, iterations, missing, extra, warm_up, after)
        for row in rows:
            row["name"] = spelling.format(row["name"])
        return counted_run(rows, **facts)

    def _pass(self, number, gpu, iterations, missing, extra, warm_up, after):
        count = self.iterations if iterations is None else iterations
        base = {"pass": number, "process": 5000 + 10 * number + gpu, "group_items": 64}
        rows = [self._foreign(base) for _ in range(warm_up)]
        for at in range(self.iterations - count, self.iterations):
            for name, op, size in self.kernels:
                if self.random.random() >= missing:
                    counters = {
                        "Y" if number % 2 else "X": expected(name, size),
                        "place": expected(op),
                        "iteration": at,
                    }
                    rows.append(
                        {"name": f"void {name}(int, float)", "work_items": size * 128,
                         "counters": counters, **base}
                    )  # fmt: skip
                if self.random.random() < extra:
                    rows.append(self._foreign(base))
        return rows + [self._foreign(base) for _ in range(after)]

    def _foreign(self, base):
        """Return a kernel of the program that runs where the timed run has none."""
        name, _, size = self.kernels[self.random.integers(len(self.kernels))]
        if self.random.random() < 0.5:
            name = f"autotune_{self.random.integers(9)}"
        counters = {"place": -1, "iteration": -1}
        counters["Y" if base["pass"] % 2 else "X"] = expected(name, size)
        return {"name": name, "work_items": size * 128, "counters": counters, **base}


def expected(text: str, size: int = 0) -> float:
    """Return a number that belongs to a text and a size."""
    return 1000.0 + sum(ord(letter) * 7**i % 1009 for i, letter in enumerate(text)) + size

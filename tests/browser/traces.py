"""The traces that every view is looked at with: simulated on eight GPUs, and real."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import chopper_jupyter as cj
from chopper_jupyter.simulate import Injections, llama_fsdp


@cache
def simulated() -> cj.Trace:
    """Read a small simulated run of eight GPUs with counters, sensors, and causes of lost time."""
    injected = Injections(
        padding={"mlp.down_proj": 1.2},
        clock_loss={5: 0.85},
        straggler=(3, 400_000),
        launch_delay_ns={"input": 800_000},
        noise=0.02,
    )
    with tempfile.TemporaryDirectory() as folder:
        run = llama_fsdp(
            Path(folder, "llama3-8b-fsdp1"),
            version=1, layers=2, ranks=8, iterations=3, sequence=1024, injections=injected,
        )  # fmt: skip
        return cj.read_trace(run)


def real(*parts: str) -> cj.Trace | None:
    """Read a real trace; None where its file is not there."""
    folder = os.environ.get("CHOPPER_REAL_DATA")
    path = Path(folder, "traces", *parts) if folder else None
    return cj.read_trace(path) if path and path.exists() else None


@cache
def cpu() -> cj.Trace:
    """Record a few steps of a small model on this machine."""
    import torch  # noqa: PLC0415  slow to import, and only this needs it

    torch.manual_seed(0)
    blocks = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(3)]
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Sequential(*blocks))
    optimizer = torch.optim.AdamW(model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        with cj.profile(Path(folder, "small"), warmup=1, iterations=3) as recording:
            for _ in range(5):
                optimizer.zero_grad()
                model(torch.ones(8, 16)).square().mean().backward()
                optimizer.step()
        return recording.trace

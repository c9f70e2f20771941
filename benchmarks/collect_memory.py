"""Memory that sampling and annotation leave behind outside the recorded window: none, or growth.

After 10 and 100 thousand samples, and as many module calls while no window is open, the resident
memory of this process is printed; a fixed cost at first use is no growth.
"""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import torch
from torch import nn

from chopper_jupyter import profile
from chopper_jupyter.collect.sampler.part_writer import PartWriter
from chopper_jupyter.collect.sampler.source import Reading, Source

COUNTS = (1_000, 10_000, 100_000)


def resident() -> float:
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    msg = "resident memory is read the way Linux tells it"
    raise OSError(msg)


def samples() -> list[float]:
    source = Source("nvml", 0.01, list)
    found, made = [], 0
    with tempfile.TemporaryDirectory() as folder:
        writer = PartWriter(Path(folder), "here", source)
        for count in COUNTS:
            while made < count:
                readings = [Reading(name, float(made), device=0) for name in "abcdefg"]
                writer.add(made, made, readings)
                made += 1
            writer.write()
            found.append(resident())
    return found


def module_calls() -> list[float]:
    """Call a module after the window has closed, inside the block that still runs."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    row, found, made = torch.ones(2, 4), [], 0
    with tempfile.TemporaryDirectory() as folder, profile(folder, warmup=0, iterations=2):
        for count in COUNTS:
            while made < count:
                model(row).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                made += 1
            found.append(resident())
    return found


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'MB resident after':28}" + "".join(f"{count:>12,}" for count in COUNTS))
    for name, work in (("moments sampled (7 values)", samples), ("training steps", module_calls)):
        print(f"{name:28}" + "".join(f"{megabytes:12.1f}" for megabytes in work()))


if __name__ == "__main__":
    main()

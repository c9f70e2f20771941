"""What recording adds to ``torch.profiler.profile`` with the same options, per training step.

One process, one step after the other in turn: without a profiler, under bare torch.profiler,
and under it with module annotation and the sampling process. CPU seconds are of the training
process and, in the last column, of the sampler beside it. Ratios are of pairs of neighbouring
runs, either of which comes first in turn; their median and quartiles are printed, and the ratio
of the least seconds of each, which a machine that does other things, too, disturbs least.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch
from torch.profiler import ProfilerActivity

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import models

from chopper_jupyter.collect.annotate import Switch, annotated_calls
from chopper_jupyter.collect.telemetry import start_sampler

if TYPE_CHECKING:
    from chopper_jupyter.collect.telemetry import Sampler

STEPS = 4
START_S, QUIET_S, QUIET_SHARE = 20.0, 0.5, 0.05
"""Longest wait for the sampler, and how long it must have used no more than this of a core."""

SIZES = {256: (4, 128), 64: (4, 64)}
"""Batch and sequence by width."""


class Loop:
    """A small Llama and its optimizer; ``run`` trains a few steps."""

    def __init__(self, width: int) -> None:
        torch.manual_seed(0)
        batch, length = SIZES[width]
        self.model = models.Llama(vocab=1024, width=width, hidden=4 * width, length=length)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.batch = models.batch(batch, length, 1024)

    def run(self, steps: int = STEPS) -> None:
        tokens, targets = self.batch
        for _ in range(steps):
            models.cross_entropy(self.model(tokens), targets).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


def profiled() -> torch.profiler.profile:
    return torch.profiler.profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True),  # noqa: SLF001
    )


def seconds(loop: Loop, *, bare: bool, annotate: bool) -> tuple[float, float]:
    """Return CPU seconds of the steps, and of the sampler beside them."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        sampler = None
        if annotate:
            sampler = start_sampler(Path(folder), "here", expect_gpu=False)
            stack.callback(sampler.stop)
            _settle(sampler)  # how it starts is no matter of the step
            switch = Switch()
            stack.enter_context(annotated_calls(switch, lambda _: None))
            switch.watching = switch.recording = True
            stack.callback(
                lambda: (setattr(switch, "watching", False), setattr(switch, "recording", False))
            )
        if bare or annotate:
            stack.enter_context(profiled())
        loop.run(1)  # what waited has lost its place in the processor's cache
        before = _cpu_of(sampler.process.pid) if sampler and sampler.process else 0.0
        begun = time.process_time()
        loop.run()
        spent = time.process_time() - begun
        beside = _cpu_of(sampler.process.pid) - before if sampler and sampler.process else 0.0
    return spent, beside


def _settle(sampler: Sampler) -> None:
    """Wait until the sampler has imported what it needs and only samples."""
    end = time.monotonic() + START_S
    while sampler.process and time.monotonic() < end:
        before = _cpu_of(sampler.process.pid)
        time.sleep(QUIET_S)
        if before and _cpu_of(sampler.process.pid) - before <= QUIET_SHARE * QUIET_S:
            return


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--width", type=int, choices=SIZES, nargs="*", default=list(SIZES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{STEPS} steps each, {options.pairs} pairs, torch {torch.__version__}, one thread")
    print(
        f"{'width (batch x sequence)':28}{'step ms':>9}{'bare':>7}{'ours':>7}"
        f"{'ours/bare':>22}{'least':>8}{'sampler':>9}"
    )
    for width in options.width:
        batch, sequence = SIZES[width]
        loop = Loop(width)
        loop.run()
        rows = []
        for number in range(options.pairs):
            none = seconds(loop, bare=False, annotate=False)[0]
            made = {
                annotate: seconds(loop, bare=True, annotate=annotate)
                for annotate in ((False, True), (True, False))[number % 2]
            }
            rows.append((none, made[False][0], *made[True]))
        ratios = [ours / bare for _, bare, ours, _ in rows]
        low, middle, high = statistics.quantiles(ratios, n=4)
        none = statistics.median(r[0] for r in rows)
        print(
            f"{width:4} ({batch} x {sequence})".ljust(28)
            + f"{1000 * none / STEPS:9.1f}"
            + f"{statistics.median(b / n for n, b, _, _ in rows):7.2f}"
            + f"{statistics.median(o / n for n, _, o, _ in rows):7.2f}"
            + f"{middle:10.3f} ({low:.3f}-{high:.3f})".rjust(22)
            + f"{min(r[2] for r in rows) / min(r[1] for r in rows):8.3f}"
            + f"{statistics.median(s / o for _, _, o, s in rows):9.1%}"
        )


if __name__ == "__main__":
    main()

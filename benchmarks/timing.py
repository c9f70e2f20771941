"""Takes times and memory: interleaved runs, CPU seconds beside wall, medians and ratios."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """One run: CPU seconds of the process, wall seconds, and what a fresh process says beside."""

    cpu: float
    wall: float
    facts: Mapping[str, Any]


def timed(work: Callable[[], T]) -> tuple[Sample, T]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Sample(time.process_time() - cpu, time.perf_counter() - wall, {}), result


def task(work: Callable[[], Any]) -> Callable[[], Sample]:
    """Make a task for ``interleaved`` of something that runs in this process."""
    return lambda: timed(work)[0]


def peak_memory() -> int:
    """Return the most bytes this process has held so far; what its parent held does not count."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    msg = "peak memory is read the way Linux tells it"
    raise OSError(msg)


def in_fresh_process(
    script: str, *arguments: str, python: str = sys.executable, env: Mapping[str, str] | None = None
) -> Sample:
    """Run a script that prints cpu, wall and more as JSON in its last line."""
    command = [python, script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        msg = f"{' '.join(command)} failed:\n{done.stderr[-2000:]}"
        raise SystemExit(msg)
    facts = json.loads(done.stdout.splitlines()[-1])
    return Sample(facts.pop("cpu"), facts.pop("wall"), facts)


def interleaved(tasks: Mapping[str, Callable[[], Sample]], runs: int) -> dict[str, list[Sample]]:
    """Run every task in turn, so often: what else the machine does then hits all alike."""
    found: dict[str, list[Sample]] = {name: [] for name in tasks}
    for run in range(runs):
        print(f"run {run + 1} of {runs}", file=sys.stderr)
        for name, task in tasks.items():
            found[name].append(task())
    return found


def median(samples: list[Sample], of: str = "cpu") -> float:
    """Return the median of cpu, wall, or any fact."""
    return statistics.median(
        getattr(s, of) if of in ("cpu", "wall") else s.facts[of] for s in samples
    )


def show(title: str, found: Mapping[str, list[Sample]]) -> None:
    """Print medians, the spread, and each task's CPU seconds over the first task's."""
    base = median(next(iter(found.values())))
    print(f"\n{title}")
    print(f"{'':34}{'CPU s':>8}{'least':>8}{'most':>8}{'wall s':>8}{'ratio':>8}{'peak MB':>9}")
    for name, samples in found.items():
        cpus = [s.cpu for s in samples]
        peak = f"{median(samples, 'peak') / 1e6:9.0f}" if "peak" in samples[0].facts else ""
        print(
            f"{name:34}{median(samples):8.3f}{min(cpus):8.3f}{max(cpus):8.3f}"
            f"{median(samples, 'wall'):8.3f}{median(samples) / base:8.2f}{peak}"
        )

"""The sampling process: reads the sensors at a steady pace until its standard input ends."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from chopper_jupyter.collect.sampler.amdsmi import amdsmi_source
from chopper_jupyter.collect.sampler.host import host_source
from chopper_jupyter.collect.sampler.nvml import nvml_source
from chopper_jupyter.collect.sampler.part_writer import PartWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from chopper_jupyter.collect.sampler.source import Source

WRITE_EVERY_S = 2.0


def main() -> None:
    """Sample until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m chopper_jupyter.collect.sampler")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("host")
    parser.add_argument("--gpu-period", type=float, default=0.01, help="seconds")
    parser.add_argument("--cpu-period", type=float, default=0.1, help="seconds")
    parser.add_argument("--expect-gpu", action="store_true", help="say why if none answers")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted cell still ends its recording
    told = threading.Event()
    threading.Thread(target=_wait_for_end, args=(told,), daemon=True).start()
    sources = find_sources(options.gpu_period, options.cpu_period, expect_gpu=options.expect_gpu)
    sample(sources, options.run_dir, options.host, told.is_set)


def _wait_for_end(told: threading.Event) -> None:
    sys.stdin.buffer.read()
    told.set()


def find_sources(gpu_period_s: float, cpu_period_s: float, *, expect_gpu: bool) -> list[Source]:
    """Return what this machine can be asked for; the processor's always comes first."""
    host = host_source(cpu_period_s)
    found = [nvml_source(gpu_period_s, os.environ), amdsmi_source(gpu_period_s, os.environ)]
    gpus = [source for source in found if not isinstance(source, str)]
    if expect_gpu and not gpus:
        reasons = "; ".join(reason for reason in found if isinstance(reason, str))
        host.notes.append(f"No GPU sensor answered, so no clocks and power: {reasons}")
    return [host, *gpus]


def sample(
    sources: list[Source],
    folder: Path,
    host: str,
    done: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Read every source at its own pace until ``done``; write what there is every two seconds.

    A source that raises ends; a moment that was missed is not made up for.
    """
    writers = {source.name: PartWriter(folder, host, source) for source in sources}
    due = {source.name: clock() for source in sources}
    write_at = clock() + WRITE_EVERY_S
    alive = list(sources)
    while not done():
        for source in list(alive):
            if due[source.name] > clock():
                continue
            if not _read(source, writers[source.name]):
                alive.remove(source)
            due[source.name] = max(due[source.name] + source.period_s, clock())
        if clock() >= write_at:
            for writer in writers.values():
                writer.write()
            write_at = clock() + WRITE_EVERY_S
        soonest = min([due[source.name] for source in alive] + [write_at])
        sleep(max(0.0, min(soonest - clock(), 0.05)))
    for writer in writers.values():
        writer.write()


def _read(source: Source, writer: PartWriter) -> bool:
    try:
        readings = source.read()
    except Exception as error:  # noqa: BLE001  a driver may fail in any way; the rest goes on
        source.notes.append(f"{source.name} stopped answering: {error}")
        return False
    writer.add(time.monotonic_ns(), time.time_ns(), readings)
    return True


if __name__ == "__main__":
    main()

"""Linking, overlap, launch overhead and idle causes, from 0.25 to 4 million events, on one core.

Near-linear means that the time per event hardly grows: the last column is the exponent of the
growth since the line before (1 is linear).
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import recordings
import timing

from chopper_jupyter.core.align.link import link
from chopper_jupyter.core.align.merge import merge
from chopper_jupyter.core.align.occupancy import occupancy
from chopper_jupyter.core.analysis.idle_causes import idle_causes
from chopper_jupyter.core.analysis.launch_overhead import launch_overhead
from chopper_jupyter.core.schema import KERNEL_KINDS
from chopper_jupyter.core.trace import Trace, TraceInfo

SIZES = (0.25, 0.5, 1, 2, 4)


def growth(sizes: list[float], runs: int) -> None:
    """Link recordings of every size in turn."""
    made = {size: recordings.recording(int(size * 1e6)) for size in sizes}
    tasks = {
        f"{events.events_read:,} events, {events.device.num_rows:,} kernels": timing.task(
            lambda events=events: link(events)
        )
        for events in made.values()
    }
    found = timing.interleaved(tasks, runs)
    timing.show("Linking to six levels", found)
    counts = [events.events_read for events in made.values()]
    cpus = [timing.median(samples) for samples in found.values()]
    for i in range(1, len(cpus)):
        exponent = math.log(cpus[i] / cpus[i - 1]) / math.log(counts[i] / counts[i - 1])
        print(f"from {counts[i - 1]:,} to {counts[i]:,} events: exponent {exponent:.2f}")


def analyses(kernels: int, runs: int) -> None:
    """Time what runs over the kernels alone."""
    one = recordings.iteration()
    wanted = int(kernels * one.events_read / one.device.num_rows)
    trace = merge([link(recordings.recording(wanted))], TraceInfo())
    table = trace.kernels
    gpu, start, dur = (table[c].to_numpy() for c in ("gpu", "start_ns", "dur_ns"))
    kinds = table["kind"].combine_chunks()
    words = [KERNEL_KINDS.index(word) for word in kinds.dictionary.to_pylist()]
    kind = np.array(words)[kinds.indices.to_numpy()]
    tasks = {
        "overlap, busy and idle time": timing.task(lambda: occupancy(gpu, kind, start, dur)),
        "launch overhead": timing.task(lambda: launch_overhead(_fresh(trace))),
        "launch overhead by layer and op": timing.task(
            lambda: launch_overhead(_fresh(trace), by=["layer", "op"])
        ),
        "idle causes": timing.task(lambda: idle_causes(_fresh(trace))),
        "idle causes by layer and op": timing.task(
            lambda: idle_causes(_fresh(trace), by=["layer", "op"])
        ),
    }
    timing.show(f"{table.num_rows:,} kernels", timing.interleaved(tasks, runs))


def _fresh(trace: Trace) -> Trace:
    """Return a Trace that remembers no earlier answer."""
    return Trace.from_tables(trace.tables, trace.info, trace.quality)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=SIZES[-1], help="of events, at most")
    parser.add_argument("--kernels", type=float, default=1, help="millions, for the analyses")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    growth([size for size in SIZES if size <= options.millions], options.runs)
    analyses(int(options.kernels * 1e6), options.runs)


if __name__ == "__main__":
    main()

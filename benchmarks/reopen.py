"""Reopening a saved Trace of 4 million events: how soon the first summary is there.

Each opening is a process of its own; what importing takes is not counted. The file system's
cache is warm.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path

import timing


def measure(folder: str) -> None:
    """Open and summarize, in this process, and print what it took."""
    from chopper_jupyter.core.analysis.summary import summarize
    from chopper_jupyter.core.trace import Trace

    opened, trace = timing.timed(lambda: Trace.open(folder))
    first, _ = timing.timed(lambda: summarize(trace, by=["phase", "layer"]))
    later, _ = timing.timed(lambda: summarize(trace, by=["phase", "layer"]))
    facts = {"open": opened.wall, "later": later.wall, "peak": timing.peak_memory()}
    cpu, wall = opened.cpu + first.cpu, opened.wall + first.wall
    print(json.dumps({"cpu": cpu, "wall": wall, **facts}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=4, help="of events")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        measure(options.folder)
        return

    import recordings

    from chopper_jupyter.core.align.link import link
    from chopper_jupyter.core.align.merge import merge
    from chopper_jupyter.core.trace import TraceInfo

    events = recordings.recording(int(options.millions * 1e6))
    trace = merge([link(events)], TraceInfo())
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "saved")
        saved, _ = timing.timed(lambda: trace.save(folder))
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{events.events_read:,} events, {trace.kernels.num_rows:,} kernels: saved in "
              f"{saved.wall:.2f} s, {size / 1e6:.1f} MB")  # fmt: skip
        task = partial(timing.in_fresh_process, __file__, "--folder", str(folder))
        found = timing.interleaved({"open and first summary": task}, options.runs)
    timing.show("Reopening", found)
    samples = found["open and first summary"]
    for what in ("open", "later"):
        print(f"{what}: {timing.median(samples, what) * 1000:.0f} ms wall")


if __name__ == "__main__":
    main()

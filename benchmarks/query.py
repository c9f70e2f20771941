"""What the explorer and ``summarize`` ask of a linked table of 10 million kernels.

Aims: ``summarize`` of one measure 250 ms warm, cube build 2 s (1 million kernels: 0.4 s), the
answer to a selection in the explorer 50 ms. Warm is a trace that was asked the same before: it
remembers groups, and adds up the kernels anew. The cube is sums over all six levels, from a table
that was never asked anything.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import timing

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from wide_traces import wide_trace

from chopper_jupyter.core.analysis.cube import KEPT, cube, level_codes
from chopper_jupyter.core.analysis.summary import summarize
from chopper_jupyter.core.schema import LEVELS as SIX
from chopper_jupyter.core.trace import altered
from chopper_jupyter.widgets.protocol import reply_to
from chopper_jupyter.widgets.sources import Sources

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.cube import LevelCodes
    from chopper_jupyter.core.trace import Trace

LEVELS = ((), ("gpu", "iteration"), ("phase", "op"), ("layer", "phase"), ("layer", "op"),
          ("gpu", "layer", "phase"), ("kernel",))  # fmt: skip
DRILLS = (
    ("one op by layer", ["layer"], [["op", 3]]),
    ("one GPU by layer and phase", ["layer", "phase"], [["gpu", 1]]),
    ("one phase by op", ["op"], [["phase", 0]]),
    ("one layer of one op by GPU", ["gpu"], [["op", 0], ["layer", 5]]),
    ("everything by phase and op", ["phase", "op"], []),
)


def shape(kernels: int) -> Trace:
    """Make kernels of 8 GPUs and 20 iterations: 80 layers, 60 ops, 200 kernel names."""
    return wide_trace(kernels, gpus=8, iterations=20, layers=80, ops=60, names=200)


def summaries(trace: Trace, runs: int) -> None:
    tasks = {
        f"by {', '.join(by) or 'nothing'}": timing.task(
            lambda by=by: summarize(trace, by=by, metrics=["time"])
        )
        for by in LEVELS
    }
    for by in LEVELS:
        summarize(trace, by=by, metrics=["time"])  # warm
    timing.show("summarize, time only, warm", timing.interleaved(tasks, runs))
    first = {
        f"by {', '.join(by)}": timing.task(
            lambda by=by: summarize(altered(trace), by=by, metrics=["time"])
        )
        for by in (("phase", "op"), ("layer", "op"))
    }
    timing.show("summarize, nothing remembered", timing.interleaved(first, min(runs, 3)))


def keep_all(codes: LevelCodes) -> LevelCodes:
    for levels in reversed(KEPT):
        codes.holding(levels)
    return codes


def answers(trace: Trace, runs: int) -> None:
    fresh = {
        "level codes": timing.task(lambda: level_codes(altered(trace))),
        "cube": timing.task(lambda: level_codes(altered(trace)).holding(SIX)),
        "cube and all sums that are kept": timing.task(
            lambda: keep_all(level_codes(altered(trace)))
        ),
    }
    timing.show("cube build", timing.interleaved(fresh, min(runs, 3)))
    sources = Sources(trace)
    codes = keep_all(sources.codes)
    timing.show("one cube of ready codes", timing.interleaved({
        "phase, op, layer, kernel": timing.task(
            lambda: cube(codes, ["phase", "op", "layer", "kernel"])
        ),
        "gpu, iteration": timing.task(lambda: cube(codes, ["gpu", "iteration"])),
    }, runs))  # fmt: skip
    asked = {
        title: timing.task(lambda levels=levels, filters=filters: reply_to(
            {"kind": "query", "id": 1, "levels": levels, "filters": filters}, sources
        ))
        for title, levels, filters in DRILLS
    }  # fmt: skip
    timing.show("answers to selections", timing.interleaved(asked, runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10], help="of kernels")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for millions in options.millions:
        trace = shape(int(millions * 1e6))
        print(f"\n== {trace.kernels.num_rows:,} kernels, {trace.kernels.nbytes / 1e6:,.0f} MB")
        summaries(trace, options.runs)
        answers(trace, options.runs)


if __name__ == "__main__":
    main()

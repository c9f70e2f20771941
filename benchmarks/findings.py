"""Findings, overheads and the explorer page of a run with shapes, counters and clocks.

A simulated run of 8 GPUs is repeated in time until there are enough kernels; it has a GPU with a
low clock, contention and a straggler, so that findings look at all there is. The baseline is one
table that reads the same counters.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import timing

from chopper_jupyter import Explorer, Report, read_trace
from chopper_jupyter.core.analysis.efficiency import efficiency
from chopper_jupyter.core.analysis.findings import findings
from chopper_jupyter.core.analysis.overheads import overheads
from chopper_jupyter.core.trace import Trace, altered
from chopper_jupyter.simulate import Injections, llama_fsdp

SUFFERS = Injections(
    noise=0.01, clock_loss={(1, 3): 0.75}, overlap_contention=1.5, straggler=(2, 300_000)
)
TIMES = ("start_ns", "launch_ns", "time_ns")
IDS = ("kernel_id", "op_id", "parent_id", "forward_op_id", "correlation_id", "collective_seq")


def simulated() -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        run = llama_fsdp(Path(folder), injections=SUFFERS, layers=16, iterations=10)
        return read_trace(run, cache=False)


def repeated(trace: Trace, times: int) -> Trace:
    """Let the run follow itself, with times, ids and iterations of its own for each copy."""
    kernels = trace.kernels
    end = pc.max(pc.add(kernels["start_ns"], kernels["dur_ns"])).as_py() + 1_000_000
    steps = dict.fromkeys(TIMES, end)
    for name in IDS:
        tables = (t for t in trace.tables.values() if name in t.column_names)
        steps[name] = max((pc.max(t[name]).as_py() or 0 for t in tables), default=0) + 1
    steps["iteration"] = max(trace.iterations) + 1
    tables = {
        name: table
        if name == "gpus"
        else _in_order([_moved(table, steps, i) for i in range(times)])
        for name, table in trace.tables.items()
    }
    quality = replace(trace.quality, kernels=tables["kernels"].num_rows)
    return Trace.from_tables(tables, trace.info, quality)


def _moved(table: pa.Table, steps: dict[str, int], copy: int) -> pa.Table:
    for at, field in enumerate(table.schema):
        if field.name in steps:
            step = pa.scalar(copy * steps[field.name], field.type)
            table = table.set_column(at, field, pc.add(table[field.name], step))
    return table


def _in_order(copies: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(copies).unify_dictionaries().combine_chunks()
    if not {"gpu", "start_ns"} <= set(whole.column_names):
        return whole
    order = np.lexsort((whole["start_ns"].to_numpy(), whole["gpu"].to_numpy()))
    return whole.take(pa.array(order)).combine_chunks()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=1, help="of kernels")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    one = simulated()
    trace = repeated(one, max(1, round(options.millions * 1e6 / one.kernels.num_rows)))
    tasks = {
        "efficiency of all": timing.task(lambda: efficiency(altered(trace), None)),
        "overheads by op": timing.task(lambda: overheads(altered(trace), "op")),
        "findings": timing.task(lambda: findings(altered(trace))),
        "explorer page": timing.task(lambda: Explorer(altered(trace)).to_html()),
        "report": timing.task(lambda: Report(altered(trace))._repr_html_()),
    }
    title = f"{trace.kernels.num_rows:,} kernels, {trace.counters.num_rows:,} counts"
    timing.show(title, timing.interleaved(tasks, options.runs))
    print(f"most memory {timing.peak_memory() / 1e6:,.0f} MB, of which the run has "
          f"{sum(t.nbytes for t in trace.tables.values()) / 1e6:,.0f}")  # fmt: skip


if __name__ == "__main__":
    main()

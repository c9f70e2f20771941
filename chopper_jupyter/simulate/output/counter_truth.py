"""Which kernel of the timed run each counted kernel of a simulated run is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.simulate.output.counter_passes import Told
    from chopper_jupyter.simulate.run import Simulation

FILE = "truth_counters.parquet"


def write_counter_truth(
    folder: Path, run: Simulation, told: Sequence[Told]
) -> list[dict[str, int]]:
    """Write one row per counted kernel, and return how many were lost and added.

    Columns: pass; rank; process_id and dispatch_id as the counter files have them (of ``ncu``,
    ``ID``); correlation_id of the kernel of the timed run, null for kernels that it does not
    hold: of the start-up and the warm-up, and those that were added.

    Returns
    -------
    list of dict
        For each pass and rank ``missing`` and ``extra`` kernels, over all iterations.
    """
    tables = [_table(run, one) for one in told]
    pq.write_table(pa.concat_tables(tables), folder / FILE, compression="zstd")
    return [_changes(run, one) for one in told]


def _table(run: Simulation, one: Told) -> pa.Table:
    launches = len(run.script.launches)
    iteration, launch = one.launch // launches, one.launch % launches
    recorded = iteration - run.warmup
    known = (one.launch >= 0) & (recorded >= 0)
    size = len(one.launch)
    return pa.table(
        {
            "pass": pa.array(np.full(size, one.number, np.int32)),
            "rank": pa.array(np.full(size, one.rank, np.int32)),
            "process_id": pa.array(np.full(size, one.pid)),
            "dispatch_id": pa.array(one.dispatch),
            "correlation_id": pa.array(1 + recorded * run.script.calls + launch, mask=~known),
        }
    )


def _changes(run: Simulation, one: Told) -> dict[str, int]:
    counted = [launch.work.kind in _counted_kinds(run) for launch in run.script.launches]
    whole = sum(counted) * (run.warmup + run.place.iterations)
    ran = one.launch >= 0
    first = int(np.argmax(ran)) if ran.any() else len(ran)
    return {
        "pass": one.number,
        "rank": one.rank,
        "missing": whole - int(ran.sum()),
        "extra": int((~ran[first:]).sum()),
    }


def _counted_kinds(run: Simulation) -> tuple[str, ...]:
    """Return what the tool counts: on AMD copies are kernels, too."""
    return ("compute", "memcpy") if run.place.hardware.amd else ("compute",)

"""Writes the samples of all sensors of a simulated run, as the package's own sampler does.

Per host one source of GPU readings (``amdsmi`` or ``nvml``) every 10 ms, and one of processor
cores (``psutil``) every 100 ms, from shortly before the run until shortly after it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chopper_jupyter.core.run_folder import telemetry_file
from chopper_jupyter.core.schema import TELEMETRY_FILE
from chopper_jupyter.simulate.output import cpu_sensors, gpu_sensors
from chopper_jupyter.simulate.output.kineto import BASE_NS

if TYPE_CHECKING:
    from pathlib import Path

    from chopper_jupyter.simulate.run import Simulation
    from chopper_jupyter.simulate.timing.durations import Ints

GPU_PERIOD_NS, CPU_PERIOD_NS = 10_000_000, 100_000_000
MARGIN_NS = 100_000_000
"""How long before and after the run is sampled."""

LATE_NS = 300_000
"""How much later than planned a sample may come."""

UP_NS = 900_000_000_000_000
"""Time that the hosts were up when the run began."""

PART_ROWS = 50_000


def write_telemetry(folder: Path, run: Simulation, seed: int) -> None:
    """Write the telemetry of all hosts into a run folder.

    Wall times are by the clock of the host, which is the clock of its first rank.
    """
    rng = np.random.default_rng((seed, 2))
    by_host: dict[str, list[int]] = {}
    for process in run.processes:
        by_host.setdefault(run.host(process.rank), []).append(process.rank)
    for host, ranks in by_host.items():
        _write_gpus(folder, run, (host, ranks), rng)
        _write_cores(folder, run, (host, ranks), rng)


def _moments(run: Simulation, period: int, rng: np.random.Generator) -> Ints:
    """Return the true times of samples, in order."""
    begin = int(run.times.begin.min()) - MARGIN_NS
    end = int(run.times.end.max()) + MARGIN_NS
    planned = np.arange(begin, end, period)
    return planned + rng.integers(0, LATE_NS, len(planned))


def _write_gpus(
    folder: Path, run: Simulation, where: tuple[str, list[int]], rng: np.random.Generator
) -> None:
    host, ranks = where
    hardware = run.place.hardware
    at = _moments(run, GPU_PERIOD_NS, rng)
    tables, devices = [], []
    for rank in ranks:
        device = run.processes[rank].device
        for metric, values in gpu_sensors.readings(run, rank, at, rng).items():
            tables.append(_table(run, ranks[0], at, metric, values, device=device))
        devices.append(
            {
                "device": device,
                "uuid": f"simulated-{host}-{device}",
                "bus_id": f"0000:{5 + 16 * device:02x}:00.0",
                "name": hardware.product,
            }
        )
    source = "amdsmi" if hardware.amd else "nvml"
    facts = {"host": host, "source": source, "period_ns": GPU_PERIOD_NS, "devices": devices}
    _write_parts(folder, facts, tables)


def _write_cores(
    folder: Path, run: Simulation, where: tuple[str, list[int]], rng: np.random.Generator
) -> None:
    host, ranks = where
    at = _moments(run, CPU_PERIOD_NS, rng)
    used, whole = cpu_sensors.use(run, ranks, at, rng)
    physical = cpu_sensors.physical_cores()
    cores = np.arange(used.shape[1])
    first = np.full(len(cores), at[0])
    tables = [
        _table(run, ranks[0], first, "physical_core", physical.astype(float), core=cores),
        _table(
            run, ranks[0], np.repeat(at, len(cores)), "cpu_utilization_ratio", used.ravel(),
            core=np.tile(cores, len(at)),
        ),
        *(_table(run, ranks[0], at, metric, values) for metric, values in whole.items()),
    ]  # fmt: skip
    facts = {"host": host, "source": "psutil", "period_ns": CPU_PERIOD_NS, "devices": []}
    _write_parts(folder, facts, tables)


def _table(
    run: Simulation,
    clock_of: int,
    at: Ints,
    metric: str,
    values: Any,
    *,
    device: int | None = None,
    core: Ints | None = None,
) -> pa.Table:
    count = len(at)
    offset = run.injected.clock_offset_ns.get(clock_of, 0)
    columns = [
        pa.array(UP_NS + at),
        pa.array(BASE_NS + offset + at),
        pa.nulls(count, pa.int32())
        if device is None
        else pa.array(np.full(count, device), pa.int32()),
        pa.nulls(count, pa.int32()) if core is None else pa.array(core, pa.int32()),
        pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [metric]),
        pa.array(values, pa.float64()),
    ]
    return pa.table(columns, schema=TELEMETRY_FILE)


def _write_parts(folder: Path, facts: dict[str, Any], tables: list[pa.Table]) -> None:
    """Write samples in order of time, a part at a time."""
    rows = pa.concat_tables(tables).unify_dictionaries().sort_by("monotonic_ns")
    notes = ["These samples are simulated: no sensor was read."]
    told = json.dumps({**facts, "notes": notes, "simulated": True})
    rows = rows.replace_schema_metadata({"chopper": told})
    for part in range(-(-rows.num_rows // PART_ROWS)):
        path = telemetry_file(folder, facts["host"], facts["source"], part)
        path.parent.mkdir(parents=True, exist_ok=True)
        piece = rows.slice(part * PART_ROWS, PART_ROWS)
        pq.write_table(piece, path, compression="zstd")

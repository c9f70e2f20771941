"""Writes counters as Nsight Compute does: one table of all processes of a host, kernel by kernel.

``ncu`` runs every kernel several times by itself, so that one run of the training counts all.
It sees no copies, and its clock is locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import csv

from chopper_jupyter.core.run_folder import pass_folder
from chopper_jupyter.simulate.output.counter_passes import (
    FIRST_PID,
    FLOPS_PER_MOP,
    OTHER_NAME,
    PID_STEP,
    Counted,
    Replay,
    Told,
    dispatches,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.simulate.accelerators import Accelerator
    from chopper_jupyter.simulate.injections import Injections
    from chopper_jupyter.simulate.iteration.script import Launch, Work
    from chopper_jupyter.simulate.timing.durations import Floats, Ints

TOOL, FILE = "ncu", "ncu.csv"

LOCKED_MHZ = 1_590.0
"""Clock to which ``ncu`` locks the GPU."""

METRICS = {
    "dram__bytes_read.sum": "byte",
    "dram__bytes_write.sum": "byte",
    "gpc__cycles_elapsed.avg.per_second": "hz",
    "gpc__cycles_elapsed.max": "cycle",
    "gpu__time_duration.sum": "ns",
    "launch__sm_count": "SM",
    "sm__cycles_elapsed.avg": "cycle",
    "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum": "",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": "%",
}
"""Metrics and their units, as ``--page raw --print-units base`` prints them."""

OTHER_CYCLES = 3_000.0
SENT_PER_REQUEST = 32
"""Bytes of one sector of memory traffic."""


def write_counters(
    folder: Path,
    launches: Sequence[Launch],
    kernels: Counted,
    hardware: Accelerator,
    replay: Replay,
    injected: Injections,
    rng: np.random.Generator,
) -> list[Told]:
    """Write one table per host, and return what each kernel in them is.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    launches : sequence of Launch
        All launches of an iteration.
    kernels : Counted
        Those that are counted.
    hardware, replay, injected
        The GPU, and how the counting run differs from the timed one.
    rng : numpy.random.Generator
        For noise, and for what is lost and added.
    """
    works = [launches[i].work for i in kernels.number.tolist()]
    told: list[Told] = []
    for host in dict.fromkeys(replay.hosts.values()):
        place = pass_folder(folder, TOOL, 0) / host
        place.mkdir(parents=True, exist_ok=True)
        tables: list[pa.Table] = []
        for rank in (r for r, name in replay.hosts.items() if name == host):
            ran = dispatches(kernels, replay.iterations, injected.counter_changes, rng)
            copy = np.array([*(work.kind == "memcpy" for work in works), False])
            seen = ~copy[ran.row]
            which = ran.row[seen]
            noise = np.exp(rng.normal(0, injected.noise, len(which)))
            counted = _metrics(works, kernels, hardware, which, noise)
            process = (FIRST_PID + PID_STEP * rank, replay.devices[rank], host)
            number = sum(table.num_rows for table in tables) + np.arange(len(which))
            told.append(Told(0, rank, process[0], number, ran.launch[seen]))
            tables.append(pa.table({**_identity(works, which, process), **counted}))
        _save(place / FILE, pa.concat_tables(tables))
    return told


def _identity(works: Sequence[Work], which: Ints, process: tuple[int, int, str]) -> dict[str, Ints]:
    """Return the columns that say which kernel of which process a row is."""
    pid, device, host = process
    size = len(which)
    columns = {
        "Process ID": [str(pid)] * size,
        "Process Name": ["python3.12"] * size,
        "Host Name": [host] * size,
        "Kernel Name": _taken([*(work.name for work in works), OTHER_NAME], which),
        "Context": ["1"] * size,
        "Stream": ["7"] * size,
        "Block Size": _taken([*(_dims(work.block) for work in works), "(256, 1, 1)"], which),
        "Grid Size": _taken([*(_dims(work.grid) for work in works), "(16, 1, 1)"], which),
        "Device": [str(device)] * size,
        "CC": ["9.0"] * size,
    }
    return {name: pa.array(values, pa.string()) for name, values in columns.items()}


def _dims(sizes: tuple[int, int, int]) -> str:
    return f"({sizes[0]}, {sizes[1]}, {sizes[2]})"


def _taken(words: list[str], which: Ints) -> list[str]:
    return [words[i] for i in which.tolist()]


def _metrics(
    works: Sequence[Work], kernels: Counted, hardware: Accelerator, which: Ints, noise: Floats
) -> dict[str, pa.Array]:
    """Return the metrics of all kernels, as text."""
    cycles = np.append(kernels.cycles, OTHER_CYCLES)[which] * noise
    values = kernels.values
    capacity = kernels.cycles * hardware.units * hardware.simds
    busy = 100 * np.append(values["SQ_VALU_MFMA_BUSY_CYCLES"] / capacity, 0.0)[which]
    flops = np.append(values["SQ_INSTS_VALU_MFMA_MOPS_BF16"] * FLOPS_PER_MOP, 0.0)[which]
    read, written = (
        np.append(np.ceil(np.array(sizes, np.float64) / SENT_PER_REQUEST), 0.0)[which]
        * SENT_PER_REQUEST
        for sizes in ([work.read for work in works], [work.written for work in works])
    )
    columns = {
        "dram__bytes_read.sum": read,
        "dram__bytes_write.sum": written,
        "gpc__cycles_elapsed.avg.per_second": np.full(len(which), LOCKED_MHZ * 1e6),
        "gpc__cycles_elapsed.max": cycles,
        "gpu__time_duration.sum": cycles / LOCKED_MHZ * 1e3,
        "launch__sm_count": np.full(len(which), float(hardware.units)),
        "sm__cycles_elapsed.avg": cycles,
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum": flops,
    }
    whole = {name: pa.array(np.rint(found).astype(np.int64)) for name, found in columns.items()}
    share = pa.array(np.round(busy * (cycles / np.rint(cycles)), 6))
    made = {name: found.cast(pa.string()) for name, found in whole.items()}
    return made | {
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": share.cast(pa.string())
    }


def _save(path: Path, table: pa.Table) -> None:
    """Write a table with the lines that ``ncu`` puts before it, and its row of units."""
    numbered = table.add_column(0, "ID", pa.array(np.arange(table.num_rows)).cast(pa.string()))
    names = numbered.column_names
    units = [METRICS.get(name, "") for name in names]
    processes = dict.fromkeys(table["Process ID"].to_pylist())
    lines = [f"==PROF== Connected to process {pid} (/usr/bin/python3.12)" for pid in processes]
    lines += [",".join(f'"{word}"' for word in row) for row in (names, units)]
    with path.open("wb") as file:
        file.write(("\n".join(lines) + "\n").encode())
        csv.write_csv(
            numbered, file, csv.WriteOptions(include_header=False, quoting_style="all_valid")
        )
        for pid in processes:
            file.write(f"==PROF== Disconnected from process {pid}\n".encode())

"""Writes counters as rocprofv3 does: one run of the training per pass, kernels one by one.

Nothing but the order of kernels ties such a run to the timed one: other processes, other
numbers, other times, the warm-up besides, and no collectives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from chopper_jupyter.core.run_folder import pass_folder
from chopper_jupyter.simulate.iteration.kernel_catalog import threads
from chopper_jupyter.simulate.timing.conditions import COUNTING_CLOCK

if TYPE_CHECKING:
    from pathlib import Path

    from chopper_jupyter.simulate.accelerators import Accelerator
    from chopper_jupyter.simulate.injections import Injections
    from chopper_jupyter.simulate.iteration.script import Launch
    from chopper_jupyter.simulate.timing.durations import Durations, Floats, Ints

PASSES = (
    ("GRBM_GUI_ACTIVE", "SQ_VALU_MFMA_BUSY_CYCLES", "SQ_INSTS_VALU_MFMA_MOPS_BF16"),
    ("TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum", "TCC_BUBBLE_sum"),
    ("TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum", "GRBM_GUI_ACTIVE"),
)
"""Counters that fit into one pass each."""

TOOL = "rocprofv3"
COPY_NAME = "__amd_rocclr_copyBuffer"
OTHER_NAME = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, "
    "std::array<char*, 1ul> >"
)
"""A kernel that the timed run does not have: memory that the allocator fills."""

START_UP_KERNELS = 48
"""Kernels before the first iteration, which initialise the weights."""

GAP_NS = 9_000
BOOT_NS = 3_200_000_000_000_000
PASS_NS = 900_000_000_000
"""Time between kernels; time since boot of the first pass; time between passes."""

APART_NS = 31_415_927
"""How much later each rank of a pass starts than the one before."""

FLOPS_PER_MOP = 512
LONG_REQUEST, REQUEST = 128, 64
LONG_SHARE = 0.9
"""Bytes of the two kinds of requests to memory; share of bytes that long ones read."""

CPU_NODES = 2
FIRST_PID, PID_STEP = 782_000, 211
CLOCK_SPREAD = 0.003


@dataclass(frozen=True)
class Counted:
    """Kernels of one iteration as a counter run sees them; one place per kernel.

    Parameters
    ----------
    name : list of str
        As rocprofv3 spells it.
    items, group : int64 array
        Work-items in all, and in a group.
    number : int64 array
        Place among all launches of the iteration.
    cycles : float array
        Clock cycles of each die.
    values : dict of str to float array
        Counters other than cycles.
    """

    name: list[str]
    items: Ints
    group: Ints
    number: Ints
    cycles: Floats
    values: dict[str, Floats]


def counted(launches: list[Launch], work: Durations, hardware: Accelerator) -> Counted:
    """Return what the counters of all kernels but collectives hold, without noise."""
    rows = [i for i, one in enumerate(launches) if one.work.kind != "collective"]
    works = [launches[i].work for i in rows]
    index = np.array(rows)
    clock = hardware.clock_mhz * COUNTING_CLOCK
    at_peak_ns = (work.theoretical_ns * work.instruction / work.utilisation)[index]
    frequency = np.where(work.matrix[index], hardware.clock_mhz, clock)
    busy = np.where(work.matrix[index], work.utilisation[index], 0.0)
    cycles = at_peak_ns * frequency * 1e-3
    read, written = (
        np.array([getattr(one, side) for one in works], np.float64) for side in ("read", "written")
    )
    long = np.floor(read * LONG_SHARE / LONG_REQUEST)
    return Counted(
        [_spelling(one.name, one.kind) for one in works],
        np.array([threads(one) for one in works]),
        np.array([one.block[0] * one.block[1] * one.block[2] for one in works]),
        index,
        cycles,
        {
            "SQ_VALU_MFMA_BUSY_CYCLES": busy * cycles * hardware.units * hardware.simds,
            "SQ_INSTS_VALU_MFMA_MOPS_BF16": work.performed[index] / FLOPS_PER_MOP,
            "TCC_EA0_RDREQ_sum": long + np.ceil((read - long * LONG_REQUEST) / REQUEST),
            "TCC_EA0_RDREQ_32B_sum": np.zeros(len(rows)),
            "TCC_BUBBLE_sum": long,
            "TCC_EA0_WRREQ_sum": np.ceil(written / REQUEST),
            "TCC_EA0_WRREQ_64B_sum": np.ceil(written / REQUEST),
        },
    )


def _spelling(name: str, kind: str) -> str:
    if kind == "memcpy":
        return COPY_NAME
    return name if name.isidentifier() else f"{name} [clone .kd]"


@dataclass(frozen=True)
class Replay:
    """How the replays of a run differ from it.

    Parameters
    ----------
    iterations : int
        Iterations, the warm-up included.
    devices : dict of int to int
        Device of each rank on its host.
    hosts : dict of int to str
        Host of each rank.
    """

    iterations: int
    devices: dict[int, int]
    hosts: dict[int, str]


def write_counters(
    folder: Path,
    kernels: Counted,
    hardware: Accelerator,
    replay: Replay,
    injected: Injections,
    rng: np.random.Generator,
) -> list[Told]:
    """Write the counter files of all passes and ranks; return what each kernel in them is."""
    told = []
    for number, counters in enumerate(PASSES):
        for rank, device in replay.devices.items():
            place = pass_folder(folder, TOOL, number) / replay.hosts[rank]
            place.mkdir(parents=True, exist_ok=True)
            pid = FIRST_PID + PID_STEP * (number * len(replay.devices) + rank)
            which = dispatches(kernels, replay.iterations, injected.counter_changes, rng)
            clock = hardware.clock_mhz * COUNTING_CLOCK * rng.normal(1, CLOCK_SPREAD)
            noise = np.exp(rng.normal(0, injected.noise, len(which.row)))
            table = _table(kernels, which, (counters, hardware.dies), clock, noise)
            began = BOOT_NS + number * PASS_NS + rank * APART_NS
            table = _columns(table, pid, CPU_NODES + device, began)
            _save(place / f"{pid}_counter_collection.csv", table)
            _save(place / f"{pid}_agent_info.csv", _agents(hardware, replay, rank))
            told.append(Told(number, rank, pid, which.dispatch, which.launch))
    return told


@dataclass(frozen=True)
class Told:
    """What the kernels of one process of a counter run are.

    Parameters
    ----------
    number, rank, pid : int
        The pass, and the process.
    dispatch, launch : int64 array
        As of ``Dispatches``.
    """

    number: int
    rank: int
    pid: int
    dispatch: Ints
    launch: Ints


@dataclass(frozen=True)
class Dispatches:
    """Kernels of a process in order.

    Parameters
    ----------
    row : int64 array
        Place in ``Counted``; -1 for a kernel that the timed run does not have.
    dispatch : int64 array
        Number of the dispatch.
    launch : int64 array
        Launch of the same run that it is, counted over all iterations, the warm-up included; -1
        for kernels of the start-up and added ones.
    """

    row: Ints
    dispatch: Ints
    launch: Ints


def dispatches(
    kernels: Counted, iterations: int, changes: float, rng: np.random.Generator
) -> Dispatches:
    """Return what one process of a counter run runs, with kernels lost and added."""
    count = len(kernels.name)
    launches = int(kernels.number.max()) + 1
    row = np.tile(np.arange(count), iterations)
    dispatch = (np.arange(iterations)[:, None] * launches + kernels.number).ravel()
    kept = rng.random(len(row)) >= changes
    row, launch = row[kept], dispatch[kept]
    dispatch = launch
    again = rng.random(len(row)) < changes
    extra = np.where(rng.random(int(again.sum())) < 0.5, row[again], -1)  # noqa: PLR2004
    at = np.flatnonzero(again) + 1
    row = np.insert(row, at, extra)
    dispatch = np.insert(dispatch, at, dispatch[again])
    launch = np.insert(launch, at, -1)
    start_up = np.full(START_UP_KERNELS, -1)
    row = np.concatenate([start_up, row])
    dispatch = np.concatenate([np.arange(START_UP_KERNELS), START_UP_KERNELS + dispatch])
    # What was inserted shifts the numbers of all that follows.
    shift = np.cumsum(np.concatenate([[0], (np.diff(dispatch) == 0).astype(np.int64)]))
    launch = np.concatenate([start_up, launch])
    return Dispatches(row, 1 + dispatch + shift, launch)


def _table(
    kernels: Counted,
    which: Dispatches,
    counters: tuple[tuple[str, ...], int],
    clock: float,
    noise: Floats,
) -> pa.Table:
    """Return one row per kernel and counter."""
    names, dies = counters
    row = np.append(np.arange(len(kernels.name)), len(kernels.name))[which.row]
    cycles = np.append(kernels.cycles, 3_000.0)[row] * noise
    duration = np.maximum(np.rint(cycles / clock * 1e3), 1).astype(np.int64)
    end = np.cumsum(duration + GAP_NS)
    values = {name: np.append(found, 0.0)[row] for name, found in kernels.values.items()}
    values["GRBM_GUI_ACTIVE"] = cycles * dies
    one = pa.table({
        "dispatch": which.dispatch,
        "items": np.append(kernels.items, 4_096)[row],
        "group": np.append(kernels.group, 256)[row],
        "kernel": _symbols(kernels)[row],
        "name": pa.DictionaryArray.from_arrays(
            pa.array(row, pa.int32()), [*kernels.name, f"{OTHER_NAME} [clone .kd]"]
        ),
        "start": end - duration,
        "end": end,
    })  # fmt: skip
    repeated = one.take(np.repeat(np.arange(len(row)), len(names)))
    value = np.stack([np.rint(values[name]) for name in names], axis=1).ravel()
    counter = np.tile(np.arange(len(names)), len(row)).astype(np.int32)
    return repeated.append_column(
        "counter", pa.DictionaryArray.from_arrays(counter, list(names))
    ).append_column("value", pa.array(value))


def _symbols(kernels: Counted) -> Ints:
    """Return a number for the name of each kernel, and for that of other kernels."""
    numbers = {name: i for i, name in enumerate(dict.fromkeys([*kernels.name, OTHER_NAME]), 1)}
    return np.array([numbers[name] for name in [*kernels.name, OTHER_NAME]])


def _columns(table: pa.Table, pid: int, node: int, boot_ns: int) -> pa.Table:
    """Return the columns of ``counter_collection.csv`` of ROCm 7."""
    size = table.num_rows
    number = pa.array(np.full(size, pid))
    columns = {
        "Correlation_Id": table["dispatch"],
        "Dispatch_Id": table["dispatch"],
        "Agent_Id": _same(f"Agent {node}", size),
        "Queue_Id": pa.array(np.ones(size, np.int64)),
        "Process_Id": number,
        "Thread_Id": number,
        "Grid_Size": table["items"],
        "Kernel_Id": table["kernel"],
        "Kernel_Name": table["name"].cast(pa.string()),
        "Workgroup_Size": table["group"],
        **{
            name: pa.array(np.full(size, value))
            for name, value in (
                ("LDS_Block_Size", 0), ("Scratch_Size", 0), ("VGPR_Count", 128),
                ("Accum_VGPR_Count", 128), ("SGPR_Count", 96),
            )
        },
        "Counter_Name": table["counter"].cast(pa.string()),
        "Counter_Value": table["value"].cast(pa.decimal128(24, 6)),
        "Start_Timestamp": pc.add(table["start"], boot_ns),
        "End_Timestamp": pc.add(table["end"], boot_ns),
    }  # fmt: skip
    return pa.table(columns)


def _same(word: str, size: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.zeros(size, np.int32), [word]).cast(pa.string())


def _agents(hardware: Accelerator, replay: Replay, rank: int) -> pa.Table:
    """Return the processors of a rank's host, the columns of ``agent_info.csv`` that matter."""
    devices = sorted(
        {d for r, d in replay.devices.items() if replay.hosts[r] == replay.hosts[rank]}
    )
    gpus = [
        {
            "Node_Id": CPU_NODES + d, "Logical_Node_Id": CPU_NODES + d, "Agent_Type": "GPU",
            "Cpu_Cores_Count": 0, "Simd_Count": hardware.units * hardware.simds,
            "Num_Xcc": hardware.dies, "Cu_Count": hardware.units, "Simd_Per_Cu": hardware.simds,
            "Location_Id": 0x1100 + 0x1000 * d, "Domain": 0, "Drm_Render_Minor": 128 + d,
            "Max_Engine_Clk_Fcompute": int(hardware.clock_mhz), "Gpu_Id": 32700 + d,
            "Name": "gfx942", "Vendor_Name": "AMD", "Product_Name": hardware.product,
        }
        for d in devices
    ]  # fmt: skip
    nothing = {name: "" if isinstance(value, str) else 0 for name, value in gpus[0].items()}
    cpus = [
        nothing | {
            "Node_Id": n, "Logical_Node_Id": n, "Agent_Type": "CPU", "Cpu_Cores_Count": 96,
            "Name": "AMD EPYC 9654 96-Core Processor", "Vendor_Name": "CPU",
        }
        for n in range(CPU_NODES)
    ]  # fmt: skip
    return pa.Table.from_pylist([*cpus, *gpus])


def _save(path: Path, table: pa.Table) -> None:
    csv.write_csv(table, path, csv.WriteOptions(quoting_style="needed"))

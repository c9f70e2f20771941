"""Builds the ``memory`` table of one rank: what was allocated and freed, where in the training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.tables import encode, nullable
from chopper_jupyter.core.schema import PHASES, conform, empty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chopper_jupyter.core.align.host import Host
    from chopper_jupyter.core.align.levels import Levels
    from chopper_jupyter.core.align.nesting import Ints

HOST_SKIPPED = "allocations in the memory of the host left out (the recording has a GPU)"
ELSEWHERE_SKIPPED = "allocations on devices without kernels left out"
COUNTED = (
    "the recording does not say how much memory was allocated before it: allocated bytes count "
    "from its beginning"
)


@dataclass(frozen=True)
class Memory:
    """The allocations and frees of one rank.

    Parameters
    ----------
    table : pyarrow.Table
        The ``memory`` table; ``gpu`` is an index into the devices.
    skipped : mapping of str to int
        Those that it does not hold, by reason.
    notes : tuple of str
        What a reader should know about them.
    """

    table: pa.Table
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find(
    events: pa.Table, host: Host, levels: Levels, devices: Sequence[int], device_kind: str
) -> Memory:
    """Place allocations and frees in time and give them the levels of the range around them.

    They happen on the CPU, when an operator asks for memory, long before its kernel runs: what
    is open then on the same thread names them. Without a GPU the host's memory is the device's.

    Parameters
    ----------
    events : pyarrow.Table
        By the schema of ``core.events``.
    host, levels : Host, Levels
        The ranges of the rank, and their levels.
    devices : sequence of int
        Device number of each GPU.
    device_kind : str
        ``"gpu"`` or ``"cpu"``.
    """
    if not events.num_rows:
        return Memory(empty("memory"))
    on_host = pc.is_null(events["device"]).to_numpy()
    number = pc.fill_null(events["device"], -1).to_numpy()
    gpu = np.where(on_host, 0, -1) if device_kind == "cpu" else _gpus(number, devices)
    skipped = {
        HOST_SKIPPED: int((on_host & (gpu < 0)).sum()),
        ELSEWHERE_SKIPPED: int((~on_host & (gpu < 0)).sum()),
    }
    time = events["time_ns"].to_numpy()
    rows = np.flatnonzero(gpu >= 0)
    rows = rows[np.argsort(time[rows], kind="stable")]
    made, counted = _table(events.take(pa.array(rows)), gpu[rows], host, levels)
    skipped = {reason: count for reason, count in skipped.items() if count}
    return Memory(made, skipped, (COUNTED,) if counted else ())


def _gpus(number: Ints, devices: Sequence[int]) -> Ints:
    """Return the GPU of each device number, -1 if it has none (-1 is the host).

    Where only one device allocates and only one has kernels, they are the same: AMD counts
    devices that a process cannot see when it names kernels, but not when it names memory.
    """
    gpu = np.full(len(number), -1, np.int64)
    named = np.unique(number[number >= 0]).tolist()
    known = named if len(named) == len(devices) == 1 else devices
    for index, device in enumerate(known):
        gpu[number == device] = index
    return gpu


def _table(events: pa.Table, gpu: Ints, host: Host, levels: Levels) -> tuple[pa.Table, bool]:
    """Return the table, and whether allocated bytes had to be counted."""
    tid, time = (np.asarray(events[c].to_numpy(), np.int64) for c in ("tid", "time_ns"))
    at = host.forest.innermost_at(tid, time)
    allocated, reserved, counted = _totals(events, gpu)

    def level(values: Ints) -> Ints:
        return np.where(at >= 0, values[at], -1) if len(values) else at

    module, operator, op = level(levels.module), level(host.operator), level(levels.op)
    between = np.flatnonzero((operator < 0) & (module >= 0))  # freed by Python, in no operator
    op[between] = np.where(levels.found.leaf[module[between]], op[between], -1)
    table = pa.table({
        "gpu": gpu,
        "time_ns": time,
        "bytes": events["bytes"],
        "allocated_bytes": allocated,
        "reserved_bytes": reserved,
        "op_id": nullable(operator),
        "iteration": nullable(levels.cuts.at(time)),
        "phase": encode(level(levels.phase), list(PHASES)),
        "layer": encode(level(levels.layer), levels.layers),
        "op": encode(op, levels.ops),
        "module": encode(module, levels.paths),
    })  # fmt: skip
    return conform("memory", table), counted


def _totals(events: pa.Table, gpu: Ints) -> tuple[Ints, pa.Array, bool]:
    """Return allocated and reserved bytes after each event, and whether any had to be counted.

    A device of which the recording does not always say what is allocated is counted from 0 on.
    The CPU has no allocator that reserves: the profiler writes 0 there.
    """
    size = np.asarray(events["bytes"].to_numpy(), np.int64)
    allocated = np.asarray(pc.fill_null(events["allocated_bytes"], 0).to_numpy(), np.int64)
    allocated = allocated.copy()
    unknown = np.unique(gpu[pc.is_null(events["allocated_bytes"]).to_numpy()])
    for one in unknown:
        rows = gpu == one
        allocated[rows] = np.cumsum(size[rows])
    on_host = pc.is_null(events["device"]).to_numpy()
    reserved = pc.if_else(pa.array(on_host), None, events["reserved_bytes"].combine_chunks())
    return allocated, reserved, len(unknown) > 0

"""From the events of one rank to its part of every table, with all levels filled in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core import hardware
from chopper_jupyter.core.align import kernels, memory_rows, op_flops, scopes, syncs
from chopper_jupyter.core.align.host import Host, host_of
from chopper_jupyter.core.align.levels import Levels, assign
from chopper_jupyter.core.align.tables import ops_table, spans_table
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.schema import conform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chopper_jupyter.core.events import RankEvents

LINK_COLUMNS = {
    "launch": "launch_ns",
    "op": "op",
    "phase": "phase",
    "layer": "layer",
    "iteration": "iteration",
}
"""Column that is not null where a kernel is linked."""


@dataclass(frozen=True)
class LinkedRank:
    """One rank's part of the tables; ids and GPUs count from 0 within the rank.

    Times are absolute nanoseconds; the merge moves them to the run's origin.
    """

    gpus: pa.Table
    spans: pa.Table
    ops: pa.Table
    kernels: pa.Table
    memory: pa.Table
    quality: Quality
    device_kind: str


def link(events: RankEvents) -> LinkedRank:
    """Link the events of one rank.

    Parameters
    ----------
    events : RankEvents
        What an importer read.

    Returns
    -------
    LinkedRank
        Every kernel with launch, op and levels as far as the recording tells.

    Raises
    ------
    TraceFormatError
        If the recording is a fusion of ranks that cannot be told apart.
    """
    host = host_of(events.ranges)
    levels = assign(host, events.flows)
    device_kind = "gpu" if events.device.num_rows else "cpu"
    made = (
        kernels.on_device(events, host, levels)
        if device_kind == "gpu"
        else kernels.on_cpu(host, levels)
    )
    counted = op_flops.count(host)
    memory = memory_rows.find(events.memory, host, levels, made.devices, device_kind)
    notes = (
        *levels.cuts.notes, *_lost(host, levels), *made.notes, *counted.notes, *memory.notes,
    )  # fmt: skip
    linked = LinkedRank(
        _gpus(events, made.devices, device_kind),
        spans_table(host, levels, syncs.find(events.launches, host, levels)),
        op_flops.on_ops(ops_table(host, levels), counted),
        op_flops.on_kernels(made.table, counted),
        memory.table,
        replace(_quality(events, host, levels, made, memory.skipped), notes=notes),
        device_kind,
    )
    return linked if events.rank is None else of_rank(linked, events.rank)


COMPILED = "compiled regions name their work themselves: torch.compile calls no modules there"


def _lost(host: Host, levels: Levels) -> tuple[str, ...]:
    """Say what modules would have told, had they been called."""
    compiled = any(word.startswith(scopes.COMPILED_REGION) for word in host.words)
    return (COMPILED,) if compiled and levels.found.is_module.any() else ()


def of_rank(linked: LinkedRank, rank: int) -> LinkedRank:
    """Write the number of the rank into all its tables."""
    tables = {name: _of_rank(getattr(linked, name), rank) for name in ("gpus", "spans", "ops")}
    return replace(linked, **tables)


def shifted_ranks(linked: LinkedRank, by: int) -> LinkedRank:
    """Add to the number of every rank in a join of several."""
    if not by:
        return linked
    tables = {name: _shifted(getattr(linked, name), by) for name in ("gpus", "spans", "ops")}
    return replace(linked, **tables)


def _shifted(table: pa.Table, by: int) -> pa.Table:
    at = table.schema.get_field_index("rank")
    values = pc.add(table["rank"], pa.scalar(by, pa.int32()))
    return table.set_column(at, table.schema.field(at), values)


def _of_rank(table: pa.Table, rank: int) -> pa.Table:
    at = table.schema.get_field_index("rank")
    values = pa.array(np.full(table.num_rows, rank), pa.int32())
    return table.set_column(at, table.schema.field(at), values)


def _gpus(events: RankEvents, devices: list[int], device_kind: str) -> pa.Table:
    names = set(events.devices.values())
    single = next(iter(names)) if len(names) == 1 else None
    rows = []
    for index, device in enumerate(devices):
        name = "cpu" if device_kind == "cpu" else events.devices.get(device, single)
        known = hardware.find(name)
        rows.append(
            {
                "gpu": index,
                "host": events.host,
                "rank": events.rank,
                "device": device,
                "name": name,
                "hardware": known.gpu if known else None,
                "offset_ns": 0,
            }
        )
    return conform("gpus", pa.Table.from_pylist(rows))


def _quality(
    events: RankEvents,
    host: Host,
    levels: Levels,
    made: kernels.Kernels,
    skipped: Mapping[str, int],
) -> Quality:
    table = made.table
    dur = table["dur_ns"].to_numpy()
    total = int(dur.sum()) or 1
    columns = {
        name: column
        for name, column in LINK_COLUMNS.items()
        if name != "launch" or events.device.num_rows
    }
    shares = {
        name: float(dur[pc.is_valid(table[column]).to_numpy()].sum()) / total
        for name, column in columns.items()
    }
    repairs = dict(events.repairs)
    if host.forest.crossing:
        repairs["host ranges that cross instead of nesting"] = host.forest.crossing
    if levels.ambiguous:
        repairs["gradients whose forward thread is ambiguous left without layer"] = levels.ambiguous
    return Quality(
        events_read=events.events_read,
        skipped={**events.skipped, **skipped},
        repairs=repairs,
        kernels=table.num_rows,
        linked=shares if table.num_rows else {},
    )

"""Joins linked ranks into one Trace: associative, and independent of the order of ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.align.link import LinkedRank
    from chopper_jupyter.core.trace import TraceInfo

TIMES = {
    "spans": ("start_ns",),
    "ops": ("start_ns",),
    "kernels": ("start_ns", "launch_ns"),
}

IDS = {
    "spans": {"span_id": "spans", "parent_id": "spans"},
    "ops": {"op_id": "ops", "parent_id": "ops", "forward_op_id": "ops"},
    "kernels": {"kernel_id": "kernels", "op_id": "ops", "gpu": "gpus"},
    "gpus": {"gpu": "gpus"},
}
"""Identity columns of each table and the table they count."""


def merge(ranks: Sequence[LinkedRank], info: TraceInfo, notes: Sequence[str] = ()) -> Trace:
    """Join ranks, in the order given, which the caller has sorted by rank.

    Ids become unique, GPUs dense, and times offsets from the earliest event of any rank.
    """
    origin = min((t for rank in ranks for t in _first_times(rank)), default=0)
    shift = dict.fromkeys(("gpus", "spans", "ops", "kernels"), 0)
    parts: dict[str, list[pa.Table]] = {name: [] for name in shift}
    for rank in ranks:
        number = rank.gpus["rank"][0].as_py() if rank.gpus.num_rows else None
        for name, tables in parts.items():
            tables.append(_moved(name, getattr(rank, name), origin, shift, number))
        for name in shift:
            shift[name] += _id_count(name, getattr(rank, name))
    joined = {name: pa.concat_tables(made).unify_dictionaries() for name, made in parts.items()}
    weights = [int(pc.sum(r.kernels["dur_ns"]).as_py() or 0) for r in ranks]
    quality = Quality.merge([r.quality for r in ranks], weights)
    kinds = {rank.device_kind for rank in ranks}
    device_kind = "gpu" if "gpu" in kinds else "cpu"
    facts = replace(info, origin_ns=origin, device_kind=device_kind)
    quality = replace(quality, notes=(*notes, *quality.notes))
    return Trace.from_tables(joined, facts, quality)


def _first_times(rank: LinkedRank) -> list[int]:
    found = [pc.min(getattr(rank, name)["start_ns"]).as_py() for name in TIMES]
    return [time for time in found if time is not None]


def _id_count(name: str, table: pa.Table) -> int:
    """Return how many ids a table uses; they may have holes."""
    column = next(iter(IDS[name]))
    return int(pc.max(table[column]).as_py()) + 1 if table.num_rows else 0


def _moved(
    name: str, table: pa.Table, origin: int, shift: dict[str, int], rank: int | None
) -> pa.Table:
    """Shift ids and times of one rank's table and write its rank into it."""
    for column, counted in IDS[name].items():
        table = _plus(table, column, shift[counted])
    for column in TIMES.get(name, ()):
        table = _plus(table, column, -origin)
    if "rank" in table.column_names and name != "gpus":
        at = table.schema.get_field_index("rank")
        field = table.schema.field(at)
        values = pa.array(np.full(table.num_rows, rank), pa.int32()) if rank is not None else (
            pa.nulls(table.num_rows, pa.int32()))  # fmt: skip
        table = table.set_column(at, field, values)
    return table


def _plus(table: pa.Table, column: str, amount: int) -> pa.Table:
    at = table.schema.get_field_index(column)
    field = table.schema.field(at)
    return table.set_column(at, field, pc.add(table[column], pa.scalar(amount, field.type)))

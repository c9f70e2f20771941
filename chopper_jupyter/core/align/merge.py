"""Joins linked ranks into one Trace: associative, and independent of the order of ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.link import LinkedRank
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.trace import TraceInfo

PARTS = ("gpus", "spans", "ops", "kernels")

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
    """Join ranks, in the order given, which the caller has sorted by rank, into a Trace.

    Times become offsets from the earliest event of any rank.
    """
    whole = join(ranks)
    origin = min(_first_times(whole), default=0)
    tables = {name: getattr(whole, name) for name in PARTS}
    for name, columns in TIMES.items():
        for column in columns:
            tables[name] = _plus(tables[name], column, -origin)
    facts = replace(info, origin_ns=origin, device_kind=whole.device_kind)
    quality = replace(whole.quality, notes=(*notes, *whole.quality.notes))
    return Trace.from_tables(tables, facts, quality)


def join(ranks: Sequence[LinkedRank]) -> LinkedRank:
    """Join several parts of a run into one; parts may be ranks, or such joins themselves.

    Ids become unique and GPUs dense. How the parts are grouped does not matter:
    ``join([join([a, b]), c])`` is ``join([a, b, c])``.
    """
    shift = dict.fromkeys(PARTS, 0)
    parts: dict[str, list[pa.Table]] = {name: [] for name in PARTS}
    for rank in ranks:
        for name, tables in parts.items():
            tables.append(_moved(name, getattr(rank, name), shift))
        for name in PARTS:
            shift[name] += _id_count(name, getattr(rank, name))
    joined = {name: pa.concat_tables(made).unify_dictionaries() for name, made in parts.items()}
    weights = [int(pc.sum(r.kernels["dur_ns"]).as_py() or 0) for r in ranks]
    kinds = {rank.device_kind for rank in ranks}
    return LinkedRank(
        **joined,
        quality=Quality.merge([r.quality for r in ranks], weights),
        device_kind="gpu" if "gpu" in kinds else "cpu",
    )


def _first_times(rank: LinkedRank) -> list[int]:
    found = [pc.min(getattr(rank, name)["start_ns"]).as_py() for name in TIMES]
    return [time for time in found if time is not None]


def _id_count(name: str, table: pa.Table) -> int:
    """Return how many ids a table uses; they may have holes."""
    column = next(iter(IDS[name]))
    return int(pc.max(table[column]).as_py()) + 1 if table.num_rows else 0


def _moved(name: str, table: pa.Table, shift: dict[str, int]) -> pa.Table:
    """Shift the ids of one part's table."""
    for column, counted in IDS[name].items():
        table = _plus(table, column, shift[counted])
    return table


def _plus(table: pa.Table, column: str, amount: int) -> pa.Table:
    if not amount:
        return table
    at = table.schema.get_field_index(column)
    field = table.schema.field(at)
    return table.set_column(at, field, pc.add(table[column], pa.scalar(amount, field.type)))

"""Joins linked ranks into one Trace: associative, and independent of the order of ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.across_ranks import calls_of, collectives_table, plausible
from chopper_jupyter.core.align.clocks import clocks_of
from chopper_jupyter.core.align.link import LinkedRank
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.align.clocks import Clocks
    from chopper_jupyter.core.trace import TraceInfo

PARTS = ("gpus", "spans", "ops", "kernels", "memory")

TIMES = {
    "spans": ("start_ns",),
    "ops": ("start_ns",),
    "kernels": ("start_ns", "launch_ns"),
    "memory": ("time_ns",),
    "collectives": ("first_arrival_ns", "last_arrival_ns", "end_ns"),
}

IDS = {
    "spans": {"span_id": "spans", "parent_id": "spans"},
    "ops": {"op_id": "ops", "parent_id": "ops", "forward_op_id": "ops"},
    "kernels": {"kernel_id": "kernels", "op_id": "ops", "gpu": "gpus"},
    "gpus": {"gpu": "gpus"},
    "memory": {"op_id": "ops", "gpu": "gpus"},
}
"""Identity columns of each table and the table they count."""

COUNTED = ("gpus", "spans", "ops", "kernels")
"""Tables whose rows have an identity: the first column of ``IDS``."""


def merge(ranks: Sequence[LinkedRank], info: TraceInfo, notes: Sequence[str] = ()) -> Trace:
    """Join ranks, in the order given, which the caller has sorted by rank, into a Trace.

    Clocks of ranks are aligned by the ends of their collectives. Times become offsets from the
    earliest event of any rank.
    """
    whole, table, told = _aligned(join(ranks))
    origin = min(_first_times(whole), default=0)
    tables = {name: getattr(whole, name) for name in PARTS} | {"collectives": table}
    for name, columns in TIMES.items():
        for column in columns:
            tables[name] = _plus(tables[name], column, -origin)
    facts = replace(info, origin_ns=origin, device_kind=whole.device_kind)
    quality = replace(whole.quality, notes=(*notes, *told, *whole.quality.notes))
    return Trace.from_tables(tables, facts, quality)


def _aligned(whole: LinkedRank) -> tuple[LinkedRank, pa.Table, tuple[str, ...]]:
    """Align the clocks of all ranks; return also their collectives, and what was done."""
    calls = calls_of(whole.kernels)
    clocks = clocks_of(whole.gpus.to_pylist(), whole.kernels, calls)
    whole = _with_clocks(whole, clocks)
    start, dur = (whole.kernels[c].to_numpy()[calls.row] for c in ("start_ns", "dur_ns"))
    calls = plausible(calls, start, start + dur)
    notes = clocks.notes
    if calls.count and calls.unmatched:
        notes = (*notes, UNMATCHED.format(calls.unmatched))
    return whole, collectives_table(whole.kernels, calls), notes


UNMATCHED = "{:,} communication kernels have no counterpart on another GPU in this recording"


def _with_clocks(whole: LinkedRank, clocks: Clocks) -> LinkedRank:
    """Move the times of each rank, and say so in its rows of ``gpus``."""
    gpus = whole.gpus
    for name, values in (
        ("offset_ns", pa.array(clocks.offset)),
        ("offset_uncertainty_ns", pa.array(clocks.uncertainty, pa.int64())),
    ):
        at = gpus.schema.get_field_index(name)
        gpus = gpus.set_column(at, gpus.schema.field(at), values)
    whole = replace(whole, gpus=gpus)
    if not clocks.offset.any():
        return whole
    ranks = gpus["rank"].to_pylist()
    by_rank = {r: int(o) for r, o in zip(ranks, clocks.offset.tolist(), strict=True)}
    moved = {name: _moved_ranks(getattr(whole, name), by_rank) for name in ("spans", "ops")}
    for name in ("kernels", "memory"):
        table = getattr(whole, name)
        by_gpu = pa.array(clocks.offset[table["gpu"].to_numpy()])
        for column in TIMES[name]:
            table = _plus(table, column, by_gpu)
        moved[name] = table
    return replace(whole, **moved)


def _moved_ranks(table: pa.Table, by_rank: dict[int | None, int]) -> pa.Table:
    code = table["rank"].combine_chunks().dictionary_encode()
    if isinstance(code, pa.ChunkedArray):
        code = code.combine_chunks()
    moves = np.array([*(by_rank.get(rank, 0) for rank in code.dictionary.to_pylist()), 0], np.int64)
    place = pc.fill_null(code.indices, len(moves) - 1).to_numpy(zero_copy_only=False)
    return _plus(table, "start_ns", pa.array(moves[place]))


def join(ranks: Sequence[LinkedRank]) -> LinkedRank:
    """Join several parts of a run into one; parts may be ranks, or such joins themselves.

    Ids become unique and GPUs dense. How the parts are grouped does not matter:
    ``join([join([a, b]), c])`` is ``join([a, b, c])``.
    """
    shift = dict.fromkeys(COUNTED, 0)
    parts: dict[str, list[pa.Table]] = {name: [] for name in PARTS}
    for rank in ranks:
        for name, tables in parts.items():
            tables.append(_moved(name, getattr(rank, name), shift))
        for name in COUNTED:
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
    first = {name: columns[0] for name, columns in TIMES.items() if name in PARTS}
    found = [pc.min(getattr(rank, name)[column]).as_py() for name, column in first.items()]
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


def _plus(table: pa.Table, column: str, amount: int | pa.Array) -> pa.Table:
    """Add a number to a column, or a number of its own to each row."""
    if isinstance(amount, int) and not amount:
        return table
    at = table.schema.get_field_index(column)
    field = table.schema.field(at)
    more = pa.scalar(amount, field.type) if isinstance(amount, int) else amount
    return table.set_column(at, field, pc.add(table[column], more))

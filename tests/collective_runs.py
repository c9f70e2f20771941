"""Ranks that communicate, drawn from a model whose truth is known: who arrives when, clocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from builders import kernels

from chopper_jupyter.core.align.link import LinkedRank
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.schema import conform, empty

TRANSFER_NS = 200_000


def calls(count: int, ranks: int, seed: int = 0, kinds=("all_gather", "reduce_scatter")):
    """Draw calls: per call its kind and the true arrival of each rank, and the common end."""
    random = np.random.default_rng(seed)
    found = []
    now = 0
    for number in range(count):
        arrival = now + random.integers(0, 400_000, ranks)
        end = int(arrival.max()) + TRANSFER_NS + int(random.integers(0, 50_000))
        found.append({"kind": kinds[number % len(kinds)], "arrival": arrival, "end": end})
        now = end + 30_000
    return found


def linked_rank(rank: int, rows: list[dict[str, Any]], host: str | None = None) -> LinkedRank:
    """Make one rank's part of a run of these kernels, an op and a span."""
    unsaid = {name: None for row in rows for name in row}
    table = kernels([{**unsaid, **row, "gpu": 0} for row in rows]) if rows else None
    gpu = {"gpu": 0, "rank": rank, "device": rank, "host": host, "name": "H100", "offset_ns": 0}
    at = rows[0]["start_ns"] if rows else 0
    op = {"op_id": 0, "rank": rank, "name": "aten::mm", "start_ns": at, "dur_ns": 5, "tid": 1}
    span = {"span_id": 0, "rank": rank, "kind": "annotation", "name": "step", "tid": 1,
            "start_ns": at, "dur_ns": 9}  # fmt: skip
    return LinkedRank(
        conform("gpus", pa.Table.from_pylist([gpu])),
        conform("spans", pa.Table.from_pylist([span])),
        conform("ops", pa.Table.from_pylist([op])),
        conform("kernels", table) if table is not None else empty("kernels"),
        empty("memory"),
        quality=Quality(kernels=len(rows)),
        device_kind="gpu",
    )


def ranks_of(
    made: list[dict[str, Any]],
    ranks: int,
    *,
    offsets=None,
    noise: float = 0.0,
    hosts=None,
    seed: int = 0,
    told: bool = True,
    members=None,
    **row: Any,
) -> list[LinkedRank]:
    """Write the calls as each rank saw them: its clock is ahead by its offset, ends are noisy.

    ``members`` says which ranks take part in each call, all by default; process groups are then
    named after them.
    """
    random = np.random.default_rng(seed + 1)
    offsets = offsets or [0] * ranks
    found = []
    for rank in range(ranks):
        rows = []
        seqs: dict[str, int] = {}
        for number, call in enumerate(made):
            part = range(ranks) if members is None else members[number]
            if rank not in part:
                continue
            group = "0" if members is None else ",".join(map(str, part))
            seqs[group] = seqs.get(group, 0) + 1
            start = int(call["arrival"][rank]) + offsets[rank]
            end = call["end"] + offsets[rank] + int(random.normal(0, noise) if noise else 0)
            rows.append({
                "name": "ncclKernel", "kind": "collective", "collective": call["kind"],
                "start_ns": start, "dur_ns": end - start, "message_bytes": 1 << 20,
                "process_group": group if told else None, "iteration": number // 10,
                "collective_seq": seqs[group] if told else None, "op": call["kind"],
                "launch_ns": start - 10, **row,
            })  # fmt: skip
        found.append(linked_rank(rank, rows, hosts[rank] if hosts else None))
    return found

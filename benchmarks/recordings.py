"""Recordings of any size: one training iteration, repeated in the columns of its events."""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from builders import Rank

from chopper_jupyter.core.importers.kineto import read_rank_plain

if TYPE_CHECKING:
    from chopper_jupyter.core.events import RankEvents

LAYERS = 48
PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "norm")
STEP = "ProfilerStep#"
COUNTERS = ("external_id", "correlation_id", "seq")
TIMES = ("start_ns", "forward_ns", "backward_ns")
TABLES = ("ranges", "launches", "device", "flows")


def iteration() -> RankEvents:
    """Return one iteration of a transformer: about ten events a kernel, two streams."""
    rank, numbers, forwards = Rank(), itertools.count(), []
    with rank.step(0), rank.module("", "Model"):
        for layer in range(LAYERS):
            with rank.module(f"layers.{layer}", "Block"):
                forwards.extend(
                    _forward(rank, f"layers.{layer}.{part}", next(numbers)) for part in PARTS
                )
        for seq, forward in reversed(list(enumerate(forwards))):
            with rank.backward("MmBackward0", seq, tid=200) as event, rank.op("aten::mm"):
                rank.launch("gemm_bf16_256x128_nt", dur=18)
            rank.pair(forward, event)
            if seq % len(PARTS) == 0:
                with rank.op("c10d::_reduce_scatter_base_"):
                    rank.launch("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", dur=90, stream=20)
        with rank.annotation("Optimizer.step#AdamW.step"), rank.op("aten::_foreach_add_"):
            rank.launch("multi_tensor_apply_kernel", dur=40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "iteration.json")
        path.write_text(json.dumps(rank.document()), encoding="utf-8")
        return read_rank_plain(path)


def _forward(rank: Rank, path: str, seq: int) -> dict[str, Any]:
    with rank.module(path, "Linear"), rank.op("aten::linear", seq=seq) as event:
        for name in ("aten::t", "aten::transpose", "aten::as_strided", "aten::view"):
            with rank.op(name):
                pass
        with rank.op("aten::addmm"), rank.op("aten::mm"):
            rank.launch("gemm_bf16_256x128_tn", dur=9)
    return event


def recording(events: int) -> RankEvents:
    """Return about so many events: whole iterations, each with times and ids of its own."""
    one = iteration()
    copies = max(1, round(events / one.events_read))
    shifts = dict.fromkeys(TIMES, _span(one)) | {c: _most(one, c) + 1 for c in COUNTERS}
    tables = {name: _repeated(getattr(one, name), copies, shifts) for name in TABLES}
    return replace(one, **tables, events_read=one.events_read * copies)


def _span(one: RankEvents) -> int:
    ends = [pc.max(pc.add(t["start_ns"], t["dur_ns"])).as_py() for t in (one.ranges, one.device)]
    return max(ends) - pc.min(one.ranges["start_ns"]).as_py() + 1_000_000


def _most(one: RankEvents, column: str) -> int:
    found = (getattr(one, name) for name in TABLES)
    return max(pc.max(t[column]).as_py() or 0 for t in found if column in t.column_names)


def _repeated(table: pa.Table, copies: int, shifts: dict[str, int]) -> pa.Table:
    rows = table.num_rows
    copy = np.repeat(np.arange(copies), rows)
    whole = table.take(pa.array(np.tile(np.arange(rows), copies)))
    for at, field in enumerate(table.schema):
        column = whole[field.name]
        if field.name in shifts:
            column = pc.add(column, pa.array(copy * shifts[field.name]))
        elif field.name == "name":
            column = _own_steps(column.combine_chunks(), copy)
        whole = whole.set_column(at, field, column)
    return whole


def _own_steps(names: pa.DictionaryArray, copy: np.ndarray[Any, Any]) -> pa.DictionaryArray:
    """Number the iterations on, copy by copy."""
    words = names.dictionary.to_pylist()
    steps = [code for code, word in enumerate(words) if word.startswith(STEP)]
    codes = names.indices.to_numpy()
    mine = np.isin(codes, steps)
    numbered = [f"{STEP}{number}" for number in range(int(copy.max()) + 1)] if steps else []
    codes = np.where(mine, len(words) + copy, codes).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), [*words, *numbered])

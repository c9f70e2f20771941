"""How many tokens an iteration trains on: as the recording was told, or from its shapes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import codes

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace

EMBEDDING = "aten::embedding"

DATA_PARALLEL = (
    r"^(?:FSDP::|FullyShardedDataParallel|DistributedDataParallel|torch\.distributed\.ddp)"
)
"""Names of ranges by which ranks say that each of them trains on tokens of its own."""


@dataclass(frozen=True)
class Tokens:
    """Tokens of one iteration over all GPUs, and where the number comes from."""

    count: int
    source: str


def tokens_per_iteration(trace: Trace) -> Tokens | None:
    """Return the tokens of an iteration; None if nothing tells.

    Without a number given, the tokens of a rank are the elements of the index of its largest
    embedding, over all calls of it in one iteration; the median iteration counts. Positions
    and token types are embedded as well: they have fewer rows than the vocabulary. Ranks add up
    only where ranges of DDP or FSDP show that they are data parallel: tensor-parallel ones all
    see the same tokens, and then nothing is told.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> tokens_per_iteration(Trace.from_tables({})) is None
    True
    """
    told = trace.info.tokens_per_iteration
    if told:
        return Tokens(int(told), "as the recording was told")
    code, names = codes(trace.ops["name"])
    embeds = code == (names.index(EMBEDDING) if EMBEDDING in names else len(names))
    calls = trace.ops.filter(pc.and_(pa.array(embeds), pc.is_valid(trace.ops["input_shapes"])))
    if trace.measured_iterations:
        wanted = pa.array(trace.measured_iterations, pa.int32())
        calls = calls.filter(pc.is_in(calls["iteration"], wanted))
    if not calls.num_rows or (len(pc.unique(calls["rank"])) > 1 and not _data_parallel(trace)):
        return None
    return _counted(calls)


def _data_parallel(trace: Trace) -> bool:
    for table in (trace.spans, trace.ops):
        names = pc.unique(table["name"]).cast(pa.string())
        if pc.any(pc.match_substring_regex(names, DATA_PARALLEL)).as_py():
            return True
    return False


def _counted(calls: pa.Table) -> Tokens | None:
    shapes = calls["input_shapes"].cast(pa.string()).to_pylist()
    known = {text: _weight_and_index(text) for text in set(shapes)}
    largest = max((rows for rows, _ in known.values()), default=0)
    if not largest:
        return None
    elements = np.array([known[text][1] if known[text][0] == largest else 0 for text in shapes])
    rank, iteration = (
        pc.fill_null(calls[name], -1).to_numpy().astype(np.int64) for name in ("rank", "iteration")
    )
    cells, place = np.unique(np.stack([rank, iteration]), axis=1, return_inverse=True)
    per_cell = np.zeros(cells.shape[1], np.int64)
    np.add.at(per_cell, place.reshape(-1), elements)
    ranks = np.unique(cells[0])
    count = sum(int(np.median(per_cell[cells[0] == r])) for r in ranks)
    return Tokens(count, "inferred from the input of the embedding") if count else None


def _weight_and_index(text: str) -> tuple[int, int]:
    """Return rows of the table and elements of the index of one call; 0 where not told."""
    try:
        weight, index = json.loads(text)[:2]
        return int(weight[0]), int(np.prod(index, dtype=np.int64)) if index else 0
    except (ValueError, TypeError, IndexError):
        return 0, 0

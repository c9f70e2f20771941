"""Builds the ``ops`` and ``spans`` tables of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.schema import PHASES, conform, empty

if TYPE_CHECKING:
    from chopper_jupyter.core.align.host import Host
    from chopper_jupyter.core.align.levels import Levels
    from chopper_jupyter.core.align.nesting import Ints, Mask


def nullable(values: Ints) -> pa.Array:
    """Turn -1 into null."""
    return pa.array(values, mask=values < 0)


def encode(index: Ints, words: list[Any]) -> pa.DictionaryArray:
    """Make a dictionary column of codes (-1 for null); equal words share one code."""
    distinct = {word: i for i, word in enumerate(dict.fromkeys(words))}
    to = np.array([distinct[word] for word in words], np.int32)
    array = np.where(index >= 0, to[index] if len(to) else 0, 0).astype(np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(array, mask=index < 0), pa.array(list(distinct), pa.string())
    )


def ops_table(host: Host, levels: Levels) -> pa.Table:
    """Return the operator calls; ``op_id`` is the position in nesting order."""
    at = np.flatnonzero(host.is_op)
    if not len(at):
        return empty("ops")
    forest = host.forest
    forward = _nearest_op(host, levels.grad.partner)
    seq = host.ints("seq")
    start = forest.start[at]
    return conform("ops", pa.table({
        "op_id": at,
        "parent_id": nullable(_enclosing(host, host.is_op)[at]),
        "name": encode(host.names[at], host.words),
        "start_ns": start,
        "dur_ns": forest.end[at] - start,
        "tid": forest.tid[at],
        "autograd_seq": nullable(seq[at]),
        "forward_op_id": nullable(forward[at]),
        "iteration": nullable(levels.iteration[at]),
        "phase": encode(levels.phase[at], list(PHASES)),
        "layer": encode(levels.layer[at], levels.layers),
        "op": encode(levels.op[at], levels.ops),
        "input_shapes": host.strings("input_shapes").take(pa.array(at)),
        "input_dtypes": host.strings("input_dtypes").take(pa.array(at)),
    }))  # fmt: skip


def _nearest_op(host: Host, partner: Ints) -> Ints:
    """Return the operator that each autograd node is the gradient of."""
    nearest = host.forest.nearest(host.is_op)
    return np.where(partner >= 0, nearest[partner] if len(nearest) else -1, -1)


def _enclosing(host: Host, mask: Mask) -> Ints:
    """Return the nearest marked range that wholly contains each position, -1 at the top."""
    forest = host.forest
    parent = forest.container.copy()
    open_ = (parent >= 0) & ~mask[parent]
    while open_.any():
        parent[open_] = forest.container[parent[open_]]
        open_ = (parent >= 0) & ~mask[parent]
    return parent


def spans_table(host: Host, levels: Levels) -> pa.Table:
    """Return iterations, module calls and user ranges; ``span_id`` counts from 0."""
    forest = host.forest
    is_module = levels.found.is_module
    mask = is_module | host.is_annotation
    at = np.flatnonzero(mask)
    parent = _enclosing(host, mask)[at]
    first = len(levels.cuts.number)
    if not first + len(at):
        return empty("spans")
    paths = [call.path or call.root for call in levels.found.calls]
    names = [paths[levels.found.call[i]] if is_module[i] else host.words[host.names[i]]
             for i in at.tolist()]  # fmt: skip
    kinds = ["module" if m else "annotation" for m in is_module[at].tolist()]
    numbers, starts, ends, tid = _iteration_rows(host, levels)
    parents = np.where(parent >= 0, np.searchsorted(at, parent) + first, -1)
    return conform("spans", pa.table({
        "span_id": np.arange(first + len(at)),
        "parent_id": nullable(np.concatenate([np.full(first, -1, np.int64), parents])),
        "kind": pa.array(["iteration"] * first + kinds, pa.string()),
        "name": pa.array([f"iteration {n}" for n in numbers.tolist()] + names, pa.string()),
        "iteration": nullable(np.concatenate([numbers, levels.iteration[at]])),
        "tid": np.concatenate([tid, forest.tid[at]]),
        "start_ns": np.concatenate([starts, forest.start[at]]),
        "dur_ns": np.concatenate([ends - starts, forest.end[at] - forest.start[at]]),
    }))  # fmt: skip


def _iteration_rows(host: Host, levels: Levels) -> tuple[Ints, Ints, Ints, Ints]:
    """Return number, start, end and thread of the iterations, clipped to the recording."""
    cuts, forest = levels.cuts, host.forest
    lo = int(forest.start.min(initial=2**62))
    hi = int(forest.end.max(initial=-(2**62)))
    start, end = np.clip(cuts.start, lo, hi), np.clip(cuts.end, lo, hi)
    at = np.clip(np.searchsorted(np.sort(forest.start), start), 0, max(len(forest.tid) - 1, 0))
    order = np.argsort(forest.start, kind="stable")
    tid = forest.tid[order[at]] if len(forest.tid) else start
    return cuts.number, start, np.maximum(end, start), tid

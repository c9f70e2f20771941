"""Builds the ``ops`` and ``spans`` tables of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.align.distinct import distinct
from chopper_jupyter.core.schema import PHASES, conform, empty

if TYPE_CHECKING:
    from chopper_jupyter.core.align.host import Host
    from chopper_jupyter.core.align.levels import Levels
    from chopper_jupyter.core.align.nesting import Ints
    from chopper_jupyter.core.align.syncs import Syncs


def nullable(values: Ints) -> pa.Array:
    """Turn -1 into null."""
    values = np.asarray(values, np.int64)
    missing = values < 0
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def encode(index: Ints, words: list[Any]) -> pa.DictionaryArray:
    """Make a dictionary column of codes (-1 for null); equal words share one code."""
    numbers = {word: i for i, word in enumerate(dict.fromkeys(words))}
    to = np.array([*(numbers[word] for word in words), 0], np.int32)  # the last one is for -1
    return pa.DictionaryArray.from_arrays(
        pa.array(to.take(index), mask=index < 0), pa.array(list(numbers), pa.string())
    )


def used(index: Ints, words: list[Any]) -> pa.DictionaryArray:
    """Make a dictionary column of codes that holds no word which no row has."""
    present, of_row = distinct(index)
    return encode(of_row, [words[code] for (code,) in present])


def ops_table(host: Host, levels: Levels) -> pa.Table:
    """Return the operator calls; ``op_id`` is the position in nesting order."""
    at = np.flatnonzero(host.is_op)
    if not len(at):
        return empty("ops")
    forest = host.forest
    start = forest.start[at]
    return conform("ops", pa.table({
        "op_id": at,
        "parent_id": nullable(forest.enclosing(host.is_op)[at]),
        "name": encode(host.names[at], host.words),
        "start_ns": start,
        "dur_ns": forest.end[at] - start,
        "tid": forest.tid[at],
        "autograd_seq": nullable(host.ints("seq")[at]),
        "forward_op_id": nullable(_forward_op(host, levels.partner[at])),
        "iteration": nullable(levels.iteration[at]),
        "phase": encode(levels.phase[at], list(PHASES)),
        "layer": encode(levels.layer[at], levels.layers),
        "op": encode(levels.op[at], levels.ops),
        "input_shapes": host.strings("input_shapes", at),
        "input_dtypes": host.strings("input_dtypes", at),
    }))  # fmt: skip


def _forward_op(host: Host, partner: Ints) -> Ints:
    """Return the operator that each autograd node is the gradient of."""
    nearest = host.operator
    return np.where(partner >= 0, nearest[partner] if len(nearest) else -1, -1)


def spans_table(host: Host, levels: Levels, waits: Syncs) -> pa.Table:
    """Return iterations, module calls, user ranges and waits; ``span_id`` counts from 0."""
    forest = host.forest
    is_module = levels.found.is_module
    mask = is_module | host.is_annotation
    at = np.flatnonzero(mask)
    parent = forest.enclosing(mask)[at]
    first = len(levels.cuts.number)
    inner, some = first + len(at), len(waits.start)
    if not inner + some:
        return empty("spans")
    paths = [call.path or call.root for call in levels.found.calls]
    ours = is_module[at]
    named = np.where(ours, levels.found.call[at] + len(host.words), host.names[at])
    numbers, starts, ends, tid = _iteration_rows(host, levels)
    of_iterations = np.arange(first) + len(host.words) + len(paths)
    waiting = len(host.words) + len(paths) + first + waits.name
    names = np.concatenate([of_iterations, named, waiting])
    kinds = np.concatenate([np.zeros(first, np.int64), np.where(ours, 1, 2), np.full(some, 3)])
    around = waits.host.copy()
    around[around >= 0] = forest.nearest(mask)[around[around >= 0]]
    parent = np.concatenate([parent, around])
    parents = np.where(parent >= 0, np.searchsorted(at, parent) + first, -1)
    words = [*host.words, *paths, *(f"iteration {n}" for n in numbers.tolist()), *waits.words]
    return conform("spans", pa.table({
        "span_id": np.arange(inner + some),
        "parent_id": nullable(np.concatenate([np.full(first, -1, np.int64), parents])),
        "kind": used(kinds, ["iteration", "module", "annotation", "sync"]),
        "name": used(names, words),
        "iteration": nullable(np.concatenate([numbers, levels.iteration[at], waits.iteration])),
        "tid": np.concatenate([tid, forest.tid[at], waits.tid]),
        "start_ns": np.concatenate([starts, forest.start[at], waits.start]),
        "dur_ns": np.concatenate([ends - starts, forest.end[at] - forest.start[at], waits.dur]),
    }))  # fmt: skip


def _iteration_rows(host: Host, levels: Levels) -> tuple[Ints, Ints, Ints, Ints]:
    """Return number, start, end and thread of the iterations, clipped to the recording."""
    cuts, forest = levels.cuts, host.forest
    lo = int(forest.start.min(initial=2**62))
    hi = int(forest.end.max(initial=-(2**62)))
    start, end = np.clip(cuts.start, lo, hi), np.clip(cuts.end, lo, hi)
    if not len(cuts.number) or not len(forest.tid):
        return cuts.number, start, np.maximum(end, start), start
    order = np.argsort(forest.start, kind="stable")
    at = np.clip(np.searchsorted(forest.start[order], start), 0, len(order) - 1)
    tid = forest.tid[order[at]]
    return cuts.number, start, np.maximum(end, start), tid

"""Builds the ``kernels`` table of one rank: what ran on the device, with all its levels.

Without a GPU the aten operators that compute on the CPU are the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.align import collectives, launches, occupancy
from chopper_jupyter.core.align.cpu_kernels import operators_that_compute
from chopper_jupyter.core.align.distinct import distinct
from chopper_jupyter.core.align.host import Host, codes
from chopper_jupyter.core.align.tables import encode, nullable
from chopper_jupyter.core.names import collective_of, kernel_family
from chopper_jupyter.core.schema import KERNEL_KINDS, LAUNCH_KINDS, PHASES, conform

if TYPE_CHECKING:
    from chopper_jupyter.core.align.levels import Levels
    from chopper_jupyter.core.align.nesting import Ints
    from chopper_jupyter.core.events import RankEvents

DEVICE_KINDS = {
    "kernel": occupancy.COMPUTE,
    "memcpy": occupancy.MEMCPY,
    "memset": occupancy.MEMSET,
}
CPU_KERNELS = "aten::"
CPU_COLLECTIVES = "gloo:"


@dataclass(frozen=True)
class Kernels:
    """The kernels of one rank.

    Parameters
    ----------
    table : pyarrow.Table
        The ``kernels`` table; ``gpu`` is an index into ``devices``.
    devices : list of int
        Device numbers as recorded.
    notes : tuple of str
        What a reader should know about them.
    """

    table: pa.Table
    devices: list[int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Activities:
    """Kernels before they have levels; ``at`` is the host range each came from, or -1."""

    names: pa.ChunkedArray
    gpu: Ints
    stream: Ints
    kind: Ints
    start: Ints
    dur: Ints
    at: Ints
    iteration: Ints
    collective: collectives.Collectives
    extra: dict[str, Any] = field(default_factory=dict)


def on_device(events: RankEvents, host: Host, levels: Levels) -> Kernels:
    """Return the device activities with launches and levels, in order of start."""
    order = [(key, "ascending") for key in ("start_ns", "device", "stream")]
    device = events.device.sort_by(order)
    linked = launches.link(device, events.launches, host, events.source)
    start, dur = (device[c].to_numpy() for c in ("start_ns", "dur_ns"))
    devices, gpu = np.unique(device["device"].to_numpy(), return_inverse=True)
    known = linked.start >= 0
    iteration = np.where(known, levels.cuts.at(linked.start), pick(levels.iteration, linked.host))
    found = collectives.find(device, host, linked.host)
    raw, words = codes(device["kind"])
    kind = np.array([DEVICE_KINDS.get(w, -1) for w in words], np.int64)[raw]
    kind[(kind == occupancy.COMPUTE) & found.found] = occupancy.COLLECTIVE
    extra = {
        "launch_ns": nullable(linked.start),
        "launch_dur_ns": nullable(np.where(linked.kind == launches.GRAPH, -1, linked.dur)),
        "launch_kind": encode(linked.kind, list(LAUNCH_KINDS)),
        **{c: device[c] for c in ("correlation_id", "grid", "block", "bytes")},
    }
    rows = _Activities(
        device["name"],
        gpu.astype(np.int64),
        device["stream"].to_numpy(),
        kind,
        start,
        dur,
        linked.host,
        iteration,
        found,
        extra,
    )
    return Kernels(_table(rows, host, levels), devices.tolist(), _notes(linked, start, dur))


def on_cpu(host: Host, levels: Levels) -> Kernels:
    """Return the aten operators that compute, and the ranges of gloo as collectives."""
    aten = host.is_op & host.named(lambda w: w.startswith(CPU_KERNELS))
    gloo = ~aten & host.named(lambda w: w.startswith(CPU_COLLECTIVES))
    at = np.flatnonzero(operators_that_compute(host.forest, aten, host.names) | gloo)
    at = at[np.argsort(host.forest.start[at], kind="stable")]
    start, end = host.forest.start[at], host.forest.end[at]
    names = pa.DictionaryArray.from_arrays(
        pa.array(host.names[at].astype(np.int32)), pa.array(host.words, pa.string())
    )
    named = _gloo_names(host, levels, np.where(gloo[at], at, -1))
    rows = _Activities(
        pa.chunked_array([names]),
        np.zeros(len(at), np.int64),
        host.forest.tid[at],
        np.where(gloo[at], occupancy.COLLECTIVE, occupancy.COMPUTE),
        start,
        end - start,
        at,
        levels.iteration[at],
        collectives.Collectives(gloo[at], named.dictionary_encode(), {}),
    )
    return Kernels(_table(rows, host, levels), [0])


def _gloo_names(host: Host, levels: Levels, at: Ints) -> pa.Array:
    """Name gloo's collectives by the call they serve, which knows better than their range."""
    by_call = pick(np.where(levels.communication, levels.op, -1), at)
    own = [collective_of(word) for word in host.words]
    return pa.array(
        [
            None if p < 0 else levels.ops[op] if op >= 0 else own[host.names[p]]
            for p, op in zip(at.tolist(), by_call.tolist(), strict=True)
        ],
        pa.string(),
    )


def pick(values: Ints, at: Ints) -> Ints:
    """Look up values by position, -1 where the position is -1."""
    if not len(values):
        return np.full(len(at), -1, np.int64)
    return np.where(at >= 0, values[at], -1)


def _table(rows: _Activities, host: Host, levels: Levels) -> pa.Table:
    at, kind = rows.at, rows.kind
    overlap, busy, idle = occupancy.occupancy(rows.gpu, kind, rows.start, rows.dur)
    op, ops = _operations(levels, at, rows.collective)
    columns = {
        "kernel_id": np.arange(len(at)),
        "gpu": rows.gpu.astype(np.int32),
        "stream": rows.stream,
        "name": rows.names,
        "kind": encode(kind, list(KERNEL_KINDS)),
        "family": _families(rows.names, kind, op, ops),
        "start_ns": rows.start,
        "dur_ns": rows.dur,
        "op_id": nullable(pick(host.operator, at)),
        "iteration": nullable(rows.iteration),
        "phase": encode(pick(levels.phase, at), list(PHASES)),
        "layer": encode(pick(levels.layer, at), levels.layers),
        "op": encode(op, ops),
        "module": encode(pick(levels.module, at), levels.paths),
        "recompute": pick(levels.recompute.astype(np.int64), at) == 1,
        "micro_batch": nullable(pick(levels.micro_batch, at)),
        "collective": rows.collective.name,
        "overlap_ns": overlap,
        "busy_ns": busy,
        "idle_ns": idle,
        **rows.collective.columns,
        **rows.extra,
    }
    return conform("kernels", pa.table(columns))


def _operations(
    levels: Levels, at: Ints, collective: collectives.Collectives
) -> tuple[Ints, list[str]]:
    """Return the op of each kernel as codes and words; a collective names itself."""
    op = pick(levels.op, at)
    if not collective.found.any():
        return op, levels.ops
    numbers = {word: code for code, word in enumerate(levels.ops)}
    name, words = codes(pa.chunked_array([collective.name]))
    told = np.array([word != collectives.UNKNOWN for word in words], bool)
    rows = np.flatnonzero(collective.found & (name >= 0))
    rows = rows[told[name[rows]] | (op[rows] < 0)]
    to = np.full(len(words), -1, np.int64)
    for code in dict.fromkeys(name[rows].tolist()):
        to[code] = numbers.setdefault(words[code], len(numbers))
    op[rows] = to[name[rows]]
    return op, list(numbers)


def _families(names: pa.ChunkedArray, kind: Ints, op: Ints, ops: list[str]) -> pa.Array:
    """Classify each distinct (name, kind, op) once."""
    raw, words = codes(names)
    forms, of_row = distinct(raw, kind, op)
    labels = [
        kernel_family(words[word], KERNEL_KINDS[of_kind], ops[of_op] if of_op >= 0 else None)
        for word, of_kind, of_op in forms
    ]
    return encode(of_row, labels)


def _notes(linked: launches.Launches, start: Ints, dur: Ints) -> tuple[str, ...]:
    early = (linked.start >= 0) & (start < linked.start)
    notes = []
    if early.any():
        worst = int((linked.start - start)[early].max())
        notes.append(
            f"{int(early.sum()):,} kernels start before their launch call, by up to "
            f"{worst / 1000:,.1f} us: the clocks of host and device differ"
        )
    if linked.shared:
        notes.append(f"{linked.shared:,} kernels share their launch call with others (graphs)")
    if (dur == 0).any():
        notes.append(f"{int((dur == 0).sum()):,} kernels have a duration of zero")
    return tuple(notes)

"""From the events of one rank to its part of every table, with all levels filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align import collectives, launches, occupancy
from chopper_jupyter.core.align.host import Host, codes, host_of
from chopper_jupyter.core.align.levels import Levels, assign
from chopper_jupyter.core.align.nesting import Ints
from chopper_jupyter.core.align.tables import encode, nullable, ops_table, spans_table
from chopper_jupyter.core.events import RankEvents
from chopper_jupyter.core.names import collective_of, kernel_family
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.schema import KERNEL_KINDS, LAUNCH_KINDS, PHASES, conform

DEVICE_KINDS = {"kernel": occupancy.COMPUTE, "memcpy": occupancy.MEMCPY,
                "memset": occupancy.MEMSET}  # fmt: skip


@dataclass(frozen=True)
class LinkedRank:
    """One rank's part of the tables; ids and GPUs count from 0 within the rank.

    Times are absolute nanoseconds; the merge moves them to the run's origin.
    """

    gpus: pa.Table
    spans: pa.Table
    ops: pa.Table
    kernels: pa.Table
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
    if events.device.num_rows:
        device_kind = "gpu"
        made = _device_kernels(events, host, levels)
    else:
        device_kind = "cpu"
        made = _cpu_kernels(host, levels)
    kernels, gpus = made.table, _gpus(events, made.devices, device_kind)
    return LinkedRank(
        gpus, spans_table(host, levels), ops_table(host, levels), kernels,
        _quality(events, host, levels, kernels, made), device_kind,
    )  # fmt: skip


@dataclass(frozen=True)
class _Kernels:
    table: pa.Table
    devices: list[int]
    notes: tuple[str, ...] = ()


def _device_kernels(events: RankEvents, host: Host, levels: Levels) -> _Kernels:
    device = events.device.sort_by([("start_ns", "ascending"), ("device", "ascending"),
                                    ("stream", "ascending")])  # fmt: skip
    linked = launches.link(device, events.launches, host, events.source)
    start, dur = (device[c].to_numpy() for c in ("start_ns", "dur_ns"))
    numbers = device["device"].to_numpy()
    devices = np.unique(numbers)
    at = linked.host
    called = np.where(linked.start >= 0, linked.start, np.iinfo(np.int64).min)
    iteration = np.where(linked.start >= 0, levels.cuts.at(called), _pick(levels.iteration, at))
    collective = collectives.find(device, host, at)
    raw, words = codes(device["kind"])
    kind = np.array([DEVICE_KINDS[w] for w in words], np.int64)[raw]
    kind[(kind == occupancy.COMPUTE) & collective.found] = occupancy.COLLECTIVE
    gpu = np.searchsorted(devices, numbers)
    times = {
        "launch_ns": nullable(linked.start),
        "launch_dur_ns": nullable(np.where(linked.kind == launches.GRAPH, -1, linked.dur)),
        "launch_kind": encode(linked.kind, list(LAUNCH_KINDS)),
        "correlation_id": device["correlation_id"],
        **{c: device[c] for c in ("grid", "block", "bytes")},
    }
    table = _table(device["name"], gpu, device["stream"].to_numpy(), kind, start, dur,
                   host, levels, at, iteration, collective, times)  # fmt: skip
    return _Kernels(table, devices.tolist(), _device_notes(linked, start, dur))


def _cpu_kernels(host: Host, levels: Levels) -> _Kernels:
    """Make kernels of the innermost aten operators, and collectives of gloo's ranges."""
    aten = host.is_op & host.named(lambda w: w.startswith("aten::"))
    gloo = ~aten & host.named(lambda w: w.startswith("gloo:"))
    leaf = aten & ~host.forest.any_below(aten)
    at = np.flatnonzero(leaf | gloo)
    at = at[np.lexsort((at, host.forest.start[at]))]
    start = host.forest.start[at]
    kind = np.where(gloo[at], occupancy.COLLECTIVE, occupancy.COMPUTE)
    names = pa.DictionaryArray.from_arrays(
        pa.array(host.names[at].astype(np.int32)), pa.array(host.words, pa.string())
    )
    named = pa.array([collective_of(w) for w in host.words], pa.string())
    index = pa.array(host.names[at], mask=~gloo[at])
    collective = collectives.Collectives(gloo[at], named.take(index), {})
    table = _table(pa.chunked_array([names]), np.zeros(len(at), np.int64), host.forest.tid[at],
                   kind, start, host.forest.end[at] - start, host, levels, at,
                   levels.iteration[at], collective, {})  # fmt: skip
    return _Kernels(table, [0])


def _table(
    names: pa.ChunkedArray,
    gpu: Ints,
    stream: Ints,
    kind: Ints,
    start: Ints,
    dur: Ints,
    host: Host,
    levels: Levels,
    at: Ints,
    iteration: Ints,
    collective: collectives.Collectives,
    extra: dict[str, Any],
) -> pa.Table:
    overlap, busy, idle = occupancy.occupancy(gpu, kind, start, dur)
    op = _pick(levels.op, at)
    columns = {
        "kernel_id": np.arange(len(start)),
        "gpu": gpu.astype(np.int32),
        "stream": stream,
        "name": names,
        "kind": encode(kind, list(KERNEL_KINDS)),
        "family": _families(names, kind, op, levels.ops),
        "start_ns": start,
        "dur_ns": dur,
        "op_id": nullable(_operator(host, at)),
        "iteration": nullable(iteration),
        "phase": encode(_pick(levels.phase, at), list(PHASES)),
        "layer": encode(_pick(levels.layer, at), levels.layers),
        "op": encode(op, levels.ops),
        "module": encode(_pick(levels.module, at), levels.paths),
        "recompute": np.where(at >= 0, levels.recompute[at], False) if len(levels.recompute)
        else np.zeros(len(at), bool),
        "micro_batch": nullable(_pick(levels.micro_batch, at)),
        "collective": collective.name,
        "overlap_ns": overlap,
        "busy_ns": busy,
        "idle_ns": idle,
        **collective.columns,
        **extra,
    }  # fmt: skip
    return conform("kernels", pa.table(columns))


def _operator(host: Host, at: Ints) -> Ints:
    """Return the innermost operator call at or above each position."""
    return _pick(host.forest.nearest(host.is_op), at)


def _pick(values: Ints, at: Ints) -> Ints:
    result = np.full(len(at), -1, np.int64)
    result[at >= 0] = values[at[at >= 0]]
    return result


def _families(names: pa.ChunkedArray, kind: Ints, op: Ints, ops: list[str]) -> pa.Array:
    """Classify each distinct (name, kind, op) once."""
    raw, words = codes(names)
    base = (raw * len(KERNEL_KINDS) + kind) * (len(ops) + 1) + op + 1
    distinct, inverse = np.unique(base, return_inverse=True)
    labels = []
    for code in distinct.tolist():
        rest, op_code = divmod(code, len(ops) + 1)
        word, kind_code = divmod(rest, len(KERNEL_KINDS))
        op_name = ops[op_code - 1] if op_code else None
        labels.append(kernel_family(words[word], KERNEL_KINDS[kind_code], op_name))
    return encode(inverse.astype(np.int64), labels)


def _gpus(events: RankEvents, devices: list[int], device_kind: str) -> pa.Table:
    names = set(events.devices.values())
    single = next(iter(names)) if len(names) == 1 else None
    rows = [
        {
            "gpu": index,
            "host": events.host,
            "rank": events.rank,
            "device": device,
            "name": "cpu" if device_kind == "cpu" else events.devices.get(device, single),
            "offset_ns": 0,
        }
        for index, device in enumerate(devices)
    ]
    return conform("gpus", pa.Table.from_pylist(rows))


def _device_notes(linked: launches.Launches, start: Ints, dur: Ints) -> tuple[str, ...]:
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


def _quality(
    events: RankEvents, host: Host, levels: Levels, kernels: pa.Table, made: _Kernels
) -> Quality:
    dur = kernels["dur_ns"].to_numpy()
    total = int(dur.sum()) or 1

    def share(column: str) -> float:
        return float(dur[~pc.is_null(kernels[column]).to_numpy()].sum()) / total

    columns = {"op": "op_id", "phase": "phase", "layer": "layer", "iteration": "iteration"}
    if events.device.num_rows:
        columns = {"launch": "launch_ns", **columns}
    repairs = dict(events.repairs)
    if host.forest.crossing:
        repairs["host ranges that cross instead of nesting"] = host.forest.crossing
    if levels.grad.ambiguous:
        repairs["gradients whose forward thread is ambiguous left without layer"] = (
            levels.grad.ambiguous
        )
    return Quality(
        events.events_read, dict(events.skipped), repairs, kernels.num_rows,
        {name: share(column) for name, column in columns.items()} if kernels.num_rows else {},
        (*levels.cuts.notes, *made.notes),
    )  # fmt: skip


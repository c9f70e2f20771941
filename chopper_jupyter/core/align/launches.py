"""Ties every device activity to the call that launched it and to the host range around that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import Host, codes
from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints

RUNTIME, DRIVER, GRAPH = 0, 1, 2
"""Codes into ``schema.LAUNCH_KINDS``."""

GRAPH_CALLS = ("GraphLaunch",)


@dataclass(frozen=True)
class Launches:
    """The launch of each device activity, -1 where the recording holds none.

    Parameters
    ----------
    start, dur, kind : int64 arrays
        Launch call: start, length, code into ``schema.LAUNCH_KINDS``.
    host : int64 array
        Position of the innermost host range around the launch call, or of the operator that
        the External id names.
    shared : int
        Activities whose launch call started several (graph launches).
    """

    start: Ints
    dur: Ints
    kind: Ints
    host: Ints
    shared: int


def link(device: pa.Table, launches: pa.Table, host: Host, source: str) -> Launches:
    """Link by correlation id over runtime and driver calls, then by External id.

    Raises
    ------
    TraceFormatError
        If several processes used the same correlation ids: a file fused from several ranks
        whose kernels cannot be told apart.
    """
    call = _by_correlation(device, launches, source)
    known = call >= 0
    start, dur, tid = (_column(launches, name) for name in ("start_ns", "dur_ns", "tid"))
    kind = _kinds(launches)
    around = np.full(len(call), -1, np.int64)
    if launches.num_rows:
        innermost = host.forest.innermost_at(tid, start)
        around[known] = innermost[call[known]]
    _by_external_id(around, device, launches, call, host)
    shared = np.zeros(0, np.int64) if not known.any() else np.bincount(call[known])[call[known]]

    def pick(values: Ints) -> Ints:
        result = np.full(len(call), -1, np.int64)
        result[known] = values[call[known]]
        return result

    return Launches(pick(start), pick(dur), pick(kind), around, int((shared > 1).sum()))


def _by_correlation(device: pa.Table, launches: pa.Table, source: str) -> Ints:
    """Return the row of each activity's launch call."""
    wanted, ids = _ids(device["correlation_id"]), _ids(launches["correlation_id"])
    found = np.full(len(wanted[0]), -1, np.int64)
    rows = np.flatnonzero(ids[1])
    if not len(rows) or not len(found):
        return found
    start, pid = (_column(launches, name)[rows] for name in ("start_ns", "pid"))
    order = np.lexsort((start, pid, ids[0][rows]))
    rows, keys, pid, start = rows[order], ids[0][rows][order], pid[order], start[order]
    lo = np.searchsorted(keys, wanted[0], side="left")
    hi = np.searchsorted(keys, wanted[0], side="right")
    hit = wanted[1] & (hi > lo)
    lo, hi = _within_process(lo, hi, hit, pid, _column(device, "device"), source)
    hit &= hi > lo
    found[hit] = rows[lo[hit]]
    several = np.flatnonzero(hit & (hi - lo > 1))
    begun = _column(device, "start_ns")
    for i in several.tolist():  # rare: the latest call before the activity is its launch
        before = np.searchsorted(start[lo[i] : hi[i]], begun[i], side="right")
        found[i] = rows[lo[i] + max(int(before) - 1, 0)]
    return found


def _within_process(
    lo: Ints, hi: Ints, hit: Ints, pid: Ints, device: Ints, source: str
) -> tuple[Ints, Ints]:
    """Narrow the calls of each id to the process that drives the activity's device.

    A file fused from several ranks uses ids several times. Ids that only one process used
    tell which process drives which device.
    """
    last = np.maximum(hi - 1, 0)
    mixed = hit & (pid[np.minimum(lo, len(pid) - 1)] != pid[last])
    if not mixed.any():
        return lo, hi
    lo, hi = lo.copy(), hi.copy()
    for one in np.unique(device[mixed]).tolist():
        sure = pid[lo[hit & ~mixed & (device == one)]]
        if not len(sure):
            msg = (
                f"{source}: correlation ids are launches of several processes, so the kernels of "
                f"device {one} cannot be tied to the right one. The file looks fused from several "
                "ranks: open the ranks' own files instead"
            )
            raise TraceFormatError(msg)
        home = np.bincount(sure).argmax()
        for i in np.flatnonzero(mixed & (device == one)).tolist():
            block = pid[lo[i] : hi[i]]
            ends = [int(np.searchsorted(block, home, side=side)) for side in ("left", "right")]
            lo[i], hi[i] = lo[i] + ends[0], lo[i] + ends[1]
    return lo, hi


def _by_external_id(
    around: Ints, device: pa.Table, launches: pa.Table, call: Ints, host: Host
) -> None:
    """Fill in what containment left open, by the operator number that both sides carry."""
    open_ = np.flatnonzero(around < 0)
    if not len(open_):
        return
    numbers = host.ints("external_id")
    rows = np.flatnonzero(numbers >= 0)
    if not len(rows):
        return
    order = rows[np.argsort(numbers[rows], kind="stable")]
    keys = numbers[order]
    wanted = np.asarray(pc.fill_null(device["external_id"], -1).to_numpy(), np.int64)[open_]
    if launches.num_rows:
        of_call = np.asarray(pc.fill_null(launches["external_id"], -1).to_numpy(), np.int64)
        launched = call[open_] >= 0
        wanted[launched & (wanted < 0)] = of_call[call[open_][launched & (wanted < 0)]]
    at = np.searchsorted(keys, wanted)
    hit = (wanted >= 0) & (at < len(keys)) & (keys[np.minimum(at, len(keys) - 1)] == wanted)
    around[open_[hit]] = order[at[hit]]


def _kinds(launches: pa.Table) -> Ints:
    names, words = codes(launches["name"])
    kinds, kind_words = codes(launches["kind"])
    driver = np.array([w == "driver" for w in kind_words], bool)
    graph = np.array([any(g in w for g in GRAPH_CALLS) for w in words], bool)
    result = np.full(launches.num_rows, RUNTIME, np.int64)
    if launches.num_rows:
        result[driver[kinds]] = DRIVER
        result[graph[names]] = GRAPH
    return result


def _ids(column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Return ids and which of them are present."""
    values = np.asarray(pc.fill_null(column, 0).to_numpy(), np.int64)
    return values, np.asarray(pc.is_valid(column).to_numpy(), bool)


def _column(table: pa.Table, name: str) -> Ints:
    return np.asarray(pc.fill_null(table[name], -1).to_numpy(), np.int64)

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
    start = _column(launches, "start_ns")[rows]
    order = np.lexsort((start, ids[0][rows]))
    rows, keys = rows[order], ids[0][rows][order]
    _refuse_fused(wanted, keys, _column(launches, "pid")[rows], source)
    lo = np.searchsorted(keys, wanted[0], side="left")
    hi = np.searchsorted(keys, wanted[0], side="right")
    hit = wanted[1] & (hi > lo)
    found[hit] = rows[lo[hit]]
    several = np.flatnonzero(hit & (hi - lo > 1))
    begun = _column(device, "start_ns")
    starts = _column(launches, "start_ns")[rows]
    for i in several.tolist():  # rare: the latest call before the activity is its launch
        before = np.searchsorted(starts[lo[i] : hi[i]], begun[i], side="right")
        found[i] = rows[lo[i] + max(int(before) - 1, 0)]
    return found


def _refuse_fused(wanted: tuple[Ints, Ints], keys: Ints, pid: Ints, source: str) -> None:
    """Refuse a file in which the same id is a launch of several processes and of a kernel."""
    same = (keys[1:] == keys[:-1]) & (pid[1:] != pid[:-1])
    clash = np.unique(keys[1:][same])
    if len(clash) and np.isin(clash, wanted[0][wanted[1]]).any():
        msg = (
            f"{source}: {len(clash)} correlation ids are launches of several processes "
            f"(for instance {int(clash[0])}), so kernels cannot be tied to the right one. The "
            "file looks fused from several ranks: open the ranks' own files instead"
        )
        raise TraceFormatError(msg)


def _by_external_id(
    around: Ints, device: pa.Table, launches: pa.Table, call: Ints, host: Host
) -> None:
    """Fill in what containment left open, by the operator number that both sides carry."""
    open_ = np.flatnonzero(around < 0)
    numbers = host.ints("external_id")
    rows = np.flatnonzero(numbers >= 0)
    if not len(open_) or not len(rows):
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

"""The time of collectives in parts: moving the data at the speed of the link, waiting, latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from chopper_jupyter.core.align.across_ranks import calls_of, extreme
from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.analysis.collectives import PER_RANK, TWICE
from chopper_jupyter.core.analysis.counted import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.hardware import Hardware
    from chopper_jupyter.core.trace import Trace


class CollectiveParts(NamedTuple):
    """Times in ns of each collective, NaN where not known.

    ``actual`` is the sum of the others and of what remains unexplained.
    """

    actual: Floats
    theoretical: Floats
    waiting: Floats
    latency: Floats


def collective_parts(
    trace: Trace, kernel_ids: Ints, hardware: Mapping[int, Hardware | None]
) -> CollectiveParts:
    """Take collectives apart by an alpha-beta model.

    Parameters
    ----------
    trace : Trace
        The trace.
    kernel_ids : int64 array
        The collectives.
    hardware : mapping of int to Hardware or None
        By GPU.

    Notes
    -----
    Theoretical is what a link carries over its bandwidth, once every rank has come. Waiting is
    the time until then; latency the part of what follows that does not depend on the bytes,
    where a kind of collective moved messages of several sizes.
    """
    kernels = trace.all_kernels
    rows = rows_of(kernels["kernel_id"].to_numpy(), kernel_ids)
    start, dur, gpu = (
        kernels[n].to_numpy().astype(np.int64) for n in ("start_ns", "dur_ns", "gpu")
    )
    ranks, last = _calls(trace, start)
    waiting = np.clip(np.where(ranks > 1, last - start, 0), 0, dur).astype(np.float64)
    waiting[ranks <= 1] = np.nan
    kind, words = codes(kernels["collective"])
    carried = _carried(kernels["message_bytes"], kind, words, ranks)
    speed = np.array([_speed(hardware.get(int(g))) for g in range(int(gpu.max(initial=0)) + 1)])
    actual = dur[rows].astype(np.float64)
    theoretical = (1e9 * carried / speed[gpu])[rows] if len(gpu) else actual
    after = actual - np.nan_to_num(waiting[rows])
    latency = _latency(after, carried[rows], kind[rows], theoretical)
    return CollectiveParts(actual, theoretical, waiting[rows], latency)


def _calls(trace: Trace, start: Ints) -> tuple[Ints, Ints]:
    """Return ranks and last arrival of the call of each kernel; 0 ranks for what is in none."""
    ranks, last = np.zeros(len(start), np.int64), start.copy()
    calls = calls_of(trace.all_kernels)
    if calls.count:
        size = np.bincount(calls.call, minlength=calls.count)
        ranks[calls.row] = size[calls.call]
        last[calls.row] = extreme(np.maximum, calls, start[calls.row])[calls.call]
    return ranks, last


def _carried(message: object, kind: Ints, words: list[str], ranks: Ints) -> Floats:
    """Return the bytes that a link carries; NaN where bytes or ranks are not known."""
    size = np.array(pc.cast(message, "float64").to_numpy(), np.float64)
    factor = np.array([*(2.0 if w in TWICE else 1.0 for w in words), np.nan])
    shared = np.array([*(w in TWICE or w in PER_RANK for w in words), False])
    share = np.where(shared[kind], (ranks - 1) / np.maximum(ranks, 1), 1.0)
    return np.where(ranks > 1, size * factor[kind] * share, np.nan)


def _speed(known: Hardware | None) -> float:
    return np.nan if known is None or known.link_gb_s is None else known.link_gb_s * 1e9


def _latency(after: Floats, carried: Floats, kind: Ints, theoretical: Floats) -> Floats:
    """Return the time that does not depend on the bytes, of kinds with several sizes."""
    result = np.full(len(after), np.nan)
    known = np.isfinite(carried) & (after > 0)
    for one in np.unique(kind[known]):
        mine = np.flatnonzero(known & (kind == one))
        sizes, index = np.unique(carried[mine], return_inverse=True)
        if len(sizes) < 2:  # noqa: PLR2004  a line needs two points
            continue
        typical = np.array([np.median(after[mine][index == i]) for i in range(len(sizes))])
        weight = np.sqrt(np.bincount(index)) / typical
        slope, alpha = np.polyfit(sizes, typical, 1, w=weight)
        if slope > 0:
            room = np.maximum(after[mine] - theoretical[mine], 0)
            result[mine] = np.clip(alpha, 0, room)
    return result

"""What each collective call cost: waiting for the last rank, moving the data, and who was last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.across_ranks import calls_of, extreme, plausible
from chopper_jupyter.core.analysis.frames import to_frame
from chopper_jupyter.core.analysis.included import Include, included
from chopper_jupyter.core.analysis.levels import natural
from chopper_jupyter.core.errors import MissingDataError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from chopper_jupyter.core.align.across_ranks import Calls
    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.trace import Trace

KEYS = ("kind", "process_group", "iteration", "phase", "layer", "op")
"""What calls can be grouped by."""

PER_RANK = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
"""Collectives in which a link carries (n - 1) / n of the message."""

TWICE = ("all_reduce",)
"""Collectives in which it carries that twice: reduced, then sent out again."""

QUARTILES = (0.25, 0.5, 0.75)
UNITS = {"_ns": "ns", "_bytes": "B", "_gb_s": "GB/s"}
_COLUMNS = {
    "kind": "collective",
    "process_group": "process_group",
    "collective_seq": "collective_seq",
    "iteration": "iteration",
    "phase": "phase",
    "layer": "layer",
    "op": "op",
}
"""Columns of a call and of the kernels they are taken from."""


def collectives(
    trace: Trace, *, by: str | Iterable[str] | None = None, include: Include = "measured"
) -> pd.DataFrame:
    """Take collective calls apart: waiting for the last rank, and moving the data.

    A call is the same collective on all ranks, matched by process group and sequence number,
    else by order. Ranks arrive when their kernel starts; the data can move when the last one
    has.

    Parameters
    ----------
    trace : Trace
        A trace of at least two ranks.
    by : str or iterable of str, optional
        ``kind``, ``process_group``, ``iteration``, ``phase``, ``layer``, ``op``: one row per
        group with median and quartiles. Nothing gives one row per call.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed. One row per call, in order of arrival: what it is (``kind``,
        ``process_group``, ``collective_seq``, ``iteration``, ``phase``, ``layer``, ``op``, as
        its first GPU says), ``matched_by`` (``sequence number`` or ``order``), ``ranks`` that
        took part, ``message_bytes``;

        - ``first_arrival_ns``, ``last_arrival_ns``, ``end_ns`` (of the last rank);
        - ``skew_ns``: last less first arrival; ``transfer_ns``: end less last arrival;
        - ``bus_gb_s``: bytes that a link carried over ``transfer_ns``, in 10^9 bytes per
          second: the message times (n - 1) / n for all-gather, reduce-scatter and all-to-all,
          twice that for all-reduce, once the message for others;
        - ``straggler_rank``, ``straggler_gpu``: who arrived last; null where the last two
          arrivals differ by no more than clocks are known.

        Or one row per group, longest total time first: ``calls``, ``message_bytes`` and
        ``time_ns`` (first arrival to end, summed over calls), of ``skew_ns``, ``transfer_ns`` and
        ``bus_gb_s`` median and quartiles (``skew_q1_ns`` ...), ``straggler_rank`` that was last
        most often and ``straggler_percent``, its share of calls with a straggler. Bytes are null
        where those of any call are unknown.
        ``attrs`` says ``units``, iterations and GPUs, ``clock_uncertainty_ns``, ``unmatched``
        kernels and ``missing_ranks``, without which skew is a lower bound.

    Raises
    ------
    SchemaError
        If a key does not exist.
    MissingDataError
        If fewer than two ranks were recorded: one rank alone cannot tell waiting from moving.

    Notes
    -----
    Factors of the bus bandwidth are those of nccl-tests (doc/PERFORMANCE.md); n is the number
    of ranks in the recording. Point-to-point communication is no collective.

    Examples
    --------
    >>> collectives(trace, by=["kind", "layer"])  # doctest: +SKIP
    """
    names = _keys(by)
    if trace.gpus.num_rows < 2:  # noqa: PLR2004
        msg = (
            "how long ranks wait for each other needs the recordings of at least two ranks: let "
            "every rank record into the same run folder, and read that. Of one rank, "
            "summarize(trace, by='collective') says how long its collectives took"
        )
        raise MissingDataError(msg)
    kernels = trace.all_kernels
    calls = _plausible(kernels, calls_of(kernels))
    which = included(trace, include)
    kept = which.kept(trace.kernels)
    wanted = np.zeros(calls.count, bool)
    ids = np.asarray(kernels["kernel_id"].to_numpy())[calls.row]
    wanted[calls.call[np.isin(ids, kept["kernel_id"].to_numpy())]] = True
    uncertainty = _uncertainty(trace)
    table = _per_call(trace, kernels, calls, uncertainty).filter(pa.array(wanted))
    table = table.sort_by([(c, "ascending") for c in ("first_arrival_ns", "end_ns")])
    table = _per_group(table, names) if names else table
    units = {c: u for c in table.column_names for suffix, u in UNITS.items() if c.endswith(suffix)}
    units |= {"straggler_percent": "%"} if names else {}
    frame = to_frame(table, which, units)
    frame.attrs |= {
        "clock_uncertainty_ns": uncertainty,
        "unmatched": calls.unmatched,
        "missing_ranks": list(trace.info.missing_ranks),
    }
    return frame


def _keys(by: str | Iterable[str] | None) -> tuple[str, ...]:
    names = [by] if isinstance(by, str) else list(by or ())
    for name in names:
        if name not in KEYS:
            raise unknown_name(what="key of collectives", name=name, known=KEYS)
    return tuple(dict.fromkeys(names))


def _plausible(kernels: pa.Table, calls: Calls) -> Calls:
    start, dur = (np.asarray(kernels[c].to_numpy(), np.int64) for c in ("start_ns", "dur_ns"))
    return plausible(calls, start[calls.row], (start + dur)[calls.row])


def _uncertainty(trace: Trace) -> int | None:
    """Return how surely times of two ranks can be compared; None if nobody knows."""
    known = trace.gpus["offset_uncertainty_ns"]
    return None if known.null_count else int(pc.max(known).as_py())


def _per_call(trace: Trace, kernels: pa.Table, calls: Calls, uncertainty: int | None) -> pa.Table:
    start, dur = (np.asarray(kernels[c].to_numpy(), np.int64)[calls.row] for c in _TIMES)
    first, last, end = (
        extreme(np.minimum, calls, start),
        extreme(np.maximum, calls, start),
        extreme(np.maximum, calls, start + dur),
    )
    member = np.zeros(calls.count, np.int64)
    member[calls.call[::-1]] = calls.row[::-1]  # of the lowest GPU: rows stand in order of GPU
    some = kernels.select(list(dict.fromkeys(_COLUMNS.values()))).take(pa.array(member))
    ranks = np.bincount(calls.call, minlength=calls.count)
    size = np.full(calls.count, -1, np.int64)
    np.maximum.at(size, calls.call, _filled(kernels["message_bytes"])[calls.row])
    gpu, lead = latest(calls, start, _filled(kernels["gpu"])[calls.row])
    unsure = lead <= (uncertainty or 0)
    columns = {name: _plain(some[column]) for name, column in _COLUMNS.items()}
    bandwidth = _bandwidth(columns["kind"], size, ranks, end - last)
    rank_of = dict(zip(trace.gpus["gpu"].to_pylist(), trace.gpus["rank"].to_pylist(), strict=True))
    rank = [None if u else rank_of[g] for g, u in zip(gpu.tolist(), unsure.tolist(), strict=True)]
    matched = np.where(calls.by_order, "order", "sequence number")
    return pa.table(
        columns
        | {
            "matched_by": pa.array(matched.tolist(), pa.string()),
            "ranks": pa.array(ranks),
            "message_bytes": pa.array(size, mask=size < 0),
            "first_arrival_ns": pa.array(first),
            "last_arrival_ns": pa.array(last),
            "end_ns": pa.array(end),
            "skew_ns": pa.array(last - first),
            "transfer_ns": pa.array(end - last),
            "bus_gb_s": _floats(bandwidth),
            "straggler_rank": pa.array(rank, pa.int64()),
            "straggler_gpu": pa.array(gpu, mask=unsure),
        }
    )


_TIMES = ("start_ns", "dur_ns")


def latest(calls: Calls, start: Ints, gpu: Ints) -> tuple[Ints, Ints]:
    """Return the GPU that arrived last at each call, and how long after the one before it."""
    order = np.lexsort((start, calls.call))
    end = np.searchsorted(calls.call[order], np.arange(calls.count), "right") - 1
    last, before = order[end], order[end - 1]
    return gpu[last], start[last] - start[before]


def _bandwidth(kind: pa.Array, size: Ints, ranks: Ints, transfer: Ints) -> Floats:
    """Return bytes per nanosecond that a link carried; NaN where bytes are unknown."""
    words = np.array(kind.to_pylist(), object)
    share = (ranks - 1) / np.maximum(ranks, 1)
    factor = np.where(np.isin(words, PER_RANK), share, 1.0)
    factor = np.where(np.isin(words, TWICE), 2 * share, factor)
    known = (size >= 0) & (transfer > 0)
    return np.where(known, factor * size / np.maximum(transfer, 1), np.nan)


def _per_group(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return calls, sums, quartiles and the usual straggler of each group."""
    labels = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    distinct = sorted(set(labels), key=lambda label: [natural(str(part)) for part in label])
    place = {label: number for number, label in enumerate(distinct)}
    group = np.array([place[label] for label in labels], np.int64)
    count = len(distinct)
    columns = {
        name: pa.array([label[i] for label in distinct], table.schema.field(name).type)
        for i, name in enumerate(names)
    }
    columns["calls"] = pa.array(np.bincount(group, minlength=count))
    size, known = _filled(table["message_bytes"], 0), pc.is_valid(table["message_bytes"])
    unknown = np.bincount(group, ~known.to_numpy().astype(bool), minlength=count) > 0
    time = _filled(table["end_ns"]) - _filled(table["first_arrival_ns"])
    columns["message_bytes"] = pa.array(_sums(size, group, count), mask=unknown)
    columns["time_ns"] = pa.array(_sums(time, group, count))
    for name, unit in (("skew", "ns"), ("transfer", "ns"), ("bus", "gb_s")):
        value = pc.fill_null(table[f"{name}_{unit}"].cast(pa.float64()), np.nan).to_numpy()
        low, middle, high = _quartiles(value, group, count)
        for word, found in (("median", middle), ("q1", low), ("q3", high)):
            columns[f"{name}_{word}_{unit}"] = _floats(found)
    columns |= _usual_straggler(_filled(table["straggler_rank"]), group, count)
    longest = np.argsort(-columns["time_ns"].to_numpy(), kind="stable")
    return pa.table(columns).take(pa.array(longest))


def _sums(value: Ints, group: Ints, count: int) -> Ints:
    total = np.zeros(count, np.int64)
    np.add.at(total, group, value)
    return total


def _quartiles(value: Floats, group: Ints, count: int) -> tuple[Floats, Floats, Floats]:
    """Return the quartiles of each group, by linear interpolation; NaN where nothing is known."""
    known = np.isfinite(value)
    value, group = value[known], group[known]
    order = np.lexsort((value, group))
    value = value[order]
    size = np.bincount(group, minlength=count)
    first = np.cumsum(size) - size
    found = np.full((len(QUARTILES), count), np.nan)
    some = np.flatnonzero(size)
    for row, share in enumerate(QUARTILES):
        at = share * (size[some] - 1)
        below = at.astype(np.int64)
        above = np.minimum(below + 1, size[some] - 1)
        low, high = value[first[some] + below], value[first[some] + above]
        found[row, some] = low + (at - below) * (high - low)
    return found[0], found[1], found[2]


def _usual_straggler(rank: Ints, group: Ints, count: int) -> dict[str, pa.Array]:
    """Return who was last most often in each group (the lowest of several), and how often."""
    known = rank >= 0
    size = int(rank.max(initial=-1)) + 1
    votes = np.bincount(group[known] * size + rank[known], minlength=count * size)
    votes = votes.reshape(count, size)
    told = votes.sum(axis=1)
    usual = votes.argmax(axis=1) if size else np.zeros(count, np.int64)
    most = votes.max(axis=1, initial=0)
    return {
        "straggler_rank": pa.array(usual, mask=told == 0),
        "straggler_percent": pa.array(100.0 * most / np.maximum(told, 1), mask=told == 0),
    }


def _filled(column: pa.ChunkedArray, null: int = -1) -> Ints:
    return np.asarray(pc.fill_null(column, null).to_numpy(), np.int64)


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _plain(column: pa.ChunkedArray) -> pa.Array:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    made = column.cast(kind)
    return made.combine_chunks() if made.num_chunks != 1 else made.chunk(0)

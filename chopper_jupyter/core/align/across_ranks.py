"""Which kernels of several GPUs are one collective call.

By process group and sequence number where the recording tells them, else by order: the n-th
all-reduce of an iteration is the n-th all-reduce of that iteration on every rank, if all have
equally many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import codes

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

POINT_TO_POINT = ("send", "recv", "send_recv")
"""Communication that is no collective: its ends differ from rank to rank."""

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that no rank can leave before all have arrived."""

APART_NS = 50_000
"""Kernels matched by order that lie further apart than this, clocks aligned, are no one call."""


@dataclass(frozen=True)
class Calls:
    """Kernels that take part in collectives of several GPUs.

    Parameters
    ----------
    row : int64 array
        Rows of ``kernels``.
    call : int64 array
        Number of the collective call each takes part in, from 0.
    by_order : bool array
        Per call: matched by order, not by its sequence number.
    together : bool array
        Per call: no rank can leave it before all have arrived.
    unmatched : int
        Kernels of collectives without a partner on another GPU.
    """

    row: Ints
    call: Ints
    by_order: Mask
    together: Mask
    unmatched: int

    @property
    def count(self) -> int:
        """How many calls there are."""
        return len(self.by_order)


def calls_of(kernels: pa.Table) -> Calls:
    """Find the kernels of all GPUs that are one collective call.

    Parameters
    ----------
    kernels : pyarrow.Table
        Kernels of all ranks; of the times only their order on each GPU counts.
    """
    kind, kinds = codes(kernels["kind"])
    name, names = codes(kernels["collective"])
    usable = _named(kind, kinds, ["collective"]) & (name >= 0)
    usable &= ~_named(name, names, POINT_TO_POINT)
    row = np.flatnonzero(usable)
    start = np.asarray(kernels["start_ns"].to_numpy(), np.int64)[row]
    gpu = np.asarray(kernels["gpu"].to_numpy(), np.int64)[row]
    row = row[np.lexsort((start, gpu))]
    gpu = np.asarray(kernels["gpu"].to_numpy(), np.int64)[row]
    group = codes(kernels["process_group"])[0][row]
    seq = _known(kernels["collective_seq"])[row]
    iteration = _known(kernels["iteration"])[row]
    told = (seq >= 0) & (group >= 0)
    key = _number(told, group, np.where(told, seq, iteration), name[row])
    place = _number(key, _occurrence(key, gpu))
    good = _same_counts(key, gpu)
    kept = good & (np.bincount(place[good], minlength=len(place))[place] > 1)
    call, number = np.unique(place[kept], return_inverse=True)
    number = number.reshape(-1)
    by_order, together = np.zeros(len(call), bool), np.zeros(len(call), bool)
    by_order[number] = ~told[kept]
    together[number] = _named(name[row[kept]], names, TOGETHER)
    return Calls(row[kept], number, by_order, together, int(np.count_nonzero(~kept)))


def plausible(calls: Calls, start: Ints, end: Ints) -> Calls:
    """Drop calls matched by order whose kernels never ran at the same time.

    Parameters
    ----------
    calls : Calls
        What was matched.
    start, end : int64 arrays
        Of the kernels of ``calls``, on aligned clocks.
    """
    if not calls.count:
        return calls
    last_start = extreme(np.maximum, calls, start)
    first_end = extreme(np.minimum, calls, end)
    wrong = calls.by_order & calls.together & (last_start > first_end + APART_NS)
    if not wrong.any():
        return calls
    kept = ~wrong[calls.call]
    renumbered = np.cumsum(~wrong) - 1
    return replace(
        calls,
        row=calls.row[kept],
        call=renumbered[calls.call[kept]],
        by_order=calls.by_order[~wrong],
        together=calls.together[~wrong],
        unmatched=calls.unmatched + int(np.count_nonzero(~kept)),
    )


def collectives_table(kernels: pa.Table, calls: Calls) -> pa.Table:
    """Return the columns of ``schema.COLLECTIVES``, one row per call, in order of arrival."""
    start, dur = (np.asarray(kernels[c].to_numpy(), np.int64)[calls.row] for c in TIMES)
    first = extreme(np.minimum, calls, start)
    order = np.argsort(first, kind="stable")
    member = np.zeros(calls.count, np.int64)
    member[calls.call[::-1]] = calls.row[::-1]
    some = kernels.take(pa.array(member[order]))
    largest = np.full(calls.count, -1, np.int64)
    np.maximum.at(largest, calls.call, _known(kernels["message_bytes"])[calls.row])
    return pa.table(
        {
            "process_group": some["process_group"],
            "collective_seq": some["collective_seq"],
            "kind": some["collective"],
            "ranks": np.bincount(calls.call, minlength=calls.count).astype(np.int32)[order],
            "message_bytes": pa.array(largest[order], mask=largest[order] < 0),
            "first_arrival_ns": first[order],
            "last_arrival_ns": extreme(np.maximum, calls, start)[order],
            "end_ns": extreme(np.maximum, calls, start + dur)[order],
        }
    )


TIMES = ("start_ns", "dur_ns")


def extreme(choose: np.ufunc, calls: Calls, value: Ints) -> Ints:
    """Return the least or greatest value of each call's kernels."""
    order = np.argsort(calls.call, kind="stable")
    cuts = np.searchsorted(calls.call[order], np.arange(calls.count))
    return np.asarray(choose.reduceat(value[order], cuts) if calls.count else value[:0])


def _named(code: Ints, words: Sequence[str], wanted: Sequence[str]) -> Mask:
    return np.array([*(word in wanted for word in words), False], bool)[code]


def _known(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(column, -1).to_numpy(), np.int64)


def _number(*columns: npt.NDArray[np.generic]) -> Ints:
    """Give rows that agree in all columns the same number."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (len(values) + 1) + code.reshape(-1), return_inverse=True)
        number = number.reshape(-1).astype(np.int64)
    return number


def _occurrence(key: Ints, gpu: Ints) -> Ints:
    """Count how many rows of the same key and GPU stand before each row."""
    both = _number(key, gpu)
    order = np.argsort(both, kind="stable")
    first = np.searchsorted(both[order], both[order], "left")
    found = np.empty(len(key), np.int64)
    found[order] = np.arange(len(key)) - first
    return found


def _same_counts(key: Ints, gpu: Ints) -> Mask:
    """Mark rows whose GPU holds as many of their key as most GPUs that hold any.

    Where counts differ, nobody knows which kernels one of the GPUs lacks.
    """
    if not len(key):
        return np.zeros(0, bool)
    pairs, of_row, count = np.unique(
        np.stack([key, gpu]), axis=1, return_inverse=True, return_counts=True
    )
    keys, sizes = pairs[0], count
    votes, times = np.unique(np.stack([keys, sizes]), axis=1, return_counts=True)
    order = np.lexsort((votes[1], times, votes[0]))  # of equal votes the larger count
    usual = np.zeros(int(keys.max()) + 1, np.int64)
    usual[votes[0][order]] = votes[1][order]  # the last one, with the most votes, stays
    return np.asarray((sizes == usual[keys])[of_row.reshape(-1)])

"""Ties what was counted in other runs to the kernels of a trace.

Ids, processes and times of a counting run mean nothing in the timed one, and neither run is
exactly like the other: it warms up, tries algorithms, loses kernels. What is left are name, size
and order. Within each stream of each GPU the two sequences are aligned, so that a missing or an
extra kernel costs only itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from chopper_jupyter.core.align.match_devices import gpus_of, streams_of, units_of
from chopper_jupyter.core.align.match_keys import Keys, keys
from chopper_jupyter.core.align.sequence import Pair, align

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from chopper_jupyter.core.counter_events import CounterRun

Ints = npt.NDArray[np.int64]

MATCHED_BY = ("unique", "sequence", "occurrence", "similar name")
"""How a counted kernel was tied to a kernel of the trace.

``unique``: both runs hold one kernel of this name and size on the GPU; ``sequence``: by its
place among the others of its stream; ``occurrence``: where the order of kernels differs between
the runs, the last of a name and size with the last, and so on; ``similar name``: in sequence,
but the names agree only in part, since one is cut short or lacks its template.
"""

_UNIQUE, _SEQUENCE, _OCCURRENCE, _SIMILAR = range(4)

DISORDERED = (
    "kernels of GPU {} ran in another order while counting: their counters were matched by name, "
    "size and occurrence from the end"
)

DISORDER = 0.5
"""If sequences match less than this share of what both hold, the order differs between runs."""


@dataclass(frozen=True)
class Device:
    """One GPU in one pass, and what of it was matched.

    Parameters
    ----------
    number : int
        The pass, as the counting run numbers it.
    gpu : int
        The GPU of the trace.
    timed, counted : int64 arrays
        Rows of ``kernels`` and of the counting run that can be matched, in order.
    """

    number: int
    gpu: int
    timed: Ints
    counted: Ints


@dataclass(frozen=True)
class Matches:
    """Counted kernels and the kernels of the trace that they are.

    Parameters
    ----------
    timed, counted : int64 arrays
        Rows of ``kernels`` and of the counting run, one pair each.
    how : int64 array
        Position in ``MATCHED_BY``.
    devices : tuple of Device
        GPUs and passes that were compared.
    notes : tuple of str
        What a reader should know.
    """

    timed: Ints
    counted: Ints
    how: Ints
    devices: tuple[Device, ...]
    notes: tuple[str, ...]


def match(
    kernels: pa.Table,
    run: CounterRun,
    *,
    gpus: Mapping[int | tuple[int, int], int] | None = None,
) -> Matches:
    """Tie counted kernels to kernels of a trace.

    Parameters
    ----------
    kernels : pyarrow.Table
        A trace's ``kernels``, all of them: what is left out is missing in the sequence.
    run : CounterRun
        What was counted, in one or several passes.
    gpus : mapping, optional
        GPU of each process of the counting run, or of each (process, device). By default
        processes are GPUs in order of their numbers, unless what they ran says otherwise.

    Returns
    -------
    Matches
        No kernel of the trace and none of a pass twice. Communication, copies and fills are
        left out on both sides.

    Raises
    ------
    AlignmentError
        If ``gpus`` names what does not exist.
    """
    same = keys(kernels, run.counted)
    units = units_of(run.counted)
    gpu = np.asarray(kernels["gpu"].to_numpy(), np.int64)
    of_unit, notes = gpus_of(units, gpu, (same.timed, same.counted), gpus)
    order = _order(kernels)
    timed = dict(_groups(gpu[order], order, same.timed))
    counted_order = np.lexsort((run.counted["order"].to_numpy(), units.of_row))
    counted = dict(_groups(units.of_row[counted_order], counted_order, same.counted))
    devices = tuple(
        Device(int(units.number[unit, 0]), int(g), timed[int(g)], counted[unit])
        for unit, g in enumerate(of_unit.tolist())
        if g in timed and unit in counted
    )
    pairs = _pairs(devices, kernels, run.counted, same)
    return _joined(devices, pairs, same, (*notes, *_left_out(same), *_unknown(of_unit, counted)))


def _order(kernels: pa.Table) -> Ints:
    """Order kernels as they were submitted; by their start where launches are not known."""
    start = np.asarray(kernels["start_ns"].to_numpy(), np.int64)
    launch = kernels["launch_ns"]
    if launch.null_count:
        return np.argsort(start, kind="stable")
    return np.lexsort((start, launch.to_numpy()))


def _groups(owner: Ints, rows: Ints, key: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield the rows of each owner that can be matched, in the order given."""
    usable = key[rows] >= 0
    owner, rows = owner[usable], rows[usable]
    order = np.argsort(owner, kind="stable")
    present, first = np.unique(owner[order], return_index=True)
    if len(present):
        yield from zip(present.tolist(), np.split(rows[order], first[1:]), strict=True)


def _pairs(
    devices: tuple[Device, ...], kernels: pa.Table, counted: pa.Table, same: Keys
) -> list[list[tuple[Ints, Ints, bool]]]:
    """Align all streams of all devices; return rows and whether order was of use, per device."""
    start = np.asarray(kernels["start_ns"].to_numpy(), np.int64)
    stream = np.asarray(kernels["stream"].to_numpy(), np.int64)
    queue = np.asarray(pc.fill_null(counted["stream"], -1).to_numpy(), np.int64)
    iteration = np.asarray(pc.fill_null(kernels["iteration"], -1).to_numpy(), np.int64)
    owners, sides, sequences = [], [], []
    for at, device in enumerate(devices):
        both = (same.timed[device.timed], same.counted[device.counted])
        numbers = streams_of((stream[device.timed], queue[device.counted]), both)
        for number in np.unique(numbers[0]).tolist():
            own = device.timed[numbers[0] == number]
            other = device.counted[numbers[1] == number]
            if numbers[0].any():  # of one stream: it runs what it was given in order
                own = own[np.argsort(start[own], kind="stable")]
            repeats = len(np.unique(iteration[own]))
            owners.append(at)
            sides.append((own, other))
            sequences.append(Pair(same.timed[own], same.counted[other], repeats))
    found: list[list[tuple[Ints, Ints, bool]]] = [[] for _ in devices]
    for at, (own, other), pair, aligned in zip(
        owners, sides, sequences, align(sequences), strict=True
    ):
        ordered = len(aligned[0]) >= DISORDER * _in_common(pair)
        i, j = aligned if ordered else _by_occurrence(pair)
        found[at].append((own[i], other[j], ordered))
    return found


def _in_common(pair: Pair) -> int:
    size = int(max(pair.timed.max(initial=-1), pair.counted.max(initial=-1))) + 1
    return int(
        np.minimum(*(np.bincount(v, minlength=size) for v in (pair.timed, pair.counted))).sum()
    )


def _by_occurrence(pair: Pair) -> tuple[Ints, Ints]:
    """Match the last of each key with the last, the one before it with the one before it."""
    sides = []
    for values in (pair.timed, pair.counted):
        backwards = values[::-1]
        order = np.argsort(backwards, kind="stable")
        sorted_ = backwards[order]
        first = np.searchsorted(sorted_, sorted_, "left")
        rank = np.arange(len(values)) - first
        sides.append((len(values) - 1 - order, sorted_, rank))
    (own, key, rank), (other, other_key, other_rank) = sides
    most = int(max(rank.max(initial=0), other_rank.max(initial=0))) + 1
    _, i, j = np.intersect1d(
        key * most + rank, other_key * most + other_rank, assume_unique=True, return_indices=True
    )
    return own[i], other[j]


def _joined(
    devices: tuple[Device, ...],
    pairs: list[list[tuple[Ints, Ints, bool]]],
    same: Keys,
    notes: tuple[str, ...],
) -> Matches:
    timed, counted, how = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    disorder = set()
    for device, parts in zip(devices, pairs, strict=True):
        size = len(same.similar)
        once = np.bincount(same.timed[device.timed], minlength=size) == 1
        once &= np.bincount(same.counted[device.counted], minlength=size) == 1
        for own, other, ordered in parts:
            key = same.timed[own]
            label = np.full(len(own), _SEQUENCE if ordered else _OCCURRENCE)
            label[once[key]] = _UNIQUE
            label[same.similar[key]] = _SIMILAR
            timed.append(own)
            counted.append(other)
            how.append(label)
            if not ordered:
                disorder.add(device.gpu)
    if disorder:
        notes = (*notes, DISORDERED.format(", ".join(map(str, sorted(disorder)))))
    return Matches(
        np.concatenate(timed), np.concatenate(counted), np.concatenate(how), devices, notes
    )


def _left_out(same: Keys) -> list[str]:
    notes = []
    if same.communication:
        notes.append(
            f"counters of {same.communication:,} communication kernels left out: kernels that "
            "wait for other GPUs count nothing of use where they run one by one"
        )
    if same.copies:
        notes.append(f"counters of {same.copies:,} copies and fills left out")
    return notes


def _unknown(of_unit: Ints, counted: Mapping[int, Ints]) -> list[str]:
    lost = [unit for unit in counted if of_unit[unit] < 0]
    if not lost:
        return []
    rows = sum(len(counted[unit]) for unit in lost)
    return [f"{rows:,} counted kernels of processes that are no GPU of this trace left out"]

"""Which device and stream of a counting run is which of a trace, told by what ran there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import AlignmentError

if TYPE_CHECKING:
    from collections.abc import Mapping

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

AS_GOOD = 0.05
"""An order of devices holds unless another fits better by more than this share of kernels."""

SAME_STREAMS = 0.9
"""Streams are told apart if at least this share of what both sides run lies in matching ones."""

IN_ORDER = (
    "processes and devices of the counting runs were taken for GPUs in order of their numbers"
)


@dataclass(frozen=True)
class Units:
    """The devices of a counting run: one per pass, process and device.

    Parameters
    ----------
    of_row : int64 array
        Unit of each counted row.
    number : int64 array of shape (units, 3)
        Pass, process (-1 if unknown) and device of each unit, in this order.
    """

    of_row: Ints
    number: Ints


def units_of(counted: pa.Table) -> Units:
    """Tell the devices of each pass apart."""
    columns = [
        np.asarray(pc.fill_null(counted[name], -1).to_numpy(), np.int64)
        for name in ("pass", "process", "device")
    ]
    number, of_row = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return Units(of_row.reshape(-1), number.reshape(-1, 3))


def gpus_of(
    units: Units,
    gpu: Ints,
    keys: tuple[Ints, Ints],
    given: Mapping[int | tuple[int, int], int] | None,
) -> tuple[Ints, list[str]]:
    """Tell which GPU each unit is; -1 for none.

    Parameters
    ----------
    units : Units
        Devices of the counting run.
    gpu : int64 array
        GPU of each kernel of the trace.
    keys : pair of int64 arrays
        Name and size of the trace's and of the counted kernels, -1 for what does not count.
    given : mapping, optional
        GPU of a process, or of a (process, device).

    Raises
    ------
    AlignmentError
        If ``given`` names no GPU or no process of the counting run.
    """
    count = int(gpu.max(initial=-1)) + 1
    if given is not None:
        return _given(units, given, count), []
    size = int(max(keys[0].max(initial=-1), keys[1].max(initial=-1))) + 1
    ran = _shares(gpu, keys[0], count, size)
    counted = _shares(units.of_row, keys[1], len(units.number), size)
    found = np.full(len(units.number), -1, np.int64)
    in_order = False
    for number in np.unique(units.number[:, 0]):
        rows = np.flatnonzero(units.number[:, 0] == number)
        rows = rows[counted[rows].any(axis=1)]  # a process that only copied tells nothing
        like = np.array([np.minimum(counted[row], ran).sum(axis=1) for row in rows])
        if not like.size:
            continue
        places = _places(units.number[rows, 2], count)
        ordered = len(rows) <= count and bool(
            (like[np.arange(len(rows)), places] >= like.max(axis=1) - AS_GOOD).all()
        )
        found[rows] = places if ordered else _likeliest(like)
        in_order |= ordered and count > 1
    return found, [IN_ORDER] if in_order else []


def _places(device: Ints, count: int) -> Ints:
    """Return the GPUs of units in their order; where some are missing, by number of the device."""
    missing = len(device) < count
    told = len(np.unique(device)) == len(device) and bool((device < count).all())
    return device if missing and told else np.arange(len(device))


def _given(units: Units, given: Mapping[int | tuple[int, int], int], count: int) -> Ints:
    found = np.full(len(units.number), -1, np.int64)
    used = set()
    for row, (_, process, device) in enumerate(units.number.tolist()):
        for key in ((process, device), process):
            if key in given:
                found[row] = given[key]
                used.add(key)
                break
    unknown = [key for key in given if key not in used]
    if unknown:
        known = sorted({int(process) for process in units.number[:, 1]})
        msg = f"the counting run has no process {unknown[0]}; it has {known}"
        raise AlignmentError(msg)
    none = np.flatnonzero((found < -1) | (found >= count))
    if len(none):
        msg = f"no such GPU: {int(found[none[0]])}; the trace has 0 to {count - 1}"
        raise AlignmentError(msg)
    return found


def _shares(owner: Ints, key: Ints, owners: int, size: int) -> Floats:
    """Return how often each owner ran each key, as share of all it ran."""
    known = key >= 0
    cells = owner[known] * size + key[known]
    count = np.bincount(cells, minlength=owners * size).reshape(owners, size)
    return np.asarray(count / np.maximum(count.sum(axis=1, keepdims=True), 1))


def _likeliest(like: Floats) -> Ints:
    """Pair units and GPUs, the likest first; of equal pairs, those in order."""
    found = np.full(len(like), -1, np.int64)
    left = like.copy()
    for _ in range(min(like.shape)):
        row, column = np.unravel_index(int(np.argmax(np.round(left, 3))), left.shape)
        if left[row, column] <= 0:
            break
        found[row] = column
        left[row], left[:, column] = -1, -1
    return found


def streams_of(streams: tuple[Ints, Ints], keys: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Give the streams of one device numbers, the same on both sides for the same stream.

    All are number 0 if they cannot be told apart: queues of a device serve several streams.

    Parameters
    ----------
    streams, keys : pair of int64 arrays
        Stream, and name and size, of the trace's and of the counted kernels.
    """
    (own, mine), (other, theirs) = (np.unique(s, return_inverse=True) for s in streams)
    mine, theirs = mine.reshape(-1), theirs.reshape(-1)
    nothing_to_tell = np.zeros_like(mine), np.zeros_like(theirs)
    if len(own) < 2 or len(other) < 2:  # noqa: PLR2004  one stream is all there is
        return nothing_to_tell
    size = int(max(keys[0].max(initial=-1), keys[1].max(initial=-1))) + 1
    if (len(own) + len(other)) * size + len(own) * len(other) > 1 << 24:
        return nothing_to_tell
    ran = np.bincount(mine * size + keys[0], minlength=len(own) * size).reshape(-1, size)
    counted = np.bincount(theirs * size + keys[1], minlength=len(other) * size).reshape(-1, size)
    scale = len(mine) / len(theirs)  # one side may hold more iterations than the other
    like = np.array([np.minimum(row, counted * scale).sum(axis=1) for row in ran])
    at_all = float(np.minimum(ran.sum(axis=0), counted.sum(axis=0) * scale).sum())
    partner = _likeliest(like)
    paired = np.flatnonzero(partner >= 0)
    if like[paired, partner[paired]].sum() < SAME_STREAMS * at_all:
        return nothing_to_tell
    of_other = np.full(len(other), -1, np.int64)
    of_other[partner[paired]] = paired
    return mine, of_other[theirs]

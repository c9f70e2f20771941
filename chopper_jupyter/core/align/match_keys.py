"""By what kernels of a trace and of a counting run are told to be the same: name and size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.align.kernel_names import same_names
from chopper_jupyter.core.names import collective_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

BLIT = "__amd_rocclr_"
"""How kernels begin that AMD's runtime launches to copy and fill: memcpy and memset in a trace."""

UNSIZED = 0.5
"""Where more of a name's kernels than this lack a size on either side, the name alone counts."""

_UNKNOWN = -1


@dataclass(frozen=True)
class Keys:
    """A number for the name and size of every kernel, the same on both sides.

    Parameters
    ----------
    timed, counted : int64 arrays
        Per row; -1 for what is never counted: communication, copies and fills.
    similar : bool array
        Per number: the names agree only in part.
    communication, copies : int
        Rows of the counting run that were left out.
    """

    timed: Ints
    counted: Ints
    similar: Mask
    communication: int
    copies: int


def keys(kernels: pa.Table, counted: pa.Table) -> Keys:
    """Give the kernels of a trace and of a counting run numbers by name and size.

    Parameters
    ----------
    kernels : pyarrow.Table
        A trace's ``kernels``. Its size is the product of ``grid`` and ``block``.
    counted : pyarrow.Table
        By ``counter_events.COUNTED``.
    """
    timed_name, timed_words = codes(kernels["name"])
    counted_name, counted_words = codes(counted["name"])
    names = same_names(counted_words, timed_words)
    kind, kinds = codes(kernels["kind"])
    compute = kind == (kinds.index("compute") if "compute" in kinds else len(kinds))
    compute &= ~_of_words(timed_name, [word.startswith(BLIT) for word in timed_words])
    talks = _of_words(counted_name, [collective_of(word) is not None for word in counted_words])
    copies = _of_words(counted_name, [word.startswith(BLIT) for word in counted_words])
    blocks, group = _products(kernels["grid"]), _products(kernels["block"])
    items = np.where((blocks >= 0) & (group >= 0), blocks * group, _UNKNOWN)
    counted_size = [_known(counted[column]) for column in ("work_items", "group_items")]
    classes = (_lookup(names.traced, timed_name), _lookup(names.counted, counted_name))
    sizes = [_of_both(items, counted_size[0]), _of_both(group, counted_size[1])]
    of_class, number = _numbered(classes, sizes)
    split = len(timed_name)
    similar = np.zeros(int(number.max(initial=-1)) + 1, bool)
    similar[number] = np.isin(of_class, np.array(sorted(names.similar), np.int64))
    return Keys(
        np.where(compute, number[:split], _UNKNOWN),
        np.where(talks | copies, _UNKNOWN, number[split:]),
        similar,
        int(talks.sum()),
        int(copies.sum()),
    )


def _of_words(code: Ints, marks: Sequence[bool]) -> Mask:
    return np.array([*marks, False], bool)[code]


def _lookup(numbers: Sequence[int], code: Ints) -> Ints:
    return np.array([*numbers, _UNKNOWN], np.int64)[code]


def _known(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(column, _UNKNOWN).to_numpy(), np.int64)


def _products(column: pa.ChunkedArray) -> Ints:
    """Multiply dimensions written as x,y,z; -1 where they are unknown."""
    code, words = codes(column)
    return _lookup([_product(word) for word in words], code)


def _product(text: str) -> int:
    parts = text.split(",")
    known = all(part.strip().isdigit() for part in parts)
    return math.prod(int(part) for part in parts) if known else _UNKNOWN


def _of_both(one: Ints, other: Ints) -> Ints:
    return np.concatenate([one, other])


def _numbered(classes: tuple[Ints, Ints], sizes: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Give numbers to what agrees in class and, unless mostly unknown, in sizes."""
    of_class = _of_both(*classes)
    count = int(of_class.max(initial=-1)) + 1
    unsized = np.zeros(count, bool)
    for size in sizes:
        for own, part in zip(classes, np.split(size, [len(classes[0])]), strict=True):
            absent = np.bincount(own[part < 0], minlength=count)
            unsized |= absent > UNSIZED * np.bincount(own, minlength=count)
    number = of_class
    for size in sizes:
        known = np.where(unsized[of_class], 0, size + 1)
        number = _combined(number, known)
    return of_class, number


def _combined(one: Ints, other: Ints) -> Ints:
    """Give the pairs of two columns numbers from 0, by hashing, which is faster than sorting."""
    first = pa.array(one).dictionary_encode().indices.to_numpy().astype(np.int64)
    second = pa.array(other).dictionary_encode().indices.to_numpy().astype(np.int64)
    both = first * (int(second.max(initial=0)) + 1) + second
    return np.asarray(pa.array(both).dictionary_encode().indices.to_numpy(), np.int64)

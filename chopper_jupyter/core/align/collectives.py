"""Which kernels communicate, and what is known of each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.distinct import distinct
from chopper_jupyter.core.align.host import Host, codes
from chopper_jupyter.core.align.scopes import is_communication
from chopper_jupyter.core.align.tables import encode
from chopper_jupyter.core.names import collective_of

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints, Mask

UNKNOWN = "collective"
"""Communication of unknown kind, as ``names.collective_of`` says it."""

POINT_TO_POINT = "send_recv"
"""What all-to-all is made of: the call around such a kernel knows better than its name."""

COLUMNS = ("process_group", "collective_seq", "message_bytes")

FRAMEWORK_KERNELS = ("at::native", "void at::native", "void (anonymous namespace)::elementwise")
"""Copies and casts that PyTorch launches inside a communication call."""


@dataclass(frozen=True)
class Collectives:
    """Communication among the device kernels.

    Parameters
    ----------
    found : bool array
        Kernels that communicate.
    name : pyarrow.Array
        all_gather, reduce_scatter, ... by kernel; null for the others.
    columns : dict of str to pyarrow.Array
        Process group, sequence number and bytes, from the kernel or its launching call.
    """

    found: Mask
    name: pa.Array
    columns: dict[str, pa.Array]


def find(device: pa.Table, host: Host, at: Ints) -> Collectives:
    """Tell communication by its metadata, its name and its launching call, in this order.

    Parameters
    ----------
    device : pyarrow.Table
        Device activities.
    host : Host
        Host ranges.
    at : int64 array
        Position of the host range that launched each activity, -1 if unknown.
    """
    names, words = codes(device["name"])
    told, told_words = codes(device["collective"].dictionary_encode())
    caller = np.full(len(at), -1, np.int64)
    caller[at >= 0] = host.names[at[at >= 0]]
    around, around_words = _around(host, at)
    forms, inverse = distinct(names, told, caller, around)
    labels: list[str | None] = []
    for word, *codes_ in forms:
        said = [
            known[code] if code >= 0 else None
            for code, known in zip(codes_, (told_words, host.words, around_words), strict=True)
        ]
        labels.append(_name(words[word], *said))
    words = list(dict.fromkeys(label for label in labels if label is not None))
    number = np.array([-1 if w is None else words.index(w) for w in labels], np.int64)[inverse]
    mask = number >= 0
    columns = _columns(device, host, np.where(mask, at, -1))
    return Collectives(mask, encode(number, words), columns)


def _around(host: Host, at: Ints) -> tuple[Ints, list[str]]:
    """Return the nearest sure name of a collective around each launch, as codes and words.

    A range that only says "communication" is passed over unless it recorded which.
    """
    of_word = [collective_of(word) for word in host.words]
    words = sorted({kind for kind in of_word if kind not in (None, UNKNOWN)})
    numbers = {word: code for code, word in enumerate(words)}
    by_word = np.array([numbers.get(kind or "", -1) for kind in of_word], np.int64)
    kind = by_word[host.names] if len(by_word) else np.zeros(0, np.int64)
    recorded, told = codes(host.table["collective"].dictionary_encode())
    sure = [word if word != UNKNOWN else None for word in map(collective_of, told)]
    new = [-1 if w is None else numbers.setdefault(w, len(numbers)) for w in sure]
    by_record = np.array([*new, -1], np.int64)[recorded]
    rows = np.flatnonzero(by_record >= 0)
    place = np.empty(len(kind), np.int64)
    place[host.forest.order] = np.arange(len(kind))
    kind[place[rows]] = by_record[rows]
    result = np.full(len(at), -1, np.int64)
    if len(kind):
        nearest = host.forest.nearest(kind >= 0)
        up = np.where(at >= 0, nearest[at], -1)
        result[up >= 0] = kind[up[up >= 0]]
    return result, list(numbers)


def _name(kernel: str, told: str | None, caller: str | None, around: str | None) -> str | None:
    """Name the communication of one kernel; None if it does not communicate."""
    by_caller = collective_of(caller) if caller and is_communication(caller) else None
    by_name = collective_of(kernel)
    ours = by_caller is not None and not kernel.startswith(FRAMEWORK_KERNELS)
    if told is None and by_name is None and not ours:
        return None
    sure = None if by_name == POINT_TO_POINT else by_name
    candidates = [collective_of(told) or told if told else None, sure, by_caller, around, by_name]
    known = [c for c in candidates if c]
    return next((c for c in known if c != UNKNOWN), UNKNOWN)


def _columns(device: pa.Table, host: Host, at: Ints) -> dict[str, pa.Array]:
    """Take group, sequence number and bytes from the kernel, else from the call above it."""
    own = {column: device[column].combine_chunks() for column in COLUMNS}
    if host.table["collective"].null_count == host.table.num_rows:
        return own
    described = host.forest.nearest(~_is_null(host.strings("collective")))
    source = np.where(at >= 0, described[at], -1)
    rows = host.forest.order[source]
    index = pa.array(rows, mask=source < 0)
    return {
        column: pc.coalesce(values, host.table[column].combine_chunks().take(index))
        for column, values in own.items()
    }


def _is_null(values: pa.Array) -> Mask:
    return np.asarray(pc.is_null(values).to_numpy(zero_copy_only=False), bool)

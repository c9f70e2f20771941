"""Which kernels communicate, and what is known of each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import Host, codes
from chopper_jupyter.core.align.scopes import is_communication
from chopper_jupyter.core.names import collective_of

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints, Mask

UNKNOWN = "collective"
"""Communication of unknown kind, as ``names.collective_of`` says it."""

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
    base = (names * (len(told_words) + 1) + told + 1) * (len(host.words) + 1) + caller + 1
    distinct, inverse = np.unique(base, return_inverse=True)
    labels: list[str | None] = []
    for code in distinct.tolist():
        rest, caller_code = divmod(code, len(host.words) + 1)
        word, told_code = divmod(rest, len(told_words) + 1)
        labels.append(
            _name(
                words[word],
                told_words[told_code - 1] if told_code else None,
                host.words[caller_code - 1] if caller_code else None,
            )
        )
    found = np.array([label is not None for label in labels], bool)
    name = pa.array(labels, pa.string()).take(pa.array(inverse))
    mask = found[inverse] if len(found) else np.zeros(len(at), bool)
    return Collectives(mask, name, _columns(device, host, np.where(mask, at, -1)))


def _name(kernel: str, told: str | None, caller: str | None) -> str | None:
    """Name the communication of one kernel; None if it does not communicate."""
    by_caller = collective_of(caller) if caller and is_communication(caller) else None
    by_name = collective_of(kernel)
    ours = by_caller is not None and not kernel.startswith(FRAMEWORK_KERNELS)
    if told is None and by_name is None and not ours:
        return None
    candidates = [collective_of(told) or told if told else None, by_name, by_caller]
    known = [c for c in candidates if c]
    return next((c for c in known if c != UNKNOWN), UNKNOWN)


def _columns(device: pa.Table, host: Host, at: Ints) -> dict[str, pa.Array]:
    """Take group, sequence number and bytes from the kernel, else from the call above it."""
    own = {column: device[column].combine_chunks() for column in COLUMNS}
    if not host.table.num_rows:
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

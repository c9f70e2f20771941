"""Levels and other key columns of kernels as integer codes, their values in reading order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.grouping import Codes, Key
from chopper_jupyter.core.analysis.numbering import counted, looked_up, pieces
from chopper_jupyter.core.errors import unknown_name
from chopper_jupyter.core.schema import FAMILIES, KERNEL_KINDS, PHASES
from chopper_jupyter.core.trace import FILTER_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEY_COLUMNS = {**FILTER_COLUMNS, "module": "module", "collective": "collective"}
"""What answers can be grouped by: the levels, and further columns; each with its column."""

_FIXED = {"phase": PHASES, "kind": KERNEL_KINDS, "family": FAMILIES}
_BY_PLACE = ("layer", "module")
_BY_TIME = ("op", "kernel")

_LONG_RUN = 8
"""Rows that must on average hold the same number for runs of them to be looked for."""


def key_names(by: str | Iterable[str] | None) -> tuple[str, ...]:
    """Check the names given as ``by=``: one, several or none; a repeated one counts once.

    Raises
    ------
    SchemaError
        If a name does not exist.

    Examples
    --------
    >>> key_names("op"), key_names(["phase", "op", "phase"]), key_names(None)
    (('op',), ('phase', 'op'), ())
    """
    names = [by] if isinstance(by, str) else list(by or ())
    for name in names:
        if name not in KEY_COLUMNS:
            raise unknown_name(what="level", name=name, known=KEY_COLUMNS)
    return tuple(dict.fromkeys(names))


def encode(kernels: pa.Table, name: str) -> Key:
    """Turn a key column into codes; they do not depend on the order of the rows.

    Numbers are in order, phases, kinds and families in the order of the schema, layers and
    modules as the forward pass meets them, ops and kernels by total time, longest first.
    """
    raw, found = _dictionary(kernels[KEY_COLUMNS[name]])
    count = counted(raw, len(found) + 1)
    order = [i for i in _reading_order(kernels, name, found, raw) if count[i]]
    values = tuple(found[i] for i in order)
    if order == list(range(len(found))) and not count[-1]:
        return Key(name, values, raw)
    rank = np.full(len(found) + 1, -1, np.int32)  # the last entry serves null
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Key(name, values, looked_up(rank, raw))


def natural(text: str) -> tuple[Any, ...]:
    """Return a sort key by which ``layers.2`` comes before ``layers.10``.

    Examples
    --------
    >>> sorted(["layers.10", "layers.2", "embed"], key=natural)
    ['embed', 'layers.2', 'layers.10']
    """
    parts = re.split(r"([0-9]+)", text)
    return tuple((int(p), "") if i % 2 else (-1, p) for i, p in enumerate(parts))


def _dictionary(column: pa.ChunkedArray) -> tuple[Codes, list[Any]]:
    """Return codes and the values they stand for; null has the code after the last of them.

    The codes may be the column's own and must not be changed.
    """
    if not pa.types.is_dictionary(column.type):
        runs = None if column.null_count else _runs(column.to_numpy())
        if runs is not None:
            return runs
        column = column.dictionary_encode()
    whole = column.unify_dictionaries()
    one = whole.chunk(0) if whole.num_chunks == 1 else whole.combine_chunks()
    if isinstance(one, pa.ChunkedArray):  # no chunk at all: no rows
        one = pa.array([], one.type)
    found = one.dictionary.to_pylist()
    codes = pc.fill_null(one.indices, len(found)) if one.null_count else one.indices
    return codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False), found


def _runs(values: npt.NDArray[Any]) -> tuple[Codes, list[Any]] | None:
    """Encode numbers that seldom change from row to row, as GPUs and iterations do; or None."""
    start = np.flatnonzero(values[1:] != values[:-1]) + 1
    if _LONG_RUN * len(start) >= len(values):
        return None
    start = np.concatenate([[0], start])
    found, code = np.unique(values[start], return_inverse=True)
    lengths = np.diff(start, append=len(values))
    return np.repeat(code.reshape(-1).astype(np.int32), lengths), found.tolist()


def _reading_order(kernels: pa.Table, name: str, values: Sequence[Any], codes: Codes) -> list[int]:
    """Return the positions of the values in the order in which people read them."""
    places = range(len(values))
    if name in _FIXED:
        known = {value: i for i, value in enumerate(_FIXED[name])}
        return sorted(places, key=lambda i: (known.get(values[i], len(known)), values[i]))
    if name in _BY_TIME:
        time = _time_of(kernels, codes, len(values))
        return sorted(places, key=lambda i: (-time[i], values[i]))
    if name in _BY_PLACE:
        first = _first_seen(kernels, codes, len(values))
        return sorted(places, key=lambda i: (*first[i], natural(values[i])))
    return sorted(places, key=lambda i: values[i])


def _time_of(kernels: pa.Table, codes: Codes, count: int) -> list[int]:
    time, dur = np.zeros(count + 1, np.int64), kernels["dur_ns"].to_numpy()
    for piece in pieces(len(codes)):
        np.add.at(time, codes[piece], dur[piece])
    return [int(t) for t in time[:count]]


def _first_seen(kernels: pa.Table, codes: Codes, count: int) -> list[tuple[int, int]]:
    """Return (tier, time) of the first kernel of each value: forward compute, else any.

    Communication runs ahead of its layer, and what only the backward pass meets comes last.
    """
    (phase, forward), (kind, collective) = (
        _code_of(kernels[name], value)
        for name, value in (("phase", "forward"), ("kind", "collective"))
    )
    start, none = kernels["start_ns"].to_numpy(), np.iinfo(np.int64).max
    first = np.full((count + 1) * 2, none)
    for piece in pieces(len(codes)):
        ahead = (phase[piece] == forward) & (kind[piece] != collective)
        np.minimum.at(first, codes[piece] * np.int64(2) + ~ahead, start[piece])
    times = first.reshape(-1, 2)[:count].tolist()
    return [(0, early) if early != none else (1, other) for early, other in times]


def _code_of(column: pa.ChunkedArray, value: str) -> tuple[Codes, int]:
    """Return the codes of a column and the one of a value, -1 if it has none."""
    codes, found = _dictionary(column)
    return codes, found.index(value) if value in found else -1

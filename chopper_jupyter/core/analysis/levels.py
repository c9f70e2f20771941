"""Levels and other key columns of kernels as integer codes, their values in reading order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.grouping import Ints, Key
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
    present = np.bincount(raw + 1, minlength=len(found) + 1)[1:] > 0
    order = [i for i in _reading_order(kernels, name, found, raw) if present[i]]
    rank = np.full(len(found) + 1, -1, np.int32)  # the last entry serves code -1: null
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Key(name, tuple(found[i] for i in order), rank[raw])


def natural(text: str) -> tuple[Any, ...]:
    """Return a sort key by which ``layers.2`` comes before ``layers.10``.

    Examples
    --------
    >>> sorted(["layers.10", "layers.2", "embed"], key=natural)
    ['embed', 'layers.2', 'layers.10']
    """
    parts = re.split(r"([0-9]+)", text)
    return tuple((int(p), "") if i % 2 else (-1, p) for i, p in enumerate(parts))


def _dictionary(column: pa.ChunkedArray) -> tuple[Ints, list[Any]]:
    """Return codes (-1 is null) and the values they stand for."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk at all: no rows
        whole = pa.array([], whole.type)
    codes = pc.fill_null(whole.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, whole.dictionary.to_pylist()


def _reading_order(
    kernels: pa.Table, name: str, values: Sequence[Any], codes: npt.NDArray[Any]
) -> list[int]:
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


def _time_of(kernels: pa.Table, codes: npt.NDArray[Any], count: int) -> list[int]:
    time = np.zeros(count + 1, np.int64)
    np.add.at(time, codes, kernels["dur_ns"].to_numpy())
    return [int(t) for t in time[:count]]


def _first_seen(kernels: pa.Table, codes: npt.NDArray[Any], count: int) -> list[tuple[int, int]]:
    """Return (tier, time) of the first kernel of each value: forward compute, else any.

    Communication runs ahead of its layer, and what only the backward pass meets comes last.
    """
    start = kernels["start_ns"].to_numpy()
    forward = _is(kernels["phase"], "forward") & ~_is(kernels["kind"], "collective")
    found: list[tuple[int, int]] = [(1, int(t)) for t in _earliest(start, codes, count)]
    none = np.iinfo(np.int64).max
    ahead = _earliest(start[forward], codes[forward], count)
    return [(0, int(t)) if t != none else found[i] for i, t in enumerate(ahead)]


def _earliest(start: Ints, codes: npt.NDArray[Any], count: int) -> Ints:
    first = np.full(count + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, codes, start)
    return first[:count]


def _is(column: pa.ChunkedArray, value: str) -> npt.NDArray[np.bool_]:
    codes, found = _dictionary(column)
    at = found.index(value) if value in found else len(found)
    return np.asarray(codes == at, bool)

"""Builds the event tables of one rank from whole columns: no row of a file is touched alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.events import DEVICE, FLOWS, LAUNCHES, RANGES, RankEvents

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping, Sequence

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NO_DURATION = "events without a usable duration: taken as zero"
NO_TIME = "device activities with time zero"
FAR = 2**62

KEYS = {
    RANGES: ("start_ns", "tid", "dur_ns"),
    LAUNCHES: ("start_ns", "tid", "dur_ns", "correlation_id"),
    DEVICE: ("start_ns", "device", "stream", "dur_ns", "correlation_id"),
}


def table_of(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """Build one event table in an order that depends only on the events.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of ``core.events``.
    columns : mapping of str to array
        Columns of the same length; absent ones are null.
    """
    rows = len(columns["start_ns"])
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(rows, field.type))
            continue
        made = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
        arrays.append(made if made.type == field.type else _cast(made, field.type))
    table = pa.table(arrays, schema=schema)
    return table.take(pa.array(_order(schema, table)))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(values.type):
        return values.cast(pa.string()).dictionary_encode()
    return values.cast(kind)


def _order(schema: pa.Schema, table: pa.Table) -> Ints:
    """Sort by time; what has the same times by thread or stream, then by name."""
    keys = [_ranks_of_names(table["name"])]
    for name in reversed(KEYS[schema]):
        values = np.asarray(pc.fill_null(table[name], -1).to_numpy(), np.int64)
        keys.append(-values if name == "dur_ns" else values)
    return np.lexsort(keys)


def _ranks_of_names(column: pa.ChunkedArray) -> Ints:
    """Return the place of each name in the alphabet."""
    if not len(column):
        return np.zeros(0, np.int64)
    whole = column.combine_chunks()
    words = whole.dictionary.to_numpy(zero_copy_only=False)
    rank = np.empty(len(words), np.int64)
    rank[np.argsort(words)] = np.arange(len(words))
    return np.asarray(rank[whole.indices.to_numpy(zero_copy_only=False)], np.int64)


def names_of(index: Ints, words: Sequence[str]) -> pa.DictionaryArray:
    """Make a column of names from their numbers; -1 is null."""
    codes = pa.array(index.astype(np.int32), mask=index < 0)
    made = pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))
    if len(set(words)) == len(words):
        return made
    return made.cast(pa.string()).dictionary_encode()


def numbered(values: Ints) -> tuple[Ints, Ints]:
    """Return a number for each value, by first appearance, and the distinct values."""
    encoded = pa.array(values).dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(), np.int64), encoded.dictionary.to_numpy()


def dimensions(x: Ints, y: Ints, z: Ints) -> pa.DictionaryArray:
    """Write grid or block dimensions as ``x,y,z``; null where one is not positive.

    Examples
    --------
    >>> one, two = np.array([8, 8]), np.array([1, 0])
    >>> dimensions(one, two, np.array([1, 1])).to_pylist()
    ['8,1,1', None]
    """
    codes, values = np.zeros(len(x), np.int64), []
    for axis in (x, y, z):
        number, distinct = numbered(axis)
        codes = codes * max(len(distinct), 1) + number
        values.append(distinct)
    number, packed = numbered(codes)
    words = []
    for code in packed.tolist():
        rest, third = divmod(code, max(len(values[2]), 1))
        first, second = divmod(rest, max(len(values[1]), 1))
        words.append(f"{values[0][first]},{values[1][second]},{values[2][third]}")
    good = (x > 0) & (y > 0) & (z > 0)
    return names_of(np.where(good, number, -1), words)


def blocks_of(work_items: Ints, group: Ints) -> Ints:
    """Return the blocks along one axis of a grid that is given in work items, as AMD does.

    Examples
    --------
    >>> blocks_of(np.array([1024, 1000]), np.array([64, 64])).tolist()
    [16, 16]
    """
    return np.where(group > 0, -(-work_items // np.maximum(group, 1)), 0)


def nullable(values: Ints, absent: int = 0) -> pa.Array:
    """Turn a value that stands for nothing into null."""
    return pa.array(values, mask=values == absent)


def durations(start: Ints, end: Ints, repairs: Counter[str]) -> Ints:
    """Return lengths; where the end is before the start, zero, which is counted."""
    dur = end - start
    bad = (dur < 0) | (dur > FAR)
    if bad.any():
        repairs[NO_DURATION] += int(bad.sum())
    return np.where(bad, 0, dur)


def dense(columns: Iterable[Ints]) -> list[Ints]:
    """Return a number for each value of several columns, in ascending order of value."""
    parts = list(columns)
    _, number = np.unique(np.concatenate(parts), return_inverse=True)
    return np.split(number.reshape(-1).astype(np.int64), np.cumsum([len(p) for p in parts])[:-1])


def rank_events(
    ranges: Mapping[str, Any], launches: Mapping[str, Any], device: Mapping[str, Any], **facts: Any
) -> RankEvents:
    """Put the columns of one rank together; there are no forward-backward arrows.

    ``tid`` of ranges and launches may be any numbers; equal ones are the same thread.
    """
    of_ranges, of_launches = dense([ranges["tid"], launches["tid"]])
    return RankEvents(
        table_of(RANGES, {**ranges, "tid": of_ranges}),
        table_of(LAUNCHES, {**launches, "tid": of_launches}),
        table_of(DEVICE, device),
        FLOWS.empty_table(),
        **facts,
    )


def below(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Put columns of several sources below each other; a column that one lacks is null there."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: _joined([part.get(name) for part in parts], parts) for name in names}


def _joined(columns: list[Any], parts: Sequence[Mapping[str, Any]]) -> pa.Array:
    made = [None if c is None else c if isinstance(c, pa.Array) else pa.array(c) for c in columns]
    kind = next(c.type for c in made if c is not None)
    lengths = [len(part["start_ns"]) for part in parts]
    chunks = [
        pa.nulls(n, kind) if c is None else c if c.type == kind else _cast(c, kind)
        for c, n in zip(made, lengths, strict=True)
    ]
    if pa.types.is_dictionary(kind):
        return pa.chunked_array(chunks).unify_dictionaries().combine_chunks()
    return pa.concat_arrays(chunks)

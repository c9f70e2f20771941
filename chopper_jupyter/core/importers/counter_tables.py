"""Puts counted kernels and their counters into the tables of a counting run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.counter_events import COUNTED, COUNTED_DURATION, VALUES, CounterRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

REPEATED = "counters that one kernel has twice: averaged"
NO_KERNEL = "rows without a kernel number, name, counter or value: left out"


@dataclass(frozen=True)
class CountedFile:
    """What one file holds, before it is put beside others.

    Parameters
    ----------
    counted : mapping of str to array
        The columns of ``COUNTED`` but for ``counted_id`` and ``pass``.
    kernel, counter, value : arrays
        Row of the kernel, name of the counter and value of each counter.
    agents : mapping of int to mapping
        What the file says about each device.
    """

    counted: Mapping[str, pa.Array]
    kernel: Ints
    counter: pa.Array
    value: Floats
    agents: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)

    @property
    def kernels(self) -> int:
        """Number of counted kernels."""
        return len(self.counted["name"])


def with_durations(
    one: CountedFile, start: Ints, end: Ints, known: npt.NDArray[np.bool_]
) -> CountedFile:
    """Add how long each kernel ran in the pass that counted it, where that is known."""
    rows = np.flatnonzero(known & (end >= start))
    names = pa.array(np.full(len(rows), COUNTED_DURATION, object), pa.string())
    dur = pa.array(end - start, pa.int64(), mask=~known)
    begun = pa.array(start, pa.int64(), mask=~known)
    return replace(
        one,
        counted={**one.counted, "start_ns": begun, "dur_ns": dur},
        kernel=np.concatenate([one.kernel, rows]),
        counter=pa.concat_arrays([one.counter, names]),
        value=np.concatenate([one.value, (end - start)[rows].astype(np.float64)]),
    )


def run_of(tool: str, files: Sequence[tuple[int, str, CountedFile]]) -> CounterRun:
    """Join files, each with the number of its pass and its name.

    A counter that a kernel has twice in one pass is averaged, and that is counted.
    """
    skipped: Counter[str] = Counter()
    repairs: Counter[str] = Counter()
    agents: dict[int, Mapping[str, Any]] = {}
    counted, values, before = [], [], 0
    for number, _, one in files:
        counted.append(_counted(one, number, before))
        values.append(_values(one, before, repairs))
        before += one.kernels
        skipped += one.skipped
        repairs += one.repairs
        agents |= one.agents
    return CounterRun(
        tool,
        _joined(counted, COUNTED),
        _joined(values, VALUES),
        agents,
        dict(skipped),
        dict(repairs),
        tuple(name for _, name, _ in files),
    )


def _joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _counted(one: CountedFile, number: int, before: int) -> pa.Table:
    rows = one.kernels
    columns = []
    for part in COUNTED:
        if part.name == "counted_id":
            columns.append(pa.array(np.arange(before, before + rows)))
        elif part.name == "pass":
            columns.append(pa.array(np.full(rows, number), pa.int32()))
        elif part.name in one.counted:
            columns.append(_cast(one.counted[part.name], part.type))
        else:
            columns.append(pa.nulls(rows, part.type))
    return pa.table(columns, schema=COUNTED)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return column.cast(pa.string()).dictionary_encode().cast(kind)
    return column.cast(kind)


def _values(one: CountedFile, before: int, repairs: Counter[str]) -> pa.Table:
    encoded = one.counter.cast(pa.string()).dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    size = max(1, len(encoded.dictionary))
    cells, place = np.unique(one.kernel * size + code, return_inverse=True)
    place = place.reshape(-1)
    times = np.bincount(place, minlength=len(cells))
    mean = np.bincount(place, one.value, len(cells)) / np.maximum(times, 1)
    if (times > 1).any():
        repairs[REPEATED] += int((times > 1).sum())
    single = np.zeros(len(cells))
    single[place] = one.value  # exact where there is but one
    names = encoded.dictionary.take(pa.array(cells % size))
    return pa.table(
        [
            pa.array(before + cells // size),
            names.dictionary_encode().cast(VALUES.field("counter").type),
            pa.array(np.where(times > 1, mean, single)),
        ],
        schema=VALUES,
    )


def first_rows(number: Ints) -> tuple[Ints, Ints]:
    """Return where each number stands first, in ascending order, and which each row has."""
    _, first, place = np.unique(number, return_index=True, return_inverse=True)
    return first, place.reshape(-1)


def dense(texts: pa.Array) -> Ints:
    """Return devices numbered from 0 in the order of the number in their names.

    Examples
    --------
    >>> dense(pa.array(["Agent 4", "Agent 10", "Agent 4"])).tolist()
    [0, 1, 0]
    """
    encoded = texts.cast(pa.string()).fill_null("0").dictionary_encode()
    digits = pc.replace_substring_regex(encoded.dictionary, r"\D", "").to_pylist()
    order = sorted(range(len(digits)), key=lambda i: int(digits[i] or 0))
    rank = np.zeros(max(1, len(order)), np.int64)
    rank[order] = np.arange(len(order))
    return np.asarray(rank[encoded.indices.to_numpy(zero_copy_only=False)])

"""What the counter files of all tools are read into, before files of one run are put together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from chopper_jupyter.core.importers.event_tables import Ints

UNKNOWN = -1
"""Stands for an unknown process, stream or size; an unknown time is 0."""

AVERAGED = "counters that a kernel has several times: averaged"
NO_NUMBER = "values that are no numbers: left out"
BELOW_ZERO = "counts below zero: left out"
NO_KERNEL = "rows without a kernel's number or name: left out"
TIMED_TWICE = "kernels with several times: their duration left out"


@dataclass(frozen=True)
class Agents:
    """The devices of a host.

    Parameters
    ----------
    devices : mapping of str to int
        Number of the device by the name that counter files give it (``"Agent 2"``, ``"1"``).
    facts : mapping of int to mapping
        What is known of each device; see ``CounterRun``.
    """

    devices: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


@dataclass
class Part:
    """What one file holds.

    Parameters
    ----------
    tool : str
        As in ``CounterRun``.
    source : pathlib.Path
        The file.
    kernels : dict of str to array
        One row per kernel: ``process``, ``stream``, ``order``, ``work_items``, ``group_items``,
        ``start``, ``end`` (int64), ``agent``, ``name`` (dictionaries of text).
    row, value : numpy arrays
        Kernel of each counted value, and the value.
    counter : pyarrow.DictionaryArray
        Counter of each value.
    agents : Agents
        Devices, if the file tells.
    form : {"csv", "json", "rocpd", "raw", "details", "pass", "merged"}
        How the tool wrote it.
    """

    tool: str
    source: Path
    kernels: dict[str, Any]
    row: Ints
    counter: pa.DictionaryArray
    value: np.ndarray[tuple[int], np.dtype[np.float64]]
    agents: Agents = field(default_factory=Agents)
    form: str = "csv"
    repairs: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of kernels."""
        return len(self.kernels["order"])

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters, in order of the alphabet."""
        return tuple(sorted(pc.unique(self.counter).drop_null().to_pylist()))

    @property
    def processes(self) -> tuple[int, ...]:
        """Numbers of the processes."""
        return tuple(np.unique(self.kernels["process"]).tolist())


def codes_of(column: pa.Array) -> tuple[Ints, list[str]]:
    """Return the number of each text, and the texts; null is a text of its own, the empty one."""
    coded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    words = [word or "" for word in coded.dictionary.to_pylist()]
    indices = pc.fill_null(coded.indices, len(words))
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64), [*words, ""]


def same_rows(columns: list[Ints]) -> tuple[Ints, Ints]:
    """Give rows that agree in all columns one number; return it and the first row of each.

    Examples
    --------
    >>> number, first = same_rows([np.array([7, 7, 3]), np.array([1, 1, 1])])
    >>> number.tolist(), first.tolist()
    ([0, 0, 1], [0, 2])
    """
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        other = pa.array(column).dictionary_encode()
        both = number * max(len(other.dictionary), 1) + other.indices.to_numpy()
        number = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    return number, first


@dataclass
class LongRows:
    """Rows of one kernel and one counter each.

    Parameters
    ----------
    kernels : dict of str to array
        As in ``Part``, per row; rows that agree in all but the times are one kernel.
    counter : pyarrow array of text
        Its counter.
    value : pyarrow.Array of float64
        The value; null for what is no number.
    """

    kernels: dict[str, Any]
    counter: pa.Array
    value: pa.Array


def part_of_rows(rows: LongRows, tool: str, source: Path, *, summed: bool = False) -> Part:
    """Make a part of rows of one counter each.

    Parameters
    ----------
    rows : LongRows
        The rows, in any order.
    tool, source : str, pathlib.Path
        As in ``Part``.
    summed : bool, optional
        Several values of a counter are those of its instances, to be added up; by default they
        are repeated counts, to be averaged.

    Returns
    -------
    Part
        Rows without a number or a name of their kernel are left out and counted.

    Raises
    ------
    TraceFormatError
        If no row is left.
    """
    rows, lost = _of_kernels(rows)
    if not len(rows.kernels["order"]):
        msg = f"{source.name} holds no counted kernels" + (
            f": {lost:,} rows lack one" if lost else ""
        )
        raise TraceFormatError(msg)
    kernels = rows.kernels
    texts = {name: codes_of(kernels[name])[0] for name in ("agent", "name")}
    numbers = ("process", "stream", "order", "work_items", "group_items")
    number, first = same_rows([*texts.values(), *(kernels[name] for name in numbers)])
    part = Part(tool, source, kernels_at(kernels, first), number, rows.counter, np.zeros(0))
    again = np.zeros(len(first), bool)
    for name in ("start", "end"):
        again[number[kernels[name] != kernels[name][first][number]]] = True
    if again.any():
        part.repairs[TIMED_TWICE] += int(again.sum())
        for name in ("start", "end"):
            part.kernels[name] = np.where(again, 0, part.kernels[name])
    _add_values(part, rows, number, summed=summed)
    if lost:
        part.skipped[NO_KERNEL] += lost
    return part


def _of_kernels(rows: LongRows) -> tuple[LongRows, int]:
    code, words = codes_of(rows.kernels["name"])
    good = np.array([bool(word) for word in words])[code] & (rows.kernels["order"] >= 0)
    if good.all():
        return rows, 0
    kept = np.flatnonzero(good)
    at = pa.array(kept)
    left = LongRows(kernels_at(rows.kernels, kept), rows.counter.take(at), rows.value.take(at))
    return left, len(good) - len(kept)


def kernels_at(kernels: dict[str, Any], rows: Ints) -> dict[str, Any]:
    """Return some rows of a table of kernels."""
    return {
        name: values.take(pa.array(rows)) if isinstance(values, pa.Array) else values[rows]
        for name, values in kernels.items()
    }


def _add_values(part: Part, rows: LongRows, number: Ints, *, summed: bool) -> None:
    code, words = codes_of(rows.counter)
    value = np.asarray(rows.value.to_numpy(zero_copy_only=False), np.float64)  # NaN for null
    value = np.where(np.array([bool(word) for word in words])[code], value, np.nan)
    known = usable(part, value, int((~np.isfinite(value)).sum()))
    value, code, number = value[known], code[known], number[known]
    place, first = same_rows([number, code])
    total = np.bincount(place, value, len(first))
    count = np.bincount(place, minlength=len(first))
    if not summed and len(first) < len(place):
        part.repairs[AVERAGED] += int((count > 1).sum())
    part.row = number[first]
    chosen = pa.array(code[first].astype(np.int32))
    part.counter = pa.DictionaryArray.from_arrays(chosen, pa.array(words, pa.string()))
    part.value = np.asarray(total if summed else total / count, np.float64)


def usable(part: Part, value: np.ndarray[Any, Any], no_numbers: int) -> np.ndarray[Any, Any]:
    """Mark the counts that can be used; tell the part of the others.

    Parameters
    ----------
    part : Part
        Is told of what is left out.
    value : float64 array
        NaN for what is no number.
    no_numbers : int
        How many there are of these that should be numbers.

    Raises
    ------
    TraceFormatError
        If no count is a number.
    """
    known = np.isfinite(value)
    if not known.any():
        msg = f"{part.source.name} holds no count that is a number"
        raise TraceFormatError(msg)
    below = known & (np.nan_to_num(value) < 0)
    part.skipped.update(+Counter({NO_NUMBER: no_numbers, BELOW_ZERO: int(below.sum())}))
    return np.asarray(known & ~below)

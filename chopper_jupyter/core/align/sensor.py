"""How often a sensor takes a new reading, which is rarer than how often it is asked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEYS = ("source", "host", "gpu", "device", "core", "metric")
TIMES = ("time_ns", "wall_ns")


def refresh_intervals(table: pa.Table) -> pa.Table:
    """Measure how often each sensor takes a new reading, by the changes of its value.

    Parameters
    ----------
    table : pyarrow.Table
        Telemetry: ``time_ns`` or ``wall_ns``, ``metric``, ``value``, and those of ``source``,
        ``host``, ``gpu``, ``device``, ``core`` that there are.

    Returns
    -------
    pyarrow.Table
        One row per sensor: its keys, ``samples``, ``changes`` (samples that differ from the one
        before), and ``refresh_interval_ns``, the median time between two changes in a row. It
        is null for a sensor whose value changed less than twice. Two equal readings in a row
        look like one, and no change is seen sooner than the next sample: the sensor may
        refresh more often than this says, never less.

    Examples
    --------
    >>> samples = pa.table({"time_ns": [0, 1, 2, 3, 4, 5], "metric": ["power_w"] * 6,
    ...                     "value": [70.0, 70.0, 80.0, 80.0, 75.0, 75.0]})
    >>> refresh_intervals(samples).to_pylist()
    [{'metric': 'power_w', 'samples': 6, 'changes': 2, 'refresh_interval_ns': 2}]
    """
    names = [name for name in KEYS if name in table.column_names]
    time = next(name for name in TIMES if name in table.column_names)
    plain = pa.table({name: _plain(table[name]) for name in names})
    order = pc.sort_indices(
        plain.append_column("at", table[time]), [(n, "ascending") for n in (*names, "at")]
    )
    plain = plain.take(order).combine_chunks()
    at = table[time].take(order).to_numpy()
    value = table["value"].take(order).to_numpy()
    new = _first_rows(plain)
    sensor = np.cumsum(new) - 1
    change = ~new & (value != np.roll(value, 1))
    rows = np.flatnonzero(change)
    between = sensor[rows] == np.roll(sensor[rows], 1)
    between[:1] = False
    gap = np.diff(at[rows], prepend=0)[between]
    count = int(new.sum())
    median, known = _medians(sensor[rows][between], gap, count)
    return (
        plain.filter(pa.array(new))
        .append_column("samples", pa.array(np.bincount(sensor, minlength=count)))
        .append_column("changes", pa.array(np.bincount(sensor[rows], minlength=count)))
        .append_column("refresh_interval_ns", pa.array(median, mask=~known))
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _first_rows(keys: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Mark the rows whose keys differ from those of the row before."""
    new = np.zeros(keys.num_rows, bool)
    new[:1] = True
    for column in keys.columns:
        codes = column.combine_chunks().dictionary_encode(null_encoding="encode").indices
        new[1:] |= np.diff(codes.to_numpy(zero_copy_only=False)) != 0
    return new


def _medians(
    group: np.ndarray[tuple[int], np.dtype[np.int64]],
    value: np.ndarray[tuple[int], np.dtype[np.int64]],
    count: int,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the median of each of ``count`` groups (the lower of two), and which have one."""
    order = np.lexsort((value, group))
    size = np.bincount(group, minlength=count)
    first = np.cumsum(size) - size
    middle = first + np.maximum(size - 1, 0) // 2
    median = np.zeros(count, np.int64)
    known = size > 0
    median[known] = value[order][middle[known]]
    return median, known

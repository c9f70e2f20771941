"""How much of compute and communication ran at once, by the union of the runs of each op."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import Key, group
from chopper_jupyter.core.analysis.included import Include, included
from chopper_jupyter.core.analysis.levels import KEY_COLUMNS, encode, key_names
from chopper_jupyter.core.analysis.timeline import runs, timeline
from chopper_jupyter.core.intervals import covered, union

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from chopper_jupyter.core.analysis.grouping import Ints
    from chopper_jupyter.core.analysis.timeline import Mask, Timeline
    from chopper_jupyter.core.trace import Trace

INSTANCE = ("iteration", "micro_batch", "phase", "recompute", "layer", "op")
"""Columns of ``kernels`` that tell one run of an op on a GPU from all others."""

_RATIOS = {
    "compute_overlap_ratio": ("overlapped_compute_ns", "compute_ns"),
    "communication_overlap_ratio": ("overlapped_communication_ns", "communication_ns"),
    "elapsed_overlap_ratio": ("communication_in_elapsed_ns", "elapsed_ns"),
}
_MEASURES = (
    "compute_ns",
    "overlapped_compute_ns",
    "communication_ns",
    "overlapped_communication_ns",
    "exposed_communication_ns",
    "elapsed_ns",
    "communication_in_elapsed_ns",
)
_LARGEST = 2**62


def overlap(
    trace: Trace, by: str | Iterable[str] | None = None, *, include: Include = "measured"
) -> pd.DataFrame:
    """Measure how much of compute and communication ran at once.

    Times are those of *instances*, summed: an instance is one run of an op (one GPU, iteration,
    phase, layer and op; gradient accumulation and recomputation apart). Kernels of an instance
    that run beside each other count once, as do collectives that do.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : str or iterable of str, optional
        Levels to keep apart, as in ``summarize``; nothing gives one row. Levels below the op
        (``kernel``, ``stream``, ...) divide instances. ``collective`` gives one row per kind of
        collective, and one (null) for all compute.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed int64 sums over the iterations and GPUs of each row; one row per group that
        owns compute or communication, in reading order:

        - ``compute_ns``: time in which compute kernels of the instance ran;
          ``overlapped_compute_ns``: of it, while any collective of the GPU ran;
          ``compute_overlap_ratio``: the one over the other;
        - ``communication_ns``: time in which collectives of the instance ran;
          ``overlapped_communication_ns``: of it, while any compute kernel of the GPU ran;
          ``exposed_communication_ns``: the rest; ``communication_overlap_ratio``;
        - ``elapsed_ns``: from the first start to the last end of the instance's compute kernels;
          ``communication_in_elapsed_ns``: of it, while any collective of the GPU ran;
          ``elapsed_overlap_ratio``: the paper's overlap ratio.

        Ratios are from 0 to 1, of the sums, and null where there is nothing to divide by.
        ``attrs`` holds ``units``, ``included``, ``iterations``, ``gpus``.

    Raises
    ------
    SchemaError
        If a level does not exist.
    MissingDataError
        If no GPU was recorded.

    Notes
    -----
    Instances that run beside each other, on several streams, each count: for shares of the wall
    clock see ``breakdown``. Where layers are not known, all calls of an op in one phase are one
    instance, and its elapsed time says little.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> overlap(Trace.from_tables({}))["communication_ns"].tolist()
    [0]
    """
    names = key_names(by)
    which = included(trace, include)
    line = timeline(trace, which, "overlap")
    compute, collective = (line.named("kind", kind) for kind in ("compute", "collective"))
    rows = np.flatnonzero((compute | collective)[line.covered])
    rows = rows[np.argsort(line.covered[rows], kind="stable")]  # by GPU and start
    places = line.covered[rows]
    number = _instances(line, places, {"kind", *INSTANCE, *(KEY_COLUMNS[name] for name in names)})
    order = np.argsort(number, kind="stable")
    rows, places, number = rows[order], places[order], number[order]
    first = np.flatnonzero(np.diff(number, prepend=-1))
    measures = _measure(line, places, first, compute, collective)
    keys = [encode(which.kernels, name) for name in names]
    keys = [Key(key.name, key.values, key.codes[rows[first]]) for key in keys]
    groups = group(keys, len(first))
    sums = groups.sum(measures)
    columns = key_columns(keys, groups) | {name: pa.array(total) for name, total in sums.items()}
    columns |= {name: _ratio(sums[a], sums[b]) for name, (a, b) in _RATIOS.items()}
    units = dict.fromkeys(_MEASURES, "ns") | dict.fromkeys(_RATIOS, "")
    return to_frame(pa.table(columns), which, units)


def _instances(line: Timeline, places: Ints, columns: set[str]) -> Ints:
    """Return a number for each kernel; equal for those that agree in GPU and every column.

    Numbers are in order of the GPU.
    """
    number = line.gpu[places]
    size = int(number.max(initial=0)) + 1
    for name in sorted(columns - {"gpu"}):
        code = _codes(line, name)
        base = int(code.max(initial=0)) + 1
        if base == 1:
            continue
        if size * base > _LARGEST:
            _, number = np.unique(number, return_inverse=True)
            size = len(places)
        number = number * base + code[places]
        size *= base
    return number


def _codes(line: Timeline, column: str) -> Ints:
    """Return small numbers for the values of a column, 0 for null."""
    if pa.types.is_dictionary(line.kernels.schema.field(column).type):
        return line.codes(column)[0] + 1
    if line.kernels[column].null_count == len(line.start):
        return np.zeros(len(line.start), np.int64)
    values, known = line.ints(column), line.known(column)
    low = int(values.min(initial=0))
    if int(values.max(initial=0)) - low > len(values):  # streams may be addresses
        _, values = np.unique(values, return_inverse=True)
        low = 0
    return np.where(known, values - low + 1, 0)


def _measure(
    line: Timeline, places: Ints, first: Ints, compute: Mask, collective: Mask
) -> dict[str, Ints]:
    """Return the measures of each instance; ``first`` is where each begins in ``places``."""
    if not len(places):
        return dict.fromkeys(_MEASURES, first)
    start, end, is_compute = line.start[places], line.end[places], compute[places]
    begin = np.maximum(start, _latest_before(start, end, first))  # of what adds to the union
    end_of_new = np.maximum(end, begin)
    under = np.zeros(len(places), np.int64)
    for mine, others in ((is_compute, collective), (~is_compute, compute)):
        under[mine] = _under(line, places[mine], begin[mine], end_of_new[mine], others)
    busy, both = (np.add.reduceat(t, first) for t in (end_of_new - begin, under))
    from_, to = start[first], np.maximum.reduceat(end, first)
    meanwhile = _under(line, places[first], from_, to, collective)
    computes = is_compute[first]
    return {
        "compute_ns": np.where(computes, busy, 0),
        "overlapped_compute_ns": np.where(computes, both, 0),
        "communication_ns": np.where(computes, 0, busy),
        "overlapped_communication_ns": np.where(computes, 0, both),
        "exposed_communication_ns": np.where(computes, 0, busy - both),
        "elapsed_ns": np.where(computes, to - from_, 0),
        "communication_in_elapsed_ns": np.where(computes, meanwhile, 0),
    }


def _latest_before(start: Ints, end: Ints, first: Ints) -> Ints:
    """Return the latest end so far in the instance, before each kernel; its start for the first.

    One running maximum serves all instances: each is lifted above those before it.
    """
    instance = np.repeat(np.arange(len(first)), np.diff(first, append=len(start)))
    low = end.min()
    height = int(end.max()) - int(low) + 1
    values = None
    if height * len(first) > _LARGEST:  # too high for the times themselves: take their ranks
        values, ranks = np.unique(end, return_inverse=True)
        low, height, end = np.int64(0), len(values), ranks.reshape(-1)
    floor = instance * height
    latest = np.maximum.accumulate(floor + (end - low)) - floor + low
    latest = latest if values is None else values[latest]
    before = np.concatenate([start[:1], latest[:-1]])
    before[first] = start[first]
    return before


def _under(line: Timeline, places: Ints, start: Ints, end: Ints, others: Mask) -> Ints:
    """Return how much of each interval lies under the union of others on the same GPU."""
    found = np.zeros(len(start), np.int64)
    there = dict(line.gpus())
    for gpu, rows in runs(line.gpu[places]):
        at = there[gpu].start + np.flatnonzero(others[there[gpu]])
        merged = union(line.start[at], line.end[at])
        found[rows] = covered(start[rows], end[rows], *merged)
    return found


def _ratio(part: Ints, whole: Ints) -> pa.Array:
    return pa.array(part / np.maximum(whole, 1), mask=whole == 0)

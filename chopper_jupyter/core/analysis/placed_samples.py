"""Which group each sample of a sensor belongs to: by time alone, or by the kernel that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core.analysis.grouping import Ints, Key
from chopper_jupyter.core.analysis.levels import encode
from chopper_jupyter.core.analysis.samples import NOTHING, Samples, running
from chopper_jupyter.core.analysis.windows import iteration_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.analysis.timeline import Timeline
    from chopper_jupyter.core.trace import Trace

BY_TIME = {"gpu", "iteration"}
"""Levels that a time alone decides; at others a sample is of the kernel that ran then."""


class Placed(NamedTuple):
    """Samples that belong to something covered: their rows and, per key, their codes."""

    rows: Ints
    keys: list[Key]


def place(
    trace: Trace, one: Samples, names: Sequence[str], which: Included, line: Timeline
) -> Placed:
    """Return the samples that an answer covers, and their groups.

    Parameters
    ----------
    trace, which, line
        The trace, what of it is covered, and its ``Timeline``.
    one : Samples
        Samples of one metric.
    names : sequence of str
        The levels. With nothing but GPU and iteration, samples in idle time belong to them, too.
    """
    keys = [encode(which.kernels, name) for name in names]
    if set(names) <= BY_TIME:
        return _by_window(trace, one, keys, which)
    return _by_kernel(one, keys, line)


def _by_kernel(one: Samples, keys: list[Key], line: Timeline) -> Placed:
    row_of_place = np.full(len(line.gpu) + 1, NOTHING)  # the last entry serves place -1
    row_of_place[line.covered] = np.arange(len(line.covered))
    row = row_of_place[running(line, one.gpu, one.time)]
    rows = np.flatnonzero(row != NOTHING)
    return Placed(rows, [Key(key.name, key.values, key.codes[row[rows]]) for key in keys])


def _by_window(trace: Trace, one: Samples, keys: list[Key], which: Included) -> Placed:
    inside = np.zeros(len(one), bool)
    codes = {name: np.full(len(one), -1, np.int32) for name in BY_TIME}
    numbers = {key.name: {value: i for i, value in enumerate(key.values)} for key in keys}
    for gpu in which.gpus:
        windows = iteration_windows(trace, [gpu])
        mine = np.flatnonzero(one.gpu == gpu)
        window = windows.place(one.time[mine])
        mine, window = mine[window >= 0], window[window >= 0]
        inside[mine] = True
        codes["gpu"][mine] = numbers.get("gpu", {}).get(gpu, -1)
        known = [numbers.get("iteration", {}).get(i, -1) for i in windows.iterations]
        codes["iteration"][mine] = np.array(known, np.int32)[window]
    rows = np.flatnonzero(inside)
    return Placed(rows, [Key(key.name, key.values, codes[key.name][rows]) for key in keys])

"""Runtime calls in which the host waits until the GPU has run what was launched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core.align.host import Host, codes

if TYPE_CHECKING:
    import pyarrow as pa

    from chopper_jupyter.core.align.levels import Levels
    from chopper_jupyter.core.align.nesting import Ints

_WAITS = re.compile(
    r"(cuda|hip|cu)[A-Za-z]*Synchronize(_v\d+)?|(cuda|hip)Memcpy(WithStream)?(_v\d+)?"
)
"""``cudaStreamSynchronize``, ``hipDeviceSynchronize``, and copies that return when done."""


class Syncs(NamedTuple):
    """The waits of the host for the GPU.

    Parameters
    ----------
    name : int64 array
        Code into ``words``.
    words : list of str
        Names of the calls.
    tid, start, dur : int64 arrays
        Thread and time.
    iteration : int array
        Iteration each began in; -1 for none.
    host : int array
        Position of the innermost host range around each; -1 for none.
    """

    name: Ints
    words: list[str]
    tid: Ints
    start: Ints
    dur: Ints
    iteration: Ints
    host: Ints


def find(launches: pa.Table, host: Host, levels: Levels) -> Syncs:
    """Return the runtime calls that wait for the GPU, as their names tell."""
    name, words = codes(launches["name"])
    waits = np.array([*(_WAITS.fullmatch(word) is not None for word in words), False])
    at = np.flatnonzero(waits[name])
    tid, start, dur = (launches[c].to_numpy()[at] for c in ("tid", "start_ns", "dur_ns"))
    around = host.forest.innermost_at(tid, start)
    return Syncs(name[at], words, tid, start, dur, levels.cuts.at(start), around)

"""Why the GPUs were idle: every instant of every gap has one cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.data_loading import loading_time
from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import group
from chopper_jupyter.core.analysis.included import Include, included
from chopper_jupyter.core.analysis.levels import encode, key_names
from chopper_jupyter.core.analysis.sharing import shared
from chopper_jupyter.core.analysis.synchronisation import synchronised
from chopper_jupyter.core.analysis.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from chopper_jupyter.core.analysis.grouping import Ints
    from chopper_jupyter.core.analysis.timeline import Mask, Timeline
    from chopper_jupyter.core.trace import Trace

CAUSES: dict[str, str] = {
    "input": "Waiting for input",
    "iteration_boundary": "Host late between iterations",
    "host_sync": "Host waited for the GPU",
    "host_late": "Host late",
    "communication": "Waiting for communication",
    "launch_latency": "Launch latency",
    "unknown": "Unknown",
}
"""Causes of idle time in reading order, with their words for a display."""

_TO_DEVICE = re.compile(r"HtoD|HostToDevice|H2D")
"""Copies of input to the device: ``Memcpy HtoD (Pinned -> Device)``, ``CopyHostToDevice``."""


def idle_causes(
    trace: Trace, by: str | Iterable[str] | None = None, *, include: Include = "measured"
) -> pd.DataFrame:
    """Split idle time by cause; the causes of every gap add up to it exactly.

    A gap (``idle_ns``) belongs to the kernel that ends it. The start of that kernel's launch
    call divides it. Before, the CPU had not come to the launch:

    - ``input``: while the launching thread was in ``DataLoader.__next__``;
    - ``iteration_boundary``: else, if the kernel before was of another iteration;
    - ``host_sync``: else, if the thread had waited, until the GPU was idle, in a call such as
      ``cudaStreamSynchronize``, so that it could launch nothing ahead: ``.item()``, ``print``
      of a tensor, copies to the host;
    - ``host_late``: else.

    After, the kernel was launched and had not started:

    - ``communication``: if the kernel had been launched before the gap began, and the gap began
      where a collective of the GPU ended;
    - ``input``: the same with a host-to-device copy;
    - ``launch_latency``: else.

    The gap is ``unknown`` if the launch call of the kernel is not recorded. Kernels of a graph
    were launched when the graph was.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : str or iterable of str, optional
        Levels to keep apart, as in ``summarize``; nothing gives one row.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed int64 sums over the iterations and GPUs of each row, one column per cause
        (``input_ns``, ...), and ``idle_ns``, their sum. Rows are in reading order; null is a
        row of its own. ``attrs`` holds ``units``, ``included``, ``iterations``, ``gpus``.

    Raises
    ------
    SchemaError
        If a level does not exist.
    MissingDataError
        If no GPU was recorded.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> idle_causes(Trace.from_tables({}))["idle_ns"].tolist()
    [0]
    """
    names = key_names(by)
    which = included(trace, include)
    line = timeline(trace, which, "the split of idle time")
    keys = [encode(which.kernels, name) for name in names]
    groups = group(keys, which.kernels.num_rows)
    sums = groups.sum({name: line.of_covered(t) for name, t in split_idle(trace, line).items()})
    columns = key_columns(keys, groups)
    columns |= {f"{cause}_ns": pa.array(total) for cause, total in sums.items()}
    columns["idle_ns"] = pa.array(np.sum(list(sums.values()), axis=0))
    units = {name: "ns" for name in columns if name.endswith("_ns")}
    return to_frame(pa.table(columns), which, units)


def split_idle(trace: Trace, line: Timeline) -> dict[str, Ints]:
    """Return, for each cause, the idle time that it explains before every kernel.

    Nobody may change the arrays: they are shared, and those of a cause that never occurs are one.
    """
    return shared(trace, "idle time by cause", lambda: _split_idle(trace, line))


def _split_idle(trace: Trace, line: Timeline) -> dict[str, Ints]:
    gap, known = line.ints("idle_ns"), line.known("launch_ns")
    if not known.any():
        return dict.fromkeys(CAUSES, np.broadcast_to(np.int64(0), len(gap))) | {"unknown": gap}
    begin, launch = line.start - gap, line.ints("launch_ns")
    host = np.where(known, np.clip(launch - begin, 0, gap), 0)
    device = np.where(known, gap - host, 0)
    loading = loading_time(trace, line, begin, host)
    between = _between_iterations(line)
    synced = ~between & (synchronised(trace, line, begin, launch) & known)
    queued = (device > 0) & (launch <= begin)
    after_collective = _begins_after(line, begin, queued, line.named("kind", "collective"))
    after_copy = _begins_after(line, begin, queued & ~after_collective, _copies_to_device(line))
    late = host - loading
    return {
        "input": loading + _where(after_copy, device),
        "iteration_boundary": _where(between, late),
        "host_sync": _where(synced, late),
        "host_late": np.where(between | synced, 0, late),
        "communication": _where(after_collective, device),
        "launch_latency": np.where(after_collective | after_copy, 0, device),
        "unknown": _where(~known, gap),
    }


def _where(mask: Mask, ns: Ints) -> Ints:
    """Keep some of the times and put 0 for the others; without any, in no memory."""
    return np.where(mask, ns, 0) if mask.any() else np.broadcast_to(np.int64(0), len(ns))


def _between_iterations(line: Timeline) -> Mask:
    """Mark kernels before which the GPU last started a kernel of another iteration.

    Kernels of which the iteration is not known do not count.
    """
    iteration, known = line.ints("iteration"), line.known("iteration")
    latest = np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))
    previous = np.concatenate([np.full(1, -1), latest])[: len(known)]
    for _, places in line.gpus():
        previous[places][previous[places] < places.start] = -1
    return np.asarray(known & (previous >= 0) & (iteration[previous] != iteration), bool)


def _copies_to_device(line: Timeline) -> Mask:
    copies = line.named("kind", "memcpy")
    if not copies.any():
        return copies
    names, words = line.codes("name")
    wanted = [i for i, word in enumerate(words) if _TO_DEVICE.search(word)]
    return copies & np.isin(names, wanted)


def _begins_after(line: Timeline, begin: Ints, candidates: Mask, enders: Mask) -> Mask:
    """Mark the candidates whose gap begins where one of the enders ended."""
    found = np.zeros(len(begin), bool)
    for _, places in line.gpus():
        ends = np.sort(line.end[places][enders[places]])
        rows = places.start + np.flatnonzero(candidates[places])
        if len(ends) and len(rows):
            at = np.minimum(np.searchsorted(ends, begin[rows]), len(ends) - 1)
            found[rows] = ends[at] == begin[rows]
    return found

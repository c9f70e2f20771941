"""Traces of GPUs that wait for each other at the end of every iteration."""

from __future__ import annotations

import pyarrow as pa
from builders import trace_of

from chopper_jupyter.core.trace import Trace

FIRST, SECOND, MOVE = 500, 380, 50
"""ns of the two compute kernels of an iteration, and of a collective after the last arrival."""


def meeting(gpus=3, iterations=4, *, gap=None, more=None, queued=False, unsure=None) -> Trace:
    """Make iterations of two compute kernels and a collective, on clocks in step.

    Parameters
    ----------
    gap, more : callable, optional
        By GPU and iteration: ns of idle time between the kernels, by which the second is longer.
    queued : bool
        Launched before the gap, not at its end.
    unsure : int, optional
        Uncertainty of the clocks in ns.
    """
    gap, more = gap or (lambda _gpu, _i: 0), more or (lambda _gpu, _i: 0)
    rows, at = [], 0
    for i in range(iterations):
        arrival = {g: at + FIRST + gap(g, i) + SECOND + more(g, i) for g in range(gpus)}
        end = max(arrival.values()) + MOVE
        for g in range(gpus):
            second = at + FIRST + gap(g, i)
            same = {"gpu": g, "iteration": i, "launch_kind": "runtime", "collective": None,
                    "process_group": None, "collective_seq": None}  # fmt: skip
            rows += [
                {**same, "phase": "forward", "op": "mm", "start_ns": at, "dur_ns": FIRST,
                 "launch_ns": at - 5},
                {**same, "phase": "backward", "op": "mm", "start_ns": second,
                 "dur_ns": SECOND + more(g, i), "idle_ns": gap(g, i),
                 "launch_ns": at if queued else second},
                {**same, "phase": "backward", "op": "all_reduce", "kind": "collective",
                 "stream": 20, "collective": "all_reduce", "process_group": "0",
                 "collective_seq": i, "start_ns": arrival[g], "dur_ns": end - arrival[g],
                 "launch_ns": at},
            ]  # fmt: skip
        at = end
    trace = trace_of(rows)
    if unsure is None:
        return trace
    known = pa.array([unsure] * gpus, pa.int64())
    place = trace.gpus.column_names.index("offset_uncertainty_ns")
    table = trace.gpus.set_column(place, "offset_uncertainty_ns", known)
    return Trace.from_tables({**trace.tables, "gpus": table}, trace.info, trace.quality)

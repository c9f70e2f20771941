"""What is known about one kernel: where it came from, what ran around it, what was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chopper_jupyter.core.analysis.timeline_index import TimelineIndex
    from chopper_jupyter.core.trace import Trace


@dataclass(frozen=True)
class KernelDetails:
    """One kernel and what belongs to it.

    Parameters
    ----------
    kernel : mapping
        Its row of ``trace.kernels``; null is None.
    operator, forward : mapping or None
        Rows of ``trace.ops``: the call that launched it, and the forward call that this is the
        gradient of.
    before, after : mapping or None
        Rows of the kernels before and after it in its lane.
    counters : mapping of str to float
        Counted values.
    """

    kernel: Mapping[str, Any]
    operator: Mapping[str, Any] | None
    forward: Mapping[str, Any] | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    counters: Mapping[str, float]


def kernel_details(trace: Trace, index: TimelineIndex, kernel_id: int) -> KernelDetails:
    """Collect what is known about one kernel.

    Raises
    ------
    SchemaError
        If there is no such kernel.
    """
    place = np.flatnonzero(index.kernel_id == kernel_id)
    if not len(place):
        msg = f"no kernel has the id {kernel_id}"
        raise SchemaError(msg)
    at = int(place[0])
    lane = next(lane for lane in index.lanes if lane.rows.start <= at < lane.rows.stop)
    before, after = (
        _row(trace.kernels, "kernel_id", int(index.kernel_id[i]))
        if lane.rows.start <= i < lane.rows.stop
        else None
        for i in (at - 1, at + 1)
    )
    kernel = _row(trace.kernels, "kernel_id", kernel_id) or {}
    operator = _row(trace.ops, "op_id", kernel.get("op_id"))
    forward = _row(trace.ops, "op_id", operator["forward_op_id"]) if operator else None
    return KernelDetails(kernel, operator, forward, before, after, _counters(trace, kernel_id))


def _row(table: pa.Table, column: str, value: int | None) -> dict[str, Any] | None:
    if value is None:
        return None
    at = pc.index(table[column], pa.scalar(value, table[column].type)).as_py()
    row: dict[str, Any] | None = table.slice(at, 1).to_pylist()[0] if at >= 0 else None
    return row


def _counters(trace: Trace, kernel_id: int) -> dict[str, float]:
    """Return the counters of a kernel; one counted in several passes by its mean."""
    own = trace.counters.filter(pc.equal(trace.counters["kernel_id"], kernel_id))
    found: dict[str, list[float]] = {}
    for name, value in zip(own["counter"].to_pylist(), own["value"].to_pylist(), strict=True):
        found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}

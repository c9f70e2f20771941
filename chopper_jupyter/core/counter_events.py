"""What a counter importer hands to the matcher: counted kernels and their counters.

After this step nobody asks which tool or vendor counted. A run under a counter tool is another
run than the timed one: its ids, processes and times mean nothing there, so that only names,
sizes and order can tie its kernels to those of a Trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = pa.dictionary(pa.int32(), pa.string())

COUNTED_DURATION = "counted_duration_ns"
"""Counter that holds how long a kernel ran in the pass that counted it, serialised."""

COUNTED = pa.schema(
    [
        pa.field("counted_id", pa.int64(), nullable=False),  # row number
        pa.field("pass", pa.int32(), nullable=False),
        pa.field("process", pa.int64()),  # of the counting run
        pa.field("device", pa.int32(), nullable=False),  # of its host, else dense in process, pass
        pa.field("stream", pa.int64()),
        pa.field("order", pa.int64(), nullable=False),  # of submission, within process and device
        pa.field("name", NAME, nullable=False),  # as the tool spells it
        pa.field("work_items", pa.int64()),  # threads of the whole launch: grid times block
        pa.field("group_items", pa.int64()),  # threads of one block
        pa.field("start_ns", pa.int64()),  # serialised time
        pa.field("dur_ns", pa.int64()),
    ]
)
"""One row per counted kernel and pass."""

VALUES = pa.schema(
    [
        pa.field("counted_id", pa.int64(), nullable=False),
        pa.field("counter", NAME, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""One row per counter of a counted kernel, in base units; absent counters have no row."""


@dataclass(frozen=True)
class CounterRun:
    """All that was counted in one or several passes with one tool.

    Parameters
    ----------
    tool : str
        ``rocprofv3``, ``rocprof-compute`` or ``ncu``.
    counted, values : pyarrow.Table
        By the schemas of this module. ``values`` holds ``COUNTED_DURATION`` where the tool timed.
    agents : mapping of int to mapping
        What the tool says about each device; what it does not say, or says wrongly, is absent:
        ``product_name``, ``architecture``, ``num_xcc``, ``cu_count``, ``simd_per_cu``,
        ``max_clock_mhz``, ``bus_id``, ``node_id``.
    skipped, repairs : mapping of str to int
        Counts by reason.
    sources : tuple of str
        File names, for messages.
    notes : tuple of str
        Plain sentences a reader should know.
    """

    tool: str
    counted: pa.Table
    values: pa.Table
    agents: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

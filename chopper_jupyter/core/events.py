"""What an importer hands to the linker: the events of one rank, as Arrow columns.

After this step nobody asks which tool or vendor a row came from. Times are absolute int64
nanoseconds of the recording's clock. ``range_id`` is the row number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = pa.dictionary(pa.int32(), pa.string())

RANGE_KINDS = ("op", "annotation", "module_stack")
"""Kinds of host ranges: operator calls, user ranges, nn.Module rows of a recorded stack."""

RANGES = pa.schema(
    [
        pa.field("name", NAME, nullable=False),
        pa.field("kind", NAME, nullable=False),
        pa.field("tid", pa.int64(), nullable=False),  # dense per (process, thread)
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("dur_ns", pa.int64(), nullable=False),
        pa.field("external_id", pa.int64()),
        pa.field("seq", pa.int64()),
        pa.field("fwd_thread", pa.int64()),
        pa.field("input_shapes", NAME),
        pa.field("input_dtypes", NAME),
        pa.field("concrete_inputs", NAME),  # of attention and convolutions only
        pa.field("collective", pa.string()),
        pa.field("process_group", pa.string()),
        pa.field("collective_seq", pa.int64()),
        pa.field("message_bytes", pa.int64()),
    ]
)

LAUNCHES = pa.schema(
    [
        pa.field("name", NAME, nullable=False),
        pa.field("kind", NAME, nullable=False),  # runtime or driver
        pa.field("tid", pa.int64(), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("dur_ns", pa.int64(), nullable=False),
        pa.field("correlation_id", pa.int64()),
        pa.field("external_id", pa.int64()),
        pa.field("pid", pa.int64()),  # dense per process
    ]
)

DEVICE = pa.schema(
    [
        pa.field("name", NAME, nullable=False),
        pa.field("kind", NAME, nullable=False),  # kernel, memcpy or memset
        pa.field("device", pa.int32(), nullable=False),
        pa.field("stream", pa.int64(), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("dur_ns", pa.int64(), nullable=False),
        pa.field("correlation_id", pa.int64()),
        pa.field("external_id", pa.int64()),
        pa.field("grid", NAME),
        pa.field("block", NAME),
        pa.field("bytes", pa.int64()),
        pa.field("collective", pa.string()),
        pa.field("process_group", pa.string()),
        pa.field("collective_seq", pa.int64()),
        pa.field("message_bytes", pa.int64()),
    ]
)

FLOWS = pa.schema(
    [
        pa.field("forward_tid", pa.int64(), nullable=False),
        pa.field("forward_ns", pa.int64(), nullable=False),
        pa.field("backward_tid", pa.int64(), nullable=False),
        pa.field("backward_ns", pa.int64(), nullable=False),
    ]
)

MEMORY = pa.schema(
    [
        pa.field("tid", pa.int64(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("device", pa.int32()),  # null: memory of the host
        pa.field("bytes", pa.int64(), nullable=False),  # negative: freed
        pa.field("allocated_bytes", pa.int64()),  # afterwards, as the allocator says
        pa.field("reserved_bytes", pa.int64()),
    ]
)


@dataclass(frozen=True)
class RankEvents:
    """All events of one rank's recording.

    Parameters
    ----------
    ranges, launches, device, flows : pyarrow.Table
        Host ranges, launch calls, device activities and forward-backward pairs, by the
        schemas of this module.
    rank, world_size : int or None
        As the recording says; None if it does not.
    host : str or None
        Host name, if recorded.
    devices : mapping of int to str
        Device number to product name.
    events_read : int
        Events in the file.
    skipped, repairs : mapping of str to int
        Counts by reason.
    source : str
        File name, for messages.
    memory : pyarrow.Table
        Allocations and frees, by the schema of this module; empty unless recorded.
    """

    ranges: pa.Table
    launches: pa.Table
    device: pa.Table
    flows: pa.Table
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    devices: Mapping[int, str] = field(default_factory=dict)
    events_read: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    memory: pa.Table = field(default_factory=MEMORY.empty_table)

"""The tables of a Trace: their columns, types, units and meaning, in one place.

Times are int64 nanoseconds since ``info.origin_ns``; missing is null, never -1; names are
dictionary-encoded. Unit and meaning of every column travel as Arrow field metadata.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 2

LEVELS = ("gpu", "iteration", "phase", "layer", "op", "kernel")
"""The six granularities: values of ``by=``, columns of ``kernels``, words of the explorer."""

LEVEL_COLUMNS = {level: level for level in LEVELS} | {"kernel": "name"}
"""Column of the ``kernels`` table that holds each level."""

PHASES = ("forward", "backward", "optimizer")
KERNEL_KINDS = ("compute", "collective", "memcpy", "memset")
SPAN_KINDS = ("iteration", "phase", "layer", "module", "annotation", "sync")
LAUNCH_KINDS = ("runtime", "driver", "graph")
FAMILIES = ("gemm", "attention", "norm", "elementwise", "communication", "copy", "optimizer")
"""Kernel families in the order in which displays list them; anything else is elementwise."""

NAME = pa.dictionary(pa.int32(), pa.string())


def _field(
    name: str, kind: pa.DataType, meaning: str, unit: str = "", *, null: bool = False
) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"unit": unit, "meaning": meaning})


def _start(meaning: str) -> pa.Field:
    return _field("start_ns", pa.int64(), meaning, "ns")


def _dur(meaning: str) -> pa.Field:
    return _field("dur_ns", pa.int64(), meaning, "ns")


GPUS = pa.schema(
    [
        _field("gpu", pa.int32(), "dense index of the GPU in this run"),
        _field("host", pa.string(), "host the rank ran on", null=True),
        _field("rank", pa.int32(), "rank of the process that drove the GPU", null=True),
        _field("device", pa.int32(), "device number as the recording names it"),
        _field("name", pa.string(), "product name; 'cpu' on a machine without a GPU", null=True),
        _field("hardware", pa.string(), "key into the hardware table", null=True),
        _field("offset_ns", pa.int64(), "clock offset applied to this GPU's rank", "ns"),
        _field("offset_uncertainty_ns", pa.int64(), "uncertainty of the offset", "ns", null=True),
    ]
)

SPANS = pa.schema(
    [
        _field("span_id", pa.int64(), "identity of the span"),
        _field("parent_id", pa.int64(), "enclosing span on the same thread", null=True),
        _field("rank", pa.int32(), "rank of the process", null=True),
        _field(
            "kind", NAME, "iteration, phase, layer, module, annotation, sync (wait for the GPU)"
        ),
        _field("name", NAME, "name of the range"),
        _field("iteration", pa.int32(), "iteration the range started in", null=True),
        _field("tid", pa.int64(), "thread the range ran on"),
        _start("start of the range"),
        _dur("length of the range"),
    ]
)

OPS = pa.schema(
    [
        _field("op_id", pa.int64(), "identity of the operator call"),
        _field("parent_id", pa.int64(), "operator call that encloses this one", null=True),
        _field("rank", pa.int32(), "rank of the process", null=True),
        _field("name", NAME, "operator as PyTorch names it"),
        _start("start of the call on the CPU"),
        _dur("length of the call on the CPU"),
        _field("tid", pa.int64(), "thread the call ran on"),
        _field("autograd_seq", pa.int64(), "autograd sequence number", null=True),
        _field("forward_op_id", pa.int64(), "forward call this call is the gradient of", null=True),
        _field("iteration", pa.int32(), "iteration the call belongs to", null=True),
        _field("phase", NAME, "forward, backward or optimizer", null=True),
        _field("layer", NAME, "layer path", null=True),
        _field("op", NAME, "operation inside the layer", null=True),
        _field("input_shapes", NAME, "input shapes as JSON", null=True),
        _field("input_dtypes", NAME, "input dtypes as JSON", null=True),
        _field("flops", pa.int64(), "floating point operations by shape", "FLOP", null=True),
    ]
)

KERNELS = pa.schema(
    [
        _field("kernel_id", pa.int64(), "identity of the kernel"),
        _field("gpu", pa.int32(), "GPU the kernel ran on"),
        _field("stream", pa.int64(), "device stream"),
        _field("name", NAME, "name of the device kernel"),
        _field("kind", NAME, "compute, collective, memcpy or memset"),
        _field("family", NAME, "gemm, attention, norm, elementwise, communication, ..."),
        _start("start on the device"),
        _dur("time on the device"),
        _field("launch_ns", pa.int64(), "start of the launch call on the CPU", "ns", null=True),
        _field("launch_dur_ns", pa.int64(), "length of the launch call", "ns", null=True),
        _field("launch_kind", NAME, "runtime, driver or graph", null=True),
        _field("correlation_id", pa.int64(), "id shared with the launch call", null=True),
        _field("op_id", pa.int64(), "operator call that launched the kernel", null=True),
        _field("iteration", pa.int32(), "training iteration", null=True),
        _field("phase", NAME, "forward, backward or optimizer", null=True),
        _field("layer", NAME, "layer path", null=True),
        _field("op", NAME, "operation inside the layer", null=True),
        _field("module", NAME, "full module path", null=True),
        _field("recompute", pa.bool_(), "recomputed by activation checkpointing"),
        _field("micro_batch", pa.int32(), "forward-backward pair in the iteration", null=True),
        _field("grid", NAME, "grid dimensions as x,y,z", null=True),
        _field("block", NAME, "block dimensions as x,y,z", null=True),
        _field("collective", NAME, "all_gather, reduce_scatter, all_reduce, ...", null=True),
        _field("process_group", NAME, "process group of the collective", null=True),
        _field("collective_seq", pa.int64(), "sequence number in its process group", null=True),
        _field("message_bytes", pa.int64(), "bytes moved", "B", null=True),
        _field("flops", pa.int64(), "floating point operations by shape", "FLOP", null=True),
        _field("bytes", pa.int64(), "bytes of a copy or fill", "B", null=True),
        _field("overlap_ns", pa.int64(), "time under a kernel of the other kind", "ns"),
        _field(
            "busy_ns",
            pa.int64(),
            "wall time this kernel accounts for: not yet accounted for by an earlier kernel of "
            "its kind, nor by compute (for collectives), nor by either (for copies)",
            "ns",
        ),
        _field("idle_ns", pa.int64(), "idle time of the GPU that this kernel ended", "ns"),
    ]
)

COUNTERS = pa.schema(
    [
        _field("kernel_id", pa.int64(), "kernel the counter belongs to"),
        _field("counter", NAME, "hardware counter"),
        _field("value", pa.float64(), "counted value"),
        _field("pass", pa.int32(), "replay that counted it"),
        _field("matched_by", NAME, "how the counter was tied to the kernel"),
    ]
)

TELEMETRY = pa.schema(
    [
        _field("source", NAME, "who sampled"),
        _field("host", NAME, "host of the sensor", null=True),
        _field("gpu", pa.int32(), "GPU of the sensor", null=True),
        _field("core", pa.int32(), "logical processor core of the sensor", null=True),
        _field("time_ns", pa.int64(), "time of the sample", "ns"),
        _field("metric", NAME, "what was sampled, unit in its suffix"),
        _field("value", pa.float64(), "sampled value"),
    ]
)

TELEMETRY_FILE = pa.schema(
    [
        pa.field("monotonic_ns", pa.int64(), nullable=False),
        pa.field("wall_ns", pa.int64(), nullable=False),
        pa.field("device", pa.int32()),
        pa.field("core", pa.int32()),
        pa.field("metric", NAME, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""What one part of the telemetry in a run folder holds; ``run_folder`` says where it lies."""

COLLECTIVES = pa.schema(
    [
        _field("process_group", NAME, "process group", null=True),
        _field("collective_seq", pa.int64(), "sequence number in its process group", null=True),
        _field("kind", NAME, "all_gather, reduce_scatter, all_reduce, ..."),
        _field("ranks", pa.int32(), "ranks that took part in this recording"),
        _field("message_bytes", pa.int64(), "bytes moved", "B", null=True),
        _field("first_arrival_ns", pa.int64(), "first rank's kernel start", "ns"),
        _field("last_arrival_ns", pa.int64(), "last rank's kernel start", "ns"),
        _field("end_ns", pa.int64(), "last rank's kernel end", "ns"),
    ]
)

MEMORY = pa.schema(
    [
        _field("gpu", pa.int32(), "GPU whose memory it is"),
        _field("time_ns", pa.int64(), "time of the allocation or free on the CPU", "ns"),
        _field("bytes", pa.int64(), "bytes allocated; negative: freed", "B"),
        _field("allocated_bytes", pa.int64(), "allocated on the GPU afterwards", "B"),
        _field("reserved_bytes", pa.int64(), "held by the allocator afterwards", "B", null=True),
        _field("op_id", pa.int64(), "operator call in which it happened", null=True),
        _field("iteration", pa.int32(), "training iteration", null=True),
        _field("phase", NAME, "forward, backward or optimizer", null=True),
        _field("layer", NAME, "layer path", null=True),
        _field("op", NAME, "operation inside the layer", null=True),
        _field("module", NAME, "full module path", null=True),
    ]
)

TABLES: dict[str, pa.Schema] = {
    "gpus": GPUS,
    "spans": SPANS,
    "ops": OPS,
    "kernels": KERNELS,
    "counters": COUNTERS,
    "telemetry": TELEMETRY,
    "collectives": COLLECTIVES,
    "memory": MEMORY,
}

SINCE = {"memory": 2}
"""Schema version that brought a table; saved Traces of earlier ones have no file of it."""


def empty(table: str) -> pa.Table:
    """Return the named table without rows.

    Examples
    --------
    >>> empty("counters").num_rows
    0
    """
    return TABLES[table].empty_table()


def conform(table: str, data: pa.Table) -> pa.Table:
    """Cast ``data`` to the schema of ``table``: column order, types, nulls and metadata.

    Columns that may be null and are absent become null.

    Raises
    ------
    ValueError
        If a required column is absent or holds nulls, or a column is not in the schema.
    """
    schema = TABLES[table]
    extra = set(data.column_names) - set(schema.names)
    if extra:
        msg = f"table {table!r} has no columns {sorted(extra)}"
        raise ValueError(msg)
    columns = []
    for field in schema:
        if field.name not in data.column_names:
            if not field.nullable:
                msg = f"table {table!r} needs the column {field.name!r}"
                raise ValueError(msg)
            columns.append(pa.nulls(data.num_rows, field.type))
            continue
        column = data[field.name]
        if not field.nullable and column.null_count:
            msg = f"column {table}.{field.name} holds {column.null_count} nulls and may hold none"
            raise ValueError(msg)
        columns.append(_cast(column, field.type))
    return pa.table(columns, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast, with dictionaries unified to int32 codes of plain strings."""
    if column.type == kind:
        return column.unify_dictionaries() if pa.types.is_dictionary(kind) else column
    if pa.types.is_dictionary(kind):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.cast(pa.string()).dictionary_encode()
    return column.cast(kind)

"""What each event of a Kineto trace means, one by one: the plain way, which is always right."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.events import RankEvents
from chopper_jupyter.core.importers.decimal_time import nanoseconds
from chopper_jupyter.core.importers.kineto_args import (
    MEMORY_EVENT,
    as_int,
    device_columns,
    memory_columns,
    range_columns,
)
from chopper_jupyter.core.importers.kineto_columns import Columns, Threads

if TYPE_CHECKING:
    import pyarrow as pa

    from chopper_jupyter.core.importers.json_events import Document

OP_CATEGORIES = {"cpu_op": "op", "operator": "op", "user_annotation": "annotation"}
DEVICE_CATEGORIES = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}
MODULE_ROW = "nn.Module: "
MEMORY_CATEGORIES = ("cpu_instant_event", "")
"""Categories of allocations; the files of 2021 give them none."""

SKIP_REASONS = {
    "gpu_user_annotation": "GPU annotations (they repeat host ranges)",
    "python_function": "Python call stack rows",
    "ac2g": "launch arrows (correlation ids are used)",
    "async_cpu_to_gpu": "launch arrows (correlation ids are used)",
    "async": "launch arrows (correlation ids are used)",
    "cpu_instant_event": "instant events",
    "trace": "profiler rows",
    "overhead": "profiler rows",
}

_STREAM_NUMBER = re.compile(r"(?:^|\D)(\d{1,9})\s*$", re.ASCII)


def events_of(document: Document, source: str) -> RankEvents:
    """Sort the events of a document into columns; count what no column holds."""
    reader = EventReader(document.meta)
    for event in document.events:
        reader.take(event)
    tables = reader.columns.tables(reader.base_ns, reader.threads)
    return rank_events(tables, document, reader, len(document.events), source)


def rank_events(
    tables: dict[str, pa.Table],
    document: Document,
    reader: EventReader,
    events_read: int,
    source: str,
) -> RankEvents:
    """Put tables, counts and what the document says of its rank together."""
    info = document.meta.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    return RankEvents(
        **tables,
        rank=as_int(info.get("rank")),
        world_size=as_int(info.get("world_size")),
        host=_text(document.meta.get("host_name") or document.meta.get("hostname")),
        devices=_devices(document.meta.get("deviceProperties")),
        events_read=events_read,
        skipped=dict(reader.skipped),
        repairs=dict(document.repairs + reader.repairs),
        source=source,
    )


class EventReader:
    """Takes events one by one into columns and counts.

    Parameters
    ----------
    meta : dict
        The values beside the events of the document.
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self.columns = Columns()
        self.threads = Threads()
        self.skipped: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()
        self.base_ns = as_int(meta.get("baseTimeNanoseconds")) or 0

    def take(self, event: Any) -> None:
        """Put one event into its column or count why not."""
        if not isinstance(event, dict):
            self.skipped["entries that are no events"] += 1
            return
        ph = event.get("ph")
        category = event.get("cat")
        category = category.lower() if isinstance(category, str) else ""
        if ph == "X":
            self._complete(event, category)
        elif category == "fwdbwd" and ph in ("s", "f"):
            self._flow(event, ph)
        elif category in MEMORY_CATEGORIES and ph == "i" and event.get("name") == MEMORY_EVENT:
            self._memory(event)
        else:
            self.skipped[skip_reason(ph, category)] += 1

    def _complete(self, event: dict[str, Any], category: str) -> None:
        kind = _host_kind(event, category)
        device_kind = DEVICE_CATEGORIES.get(category)
        legacy = event.get("pid") if not category else None
        if legacy == "CPU functions":  # the autograd profiler's own export, without categories
            kind = "op"
        elif legacy == "CUDA functions":
            device_kind = "kernel"
        launch_kind = _launch_kind(category)
        if kind is None and device_kind is None and launch_kind is None:
            reason = SKIP_REASONS.get(category, f"events of category {category or 'none'!s:.40}")
            self.skipped[reason] += 1
            return
        times = self._times(event, device=device_kind is not None)
        if times is None:
            return
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        name = str(event.get("name", ""))
        if device_kind is not None:
            self._device(event, device_kind, name, times, args)
            return
        tid = self.threads.of(event.get("pid"), event.get("tid"))
        if launch_kind is not None:
            self.columns.add_launch(
                name, launch_kind, tid, times, as_int(args.get("correlation")), _external(args),
                self.threads.process_of(event.get("pid")),
            )  # fmt: skip
        elif kind is not None:
            row = range_columns(args, name) if args else (None,) * 9
            self.columns.add_range(name, kind, tid, times, _external(args), row)
            self.threads.count(tid, kind)

    def _times(self, event: dict[str, Any], *, device: bool) -> tuple[int, int] | None:
        start = self._start(event)
        if start is None:
            return None
        if start <= 0 and device:
            self.skipped["device activities with time zero"] += 1
            return None
        dur = nanoseconds(event.get("dur"))
        if dur is None or not 0 <= dur < 2**61:
            self.repairs["events without a usable duration: taken as zero"] += 1
            dur = 0
        return start, dur

    def _start(self, event: dict[str, Any]) -> int | None:
        start = nanoseconds(event.get("ts"))
        if start is None or not -(2**62) < start + self.base_ns < 2**62:
            self.skipped["events without a usable time"] += 1
            return None
        return start

    def _device(
        self,
        event: dict[str, Any],
        kind: str,
        name: str,
        times: tuple[int, int],
        args: dict[str, Any],
    ) -> None:
        device = as_int(args.get("device"))
        if device is None:
            device = as_int(event.get("pid"))
        stream = args.get("stream", event.get("tid"))
        number = as_int(stream)
        if number is None:
            match = _STREAM_NUMBER.search(stream) if isinstance(stream, str) else None
            number = int(match[1]) if match else self.threads.stream_of(str(stream))
        if device is None or not 0 <= device < 2**31:
            device = 0
            self.repairs["device activities without a device number: taken as device 0"] += 1
        correlation = as_int(args.get("correlation"))
        self.columns.add_device(
            name, kind, device, number, times, correlation or None, _external(args),
            device_columns(args),
        )  # fmt: skip

    def _flow(self, event: dict[str, Any], ph: str) -> None:
        start = nanoseconds(event.get("ts"))
        key = event.get("id")
        if start is None or not isinstance(key, (int, str)):
            self.skipped["forward-backward arrows without id or time"] += 1
            return
        tid = self.threads.of(event.get("pid"), event.get("tid"))
        process = event.get("pid")  # files fused from several ranks reuse the ids
        self.columns.add_flow(f"{process}:{key}", ph, tid, start)

    def _memory(self, event: dict[str, Any]) -> None:
        start = self._start(event)
        if start is None:
            return
        args = event.get("args")
        row = memory_columns(args) if isinstance(args, dict) else None
        if row is None:
            self.skipped["memory events without bytes or device"] += 1
            return
        tid = self.threads.of(event.get("pid"), event.get("tid"))
        self.columns.add_memory(tid, start, row)


def skip_reason(ph: Any, category: str) -> str:
    """Say why an event is left out that is neither complete (type X) nor a gradient's arrow."""
    if ph == "M":
        return "metadata rows"
    return SKIP_REASONS.get(category, f"events of type {ph!s:.20}")


def _host_kind(event: dict[str, Any], category: str) -> str | None:
    kind = OP_CATEGORIES.get(category)
    if kind is None and category == "python_function":
        name = event.get("name")
        return "module_stack" if isinstance(name, str) and name.startswith(MODULE_ROW) else None
    return kind


def _launch_kind(category: str) -> str | None:
    if category == "runtime" or category.endswith("_runtime"):
        return "runtime"
    return "driver" if category.endswith("_driver") else None


def _external(args: dict[str, Any]) -> int | None:
    found = as_int(args.get("External id", args.get("external id")))
    return found or None  # 0 means "no operator"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _devices(properties: Any) -> dict[int, str]:
    """Device number to product name."""
    names: dict[int, str] = {}
    for entry in properties if isinstance(properties, list) else []:
        number = as_int(entry.get("id")) if isinstance(entry, dict) else None
        name = _text(entry.get("name")) if isinstance(entry, dict) else None
        if number is not None and name is not None:
            names[number] = name
    return names

"""What the records of rocprofv3 mean, whichever of its formats they were read from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.event_tables import (
    NO_TIME,
    Ints,
    Mask,
    below,
    blocks_of,
    dimensions,
    durations,
    names_of,
    nullable,
    rank_events,
)
from chopper_jupyter.core.importers.range_text import range_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chopper_jupyter.core.events import RankEvents

AXES = ("x", "y", "z")
NO_STREAM = 1 << 40
"""Stream of copies that do not say theirs; high, so that it is no real stream's."""

COPIES = {
    "MEMORY_COPY_HOST_TO_DEVICE": "CopyHostToDevice",
    "MEMORY_COPY_DEVICE_TO_HOST": "CopyDeviceToHost",
    "MEMORY_COPY_DEVICE_TO_DEVICE": "CopyDeviceToDevice",
    "MEMORY_COPY_HOST_TO_HOST": "CopyHostToHost",
}
"""Directions in the words that PyTorch's traces use."""

FROM_DEVICE = ("MEMORY_COPY_DEVICE_TO_HOST", "MEMORY_COPY_DEVICE_TO_DEVICE")

BOOT_CLOCK = "rocprofv3 counts time from the start of the machine: telemetry cannot be placed on it"
_SUFFIX = r"(?: \[clone \.kd\]| \(\.kd\)|\.kd)$"
_RANGES = ("MARKER_CORE_API", "MARKER_CORE_RANGE_API")


@dataclass
class Records:
    """The records of one process; columns of each kind have the same length.

    Parameters
    ----------
    kernels : mapping
        ``name``, ``device``, ``stream``, ``start``, ``end``, ``correlation``, ``grid_x`` to
        ``grid_z`` in work items, ``group_x`` to ``group_z``.
    copies : mapping
        ``direction`` (``MEMORY_COPY_...``), ``device``, ``stream``, ``start``, ``end``,
        ``correlation``, ``bytes`` (-1 unknown).
    calls : mapping
        ``domain`` (``HIP_RUNTIME_API``, ``MARKER_CORE_API``, ...), ``name``, ``tid``,
        ``start``, ``end``, ``correlation``.
    devices : mapping of int to str
        Product names.
    host, source : str
        Host, if known, and file name.
    """

    kernels: Mapping[str, Any]
    copies: Mapping[str, Any] = field(default_factory=dict)
    calls: Mapping[str, Any] = field(default_factory=dict)
    devices: Mapping[int, str] = field(default_factory=dict)
    host: str | None = None
    source: str = ""
    rank: int | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)


def events_of(records: Records) -> RankEvents:
    """Turn the records of one process into events.

    AMD's copy and fill kernels count as copies and fills, as in PyTorch's traces.

    Raises
    ------
    TraceFormatError
        If there is nothing that ran on a GPU.
    """
    device = below(_kernels(records), _copies(records))
    if not len(device["start_ns"]):
        msg = (
            f"{records.source} holds no kernels: record with `rocprofv3 --kernel-trace "
            "--hip-trace --marker-trace --memory-copy-trace`"
        )
        raise TraceFormatError(msg)
    usable = np.asarray(device["start_ns"].to_numpy(), np.int64) > 0
    if not usable.all():
        records.skipped[NO_TIME] += int((~usable).sum())
        device = {name: values.filter(pa.array(usable)) for name, values in device.items()}
    ranges, launches = _host(records)
    read = len(usable) + len(ranges["start_ns"]) + len(launches["start_ns"])
    return rank_events(
        ranges, launches, device,
        rank=records.rank, host=records.host, devices=dict(records.devices),
        events_read=read + sum(records.skipped.values()), source=records.source,
        skipped={what: n for what, n in records.skipped.items() if n},
        repairs={what: n for what, n in records.repairs.items() if n},
        meta={"notes": (BOOT_CLOCK,)},
    )  # fmt: skip


def _kernels(records: Records) -> dict[str, Any]:
    raw = records.kernels
    names = raw["name"]
    names = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    words = pc.replace_substring_regex(names.dictionary, _SUFFIX, "").to_pylist()
    codes = np.asarray(names.indices.to_numpy(zero_copy_only=False), np.int64)
    kind = np.array([_kind(word) for word in words], np.int64)
    grid, group = ([raw[f"{of}_{axis}"] for axis in AXES] for of in ("grid", "group"))
    blocks = [blocks_of(items, size) for items, size in zip(grid, group, strict=True)]
    return {
        "name": names_of(codes, words),
        "kind": names_of(kind[codes] if words else codes, KINDS),
        "device": raw["device"].astype(np.int32),
        "stream": raw["stream"],
        "start_ns": raw["start"],
        "dur_ns": durations(raw["start"], raw["end"], records.repairs),
        "correlation_id": nullable(raw["correlation"]),
        "grid": dimensions(*blocks),
        "block": dimensions(*group),
    }


KINDS = ("kernel", "memcpy", "memset")


def _kind(name: str) -> int:
    if not name.startswith("__amd_rocclr_"):
        return 0
    return 1 if "copy" in name.lower() else 2 if "fill" in name.lower() else 0


def _copies(records: Records) -> dict[str, Any]:
    raw = records.copies
    if not raw:
        return {"start_ns": np.zeros(0, np.int64)}
    names = raw["direction"].dictionary_encode()
    words = [COPIES.get(word, word) for word in names.dictionary.to_pylist()]
    codes = np.asarray(names.indices.to_numpy(zero_copy_only=False), np.int64)
    return {
        "name": names_of(codes, words),
        "kind": names_of(np.zeros(len(codes), np.int64), ["memcpy"]),
        "device": raw["device"].astype(np.int32),
        "stream": raw["stream"],
        "start_ns": raw["start"],
        "dur_ns": durations(raw["start"], raw["end"], records.repairs),
        "correlation_id": nullable(raw["correlation"]),
        "bytes": nullable(raw["bytes"], -1),
    }


NOTHING = {
    "domain": pa.nulls(0, pa.string()), "name": pa.nulls(0, pa.string()),
    **{name: np.zeros(0, np.int64) for name in ("tid", "start", "end", "correlation")},
}  # fmt: skip


def _host(records: Records) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return host ranges (roctx, RCCL) and launch calls (HIP, else HSA)."""
    raw = records.calls or NOTHING
    domains = raw["domain"].dictionary_encode()
    words = [word or "" for word in domains.dictionary.to_pylist()]
    codes = np.asarray(domains.indices.to_numpy(zero_copy_only=False), np.int64)

    def among(test: Any) -> Mask:
        return np.array([test(word) for word in words], bool)[codes] if words else codes > 0

    marker, rccl = among(lambda w: w in _RANGES), among(lambda w: w.startswith("RCCL"))
    hip, hsa = among(lambda w: w.startswith("HIP")), among(lambda w: w.startswith("HSA"))
    marks = marker & (raw["start"] == raw["end"])
    records.skipped.update({"roctx marks": int(marks.sum())})
    for code, word in enumerate(words):
        here = (codes == code) & ~(marker | rccl | hip | hsa)
        records.skipped.update({f"records of {word or 'no domain'}": int(here.sum())})
    ranges = _ranges(raw, (marker & ~marks) | rccl, rccl, records.repairs)
    return ranges, _launches(raw, hip | hsa, hsa, records.repairs)


def _ranges(
    raw: Mapping[str, Any], mask: Mask, library: Mask, repairs: Counter[str]
) -> dict[str, Any]:
    names = raw["name"].filter(pa.array(mask)).dictionary_encode()
    codes = np.asarray(names.indices.to_numpy(zero_copy_only=False), np.int64)
    start, end = raw["start"][mask], raw["end"][mask]
    return range_columns(codes, names.dictionary.to_pylist(), library[mask]) | {
        "tid": raw["tid"][mask],
        "start_ns": start,
        "dur_ns": durations(start, end, repairs),
    }


def _launches(
    raw: Mapping[str, Any], mask: Mask, driver: Mask, repairs: Counter[str]
) -> dict[str, Any]:
    start, end = raw["start"][mask], raw["end"][mask]
    return {
        "name": raw["name"].filter(pa.array(mask)),
        "kind": names_of(driver[mask].astype(np.int64), ["runtime", "driver"]),
        "tid": raw["tid"][mask],
        "start_ns": start,
        "dur_ns": durations(start, end, repairs),
        "correlation_id": nullable(raw["correlation"][mask]),
        "pid": np.zeros(int(mask.sum()), np.int64),
    }


def device_of_copy(direction: pa.Array, source: Ints, destination: Ints) -> Ints:
    """Return the GPU that a copy counts for: where it begins on one, that one."""
    from_device = np.asarray(pc.is_in(direction, pa.array(FROM_DEVICE)).to_numpy(False), bool)  # noqa: FBT003
    return np.where(from_device, source, destination)

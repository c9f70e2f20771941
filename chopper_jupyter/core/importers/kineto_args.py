"""What the ``args`` of a Kineto event tell."""

from __future__ import annotations

import json
from typing import Any

INT64_MIN, INT64_MAX, UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1

ELEMENT_BYTES = {
    "double": 8, "float64": 8, "long": 8, "int64": 8, "float": 4, "float32": 4, "int": 4,
    "int32": 4, "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "byte": 1, "char": 1,
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
"""Bytes of one element, by the dtype names that c10 and Kineto write."""


def as_int(value: Any) -> int | None:
    """Read an integer that may be text, hexadecimal or unsigned; None if it is none.

    Values between 2**63 and 2**64 (handles, hashes) keep their bits as negative numbers, so
    that different ones stay different.

    Examples
    --------
    >>> as_int("17"), as_int("0x10"), as_int(2**64 - 1), as_int("stream 7"), as_int(2**70)
    (17, 16, -1, None, None)
    """
    if type(value) is str:
        try:
            value = int(value, 16) if value[:2] in ("0x", "0X") else int(value)
        except ValueError:
            return None
    if type(value) is not int or not INT64_MIN <= value <= UINT64_MAX:
        return None
    return value if value <= INT64_MAX else value - UINT64_MAX - 1


ARGUMENTS_OF = ("ttent", "ttn", "conv")
"""Parts of the names of attention and convolution operators."""


def has_arguments(name: str) -> bool:
    """Say whether an operator's written arguments tell what its shapes do not.

    Only attention (causal or not) and convolutions (transposed, grouped): other operators
    would fill the dictionary with numbers that nobody reads.

    Examples
    --------
    >>> has_arguments("aten::_flash_attention_forward"), has_arguments("FlashAttnFunc")
    (True, True)
    >>> has_arguments("aten::convolution"), has_arguments("aten::flatten")
    (True, False)
    """
    return any(part in name for part in ARGUMENTS_OF)


def range_columns(args: dict[str, Any], name: str) -> tuple[Any, ...]:
    """Return the columns of a host range from seq on, in the order of ``events.RANGES``."""
    seq = as_int(args.get("Sequence number"))
    if seq is not None and seq < 0:
        seq = None
    return (
        seq,
        as_int(args.get("Fwd thread id")),
        compact_json(args.get("Input Dims", args.get("Input dims"))),
        compact_json(args.get("Input type")),
        compact_json(args.get("Concrete Inputs")) if has_arguments(name) else None,
        *collective_columns(args),
    )


def device_columns(args: dict[str, Any]) -> tuple[Any, ...]:
    """Return grid, block, bytes and the four collective columns of a device activity."""
    return (
        dimensions(args.get("grid")),
        dimensions(args.get("block")),
        as_int(args.get("bytes")),
        *collective_columns(args),
    )


MEMORY_EVENT = "[memory]"
HOST_MEMORY = 0
"""How the profiler numbers the host among the types of devices."""


def memory_columns(args: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return device (None for the host), bytes and totals of an allocation or free.

    None if it does not say how much, or where.

    Examples
    --------
    >>> memory_columns({"Device Type": 1, "Device Id": 3, "Bytes": -512, "Total Allocated": 1024})
    (3, -512, 1024, None)
    >>> memory_columns({"Device Type": 0, "Device Id": -1, "Bytes": 64})
    (None, 64, None, None)
    """
    kind, device, size, *totals = (
        as_int(args.get(key))
        for key in ("Device Type", "Device Id", "Bytes", "Total Allocated", "Total Reserved")
    )
    if kind is None or device is None or size is None:
        return None
    if kind == HOST_MEMORY:
        device = None
    elif not 0 <= device < 2**31:
        return None
    return device, size, *(None if total is None or total < 0 else total for total in totals)


def collective_columns(
    args: dict[str, Any],
) -> tuple[str | None, str | None, int | None, int | None]:
    """Return name, process group, sequence number and bytes of a collective, if it is one."""
    name = args.get("Collective name")
    if not isinstance(name, str) or not name:
        return None, None, None, None
    group = args.get("Process Group Name")
    counts = [as_int(args.get(key)) or 0 for key in ("In msg nelems", "Out msg nelems")]
    dtype = str(args.get("dtype", "")).lower().removeprefix("c10::")
    size = ELEMENT_BYTES.get(dtype)
    message = max(counts) * size if size is not None and max(counts) > 0 else None
    return name, None if group is None else str(group), as_int(args.get("Seq")), message


_COMPACT = json.JSONEncoder(separators=(",", ":"))


def compact_json(value: Any) -> str | None:
    """Write a value as JSON without blanks; None for null."""
    return None if value is None else _COMPACT.encode(value)


def dimensions(value: Any) -> str | None:
    """Write grid or block dimensions as x,y,z; None for what is no list."""
    return ",".join(map(str, value)) if isinstance(value, list) and value else None

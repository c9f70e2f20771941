"""A plain walk over a trace's JSON: slow, simple, independent; the oracle of the readers.

It knows nothing of the package: times are parsed from decimal text, nesting is a stack.
"""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy"}
LAUNCH = {"cuda_runtime", "cuda_driver", "runtime"}
OPS = {"cpu_op", "operator"}


def events(path: Path) -> list[dict[str, Any]]:
    """Return the complete events of a file that is valid JSON; floats as decimal text."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=str, strict=False)
    rows = document if isinstance(document, list) else document.get("traceEvents", [])
    return [row for row in rows if isinstance(row, dict) and row.get("ph") == "X"]


def category(event: dict[str, Any]) -> str:
    return str(event.get("cat", "")).lower()


def ns(value: Any) -> int:
    """Whole nanoseconds of microseconds, rounded half up."""
    head, _, tail = str(value).partition(".")
    if head.isdecimal() and tail.isdecimal():
        return int(head) * 1000 + (int((tail + "0000")[:4]) + 5) // 10
    return round(Decimal(value) * 1000)


def launches(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Launch calls by correlation id."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        correlation = (row.get("args") or {}).get("correlation")
        if category(row) in LAUNCH and correlation is not None:
            found.setdefault(int(correlation), []).append(row)
    return found


def linked_kernels(rows: list[dict[str, Any]]) -> list[tuple[int, int, list[int]]]:
    """(id, start, starts of its launches) of every kernel whose launch is in the file."""
    calls = launches(rows)
    found = []
    for row in rows:
        if category(row) != "kernel":
            continue
        correlation = (row.get("args") or {}).get("correlation")
        if correlation is not None and int(correlation) in calls:
            starts = [ns(c["ts"]) for c in calls[int(correlation)]]
            found.append((int(correlation), ns(row["ts"]), starts))
    return found


def has_device_rows(rows: list[dict[str, Any]]) -> bool:
    return any(category(row) in DEVICE for row in rows)


def _is_operator(row: dict[str, Any]) -> bool:
    """Say whether a row is an operator; the oldest files have no categories."""
    return category(row) in OPS or (not category(row) and row.get("pid") == "CPU functions")


def leaf_aten(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(start, length) of every aten operator that has no aten operator inside it."""
    threads: dict[Any, list[tuple[int, int, bool]]] = {}
    for row in rows:
        if _is_operator(row) and "dur" in row:
            is_aten = str(row["name"]).startswith("aten::")
            start = ns(row["ts"])
            entry = (start, -ns(row["dur"]), is_aten)
            threads.setdefault((row.get("pid"), row.get("tid")), []).append(entry)
    leaves: list[tuple[int, int]] = []
    for entries in threads.values():
        leaves += _leaves(sorted(entries, key=lambda entry: entry[:2]))
    return sorted(leaves)


def _leaves(entries: list[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    stack: list[int] = []
    has_inner = [False] * len(entries)
    for i, (start, _, is_aten) in enumerate(entries):
        while stack and entries[stack[-1]][0] - entries[stack[-1]][1] <= start:
            stack.pop()
        if is_aten:
            for outer in stack:
                has_inner[outer] = True
        stack.append(i)
    return [
        (start, -minus)
        for (start, minus, is_aten), inner in zip(entries, has_inner, strict=True)
        if is_aten and not inner
    ]

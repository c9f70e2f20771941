"""A plain walk over a trace's JSON: slow, simple, independent; the oracle of the readers.

It knows nothing of the package: times are parsed from decimal text, nesting is a stack.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
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


def computing_aten(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(start, length) of every aten operator that stands for a kernel on the CPU.

    Operators of a name that spends at least half of its time outside other aten operators,
    and those without an aten operator inside; of nested ones the outermost.
    """
    threads: dict[Any, list[tuple[int, int, str]]] = {}
    for row in rows:
        if _is_operator(row) and "dur" in row:
            entry = (ns(row["ts"]), -ns(row["dur"]), str(row["name"]))
            threads.setdefault((row.get("pid"), row.get("tid")), []).append(entry)
    walks = [_walk(sorted(entries, key=lambda e: e[:2])) for entries in threads.values()]
    total: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for entries, outers in walks:
        for (_, minus, name), above in zip(entries, outers, strict=True):
            if name.startswith("aten::"):
                total[name] -= minus
                enclosing = [o for o in above if entries[o][2].startswith("aten::")]
                if enclosing:
                    inside[entries[enclosing[-1]][2]] -= minus
    computing = {n for n in total if total[n] - inside[n] >= 0.5 * max(total[n], 1)}
    return sorted(row for walk in walks for row in _outermost(*walk, computing))


def _walk(
    entries: list[tuple[int, int, str]],
) -> tuple[list[tuple[int, int, str]], list[list[int]]]:
    """Return the entries of a thread and, for each, the open ones around it, outermost first."""
    stack: list[int] = []
    outers: list[list[int]] = []
    for i, (start, _, _) in enumerate(entries):
        while stack and entries[stack[-1]][0] - entries[stack[-1]][1] <= start:
            stack.pop()
        outers.append(list(stack))
        stack.append(i)
    return entries, outers


def _outermost(
    entries: list[tuple[int, int, str]], outers: list[list[int]], computing: set[str]
) -> list[tuple[int, int]]:
    has_inner = set()
    for (_, _, name), above in zip(entries, outers, strict=True):
        if name.startswith("aten::"):
            has_inner.update(above)
    candidate = [
        name in computing or (name.startswith("aten::") and i not in has_inner)
        for i, (_, _, name) in enumerate(entries)
    ]
    return [
        (start, -minus)
        for i, (start, minus, _) in enumerate(entries)
        if candidate[i] and not any(candidate[o] for o in outers[i])
    ]

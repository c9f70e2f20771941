"""Collects Kineto events into plain lists and turns them into Arrow tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.events import DEVICE, FLOWS, LAUNCHES, MEMORY, RANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints = npt.NDArray[np.int64]


class Threads:
    """Dense numbers for (process, thread) pairs and for streams that have only a name."""

    def __init__(self) -> None:
        self._threads: dict[tuple[str, str], int] = {}
        self._processes: dict[str, int] = {}
        self._streams: dict[str, int] = {}
        self._ops: Counter[int] = Counter()
        self._modules: Counter[int] = Counter()

    def of(self, pid: Any, tid: Any) -> int:
        """Return the number of a thread; text and numbers that look alike are the same thread."""
        key = (str(pid), str(tid))
        return self._threads.setdefault(key, len(self._threads))

    def process_of(self, pid: Any) -> int:
        """Return the number of a process."""
        return self._processes.setdefault(str(pid), len(self._processes))

    def stream_of(self, name: str) -> int:
        """Return a number for a stream without one; high, so that it is no real stream's."""
        return self._streams.setdefault(name, (1 << 40) + len(self._streams))

    def count(self, tid: int, kind: str, times: int = 1) -> None:
        """Count what a thread did, to find the thread of stack rows that do not say it."""
        (self._modules if kind == "module_stack" else self._ops)[tid] += times

    def stack_homes(self) -> dict[int, int]:
        """Map threads that hold only stack rows to the busiest thread of operators.

        Some versions write the Python stack under process 0, thread 0.
        """
        if not self._ops:
            return {}
        names = {number: key for key, number in self._threads.items()}
        busiest = max(self._ops, key=lambda tid: (self._ops[tid], names[tid]))
        return {tid: busiest for tid in self._modules if tid not in self._ops}


class Columns:
    """Rows of the five event tables, by kind."""

    def __init__(self) -> None:
        self.ranges: list[tuple[Any, ...]] = []
        self.launches: list[tuple[Any, ...]] = []
        self.device: list[tuple[Any, ...]] = []
        self.flows: list[tuple[str, str, int, int]] = []
        self.memory: list[tuple[Any, ...]] = []

    def add_range(
        self,
        name: str,
        kind: str,
        tid: int,
        times: tuple[int, int],
        external: int | None,
        rest: tuple[Any, ...],
    ) -> None:
        """Add one host range; ``rest`` is what ``range_columns`` returned."""
        self.ranges.append((name, kind, tid, *times, external, *rest))

    def add_launch(
        self,
        name: str,
        kind: str,
        tid: int,
        times: tuple[int, int],
        correlation: int | None,
        external: int | None,
        process: int,
    ) -> None:
        """Add one launch call."""
        self.launches.append((name, kind, tid, *times, correlation, external, process))

    def add_device(
        self,
        name: str,
        kind: str,
        device: int,
        stream: int,
        times: tuple[int, int],
        correlation: int | None,
        external: int | None,
        rest: tuple[Any, ...],
    ) -> None:
        """Add one device activity; ``rest`` is what ``device_columns`` returned."""
        self.device.append((name, kind, device, stream, *times, correlation, external, *rest))

    def add_flow(self, key: str, ph: str, tid: int, at: int) -> None:
        """Add one end of a forward-backward arrow; either may come first in the file."""
        self.flows.append((key, ph, tid, at))

    def add_memory(self, tid: int, at: int, rest: tuple[Any, ...]) -> None:
        """Add one allocation or free; ``rest`` is what ``memory_columns`` returned."""
        self.memory.append((tid, at, *rest))

    def tables(self, base_ns: int, threads: Threads) -> dict[str, pa.Table]:
        """Build the five tables with absolute times."""
        made = {
            "ranges": table_of(RANGES, self.ranges, base_ns),
            "launches": table_of(LAUNCHES, self.launches, base_ns),
            "device": table_of(DEVICE, self.device, base_ns),
            "flows": table_of(FLOWS, joined(self.flows), base_ns),
            "memory": table_of(MEMORY, self.memory, base_ns),
        }
        return made | {"ranges": at_home(made["ranges"], threads)}


def joined(flows: list[tuple[str, str, int, int]]) -> list[tuple[int, int, int, int]]:
    """Join the starts and ends of arrows by key; of several starts the last one counts."""
    starts = {key: (tid, at) for key, ph, tid, at in flows if ph == "s"}
    return [(*starts[key], tid, at) for key, ph, tid, at in flows if ph == "f" and key in starts]


def at_home(ranges: pa.Table, threads: Threads) -> pa.Table:
    """Move stack rows from a thread that has no operators to the busiest one that has."""
    homes = threads.stack_homes()
    if not homes:
        return ranges
    tid = ranges["tid"].to_numpy()
    moved = np.array([homes.get(t, t) for t in range(int(tid.max()) + 1)], np.int64)[tid]
    stack = pc.equal(ranges["kind"].cast(pa.string()), "module_stack").to_numpy()
    at = ranges.schema.get_field_index("tid")
    values = pa.array(np.where(stack, moved, tid))
    return ranges.set_column(at, ranges.schema.field(at), values)


SHIFTED = ("start_ns", "time_ns", "forward_ns", "backward_ns")


def table_of(schema: pa.Schema, rows: Sequence[tuple[Any, ...]], base_ns: int) -> pa.Table:
    """Build one table of rows in the order of its schema; times are shifted by ``base_ns``."""
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in schema]
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        if pa.types.is_dictionary(field.type):
            arrays.append(_encode(values))
        elif field.name in SHIFTED:
            arrays.append(pa.array(np.array(values, dtype=np.int64) + base_ns))
        elif pa.types.is_string(field.type):
            arrays.append(pa.array([valid_text(v) for v in values], type=field.type))
        else:
            arrays.append(pa.array(values, type=field.type))
    return pa.table(arrays, schema=schema)


def _encode(values: tuple[Any, ...]) -> pa.DictionaryArray:
    """Dictionary-encode names; text that is no valid Unicode gets replacement characters."""
    codes: dict[str, int] = {}
    index = np.fromiter(
        (-1 if v is None else codes.setdefault(v, len(codes)) for v in values),
        dtype=np.int32,
        count=len(values),
    )
    names = [valid_text(v) for v in codes]
    encoded = pa.DictionaryArray.from_arrays(
        pa.array(index, mask=index < 0), pa.array(names, pa.string())
    )
    if len(set(names)) == len(names):
        return encoded
    return encoded.cast(pa.string()).dictionary_encode()


def valid_text(text: str | None) -> str | None:
    """Replace lone surrogates, which JSON can spell and UTF-8 cannot."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")

"""Compares the fast and the plain way of reading a Kineto file, value by value."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.events import DEVICE, FLOWS, LAUNCHES, MEMORY, RANGES, RankEvents
from chopper_jupyter.core.importers import kineto, kineto_fast
from chopper_jupyter.core.importers.json_stream import NotPlain

SCHEMAS = {
    "ranges": RANGES, "launches": LAUNCHES, "device": DEVICE, "flows": FLOWS, "memory": MEMORY,
}  # fmt: skip
BESIDE = ("rank", "world_size", "host", "devices", "events_read", "skipped", "repairs", "source",
          "meta")  # fmt: skip
NUMBERED = {
    "tid": (("ranges", "tid"), ("launches", "tid"), ("flows", "forward_tid"),
            ("flows", "backward_tid"), ("memory", "tid")),
    "pid": (("launches", "pid"),),
}  # fmt: skip
"""Columns of dense numbers: which number a thread gets is free, as long as it is one."""


def check_same(path: Path) -> bool:
    """Assert that both ways agree on a file; say whether the fast way took it.

    It may leave any file to the plain way, but not read one that the plain way refuses, and
    nothing but the typed error may come out of either.
    """
    fast = _fast(path)
    try:
        plain = kineto.read_rank_plain(path)
    except TraceFormatError:
        plain = None
    if fast is None:
        return False
    assert plain is not None, "read fast what is plainly refused"
    found = "\n".join(itertools.islice(differences(fast, plain), 5))
    assert not found, f"fast != plain:\n{found}"
    return True


def _fast(path: Path) -> RankEvents | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return kineto_fast.read_rank(path)
        except NotPlain:
            return None


def differences(fast: RankEvents, plain: RankEvents) -> Iterator[str]:
    """Yield what differs, the first row of each column only."""
    for name in BESIDE:
        if getattr(fast, name) != getattr(plain, name):
            yield f"{name}: {getattr(fast, name)!r} != {getattr(plain, name)!r}"
    a, b = _columns(fast), _columns(plain)
    for key, column in a.items():
        if column.equals(b[key]):
            continue
        x, y = column.to_pylist(), b[key].to_pylist()
        row = next((i for i, pair in enumerate(zip(x, y, strict=False)) if pair[0] != pair[1]), -1)
        yield f"{key}: {len(x)} and {len(y)} rows; row {row}: {x[row:][:1]} != {y[row:][:1]}"


def _columns(events: RankEvents) -> dict[tuple[str, str], pa.ChunkedArray]:
    columns = {}
    for name, schema in SCHEMAS.items():
        table = getattr(events, name)
        table.validate(full=True)
        assert table.schema.equals(schema), name
        for field in schema:
            column = table[field.name]
            columns[name, field.name] = (
                column.cast(pa.string()) if pa.types.is_dictionary(field.type) else column
            )
    for keys in NUMBERED.values():
        values = np.concatenate([columns[key].to_numpy() for key in keys])
        _, first, number = np.unique(values, return_index=True, return_inverse=True)
        numbers = iter(np.argsort(np.argsort(first))[number].tolist())
        for key in keys:
            columns[key] = pa.chunked_array([list(itertools.islice(numbers, len(columns[key])))])
    return columns

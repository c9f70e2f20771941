"""What the wall time of the GPUs is made of; the parts add up exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import Ints, group
from chopper_jupyter.core.analysis.included import Include, included
from chopper_jupyter.core.analysis.levels import encode, key_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from chopper_jupyter.core.trace import Trace

PARTS: dict[str, str] = {
    "compute": "Compute",
    "exposed_communication": "Exposed communication",
    "memory": "Copies and fills",
    "idle": "Idle",
}
"""Parts of the wall time in reading order, with their words for a display."""

_BUSY_PART = {
    "compute": "compute",
    "collective": "exposed_communication",
    "memcpy": "memory",
    "memset": "memory",
}
"""The part that the busy time of each kind of kernel belongs to."""


def breakdown(
    trace: Trace, by: str | Iterable[str] | None = None, *, include: Include = "measured"
) -> pd.DataFrame:
    """Split wall time into compute, exposed communication, memory and idle time.

    Every instant of a GPU's window counts once: as compute while any compute kernel runs, else
    as exposed communication while a collective runs, else as memory while a copy or fill runs,
    else as idle. A gap belongs to the kernel that ends it.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : str or iterable of str, optional
        Levels to keep apart, as in ``summarize``; nothing gives one row.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed int64 sums over the iterations and GPUs of each row: ``compute_ns``,
        ``exposed_communication_ns``, ``memory_ns``, ``idle_ns``, and ``wall_ns``, their sum.
        Rows are in reading order (numbers, phases, layers as the forward pass meets them, ops
        by time); null is a row of its own. ``attrs`` holds ``units`` by column, ``included``,
        ``iterations``, ``gpus``.

    Raises
    ------
    SchemaError
        If a level does not exist.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> breakdown(Trace.from_tables({})).iloc[0].tolist()
    [0, 0, 0, 0, 0]
    """
    which = included(trace, include)
    keys = [encode(which.kernels, name) for name in key_names(by)]
    groups = group(keys, which.kernels.num_rows)
    parts = groups.sum(parts_of(which.kernels))
    columns = key_columns(keys, groups)
    columns |= {f"{part}_ns": pa.array(sums) for part, sums in parts.items()}
    columns["wall_ns"] = pa.array(np.sum(list(parts.values()), axis=0))
    units = {name: "ns" for name in columns if name.endswith("_ns")}
    return to_frame(pa.table(columns), which, units)


def parts_of(kernels: pa.Table) -> dict[str, Ints]:
    """Return, per kernel, the wall time it adds to each part."""
    kind = encode(kernels, "kind")
    busy = kernels["busy_ns"].to_numpy()
    parts = {}
    for part in PARTS:
        kinds = [i for i, name in enumerate(kind.values) if _BUSY_PART.get(name) == part]
        parts[part] = np.where(np.isin(kind.codes, kinds), busy, 0)
    parts["idle"] = kernels["idle_ns"].to_numpy()
    return parts

"""The most memory there was at once, by the groups of kernels that an answer has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.grouping import Floats, Key, group
from chopper_jupyter.core.analysis.metrics import MAXIMA
from chopper_jupyter.core.analysis.quantities import size
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.analysis.grouping import Codes, Groups, Ints
    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.trace import Trace

LEVELS = ("gpu", "iteration", "phase", "layer", "op", "module")
"""What an allocation belongs to; it belongs to no kernel, which runs later or never."""


def recorded_peaks(memory: pa.Table) -> tuple[str, ...]:
    """Say which of the ``MAXIMA`` the recording holds."""
    columns = [(name, memory[name.removeprefix("peak_")]) for name in MAXIMA]
    return tuple(name for name, column in columns if column.null_count < len(column))


def peaks(trace: Trace, which: Included, keys: Sequence[Key], groups: Groups) -> dict[str, Floats]:
    """Return the most allocated and reserved bytes of each group; NaN where nothing changed.

    Around each allocation or free the larger of what there was before and after counts, so that
    a group which only frees knows what it began with. It is reserved memory afterwards.

    Parameters
    ----------
    trace : Trace
        The trace.
    which : Included
        What the answer covers.
    keys, groups : sequence of Key, Groups
        The groups of its kernels. What was allocated in groups that have no kernel is in none.

    Raises
    ------
    MissingDataError
        If a key is none of ``LEVELS``.
    """
    for key in keys:
        if key.name not in LEVELS:
            msg = f"memory belongs to no {key.name}: ask by {', '.join(LEVELS)}"
            raise MissingDataError(msg)
    memory = _covered(trace.memory, which)
    rows = memory.num_rows
    both = [
        Key(key.name, (*key.values, None), np.concatenate([codes, _codes(memory[key.name], key)]))
        for key, codes in zip(keys, groups.codes, strict=True)
    ]
    shared = group(both, groups.count + rows)
    of_kernels = np.full(shared.count, -1, np.int64)
    of_kernels[shared.of_row[: groups.count]] = np.arange(groups.count)
    at = of_kernels[shared.of_row[groups.count :]]
    values = (_allocated(memory), _numbers(memory["reserved_bytes"]))
    return {
        name: _most(at, column, groups.count) for name, column in zip(MAXIMA, values, strict=True)
    }


def memory_text(trace: Trace, which: Included) -> str:
    """Say how much memory was in use at most, and where; empty if it was not recorded.

    Examples
    --------
    >>> from chopper_jupyter.core.analysis.included import included
    >>> from chopper_jupyter.core.trace import Trace
    >>> trace = Trace.from_tables({})
    >>> memory_text(trace, included(trace))
    ''
    """
    memory = _covered(trace.memory, which)
    if not memory.num_rows:
        return ""
    allocated = _allocated(memory)
    at = int(allocated.argmax())
    row = memory.slice(at, 1).to_pylist()[0]
    device = f"{'rank' if trace.info.device_kind == 'cpu' else 'GPU'} {row['gpu']}"
    places = [device if len(which.gpus) > 1 else None, row["phase"], row["layer"]]
    where = ", ".join(place for place in places if place)
    reserved = pc.max(memory["reserved_bytes"]).as_py()
    text = f"at most {size(allocated[at])} allocated" + (f" ({where})" if where else "")
    return text + (f", {size(reserved)} reserved" if reserved is not None else "")


def _allocated(memory: pa.Table) -> Floats:
    """Return the larger of what was allocated before and after each change."""
    after = _numbers(memory["allocated_bytes"])
    return np.maximum(after, after - _numbers(memory["bytes"]))


def _covered(memory: pa.Table, which: Included) -> pa.Table:
    """Keep the rows of the iterations that are covered; all where there are no iterations."""
    if not which.iterations:
        return memory
    known = pc.is_in(memory["iteration"], pa.array(which.iterations, pa.int32()))
    outside = pc.is_null(memory["iteration"])
    return memory.filter(pc.or_(known, outside) if which.everything else known)


def _codes(column: pa.ChunkedArray, key: Key) -> Codes:
    """Return the codes that a key has for the values of a column; those it lacks share another."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no rows
        return np.zeros(0, np.int32)
    code = {value: i for i, value in enumerate(key.values)}
    found = [code.get(value, len(code)) for value in whole.dictionary.to_pylist()]
    index = pc.fill_null(whole.indices, len(found)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*found, -1], np.int32)[index], np.int32)


def _numbers(column: pa.ChunkedArray) -> Floats:
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)


def _most(at: Ints, values: Floats, count: int) -> Floats:
    most = np.full(count, -np.inf)
    kept = (at >= 0) & ~np.isnan(values)
    np.maximum.at(most, at[kept], values[kept])
    return np.where(np.isinf(most), np.nan, most)

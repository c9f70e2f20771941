"""The ``counters`` table: counted values on the kernels they were matched with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.align.match import MATCHED_BY
from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.schema import conform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.align.match import Matches
    from chopper_jupyter.core.counter_events import CounterRun

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

REPEATED = (
    "{} was counted in passes {}: between them it differs by {:.2g} % (median over {:,} kernels)"
)


def counter_rows(kernels: pa.Table, run: CounterRun, matches: Matches) -> pa.Table:
    """Return what was counted of each matched kernel; what was not matched has no rows.

    Parameters
    ----------
    kernels : pyarrow.Table
        The ``kernels`` that were matched.
    run : CounterRun
        What was counted.
    matches : Matches
        What ``match`` found for them.

    Returns
    -------
    pyarrow.Table
        By ``schema.COUNTERS``, one row per kernel, counter and pass.
    """
    size = run.counted.num_rows
    kernel, how = np.full(size, -1, np.int64), np.zeros(size, np.int32)
    kernel[matches.counted] = np.asarray(kernels["kernel_id"].to_numpy())[matches.timed]
    how[matches.counted] = matches.how
    row_of = np.zeros(int(pc.max(run.counted["counted_id"]).as_py() or 0) + 1, np.int64)
    row_of[run.counted["counted_id"].to_numpy()] = np.arange(size)
    row = row_of[run.values["counted_id"].to_numpy()]
    kept = kernel[row] >= 0
    row = row[kept]
    labels = pa.DictionaryArray.from_arrays(pa.array(how[row]), pa.array(MATCHED_BY))
    return conform(
        "counters",
        pa.table(
            {
                "kernel_id": kernel[row],
                "counter": run.values["counter"].filter(pa.array(kept)),
                "value": run.values["value"].filter(pa.array(kept)),
                "pass": run.counted["pass"].take(pa.array(row)),
                "matched_by": labels,
            }
        ),
    )


def averaged(tables: Sequence[pa.Table]) -> tuple[pa.Table, list[str]]:
    """Join counters of several runs; of what was counted in several passes take the mean.

    A mean stands on the row of its first pass. How long a kernel ran while it was counted
    belongs to its pass alone and is not averaged.

    Returns
    -------
    pyarrow.Table
        By ``schema.COUNTERS``, in order of kernel, counter and pass.
    list of str
        How well each counter that was counted several times agrees with itself.
    """
    whole = conform("counters", pa.concat_tables(tables).unify_dictionaries())
    counter, words = codes(whole["counter"])
    kernel, number = (np.asarray(whole[c].to_numpy(), np.int64) for c in ("kernel_id", "pass"))
    order = np.lexsort((number, counter, kernel))
    whole = whole.take(pa.array(order))
    counter, kernel, number = counter[order], kernel[order], number[order]
    apart = np.array([word == COUNTED_DURATION for word in [*words, ""]], bool)[counter]
    new = np.ones(len(order), bool)
    new[1:] = (
        (np.diff(kernel) != 0) | (np.diff(counter) != 0) | (apart[1:] & (np.diff(number) != 0))
    )
    if new.all():
        return whole, []
    first = np.flatnonzero(new)
    value = np.asarray(whole["value"].to_numpy(), np.float64)
    size = np.diff(first, append=len(value))
    mean = np.add.reduceat(value, first) / size
    notes = _repeatability(value, first, size, mean, counter, words, number)
    whole = whole.filter(pa.array(new))
    at = whole.schema.get_field_index("value")
    return whole.set_column(at, whole.schema.field(at), pa.array(mean)), notes


def _repeatability(
    value: Floats,
    first: Ints,
    size: Ints,
    mean: Floats,
    counter: Ints,
    words: Sequence[str],
    number: Ints,
) -> list[str]:
    """Say per counter how far apart its passes are."""
    spread = np.maximum.reduceat(value, first) - np.minimum.reduceat(value, first)
    repeated = (size > 1) & (mean != 0)
    notes = []
    for code in np.unique(counter[first[repeated]]).tolist():
        mine = repeated & (counter[first] == code)
        apart = 100 * float(np.median(spread[mine] / np.abs(mean[mine])))
        rows = np.repeat(mine, size)
        passes = ", ".join(map(str, np.unique(number[rows]).tolist()))
        notes.append(REPEATED.format(words[code], passes, apart, int(mine.sum())))
    return notes

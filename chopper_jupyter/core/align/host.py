"""The host side of one rank, ready for attribution: ranges in nesting order with their names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align import scopes
from chopper_jupyter.core.align.iterations import PROFILER_STEP
from chopper_jupyter.core.align.nesting import POSITION, Ints, Mask, Nesting, nest
from chopper_jupyter.core.annotations import ITERATION_PREFIX, MODULE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Host:
    """Host ranges in nesting order.

    Parameters
    ----------
    forest : Nesting
        Which range lies in which; ``forest.order`` maps positions to rows of ``table``.
    table : pyarrow.Table
        The ranges as imported.
    names, words : int array, list of str
        Name of each position as a code into ``words``.
    is_op, is_annotation, is_stack : bool arrays
        Operator calls; user ranges; ``nn.Module`` rows of a Python stack.
    """

    forest: Nesting
    table: pa.Table
    names: Ints
    words: list[str]
    is_op: Mask
    is_annotation: Mask
    is_stack: Mask

    def named(self, test: Callable[[str], bool]) -> Mask:
        """Mark the positions whose name passes a test."""
        return pick(np.array([test(word) for word in self.words], bool), self.names)

    @cached_property
    def operator(self) -> Ints:
        """Nearest operator call at or above each position, -1 where there is none."""
        return self.forest.nearest(self.is_op)

    def ints(self, column: str) -> Ints:
        """Return a nullable integer column by position, -1 where null."""
        values = pc.fill_null(self.table[column], -1).to_numpy()
        return np.asarray(values, np.int64)[self.forest.order]

    def strings(self, column: str, at: Ints | None = None) -> pa.Array:
        """Return a string column by position, or at some positions."""
        rows = self.forest.order if at is None else self.forest.order[at]
        values = self.table[column]
        if values.null_count == len(values):
            return pa.nulls(len(rows), values.type)
        return values.combine_chunks().take(pa.array(rows))


def host_of(ranges: pa.Table) -> Host:
    """Order the host ranges of one rank and sort them by kind.

    Profiler steps, optimizer calls and the like count as user ranges whatever category the
    file gives them: traces of 2021 have one category for everything.
    """
    tid, start, dur = (np.asarray(ranges[c].to_numpy(), np.int64) for c in
                       ("tid", "start_ns", "dur_ns"))  # fmt: skip
    forest = nest(tid, start, dur)
    names, words = codes(ranges["name"])
    kinds, kind_words = codes(ranges["kind"])
    names = names.astype(POSITION)[forest.order]
    kinds = kinds.astype(POSITION)[forest.order]

    def of_kind(kind: str) -> Mask:
        return pick(np.array([word == kind for word in kind_words], bool), kinds)

    ours = np.array([w.startswith((MODULE_PREFIX, ITERATION_PREFIX)) for w in words], bool)
    known = np.array([_is_bookkeeping(w) for w in words], bool)
    is_op = of_kind("op") & ~pick(ours, names) & ~pick(known, names)
    is_annotation = of_kind("annotation") | (of_kind("op") & pick(known, names))
    return Host(
        forest, ranges, names, words, is_op, is_annotation & ~pick(ours, names),
        of_kind("module_stack"),
    )  # fmt: skip


def codes(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """Return a dictionary column as codes (-1 for null) and its words."""
    array = column.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # an empty column has no chunk to combine
        return np.zeros(0, np.int64), []
    index = np.asarray(pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False), np.int64)
    return index, array.dictionary.to_pylist()


def pick(values: npt.NDArray[np.bool_], index: Ints) -> Mask:
    """Look up a mask by code; False for all where there are no words."""
    return values.take(index) if len(values) else np.zeros(len(index), bool)


def _is_bookkeeping(name: str) -> bool:
    return bool(
        PROFILER_STEP.match(name)
        or scopes.is_optimizer(name)
        or name.startswith(("enumerate(DataLoader)", "DistributedDataParallel.forward"))
    )

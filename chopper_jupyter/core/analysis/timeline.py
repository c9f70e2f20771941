"""All that ran on each GPU in order of start, as arrays, and which of it an answer covers.

What ran before or beside a kernel decides about its overlap and launch overhead, also if it is
itself filtered away or lies outside the covered iterations.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.errors import MissingDataError, PartialTraceWarning

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Ints
    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.trace import Trace

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Timeline:
    """All kernels by GPU and start; a *place* is a position in that order.

    Parameters
    ----------
    kernels : pyarrow.Table
        All kernels, in the order of the table.
    order : numpy.ndarray of int64 or None
        Row of ``kernels`` at each place; None if the rows are in order already.
    covered : numpy.ndarray of int64
        Place of each row of ``Included.kernels``.
    gpu, start, end : numpy.ndarray of int64
        GPU and times at each place.
    """

    kernels: pa.Table
    order: Ints | None
    covered: Ints
    gpu: Ints
    start: Ints
    end: Ints

    def ints(self, name: str, null: int = 0) -> Ints:
        """Return a column of integers by place."""
        filled = pc.fill_null(self.kernels[name].cast(pa.int64()), null)
        values = np.asarray(filled.to_numpy(), np.int64)
        return values if self.order is None else values[self.order]

    def known(self, name: str) -> Mask:
        """Mark the places at which a column is not null."""
        valid = np.asarray(pc.is_valid(self.kernels[name]).to_numpy(), bool)
        return valid if self.order is None else valid[self.order]

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return the codes of a column of names by place, -1 for null, and the names."""
        whole = self.kernels[name].unify_dictionaries().combine_chunks()
        if isinstance(whole, pa.ChunkedArray):  # no chunk at all: no rows
            whole = pa.array([], whole.type)
        codes = pc.fill_null(whole.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes if self.order is None else codes[self.order], whole.dictionary.to_pylist()

    def named(self, name: str, *values: str) -> Mask:
        """Mark the places at which a column of names holds any of the values."""
        codes, words = self.codes(name)
        hit = np.array([*(word in values for word in words), False])
        return hit[codes]

    def gpus(self) -> list[tuple[int, slice]]:
        """Return every GPU and its places."""
        return runs(self.gpu)


def runs(values: Ints) -> list[tuple[int, slice]]:
    """Return every value of an array of ascending values, and where it stands.

    Examples
    --------
    >>> runs(np.array([0, 0, 3]))
    [(0, slice(0, 2, None)), (3, slice(2, 3, None))]
    """
    changes = (np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()
    edges = [0, *changes, len(values)] if len(values) else []
    return [(int(values[lo]), slice(lo, hi)) for lo, hi in itertools.pairwise(edges)]


def timeline(trace: Trace, which: Included, question: str) -> Timeline:
    """Put all kernels of a trace in order.

    Parameters
    ----------
    trace : Trace
        The trace, perhaps a filtered one.
    which : Included
        The kernels that the answer covers.
    question : str
        What is asked for, to be named in errors.

    Raises
    ------
    MissingDataError
        If no GPU was recorded.
    """
    if trace.info.device_kind == "cpu":
        msg = f"{question} needs a trace recorded on a GPU; this one holds CPU operators only"
        raise MissingDataError(msg)
    kernels = trace.all_kernels
    gone = trace.quality.kernels - kernels.num_rows
    if gone > 0:
        warnings.warn(
            f"{gone:,} kernels were filtered away before this trace was saved: {question} "
            "takes no account of what they did; use the whole trace and filter that",
            PartialTraceWarning,
            stacklevel=3,
        )
    gpu, start, identity = (
        kernels[name].to_numpy().astype(np.int64, copy=False)
        for name in ("gpu", "start_ns", "kernel_id")
    )
    end = start + kernels["dur_ns"].to_numpy()
    rows = _covered_rows(trace, which)
    if _in_order(gpu, start, identity):
        return Timeline(kernels, None, rows, gpu, start, end)
    order = np.lexsort((identity, start, gpu))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Timeline(kernels, order, place[rows], gpu[order], start[order], end[order])


def _covered_rows(trace: Trace, which: Included) -> Ints:
    """Return the row among all kernels of each covered one."""
    mask = which.mask
    if trace.unfiltered is not None:
        kept = trace.kernels["kernel_id"]
        kept = kept if mask is None else kept.filter(mask)
        mask = pc.is_in(trace.all_kernels["kernel_id"], kept.combine_chunks())
    if mask is None:
        return np.arange(trace.kernels.num_rows)
    return np.flatnonzero(mask.to_numpy())


def _in_order(gpu: Ints, start: Ints, identity: Ints) -> bool:
    same_gpu, same_start = gpu[1:] == gpu[:-1], start[1:] == start[:-1]
    later = (start[1:] > start[:-1]) | (same_start & (identity[1:] > identity[:-1]))
    return bool(((gpu[1:] > gpu[:-1]) | (same_gpu & later)).all())

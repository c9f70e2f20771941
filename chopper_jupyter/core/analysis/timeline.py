"""All that ran on each GPU in order of start, as arrays, and which of it an answer covers.

What ran before or beside a kernel decides about its overlap and launch overhead, also if it is
itself filtered away or lies outside the covered iterations.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.numbering import looked_up, pieces
from chopper_jupyter.core.analysis.sharing import shared
from chopper_jupyter.core.errors import MissingDataError, PartialTraceWarning

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.grouping import Codes, Ints
    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.trace import Trace

Mask = npt.NDArray[np.bool_]
Number = TypeVar("Number", np.bool_, np.int64, np.float64)


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

    @property
    def whole(self) -> bool:
        """Tell if all kernels are covered, their rows being the places."""
        return self.order is None and len(self.covered) == len(self.gpu)

    def places_of(self, rows: Ints) -> Ints:
        """Return the place of some rows of ``kernels``."""
        if self.order is None:
            return rows
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(place))
        return place[rows]

    def of_covered(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return values by place for the covered rows; they may be the same array."""
        return values if self.whole else values[self.covered]

    def ints(self, name: str, null: int = 0) -> Ints:
        """Return a column of integers by place; it may be the table's own."""
        column = self.kernels[name]
        column = pc.fill_null(column, null) if column.null_count else column
        values: Ints = column.to_numpy().astype(np.int64, copy=False)
        return values if self.order is None else values[self.order]

    def known(self, name: str) -> Mask:
        """Mark the places at which a column is not null."""
        valid = np.asarray(pc.is_valid(self.kernels[name]).to_numpy(), bool)
        return valid if self.order is None else valid[self.order]

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return the codes of a column of names by place, -1 for null, and the names."""
        codes, words = self._codes(name)
        return codes.astype(np.int64), words

    def _codes(self, name: str) -> tuple[Codes, list[str]]:
        whole = self.kernels[name].unify_dictionaries().combine_chunks()
        if isinstance(whole, pa.ChunkedArray):  # no chunk at all: no rows
            whole = pa.array([], whole.type)
        index = pc.fill_null(whole.indices, -1) if whole.null_count else whole.indices
        codes: Codes = index.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return codes if self.order is None else codes[self.order], whole.dictionary.to_pylist()

    def named(self, name: str, *values: str) -> Mask:
        """Mark the places at which a column of names holds any of the values."""
        codes, words = self._codes(name)
        hit = np.array([*(word in values for word in words), False])
        return looked_up(hit, codes)

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
    rows = _covered_rows(trace, which)
    order, *times = shared(trace, "order of kernels", lambda: _ordered(kernels))
    if order is None:
        return Timeline(kernels, None, rows, *times)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Timeline(kernels, order, place[rows], *times)


def _ordered(kernels: pa.Table) -> tuple[Ints | None, Ints, Ints, Ints]:
    """Return the row at each place, None if rows are in order; and GPU, start and end there."""
    gpu, start, identity = (
        kernels[name].to_numpy().astype(np.int64, copy=False)
        for name in ("gpu", "start_ns", "kernel_id")
    )
    end = start + kernels["dur_ns"].to_numpy()
    if _in_order(gpu, start, identity):
        return None, gpu, start, end
    order = np.lexsort((identity, start, gpu))
    return order, gpu[order], start[order], end[order]


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
    """Tell if kernels are in order of GPU, start and identity."""
    edges = (slice(piece.start, piece.stop + 1) for piece in pieces(max(len(gpu) - 1, 0)))
    return all(_ascend(gpu[one], start[one], identity[one]) for one in edges)


def _ascend(gpu: Ints, start: Ints, identity: Ints) -> bool:
    same_gpu, same_start = gpu[1:] == gpu[:-1], start[1:] == start[:-1]
    later = (start[1:] > start[:-1]) | (same_start & (identity[1:] > identity[:-1]))
    return bool(((gpu[1:] > gpu[:-1]) | (same_gpu & later)).all())

"""Counts operations once per call: nested operators share one count, and one kernel carries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.align.distinct import distinct
from chopper_jupyter.core.align.flops import Flops, flops_of, has_formula
from chopper_jupyter.core.align.host import Host, codes
from chopper_jupyter.core.align.nesting import POSITION
from chopper_jupyter.core.align.tables import nullable

if TYPE_CHECKING:
    import pyarrow as pa

    from chopper_jupyter.core.align.nesting import Ints, Mask

UNKNOWN = -1
LARGEST = 2**62
MAIN_FAMILIES = ("gemm", "attention")


@dataclass(frozen=True)
class Counted:
    """Operations of one rank's calls.

    Parameters
    ----------
    at : int array
        The outermost calls that have a count: their positions in nesting order, ascending.
    flops : int64 array
        Operations of each of them.
    owner : int array
        By position, the call that counts what runs below it; -1 where there is none.
    notes : tuple of str
        What a reader should know.
    """

    at: Ints
    flops: Ints
    owner: Ints
    notes: tuple[str, ...] = ()


def count(host: Host) -> Counted:
    """Count the operations of all calls.

    ``aten::linear`` and the ``aten::addmm`` inside are one product: the outermost call that can
    be counted counts. A call that does not tell whether it is causal leaves it to one inside
    that does.
    """
    at, flops, sure_of = _of_calls(host)
    forest = host.forest
    known, sure = (np.zeros(len(host.names), bool) for _ in range(2))
    known[at], sure[at] = True, sure_of
    if not len(at):
        return Counted(at, flops, np.full(len(known), UNKNOWN, POSITION))
    unsure = known & ~sure & ~forest.any_below(sure)
    counts = (sure & ~_below(host, sure)) | (unsure & ~_below(host, known))
    doubtful = int((counts & ~sure).sum())
    note = (
        f"{doubtful:,} attention calls do not tell whether they are causal: "
        "their FLOPs are counted without a mask"
    )
    outermost = counts[at]
    return Counted(
        at[outermost], flops[outermost], forest.nearest(counts), (note,) if doubtful else ()
    )


def on_ops(ops: pa.Table, counted: Counted) -> pa.Table:
    """Fill the ``flops`` column of the ``ops`` table of one rank."""
    flops = np.full(ops.num_rows, UNKNOWN)
    flops[np.searchsorted(ops["op_id"].to_numpy(), counted.at)] = counted.flops
    return _set(ops, flops)


def on_kernels(kernels: pa.Table, counted: Counted) -> pa.Table:
    """Fill the ``flops`` column of the ``kernels`` table of one rank.

    All operations of a call go to its longest kernel of matrix products or attention, or, if
    it has none, to its longest compute kernel; its other kernels stay null.
    """
    flops = np.full(kernels.num_rows, UNKNOWN)
    if not len(counted.at):
        return _set(kernels, flops)
    op = kernels["op_id"].fill_null(UNKNOWN).to_numpy()
    owner = np.where(op >= 0, counted.owner[op], UNKNOWN)
    rows = np.flatnonzero((owner >= 0) & _is(kernels["kind"], ("compute",)))
    main = _is(kernels["family"], MAIN_FAMILIES)[rows]
    dur = kernels["dur_ns"].to_numpy()[rows]
    order = np.lexsort((-dur, ~main, owner[rows]))
    rows = rows[order]
    first = np.concatenate([[True], owner[rows][1:] != owner[rows][:-1]])[: len(rows)]
    flops[rows[first]] = counted.flops[np.searchsorted(counted.at, owner[rows[first]])]
    return _set(kernels, flops)


def _set(table: pa.Table, flops: Ints) -> pa.Table:
    at = table.schema.get_field_index("flops")
    return table.set_column(at, table.schema.field(at), nullable(flops))


def _is(column: pa.ChunkedArray, words: tuple[str, ...]) -> Mask:
    index, known = codes(column)
    hit = np.array([*(word in words for word in known), False])  # null is the last one
    return np.asarray(hit[index], bool)


def _below(host: Host, mask: Mask) -> Mask:
    """Mark the positions that lie in a marked one, not counting themselves."""
    parent = host.forest.parent
    nearest = host.forest.nearest(mask)
    return (parent >= 0) & (nearest[parent] >= 0)


def _of_calls(host: Host) -> tuple[Ints, Ints, Mask]:
    """Return the calls that can be counted, their operations and certainty, asking once a form."""
    at = np.flatnonzero(host.is_op & host.named(has_formula))
    if not len(at):
        return at, at, np.zeros(0, bool)
    rows = host.forest.order[at]
    shapes, shape_words = codes(host.table["input_shapes"])
    concrete, concrete_words = codes(host.table["concrete_inputs"])
    forms, index = distinct(host.names[at], shapes[rows], concrete[rows])
    found = [
        _bounded(flops_of(host.words[n], _word(shape_words, s), _word(concrete_words, c)))
        for n, s, c in forms
    ]
    flops = np.array([UNKNOWN if f is None else f.count for f in found], np.int64)[index]
    certain = np.array([f is not None and f.certain for f in found], bool)[index]
    known = flops >= 0
    return at[known], flops[known], certain[known]


def _word(words: list[str], code: int) -> str | None:
    return None if code < 0 else words[code]


def _bounded(found: Flops | None) -> Flops | None:
    """Drop counts that no table can hold: such shapes are damaged."""
    return found if found is not None and 0 <= found.count < LARGEST else None

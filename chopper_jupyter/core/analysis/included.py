"""Which kernels an answer covers: warm-up and what lies outside iterations are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.grouping import group
from chopper_jupyter.core.analysis.levels import KEY_COLUMNS, encode
from chopper_jupyter.core.analysis.metrics import MEASURES, measures_of
from chopper_jupyter.core.analysis.numbering import pieces
from chopper_jupyter.core.errors import unknown_name
from chopper_jupyter.core.schema import empty
from chopper_jupyter.core.trace import altered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from chopper_jupyter.core.analysis.grouping import Groups, Ints, Key
    from chopper_jupyter.core.trace import Trace

Include = Literal["measured", "all"]
"""``measured``: iterations after warm-up; ``all``: every kernel of the trace."""


_MEASURED = {m.column for m in MEASURES.values() if m.column}
COLUMNS = sorted({*KEY_COLUMNS.values(), *_MEASURED, "start_ns"})
"""Columns of ``kernels`` that answers read."""

REMEMBERED = 8
"""Ways to group the kernels that are kept: each takes a byte a kernel, or two, rarely four."""

NEVER = np.iinfo(np.int64).max
"""When something begins that there is none of."""

_MOST_RUNS = 1000
"""Up to this many runs of covered kernels are shared with the trace instead of copied."""


@dataclass(frozen=True)
class Included:
    """The kernels an answer covers, and what was left out.

    Parameters
    ----------
    kernels : pyarrow.Table
        Covered rows of ``trace.kernels``; only the columns that answers group by or sum.
    iterations : tuple of int
        Covered iterations; empty if the recording has none, then all kernels are covered.
    gpus : tuple of int
        GPUs that own a covered kernel.
    warmup : int
        Iterations left out as warm-up.
    outside : int
        Kernels left out because they lie in no iteration.
    everything : bool
        True if kernels that lie in no iteration are covered as well.
    mask : pyarrow.ChunkedArray or None
        Which rows of ``trace.kernels`` are covered; None if all are.
    encoded : dict of str to Key
        Key columns that were asked for.
    """

    kernels: pa.Table
    iterations: tuple[int, ...]
    gpus: tuple[int, ...]
    warmup: int
    outside: int
    everything: bool = False
    mask: pa.ChunkedArray | None = None
    encoded: dict[str, Key] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def measures(self) -> dict[str, Ints]:
        """Every measure of the covered kernels: see ``measures_of``."""
        return measures_of(self.kernels)

    @cached_property
    def edges(self) -> tuple[Ints, Ints]:
        """When the kernels of each GPU (row) and iteration (column) begin and end.

        They begin with the idle time before the first, and have ended with the last of them. The
        last column is of kernels in no iteration; where there are none, they begin ``NEVER``.
        """
        gpu, iteration = self.key("gpu"), self.key("iteration")
        shape = (len(gpu.values), len(iteration.values) + 1)
        begin, end = np.full(shape, NEVER), np.full(shape, -NEVER)
        start, dur, gap = (self.kernels[n].to_numpy() for n in ("start_ns", "dur_ns", "idle_ns"))
        for piece in pieces(self.kernels.num_rows):
            cell = gpu.codes[piece], iteration.codes[piece]  # -1 is the last one
            np.minimum.at(begin, cell, start[piece] - gap[piece])
            np.maximum.at(end, cell, start[piece] + dur[piece])
        return begin, end

    @cached_property
    def _groups(self) -> dict[tuple[str, ...], Groups]:
        return {}

    def kept(self, kernels: pa.Table) -> pa.Table:
        """Return the covered rows of the trace's kernels, with columns that answers seldom need."""
        return kernels if self.mask is None else kernels.filter(self.mask)

    def key(self, name: str) -> Key:
        """Return a key column as codes: encoded once, since that takes longer than any sum."""
        if name not in self.encoded:
            self.encoded[name] = encode(self.kernels, name)
        return self.encoded[name]

    def groups(self, names: Iterable[str]) -> Groups:
        """Return the covered kernels by the groups of some key columns; the latest are kept."""
        wanted, kept = tuple(names), self._groups
        found = kept.pop(wanted, None)
        if found is None:
            rows = self.kernels.num_rows
            found = group([self.key(name) for name in wanted], rows, narrow=True)
        kept[wanted] = found
        for name in list(kept)[:-REMEMBERED]:
            kept.pop(name, None)
        return found

    @property
    def instances(self) -> int:
        """GPUs times iterations; what lies in no iteration counts as one iteration."""
        return self.instances_of(())

    def instances_of(self, apart: Collection[str]) -> int:
        """Count the instances that one row joins when some levels are kept apart.

        Examples
        --------
        >>> which = Included(None, (2, 3, 4), (0, 1), 0, 0)
        >>> which.instances, which.instances_of(["gpu", "op"])
        (6, 3)
        """
        gpus = 1 if "gpu" in apart else len(self.gpus)
        iterations = len(self.iterations) + self.everything
        return gpus if "iteration" in apart else gpus * max(1, iterations)

    def phrase(self) -> str:
        """Say in one phrase which iterations are covered.

        Examples
        --------
        >>> Included(None, (2, 3, 4), (0,), 2, 0).phrase()
        'iterations 2 to 4 (2 warm-up left out)'
        >>> Included(None, (), (0,), 0, 0).phrase()
        'the whole recording (no iterations found)'
        """
        if not self.iterations:
            return "the whole recording (no iterations found)"
        first, last = self.iterations[0], self.iterations[-1]
        if first == last:
            text = f"iteration {first}"
        elif last - first + 1 == len(self.iterations):
            text = f"iterations {first} to {last}"
        else:
            text = f"iterations {', '.join(map(str, self.iterations))}"
        text += " and what lies outside iterations" if self.everything else ""
        return text + (f" ({self.warmup} warm-up left out)" if self.warmup else "")


def included(trace: Trace, include: Include = "measured") -> Included:
    """Select the kernels that answers about this trace cover.

    Parameters
    ----------
    trace : Trace
        The trace.
    include : {"measured", "all"}
        ``"measured"`` takes the iterations after warm-up, or everything if the recording has
        no iterations; ``"all"`` also takes warm-up and kernels outside any iteration.

    Raises
    ------
    SchemaError
        If ``include`` is neither.
    """
    if include not in get_args(Include):
        raise unknown_name(what="value of include", name=include, known=get_args(Include))
    known = _KNOWN.setdefault(trace, {})
    if include not in known:
        known[include] = _select(trace, include)
    return known[include]


def of_kinds(trace: Trace, *kinds: str) -> Trace:
    """Keep the kernels of some kinds, as ``Trace.filter`` does, and no counters or samples.

    Of a large run these take longer to filter than what is asked of the kernels.
    """
    rest = {name: empty(name) for name in ("counters", "telemetry", "memory")}
    return altered(trace, **rest).filter(kind=kinds)


_KNOWN: WeakKeyDictionary[Trace, dict[Include, Included]] = WeakKeyDictionary()
"""What was selected of each Trace that is still there: a Trace never changes."""


def _select(trace: Trace, include: Include) -> Included:
    every = trace.iterations
    taken = every if include == "all" else trace.measured_iterations
    kernels = trace.kernels.select(COLUMNS)  # a filter copies, and strings are slow to copy
    outside, mask = 0, None
    if taken and include == "measured":
        outside = kernels["iteration"].null_count
        if outside or len(taken) < len(every):
            mask = pc.is_in(kernels["iteration"], pa.array(taken, pa.int32()))
            kernels = _covered(kernels, mask)
    gpu = encode(kernels, "gpu")
    everything = bool(kernels["iteration"].null_count)
    warmup = len(every) - len(taken)
    return Included(
        kernels, tuple(taken), gpu.values, warmup, outside, everything, mask, {"gpu": gpu}
    )


def _covered(kernels: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    """Return the marked rows: views of few runs, which take no memory, or else a copy."""
    marked = np.zeros(len(mask) + 2, bool)
    marked[1:-1] = mask.to_numpy()
    edges = np.flatnonzero(marked[1:] != marked[:-1]).tolist()
    if not 0 < len(edges) <= 2 * _MOST_RUNS:
        return kernels.filter(mask)
    runs = zip(edges[::2], edges[1::2], strict=True)
    return pa.concat_tables([kernels.slice(lo, hi - lo) for lo, hi in runs])

"""Time lost, by GPU and iteration, and where: what findings are made of.

Every instant of a GPU counts for one cause at most. What a GPU spends waiting for another one
counts for what made that one late; so the losses of different causes may be added, and their
mean over GPUs is what an iteration would gain without the cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.core.analysis.idle_causes import split_idle
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.analysis.waiting import STATES, waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chopper_jupyter.core.analysis.grouping import Floats, Ints, Key
    from chopper_jupyter.core.analysis.included import Included
    from chopper_jupyter.core.analysis.timeline import Timeline
    from chopper_jupyter.core.analysis.waiting import Waiting
    from chopper_jupyter.core.trace import Trace

LEVELS = ("gpu", "iteration", "phase", "layer", "op")
MOSTLY = 0.8
"""Share of a loss that one value of a level must hold to be named as its place."""

_MS = 1e-6

Where = list[list[Any]]
"""Pairs of a level and its value, as ``Explorer.selection`` takes them."""


@dataclass(frozen=True)
class Loss:
    """One cause, and the time it takes.

    Parameters
    ----------
    kind, title, detail, evidence : str
        Word for programs; what and where; what to do next; the numbers behind, and who tells.
    lost : float64 array of shape (gpus, iterations)
        In ns.
    where : list of pairs
        Level and value.
    half_width : float
        Half of the 95 % interval of the sum of ``lost``, in ns; NaN if nothing was inferred.
    """

    kind: str
    title: str
    detail: str
    evidence: str
    lost: Floats
    where: Where
    half_width: float = float("nan")

    @property
    def ms(self) -> float:
        """Time lost per iteration and GPU."""
        return float(self.lost.mean()) * _MS

    @property
    def half_width_ms(self) -> float:
        """Half of its 95 % interval."""
        return self.half_width / self.lost.size * _MS


@dataclass
class Run:
    """What losses are worked out from; claimed so far is what findings already explain.

    Parameters
    ----------
    trace : Trace
        The trace.
    which : Included
        Its covered kernels.
    line : Timeline
        All kernels.
    gpus, iterations : tuple
        Rows and columns of losses; one column None for a recording without iterations.
    keys : dict of str to Key
        Levels of the covered kernels.
    cell : int64 array
        GPU and iteration of each covered kernel, as a position in a flat loss.
    wall, compute : float64 array of shape (gpus, iterations)
        Wall time, and what of it computes, in ns.
    idle : dict of str to int64 array
        Idle time before each covered kernel by cause, in ns.
    waits : Waiting
        Waits of covered kernels.
    wait_row : int64 array
        Their rows among the covered kernels.
    claimed : dict of str to float64 array
        By what they are part of: ``compute``, ``waits`` (by row of ``waits`` and state), causes
        of idle time.
    """

    trace: Trace
    which: Included
    line: Timeline
    gpus: tuple[int, ...]
    iterations: tuple[int | None, ...]
    keys: dict[str, Key]
    cell: Ints
    wall: Floats
    compute: Floats
    idle: dict[str, Ints]
    waits: Waiting
    wait_row: Ints
    claimed: dict[str, Floats] = field(default_factory=dict)

    def grid(self, rows: Ints | slice, ns: Ints | Floats) -> Floats:
        """Sum something of covered kernels by GPU and iteration."""
        total = np.bincount(self.cell[rows], ns, self.wall.size)
        return np.asarray(total.reshape(self.wall.shape), np.float64)

    def waited(self, states: tuple[str, ...], culprit: int | None = None) -> Floats:
        """Return what of each wait is left that some states of the culprit explain."""
        columns = [STATES.index(name) for name in states]
        left = (self.waits.because * (1 - self.claimed["waits"]))[:, columns].sum(axis=1)
        mine = True if culprit is None else self.waits.culprit == culprit
        return np.asarray(np.where(mine, left, 0.0), np.float64)

    def unhidden(self, place: int, ns: Floats) -> Floats:
        """Return, by iteration, what a GPU loses beyond the time it waits for others anyway."""
        slack = self.grid(self.wait_row, self.waits.ns)[place]
        return np.asarray(np.maximum(ns - slack, 0), np.float64)

    def claim_waits(self, states: tuple[str, ...], share: Floats) -> None:
        """Count shares of what is left of waits as explained."""
        for name in states:
            column = self.claimed["waits"][:, STATES.index(name)]
            column += (1 - column) * share

    def share(self, lost: Floats) -> float:
        """Return the share of the wall time that a loss has."""
        return float(lost.sum() / max(self.wall.sum(), 1.0))

    def where(self, rows: Ints | slice, ns: Ints | Floats) -> Where:
        """Name the levels at which one place holds most of a loss of covered kernels."""
        return place_of(self.keys, ns, rows)


def place_of(keys: Mapping[str, Key], ns: Ints | Floats, rows: Ints | slice = slice(None)) -> Where:
    """Name the levels at which one value holds most of a loss, else its largest phase and op.

    Parameters
    ----------
    keys : mapping of str to Key
        ``LEVELS``; a level of which there is only one value is not named.
    ns : array
        The loss at each of ``rows``.
    rows : int64 array or slice
        Rows of the keys.
    """
    found: Where = []
    for level in LEVELS:
        key = keys[level]
        total = np.bincount(key.codes[rows] + 1, ns, len(key.values) + 1)
        several = (key.codes != key.codes[:1]).any()
        if several and total.max() >= MOSTLY * total.sum():
            found.append([level, value_of(key, int(total.argmax()) - 1)])
    if found:
        return found
    phase, op = keys["phase"], keys["op"]
    size = len(op.values) + 1
    both = (phase.codes[rows].astype(np.int64) + 1) * size + op.codes[rows] + 1
    top = int(np.bincount(both, ns).argmax())
    return [["phase", value_of(phase, top // size - 1)], ["op", value_of(op, top % size - 1)]]


def value_of(key: Key, code: int) -> Any:
    """Return a value of a key as Python's own; None for code -1."""
    value = None if code < 0 else key.values[code]
    return value if value is None or isinstance(value, int) else str(value)


def run_of(trace: Trace) -> Run:
    """Work out what losses are made of."""
    which = included(trace)
    line = timeline(trace, which, "what is lost")
    keys = {name: which.key(name) for name in LEVELS}
    iterations = which.iterations or (None,)
    shape = (len(which.gpus), len(iterations))
    numbers = np.maximum(keys["iteration"].codes, 0) if which.iterations else 0
    cell = keys["gpu"].codes.astype(np.int64) * shape[1] + numbers
    busy, gap = (np.asarray(which.kernels[n].to_numpy(), np.int64) for n in ("busy_ns", "idle_ns"))
    computes = line.of_covered(line.named("kind", "compute"))
    wall, compute = (
        np.bincount(cell, ns, shape[0] * shape[1]).reshape(shape).astype(np.float64)
        for ns in (busy + gap, np.where(computes, busy, 0))
    )
    waits, rows = _covered(waiting(trace, line), line)
    idle = {cause: line.of_covered(ns) for cause, ns in split_idle(trace, line).items()}
    claimed = {"compute": np.zeros(shape), "waits": np.zeros_like(waits.because)}
    claimed |= {cause: np.zeros(len(cell)) for cause in idle}
    return Run(
        trace, which, line, which.gpus, iterations, keys, cell, wall, compute, idle, waits, rows,
        claimed,
    )  # fmt: skip


def _covered(waits: Waiting, line: Timeline) -> tuple[Waiting, Ints]:
    """Keep the waits of covered kernels, and return the rows of these."""
    at = waits.place
    if not line.whole:
        row = np.full(len(line.gpu), -1)
        row[line.covered] = np.arange(len(line.covered))
        at = row[at]
    return waits.kept(at >= 0), at[at >= 0]


def words(where: Where) -> str:
    """Say a place in words.

    Examples
    --------
    >>> words([["gpu", 2], ["iteration", 4], ["phase", "forward"], ["op", None]])
    'GPU 2, iteration 4, forward, other'
    """
    names = {"gpu": "GPU ", "iteration": "iteration "}
    said = (
        "other" if value is None else f"{names.get(level, '')}{value}" for level, value in where
    )
    return ", ".join(said)

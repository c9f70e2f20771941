"""Cuts a recording into training iterations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.align.nesting import POSITION
from chopper_jupyter.core.annotations import parse_iteration_mark

if TYPE_CHECKING:
    from chopper_jupyter.core.align.nesting import Ints

PROFILER_STEP = re.compile(r"ProfilerStep#(\d+)$")
USER_STEP = re.compile(
    r"(?:train(?:ing)?[ _]?)?(?:iter(?:ation)?|step|batch)[ _#:=]*(\d+)$", re.IGNORECASE
)

NEVER = 2**62

TOO_LARGE = 2**31
"""No training takes so many steps: a name with such a number means something else."""


@dataclass(frozen=True)
class Iterations:
    """The iterations of one rank: ``number[k]`` lasts from ``start[k]`` to ``end[k]``.

    Parameters
    ----------
    number, start, end : int64 arrays
        Number and half-open time range, in order of time.
    notes : tuple of str
        How they were found, where it matters to a reader.
    """

    number: Ints
    start: Ints
    end: Ints
    notes: tuple[str, ...] = ()

    def at(self, time: Ints) -> Ints:
        """Return the iteration number at each time, -1 between and outside iterations."""
        if not len(self.number):
            return np.full(len(time), -1, np.int64)
        number = self.number
        if number.max() <= np.iinfo(POSITION).max:
            number = number.astype(POSITION)
        index = np.searchsorted(self.start, time, side="right") - 1
        inside = (index >= 0) & (time < self.end[index])
        return np.where(inside, number[index], number.dtype.type(-1))


@dataclass(frozen=True)
class Ranges:
    """Name, start and end of the host ranges that can delimit iterations."""

    name: list[str]
    start: Ints
    end: Ints


def find(marks: Ranges, annotations: Ranges, optimizer: Ranges, others: Ints) -> Iterations:
    """Find the iterations: our marks, else ``ProfilerStep#N``, else numbered user ranges.

    Parameters
    ----------
    marks : Ranges
        Our iteration marks; each lies at the first module call of its iteration.
    annotations : Ranges
        User ranges, the profiler's steps among them.
    optimizer : Ranges
        ``Optimizer.step`` and ``Optimizer.zero_grad`` calls.
    others : int64 array
        Starts of the operators outside optimizer calls, in order of time; needed with marks.
    """
    if marks.name:
        return _from_marks(marks, optimizer, others)
    for pattern, note in ((PROFILER_STEP, ""), (USER_STEP, "iterations taken from user ranges")):
        found = [
            (start, int(match[1]), end)
            for name, start, end in zip(
                annotations.name, annotations.start.tolist(), annotations.end.tolist(), strict=True
            )
            if (match := pattern.match(name))
        ]
        if found:
            return _from_steps(sorted(found), (note,) if note else ())
    empty = np.zeros(0, np.int64)
    return Iterations(empty, empty, empty)


def _from_steps(steps: list[tuple[int, int, int]], notes: tuple[str, ...]) -> Iterations:
    """Use step ranges: their starts are reliable, their ends only for the last one."""
    small = [(start, min(number, TOO_LARGE), end) for start, number, end in steps]
    start, number, end = (np.array(column, np.int64) for column in zip(*small, strict=True))
    keep = np.concatenate([[True], np.diff(start) > 0])
    start, number, end = start[keep], number[keep], end[keep]
    if len(np.unique(number)) < len(number) or (np.diff(number) <= 0).any():
        number = np.arange(len(number), dtype=np.int64)
        notes = (*notes, "recorded step numbers do not increase: iterations are numbered from 0")
    elif number[-1] >= TOO_LARGE:
        number = np.arange(len(number), dtype=np.int64)
        notes = (*notes, "recorded step numbers are too large: iterations are numbered from 0")
    until = np.concatenate([start[1:], [max(int(end[-1]), int(start[-1]) + 1)]])
    # A gap between two steps (another profiler cycle) belongs to neither.
    far = (until[:-1] - end[:-1]) > np.maximum(end[:-1] - start[:-1], 1)
    until[:-1] = np.where(far, end[:-1], until[:-1])
    return Iterations(number, start, np.maximum(until, start + 1), notes)


def _from_marks(marks: Ranges, optimizer: Ranges, others: Ints) -> Iterations:
    """Cut at the end of the optimizer step that precedes each mark.

    A mark is at the first module call of an iteration; the iteration itself begins where the
    one before ended with its optimizer step (and a zero_grad that directly follows), so that
    data loading belongs to the iteration it loads for.
    """
    order = np.argsort(marks.start, kind="stable")
    number = np.array([parse_iteration_mark(marks.name[i]) or 0 for i in order.tolist()], np.int64)
    at = marks.start[order]
    if len(np.unique(number)) < len(number):  # several segments or models: keep the first mark
        number, first = np.unique(number, return_index=True)
        at = at[first]
        order = np.argsort(at, kind="stable")
        number, at = number[order], at[order]
    tails = _optimizer_tails(optimizer, others)
    start, end = at.copy(), np.full(len(at), NEVER, np.int64)
    start[0] = -NEVER
    for k in range(len(at)):
        until = int(at[k + 1]) if k + 1 < len(at) else NEVER
        inside = tails[(tails > at[k]) & (tails <= until)]
        if len(inside):
            end[k] = inside[-1]
        elif k + 1 < len(at):
            end[k] = until
        if k + 1 < len(at):
            start[k + 1] = end[k]
    return Iterations(number, start, end)


def _optimizer_tails(optimizer: Ranges, others: Ints) -> Ints:
    """Return the ends of optimizer steps, each with the zero_grad that directly follows it.

    Directly means that no other operator runs between: what the two calls leave to chance,
    their distance in time, does not decide.
    """
    order = np.argsort(optimizer.start, kind="stable").tolist()
    tails: list[int] = []
    reach = None
    for i in order:
        name, start, end = optimizer.name[i], int(optimizer.start[i]), int(optimizer.end[i])
        if name.startswith("Optimizer.step"):
            reach = end
            tails.append(end)
        elif reach is not None and not _any_between(others, reach, start):
            tails[-1] = reach = end
        else:
            reach = None
    return np.array(tails, np.int64)


def _any_between(times: Ints, lo: int, hi: int) -> bool:
    first, last = np.searchsorted(times, [lo, hi])
    return bool(last > first)

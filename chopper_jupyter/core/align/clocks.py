"""How far the clocks of ranks are apart, told by the collectives that ranks leave together.

No rank leaves an all-reduce before the last one has arrived, and all leave it within
microseconds. So the difference of the recorded ends is the difference of the clocks, but for
noise, which the median over many calls takes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from chopper_jupyter.core.align.across_ranks import Calls

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FLOOR_NS = 5_000
"""Uncertainty that no number of calls takes away: a profiler converts the time of a device to
that of its host within microseconds, and data travel from rank to rank."""

FEWEST = 3
"""Calls that must be in common to tell how far two clocks are apart."""

_OUTLIER = 5.0
_MAD_TO_SIGMA = 1.4826
_MEDIAN_OVER_MEAN = 1.2533  # standard error of a median over that of a mean (normal noise)
_TWO_SIGMA = 2.0


@dataclass(frozen=True)
class Clocks:
    """What to add to the times of each GPU's rank.

    Parameters
    ----------
    offset : int64 array
        Per GPU, 0 where nothing is known, or the difference is no larger than its uncertainty.
    uncertainty : list of int or None
        Per GPU (95 %); None where its clock could not be compared with that of the first GPU.
    notes : tuple of str
        One sentence per clock that is moved.
    """

    offset: Ints
    uncertainty: list[int | None]
    notes: tuple[str, ...] = ()


def clocks_of(gpus: Sequence[Mapping[str, Any]], kernels: pa.Table, calls: Calls) -> Clocks:
    """Estimate the clocks of all ranks against that of the first GPU.

    Parameters
    ----------
    gpus : sequence of mapping
        Rows of ``gpus``. Ranks known to share a host share its clock.
    kernels : pyarrow.Table
        Kernels on their own clocks.
    calls : Calls
        Which of them are one collective.
    """
    of_gpu = _clocks(gpus)
    count = int(of_gpu.max(initial=-1)) + 1
    if count < 2:  # noqa: PLR2004  nothing to compare
        known = 0 if len(gpus) > 1 and count == 1 else None
        return Clocks(np.zeros(len(gpus), np.int64), [known] * len(gpus))
    offset, uncertainty = _offsets(_ends(kernels, calls, of_gpu, count))
    moved = np.isfinite(uncertainty) & (np.abs(offset) > uncertainty)
    stated = np.where(moved, uncertainty, uncertainty + np.abs(offset))
    applied = np.where(moved, np.rint(offset), 0).astype(np.int64)
    told = [int(np.ceil(u)) if np.isfinite(u) else None for u in stated]
    notes = tuple(
        f"clock of {_whose(gpus, of_gpu, clock)} moved by {applied[clock] / 1e3:+,.1f} µs "
        f"(± {stated[clock] / 1e3:,.1f} µs) to that of {_whose(gpus, of_gpu, 0)}, by the ends of "
        "their collectives"
        for clock in np.flatnonzero(moved).tolist()
    )
    return Clocks(applied[of_gpu], [told[clock] for clock in of_gpu.tolist()], notes)


def _clocks(gpus: Sequence[Mapping[str, Any]]) -> Ints:
    """Tell clocks apart: one per host, or per rank whose host is not known; in order of GPUs."""
    owners = [
        ("host", row["host"]) if row["host"] is not None else ("rank", row["rank"]) for row in gpus
    ]
    known = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
    return np.array([known[owner] for owner in owners], np.int64)


def _whose(gpus: Sequence[Mapping[str, Any]], of_gpu: Ints, clock: int) -> str:
    rows = [row for row, number in zip(gpus, of_gpu.tolist(), strict=True) if number == clock]
    host = rows[0]["host"]
    return f"host {host}" if host is not None else f"rank {rows[0]['rank']}"


def _ends(kernels: pa.Table, calls: Calls, of_gpu: Ints, count: int) -> Floats:
    """Return when each call ended on each clock, NaN where it took no part.

    Ends count from the call's first one on the lowest clock, which keeps floats exact.
    """
    together = calls.together[calls.call]
    row, call = calls.row[together], calls.call[together]
    if not len(row):
        return np.full((0, count), np.nan)
    start, dur = (np.asarray(kernels[c].to_numpy(), np.int64) for c in ("start_ns", "dur_ns"))
    end = start[row] + dur[row]
    clock = of_gpu[np.asarray(kernels["gpu"].to_numpy(), np.int64)[row]]
    order = np.lexsort((end, clock, call))
    call, clock, end = call[order], clock[order], end[order]
    first = np.flatnonzero(np.diff(call, prepend=-1))
    base = np.repeat(end[first], np.diff(first, append=len(call)))
    _, place = np.unique(call, return_inverse=True)
    total, members = np.zeros((len(first), count)), np.zeros((len(first), count))
    np.add.at(total, (place.reshape(-1), clock), (end - base).astype(np.float64))
    np.add.at(members, (place.reshape(-1), clock), 1.0)
    return np.where(members > 0, total / np.maximum(members, 1), np.nan)


def _offsets(ends: Floats) -> tuple[Floats, Floats]:
    """Return what to add to each clock, and its uncertainty; infinite where nothing tells.

    The first clock is the reference. Clocks that share no call with it are reached through
    others, each time through the clocks already known.
    """
    count = ends.shape[1]
    offset, uncertainty = np.zeros(count), np.full(count, np.inf)
    uncertainty[0] = 0.0
    while True:
        known = np.isfinite(uncertainty)
        reached = _known_ends(ends, offset, known)
        shared = np.isfinite(ends) & np.isfinite(reached)[:, None] & ~known
        ready = np.flatnonzero(shared.sum(axis=0) >= FEWEST)
        if not len(ready):
            return offset, uncertainty
        for clock in ready.tolist():
            rows = shared[:, clock]
            late = ends[rows, clock] - reached[rows]
            through = uncertainty[np.isfinite(ends[rows]).any(axis=0) & known].max()
            middle, spread = _robust_middle(late)
            offset[clock], uncertainty[clock] = -middle, through + spread + FLOOR_NS


def _known_ends(ends: Floats, offset: Floats, known: npt.NDArray[np.bool_]) -> Floats:
    """Return when each call ended on the reference clock, by the clocks that are known."""
    aligned = np.where(known, ends + offset, np.nan)
    found = np.full(len(ends), np.nan)
    some = np.isfinite(aligned).any(axis=1)
    found[some] = np.nanmedian(aligned[some], axis=1)
    return found


def _robust_middle(values: Floats) -> tuple[float, float]:
    """Return where most values lie and how surely: the median of what lies near the densest half.

    Calls that were matched wrongly, or that one rank left late, all lie on one side.
    """
    ordered = np.sort(values)
    half = len(ordered) // 2 + 1
    widths = ordered[half - 1 :] - ordered[: len(ordered) - half + 1]
    at = int(np.argmin(widths))
    centre, width = float(np.median(ordered[at : at + half])), float(widths[at])
    near = ordered[np.abs(ordered - centre) <= max(_OUTLIER * width, 1.0)]
    middle = float(np.median(near))
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(near - middle)))
    return middle, _TWO_SIGMA * _MEDIAN_OVER_MEAN * sigma / float(np.sqrt(len(near)))

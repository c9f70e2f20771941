"""How long each kernel would take if nothing disturbed it, and what slows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from chopper_jupyter.simulate.model_shape import BF16
from chopper_jupyter.simulate.timing.conditions import (
    BACKWARD,
    BETWEEN_HOSTS_GB_S,
    COLLECTIVE_LATENCY_NS,
    CONDITIONS,
    LINK_EFFICIENCY,
    MATRIX_UTILISATION,
    MEMORY_EFFICIENCY,
    SHORTEST_NS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.simulate.accelerators import Accelerator
    from chopper_jupyter.simulate.injections import Injections
    from chopper_jupyter.simulate.iteration.script import Launch

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Durations:
    """Times and their causes, by launch of the script; what has no dimension is a factor.

    Parameters
    ----------
    useful, performed : float array of shape (launches,)
        FLOPs on matrix units.
    theoretical_ns : float array of shape (launches,)
        FLOPs over the peak, else bytes over the bandwidth; of collectives their pure transfer.
    instruction, utilisation : float array of shape (launches,)
        Performed over useful FLOPs; share of the peak that is reached.
    matrix : bool array of shape (launches,)
        Launches that follow the clock.
    clock : float array of shape (iterations, ranks)
        Clock in MHz.
    frequency : float array of shape (iterations, ranks)
        Clock of the peak over the clock.
    noise : float array of shape (iterations, launches, ranks)
        Whatever else.
    """

    useful: Floats
    performed: Floats
    theoretical_ns: Floats
    instruction: Floats
    utilisation: Floats
    matrix: Mask
    clock: Floats
    frequency: Floats
    noise: Floats

    def alone_ns(self) -> Floats:
        """Return the time of each kernel without communication beside it.

        Shape (iterations, launches, ranks).
        """
        at_peak = self.theoretical_ns * self.instruction / self.utilisation
        slowed = np.where(self.matrix[:, None], self.frequency[:, None, :], 1.0)
        alone: Floats = at_peak[:, None] * slowed * self.noise
        return alone


@dataclass(frozen=True)
class Place:
    """Where a run takes place."""

    hardware: Accelerator
    version: int
    ranks: int
    hosts: int
    iterations: int


def durations(
    launches: Sequence[Launch], place: Place, injected: Injections, rng: np.random.Generator
) -> Durations:
    """Work out the times of all launches of a script.

    Examples
    --------
    >>> from chopper_jupyter.simulate.accelerators import accelerator
    >>> from chopper_jupyter.simulate.injections import Injections
    >>> from chopper_jupyter.simulate.iteration.script import Label, Launch, Work
    >>> work = Work("gemm", flops=1_307_400_000_000)
    >>> launch = Launch(work, 0, 0, 0, 0, -1, Label("forward", None, "lm_head"))
    >>> place = Place(accelerator("MI300X"), 2, 1, 1, 1)
    >>> durations([launch], place, Injections(), np.random.default_rng(0)).theoretical_ns.tolist()
    [1000000.0]
    """
    works = [launch.work for launch in launches]
    useful = np.array([work.flops for work in works], np.float64)
    moved = np.array([work.read + work.written for work in works], np.float64)
    matrix = useful > 0
    collective = np.array([work.kind == "collective" for work in works], bool)
    theoretical = np.where(
        matrix,
        useful / place.hardware.peak_flops * 1e9,
        np.maximum(moved, 1.0) / place.hardware.memory_gb_s,
    )
    theoretical[collective] = _transfer_ns(launches, place)[collective]
    padding = np.array([injected.padding.get(x.label.op or "", 1.0) for x in launches])
    instruction = np.where(matrix, padding, 1.0)
    vector = theoretical / (theoretical / MEMORY_EFFICIENCY + SHORTEST_NS)
    utilisation = np.where(matrix, _utilisation(launches, injected), vector)
    utilisation[collective] = 1.0
    size = (place.iterations, place.ranks)
    clock = _clock(place, injected, rng, size)
    noise = np.exp(rng.normal(0, injected.noise, (size[0], len(works), size[1])))
    return Durations(
        useful, useful * instruction, theoretical, instruction, utilisation, matrix, clock,
        place.hardware.clock_mhz / clock, noise,
    )  # fmt: skip


def _utilisation(launches: Sequence[Launch], injected: Injections) -> Floats:
    known = {**MATRIX_UTILISATION, **injected.matrix_utilisation}
    found = []
    for launch in launches:
        op = launch.label.op or ""
        slower = launch.label.phase == "backward" and op not in injected.matrix_utilisation
        found.append(known.get(op, 0.5) * (BACKWARD if slower else 1.0))
    return np.array(found, np.float64)


def _clock(
    place: Place, injected: Injections, rng: np.random.Generator, size: tuple[int, int]
) -> Floats:
    usual = CONDITIONS[place.version]
    spread = np.clip(rng.normal(1, usual.clock_spread, size), 0.9, 1.1)
    lost = np.array([[injected.clock(r, i) for r in range(size[1])] for i in range(size[0])])
    clock: Floats = place.hardware.clock_mhz * usual.clock * spread * lost
    return clock


def _transfer_ns(launches: Sequence[Launch], place: Place) -> Floats:
    """Return the time of collectives after the last arrival: latency, and bytes over the links."""
    n = place.ranks
    speed = place.hardware.link_gb_s * LINK_EFFICIENCY
    if place.hosts > 1:
        speed = min(speed, BETWEEN_HOSTS_GB_S)
    found = np.zeros(len(launches))
    for i, launch in enumerate(launches):
        moved = launch.work.collective
        if moved is not None:
            whole = max(moved.elements_in, moved.elements_out) * BF16
            found[i] = COLLECTIVE_LATENCY_NS + whole * (n - 1) / n / speed
    return found

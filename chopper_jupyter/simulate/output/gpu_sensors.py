"""What the sensors of the simulated GPUs show: clocks, power, energy, temperature, memory.

Readings follow from what the GPU does at the time: its clock is that of the iteration it runs,
its power and use that of the time since the sample before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from chopper_jupyter.simulate.run import Simulation
    from chopper_jupyter.simulate.timing.durations import Floats, Ints

IDLE_W, LOAD_SHARE = 140.0, 0.95
"""Power of a GPU that does nothing, and share of its limit under load."""

CLOCK_JITTER_MHZ = 1.5
"""Standard deviation of a reading of the clock; readings are whole MHz."""

ENERGY_UNIT_J = {True: 15.3e-6, False: 1e-3}
"""Steps in which AMD's (True) and NVIDIA's energy counters count."""

AMBIENT_C, HEATING_C, WARMING_S = 38.0, 42.0, 20.0
STATE_BYTES = 16
"""Bytes per weight of a rank's shard: weight, gradient and two moments in float."""

ACTIVATION_BYTES = 34
"""Bytes per token and unit of width that a layer keeps for its backward in bf16."""

SPIKE_GIB, SPIKE_NS = 14.0, 40_000_000
"""Version 1 of FSDP frees and allocates unpredictably: largest spike and how long it lasts."""

NVIDIA_POWER_CAP = 4.0
"""Bit of NVML's reasons for a lower clock: the power limit."""


def readings(run: Simulation, rank: int, at: Ints, rng: np.random.Generator) -> dict[str, Floats]:
    """Return the readings of one GPU at true times, by metric of the telemetry table.

    Parameters
    ----------
    run : Simulation
        The run.
    rank : int
        Whose GPU.
    at : int64 array
        True times of the samples, in order.
    rng : numpy.random.Generator
        For what sensors and the allocator leave to chance.
    """
    hardware = run.place.hardware
    busy = _busy_share(run, rank, at)
    clock = _clock(run, rank, at)
    shown = np.rint(clock + rng.normal(0, CLOCK_JITTER_MHZ, len(at)))
    load = hardware.power_w * LOAD_SHARE
    power = IDLE_W + busy * (load - IDLE_W) + rng.normal(0, 3.0, len(at))
    seconds = np.diff(at, prepend=at[0]) * 1e-9
    unit = ENERGY_UNIT_J[hardware.amd]
    energy = np.floor((5e5 + np.cumsum(power * seconds)) / unit) * unit
    warmth = 1 - np.exp(-(at - at[0]) * 1e-9 / WARMING_S)
    temperature = AMBIENT_C + HEATING_C * (0.6 + 0.4 * warmth) * (power / load)
    capped = clock < 0.99 * hardware.clock_mhz
    throttled = (
        {"throttle_ratio": np.clip(1 - clock / hardware.clock_mhz, 0, 1)}
        if hardware.amd
        else {"throttle_reasons": np.where(capped, NVIDIA_POWER_CAP, 0.0)}
    )
    return {
        "gpu_clock_mhz": shown,
        "memory_clock_mhz": np.full(len(at), float(hardware.memory_clock_mhz)),
        "power_w": np.rint(power),
        "energy_j": energy,
        "temperature_c": np.rint(temperature),
        "utilization_ratio": np.round(busy, 2),
        "memory_used_bytes": _memory(run, rank, at, rng),
        **throttled,
    }


def _iteration_of(run: Simulation, rank: int, at: Ints) -> Ints:
    """Return the iteration that the GPU runs at each time: the first one before it, too."""
    first = run.times.start[:, :, rank].min(axis=1)
    number: Ints = np.maximum(np.searchsorted(first, at, side="right") - 1, 0)
    return number


def _clock(run: Simulation, rank: int, at: Ints) -> Floats:
    clock: Floats = run.work.clock[_iteration_of(run, rank, at), rank]
    return clock


def _busy_share(run: Simulation, rank: int, at: Ints) -> Floats:
    """Return the share of the time since the sample before in which the GPU ran anything."""
    start, end = (one[:, :, rank].ravel() for one in (run.times.start, run.times.end))
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    gap = np.maximum(start[1:] - end[:-1], 0)
    idle = np.concatenate([[0], np.cumsum(gap)])
    last = np.searchsorted(start, at, side="right") - 1
    known = np.maximum(last, 0)
    since = np.minimum(at, end[known]) - start[0]
    busy = np.where(last < 0, 0, since - idle[known])
    steps = np.maximum(np.diff(at, prepend=at[0] - 1), 1)
    share: Floats = np.clip(np.diff(busy, prepend=0) / steps, 0, 1)
    return share


def _memory(run: Simulation, rank: int, at: Ints, rng: np.random.Generator) -> Floats:
    """Return the memory in use: shards, and activations that grow forward and shrink backward."""
    shape, place = run.shape, run.place
    kept = shape.weights / place.ranks * STATE_BYTES + 2 * shape.layer_weights * 2
    most = shape.tokens * shape.width * ACTIVATION_BYTES * shape.layers
    phase = np.array([one.label.phase or "" for one in run.script.launches])
    number = _iteration_of(run, rank, at)
    begin, turn, end = (
        run.times.start[:, phase == "forward", rank].min(axis=1),
        run.times.end[:, phase == "forward", rank].max(axis=1),
        run.times.end[:, phase == "backward", rank].max(axis=1),
    )
    grown = (at - begin[number]) / np.maximum(turn - begin, 1)[number]
    shrunk = (end[number] - at) / np.maximum(end - turn, 1)[number]
    used = kept + most * np.clip(np.minimum(grown, shrunk), 0, 1)
    if place.version == 1:
        height = rng.uniform(0, SPIKE_GIB * 2**30, int((at[-1] - at[0]) // SPIKE_NS) + 1)
        used += height[(at - at[0]) // SPIKE_NS]
    total = place.hardware.memory_gib * 2**30
    used_bytes: Floats = np.rint(np.minimum(used, 0.97 * total) / 2**20) * 2**20
    return used_bytes

"""When everything happens: launches on hosts, kernels on streams, collectives across ranks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.simulate.iteration.script import COMMUNICATION, COMPUTE
from chopper_jupyter.simulate.timing.conditions import CONDITIONS

if TYPE_CHECKING:
    from chopper_jupyter.simulate.injections import Injections
    from chopper_jupyter.simulate.iteration.script import Script, Stall
    from chopper_jupyter.simulate.timing.durations import Durations, Floats, Ints, Place

LATENCY_NS = 5_000
"""From the start of a launch call to the earliest start of the kernel."""

USUAL_NS = {"input": 150_000, "iteration_boundary": 80_000, "host_sync": 0, "host_late": 0}
"""What each stall costs without injections."""

AFTER_SYNC_NS = 10_000
"""From the last kernel's end to the host's return from waiting for it."""

BEGIN_NS = 1_000_000
"""True time of the first iteration's begin."""


@dataclass
class Times:
    """True times in ns, of shape (iterations, launches or stalls, ranks).

    Parameters
    ----------
    begin : int64 array of shape (iterations, ranks)
        When the host begins each iteration.
    stalls : int64 array
        How long the host is held up at each stall.
    launch, start, end : int64 array
        Start of the launch call; start and end of the kernel.
    alone_ns : float array
        Time of each compute kernel without communication beside it.
    latency_ns : int
        How long after it could every compute kernel starts.
    """

    begin: Ints
    stalls: Ints
    launch: Ints
    start: Ints
    end: Ints
    alone_ns: Floats
    latency_ns: int


@dataclass
class _Gpu:
    """State of all GPUs, one place per rank.

    ``pending`` are start and end of the collectives that may run beside the next kernel.
    """

    free: list[Ints]
    pending: deque[tuple[Ints, Ints]] = field(default_factory=deque)

    def idle_from(self) -> Ints:
        """Return when everything launched so far has ended."""
        last: Ints = np.maximum(self.free[COMPUTE], self.free[COMMUNICATION])
        return last


def schedule(script: Script, work: Durations, place: Place, injected: Injections) -> Times:
    """Run the script on all ranks, iteration by iteration.

    A kernel starts when it is launched, its stream is free and what it waits for has ended. A
    collective ends on all ranks together, after the last of them has started it.
    """
    count, ranks = len(script.launches), place.ranks
    shape = (place.iterations, count, ranks)
    times = Times(
        begin=np.zeros((place.iterations, ranks), np.int64),
        stalls=np.zeros((place.iterations, len(script.stalls), ranks), np.int64),
        launch=np.zeros(shape, np.int64),
        start=np.zeros(shape, np.int64),
        end=np.zeros(shape, np.int64),
        alone_ns=work.alone_ns(),
        latency_ns=injected.delay("launch_latency"),
    )
    gpu = _Gpu([np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)])
    host = np.full(ranks, BEGIN_NS, np.int64)
    for iteration in range(place.iterations):
        times.begin[iteration] = host
        host = _iteration(script, times, iteration, gpu, (place, injected))
    return times


def _iteration(
    script: Script, times: Times, iteration: int, gpu: _Gpu, setting: tuple[Place, Injections]
) -> Ints:
    """Run one iteration and return when the host of each rank has ended it."""
    place, injected = setting
    usual = CONDITIONS[place.version].contention
    late = _lateness(injected, place.ranks)
    launch, start, end = times.launch[iteration], times.start[iteration], times.end[iteration]
    host: Ints = times.begin[iteration].copy()
    held = times.stalls[iteration]
    for k, one in enumerate(script.launches):
        for number, stall in _due(script, k):
            held[number] = _held(stall, host + stall.at, gpu, injected)
            host += held[number]
        launch[k] = host + one.at
        ready = np.maximum(launch[k] + LATENCY_NS, gpu.free[one.stream])
        alone = times.alone_ns[iteration, k]
        if one.stream == COMMUNICATION:
            start[k] = np.maximum(ready, gpu.free[COMPUTE]) + late
            end[k] = start[k].max() + round(float(alone[0]))
            gpu.pending.append((start[k], end[k]))
        else:
            if one.after >= 0:
                ready = np.maximum(ready, end[one.after] + injected.delay("communication"))
            start[k] = ready + times.latency_ns
            contention = injected.contention(one.label.op, usual)
            end[k] = start[k] + _stretched(start[k], alone, gpu, contention)
        gpu.free[one.stream] = end[k]
    for number, stall in _due(script, len(script.launches)):
        held[number] = _held(stall, host + stall.at, gpu, injected)
        host += held[number]
    return host + script.now


def _due(script: Script, launch: int) -> list[tuple[int, Stall]]:
    """Return the stalls right before a launch, each with its number."""
    return [(i, stall) for i, stall in enumerate(script.stalls) if stall.before == launch]


def _lateness(injected: Injections, ranks: int) -> Ints:
    late = np.zeros(ranks, np.int64)
    if injected.straggler is not None:
        late[injected.straggler[0]] = injected.straggler[1]
    return late


def _held(stall: Stall, at: Ints, gpu: _Gpu, injected: Injections) -> Ints:
    """Return how long each host is held up at a stall."""
    until_idle: Ints = np.maximum(gpu.idle_from() - at, 0)
    if stall.kind == "sync":
        return until_idle + AFTER_SYNC_NS
    extra = injected.delay(stall.kind)
    if stall.kind in ("host_late", "host_sync") and extra:
        return until_idle + extra
    return np.full(len(at), USUAL_NS[stall.kind] + extra, np.int64)


def _stretched(start: Ints, alone: Floats, gpu: _Gpu, contention: float) -> Ints:
    """Return the time of kernels that are slower while a pending collective runs."""
    now, left = start.astype(np.float64), alone.copy()
    while gpu.pending and gpu.pending[0][1].max() <= start.min():
        gpu.pending.popleft()
    if contention > 1:
        for begin, end in gpu.pending:
            before = np.minimum(np.maximum(begin - now, 0), left)
            now += before
            left -= before
            beside = np.where(begin <= now, np.maximum(end - now, 0), 0.0)
            done = np.minimum(beside / contention, left)
            now += done * contention
            left -= done
    taken: Ints = np.maximum(np.rint(now + left - start), 1).astype(np.int64)
    return taken

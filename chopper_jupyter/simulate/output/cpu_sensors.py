"""What the processor cores of the simulated hosts do: each rank keeps a few of them busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from chopper_jupyter.simulate.run import Simulation
    from chopper_jupyter.simulate.timing.durations import Floats, Ints

PHYSICAL_CORES, THREADS = 192, 2
"""Two processors of 96 cores, with two threads each; logical core c + 192 shares core c."""

NEAR = 24
"""Cores that lie between those of neighbouring ranks."""

HELPERS = (0.08,)
"""Use of the threads beside main and autograd: the proxy of the collectives."""

STRAYS = 4
"""Cores of a host that something else uses a little at any time."""

HOST_MEMORY_BYTES = 210 * 2**30
HOST_IDLE_W, CORE_W = 180.0, 9.0


def physical_cores() -> Ints:
    """Return the physical core of every logical one."""
    return np.tile(np.arange(PHYSICAL_CORES), THREADS)


def use(
    run: Simulation, ranks: list[int], at: Ints, rng: np.random.Generator
) -> tuple[Floats, dict[str, Floats]]:
    """Return the use of every core of a host, and readings of the whole host, by sample.

    Parameters
    ----------
    run : Simulation
        The run.
    ranks : list of int
        Ranks on the host.
    at : int64 array
        True times of the samples, in order.
    rng : numpy.random.Generator
        For what else runs on a host.

    Returns
    -------
    float array of shape (samples, logical cores), dict of str to float array
        Use from 0 to 1; readings by metric.
    """
    cores = PHYSICAL_CORES * THREADS
    used = np.zeros((len(at), cores))
    for place, rank in enumerate(ranks):
        first = place * NEAR % PHYSICAL_CORES
        main, autograd = _threads(run, rank, at)
        used[:, first] = main
        used[:, first + 1] = autograd
        for number, share in enumerate(HELPERS):
            used[:, first + 2 + number] = share * main * rng.uniform(0.6, 1.4, len(at))
    strays = rng.integers(0, cores, (len(at), STRAYS))
    np.put_along_axis(used, strays, rng.uniform(0, 0.05, strays.shape), axis=1)
    np.round(np.clip(used, 0, 1), 3, out=used)
    return used, {
        "host_memory_used_bytes": np.full(len(at), float(HOST_MEMORY_BYTES)),
        "cpu_power_w": np.rint(HOST_IDLE_W + CORE_W * used.sum(axis=1)),
    }


def _threads(run: Simulation, rank: int, at: Ints) -> tuple[Floats, Floats]:
    """Return the use of a rank's main and autograd thread since the sample before.

    The main thread launches, or turns in a loop while it waits for the GPU; during the backward
    it sleeps and the engine launches.
    """
    backward = np.array([one.label.phase == "backward" for one in run.script.launches])
    launch = run.times.launch[:, backward, rank]
    begin, end = launch.min(axis=1), launch.max(axis=1)
    run_begin, run_end = run.times.begin[0, rank], run.times.end[:, :, rank].max()
    engine = _share(begin, end, at)
    all_ = _share(np.array([run_begin]), np.array([run_end]), at)
    return np.clip(all_ - engine, 0, 1), engine


def _share(begin: Ints, end: Ints, at: Ints) -> Floats:
    """Return the share of each sample's time that disjoint intervals cover."""
    before = np.diff(at, prepend=at[0] - 1)
    covered = np.zeros(len(at))
    for first, last in zip(begin.tolist(), end.tolist(), strict=True):
        covered += np.clip(np.minimum(at, last) - np.maximum(at - before, first), 0, None)
    share: Floats = covered / np.maximum(before, 1)
    return share

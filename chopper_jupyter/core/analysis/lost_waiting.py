"""Time in which GPUs compute nothing: idle, waiting for a late GPU, communicating."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.idle_causes import CAUSES
from chopper_jupyter.core.analysis.losses import Loss, words
from chopper_jupyter.core.analysis.quantities import counted, duration, percent
from chopper_jupyter.core.analysis.waiting import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chopper_jupyter.core.analysis.grouping import Floats
    from chopper_jupyter.core.analysis.losses import Run, Where

WORTH = 0.005
"""Share of the wall time from which a single fault is worth a sentence: an hour of a week."""

IDLE_SHARE = 0.02
"""The same for idle time that all GPUs have: launches alone cost most programs 1 %."""

WAITING_SHARE = 0.05
"""The same for waits of which no single GPU is the reason."""

EXPOSED_SHARE = 0.10
"""The same for moving data, which no program hides altogether."""

NEGLIGIBLE = 0.0005
"""Share of the wall time that is 0.0 % when written."""

STRAGGLING = 0.5
"""Share of the waits for GPUs that stood idle of which one GPU must be the reason."""

SLOW_ITERATION = 0.10
"""Share by which an iteration must be longer than the others."""

ADVICE = {
    "input": "the loop waits for its data: more loader workers, pinned memory, copies ahead of use",
    "iteration_boundary": "the program works between iterations: logging, checkpoints, .item()",
    "host_sync": "the program waits for results: .item(), print, copies to the host; do it rarely",
    "host_late": "the program launches too slowly: larger batches, torch.compile, CUDA graphs",
    "communication": "kernels wait for a collective: prefetch, other bucket sizes, less sharding",
    "launch_latency": "many short kernels: fuse them, or launch them as a graph",
    "unknown": "the launches were not recorded, so the cause is not known",
}
"""What to do about each cause of idle time."""

_STARTS = (
    "its kernels start late although launched",
    "compare its link, driver and processes on this GPU with those of the others",
)
_LATE = {
    "input": ("its input is late", "compare its data loading with that of the others"),
    "iteration_boundary": (
        "its host works between iterations",
        "look for what only this rank does: logging, checkpoints, evaluation",
    ),
    "host_sync": (
        "its host waits for the GPU",
        "look for .item(), prints or copies to the host that only this rank does",
    ),
    "host_late": (
        "its host launches late",
        "look for a busy or badly bound CPU, or work that only this rank does",
    ),
    "communication": _STARTS,
    "launch_latency": _STARTS,
    "unknown": ("it stands idle before them", "record its launches, they tell why"),
}
"""Why a GPU is late by the cause of its idle time, and what to do about it."""

EVERY = slice(None)
"""All covered kernels."""

_FEW = 3


def straggler_losses(run: Run) -> Iterator[Loss]:
    """Find a GPU that stands idle before collectives while all others wait for it."""
    causes = tuple(CAUSES)
    waits = run.waited(causes)
    whole = float(waits.sum())
    if not whole or len(run.gpus) < 2:  # noqa: PLR2004  nobody to wait
        return
    of_gpu = [float(waits[run.waits.culprit == gpu].sum()) for gpu in run.gpus]
    place = int(np.argmax(of_gpu))
    gpu = run.gpus[place]
    if of_gpu[place] < STRAGGLING * whole:
        return
    lost = run.grid(run.wait_row, run.waited(causes, gpu))
    by_cause = {cause: float(run.waited((cause,), gpu).sum()) for cause in causes}
    cause = max(by_cause, key=lambda name: by_cause[name])
    extra = _own_excess(run, place, tuple(name for name, ns in by_cause.items() if ns > 0))
    lost[place] += extra.sum(axis=0)
    if run.share(lost) < WORTH:
        return
    mine = run.waits.culprit == gpu
    run.claim_waits(causes, np.where(mine, 1.0, 0.0))
    calls = np.unique(run.waits.call[mine])
    lead = float(np.median(run.waits.lead[mine]))
    why, what = _LATE[cause]
    yield Loss(
        "straggler",
        f"GPU {gpu} comes late to collectives and the others wait: {why}",
        what,
        f"last in {len(calls):,} of {len(np.unique(run.waits.call)):,} collectives that "
        f"anybody waited for, {duration(lead)} after the one before it: collectives",
        lost,
        [["gpu", int(gpu)]],
    )


def _own_excess(run: Run, place: int, causes: tuple[str, ...]) -> Floats:
    """Claim the idle time of a GPU beyond that of the others, by cause and iteration."""
    rows = np.flatnonzero(run.keys["gpu"].codes == place)
    column = run.cell[rows] % run.wall.shape[1]
    found = np.zeros((len(causes), run.wall.shape[1]))
    for i, cause in enumerate(causes):
        every = run.grid(EVERY, run.idle[cause])
        usual = np.median(np.delete(every, place, axis=0), axis=0)
        found[i] = np.maximum(every[place] - usual, 0)
        share = found[i] / np.maximum(every[place], 1)
        run.claimed[cause][rows] = share[column]
    return found


def idle_losses(run: Run) -> Iterator[Loss]:
    """Find the causes of idle time, and of the waits for GPUs that were idle for them."""
    for cause, title in CAUSES.items():
        if not run.idle[cause].any() and not run.waited((cause,)).any():
            continue
        own = run.idle[cause] * (1 - run.claimed[cause])
        waits = run.waited((cause,))
        lost = run.grid(EVERY, own) + run.grid(run.wait_row, waits)
        if run.share(lost) < IDLE_SHARE:
            continue
        run.claimed[cause][:] = 1.0
        run.claim_waits((cause,), np.ones(len(waits)))
        who = "the GPUs idle" if len(run.gpus) > 1 else "the GPU idles"
        idle = f"{who} {percent(run.share(run.grid(EVERY, own)))} of the time"
        waiting = run.share(run.grid(run.wait_row, waits))
        others = f" and {percent(waiting)} wait for these" if waiting > NEGLIGIBLE else ""
        where = run.where(EVERY, own)
        gaps = counted(int(np.count_nonzero(own)), "gap")
        yield Loss(
            "idle",
            f"{title}: {idle}",
            ADVICE[cause],
            f"{gaps}{others}; the largest part at {words(where)}: launch_overhead",
            lost,
            where,
        )


def waiting_losses(run: Run) -> Iterator[Loss]:
    """Find waits of which no single GPU, and nothing found so far, is the reason."""
    left = run.waited(STATES)
    lost = run.grid(run.wait_row, left)
    if run.share(lost) < WAITING_SHARE:
        return
    of_gpu = np.array([left[run.waits.culprit == gpu].sum() for gpu in run.gpus])
    top = int(of_gpu.argmax())
    share = float(of_gpu[top] / max(left.sum(), 1.0))
    run.claim_waits(STATES, np.ones(len(left)))
    where: Where = run.where(run.wait_row, left)
    yield Loss(
        "waiting",
        f"GPUs wait {percent(run.share(lost))} of the time in collectives for the last one",
        "balance their work, or let them drift: fewer collectives, or asynchronous ones",
        f"GPU {run.gpus[top]} is the last one for {percent(share)} of it: collectives",
        lost,
        where,
    )


def communication_losses(run: Run) -> Iterator[Loss]:
    """Find out if moving data that no compute hides takes long; waits for others are apart."""
    kind = run.line.of_covered(run.line.named("kind", "collective"))
    if not kind.any():
        return
    busy = np.asarray(run.which.kernels["busy_ns"].to_numpy(), np.float64)
    ns = np.where(kind, busy, 0.0)
    np.subtract.at(ns, run.wait_row, run.waits.ns)
    ns = np.maximum(ns, 0)
    lost = run.grid(EVERY, ns)
    if run.share(lost) < EXPOSED_SHARE:
        return
    apart = (
        "waits for late GPUs are not in it"
        if run.waits.calls
        else "waits for other GPUs are in it, one recording alone cannot tell them apart"
    )
    yield Loss(
        "communication",
        f"Communication that no compute hides takes {percent(run.share(lost))} of the time",
        "overlap it with compute (prefetch), or send less (other sharding, larger batches)",
        f"{counted(int(np.count_nonzero(ns)), 'collective')}; {apart}: breakdown, collectives",
        lost,
        run.where(EVERY, ns),
    )


def iteration_losses(run: Run, found: list[Loss]) -> Iterator[Loss]:
    """Find an iteration that is longer than the others, for no reason found so far."""
    if len(run.iterations) < _FEW:
        return
    explained = np.sum([loss.lost for loss in found], axis=0) if found else 0.0
    left = (run.wall - explained).mean(axis=0)
    slowest = int(left.argmax())
    usual = float(np.median(np.delete(left, slowest)))
    whole = float(np.median(np.delete(run.wall.mean(axis=0), slowest)))
    behind = float(left[slowest]) - usual
    if behind < SLOW_ITERATION * whole:
        return
    iteration = run.iterations[slowest]
    lost = np.zeros(run.wall.shape)
    lost[:, slowest] = behind
    yield Loss(
        "slow_iteration",
        f"Iteration {iteration} takes {percent(behind / whole)} longer than the others",
        "compare its kernels with those of another iteration: compare, variation",
        f"{duration(behind)} more per GPU, beyond what other findings explain",
        lost,
        [["iteration", int(iteration or 0)]],
    )

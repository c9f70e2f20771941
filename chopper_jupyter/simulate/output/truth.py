"""What really happened in a simulated run: one row per kernel of the timed run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chopper_jupyter.simulate.iteration.script import COMMUNICATION

if TYPE_CHECKING:
    from pathlib import Path

    from chopper_jupyter.simulate.iteration.script import Script
    from chopper_jupyter.simulate.output.event_text import Process
    from chopper_jupyter.simulate.timing.durations import Durations, Ints, Mask
    from chopper_jupyter.simulate.timing.schedule import Times

CAUSES = (
    "input", "iteration_boundary", "host_sync", "host_late", "communication", "launch_latency",
)  # fmt: skip
TRUTH_FILE, FACTS_FILE = "truth.parquet", "truth.json"


def write_truth(
    path: Path,
    script: Script,
    work: Durations,
    times: Times,
    processes: list[Process],
    first_iteration: int,
) -> None:
    """Write the truth of all ranks as a Parquet file.

    Columns: rank, stream, correlation_id, iteration, phase, layer, op, name, kind; start_ns and
    dur_ns on the true clock; useful_flops, performed_flops, theoretical_ns; the factors
    instruction, utilisation, overlap, frequency and noise, of which ``dur_ns = theoretical_ns *
    instruction / utilisation * overlap * frequency * noise`` for compute kernels, to a
    nanosecond; overlap_ns; prep_ns, call_ns, idle_ns and its parts by cause
    (``idle_input_ns`` and so on, see ``CAUSES``), and ``idle_cause``, the largest.
    """
    same = _of_script(script, work)
    parts = [_of_rank(script, work, times, process, first_iteration) for process in processes]
    iterations, launches = len(times.begin), len(script.launches)
    rows = np.tile(np.arange(launches), iterations)
    tables = [pa.table({**{n: v.take(pa.array(rows)) for n, v in same.items()}, **part})
              for part in parts]  # fmt: skip
    pq.write_table(pa.concat_tables(tables), path / TRUTH_FILE, compression="zstd")


def _of_script(script: Script, work: Durations) -> dict[str, pa.Array]:
    launches = script.launches
    words = {
        "phase": [one.label.phase for one in launches],
        "layer": [one.label.layer for one in launches],
        "op": [one.label.op for one in launches],
        "name": [one.work.name for one in launches],
        "kind": [one.work.kind for one in launches],
    }
    numbers = {
        "useful_flops": work.useful,
        "performed_flops": work.performed,
        "theoretical_ns": work.theoretical_ns,
        "instruction": work.instruction,
        "utilisation": work.utilisation,
    }
    return {
        **{
            name: pa.array(values, pa.string()).dictionary_encode()
            for name, values in words.items()
        },
        **{name: pa.array(values) for name, values in numbers.items()},
    }


def _of_rank(
    script: Script, work: Durations, times: Times, process: Process, first_iteration: int
) -> dict[str, pa.Array]:
    r, (iterations, launches, _) = process.rank, times.start.shape
    start, end, launch = (one[:, :, r].ravel() for one in (times.start, times.end, times.launch))
    stream = np.tile([one.stream for one in script.launches], iterations)
    collective = stream == COMMUNICATION
    frequency = np.where(work.matrix, work.frequency[:, r, None], 1.0).ravel()
    alone = times.alone_ns[:, :, r].ravel()
    number = np.repeat(np.arange(iterations), launches)
    idle = _idle(script, times, r, (start, end, launch, number))
    columns = {
        "rank": np.full(len(start), r, np.int32),
        "stream": np.array(process.streams)[stream],
        "correlation_id": 1 + number * script.calls + np.tile(np.arange(launches), iterations),
        "iteration": (first_iteration + number).astype(np.int32),
        "start_ns": start,
        "dur_ns": end - start,
        "frequency": frequency,
        "overlap": np.where(collective, 1.0, (end - start) / alone),
        "noise": work.noise[:, :, r].ravel(),
        "overlap_ns": _overlap(start, end, collective),
        **idle,
    }
    cause = np.stack([idle[f"idle_{name}_ns"] for name in CAUSES])
    largest = pa.array(cause.argmax(axis=0), mask=idle["idle_ns"] == 0)
    found = {name: pa.array(values) for name, values in columns.items()}
    return found | {"idle_cause": pa.array(CAUSES).take(largest).dictionary_encode()}


def _overlap(start: Ints, end: Ints, collective: Ints) -> Ints:
    """Return the time that each kernel shares with kernels of the other kind."""
    found = np.zeros(len(start), np.int64)
    for of, other in ((collective, ~collective), (~collective, collective)):
        order = np.argsort(start[other], kind="stable")
        begins, ends = start[other][order], end[other][order]
        found[of] = _busy_before(end[of], begins, ends) - _busy_before(start[of], begins, ends)
    return found


def _busy_before(at: Ints, begins: Ints, ends: Ints) -> Ints:
    """Return the time before each instant that disjoint intervals cover."""
    total = np.concatenate([[0], np.cumsum(ends - begins)])
    begun = np.searchsorted(begins, at, side="right")
    last = np.maximum(begun - 1, 0)
    rest = np.where(begun > 0, np.maximum(ends[last] - at, 0), 0)
    covered: Ints = total[begun] - rest
    return covered


def _idle(
    script: Script, times: Times, rank: int, kernels: tuple[Ints, Ints, Ints, Ints]
) -> dict[str, Ints]:
    """Split the idle time that each kernel ends: before its launch (prep), after it (call)."""
    start, end, launch, number = kernels
    order = np.argsort(start, kind="stable")
    latest = np.maximum.accumulate(end[order])
    before = np.empty_like(start)
    before[order] = np.concatenate([[start[order[0]]], latest[:-1]])
    idle = np.maximum(start - before, 0)
    begin = start - idle
    prep = np.clip(launch - begin, 0, idle)
    first = np.zeros(len(start), bool)
    first[order] = np.concatenate([[True], np.diff(number[order]) != 0])
    loading = _loading(script, times, rank, number, (begin, begin + prep))
    late = prep - loading
    waiting = _waiting(script, times, rank, (begin, start, launch))
    synced = _after_sync(script, times, rank) & ~first
    return {
        "idle_ns": idle,
        "prep_ns": prep,
        "call_ns": idle - prep,
        "idle_input_ns": loading,
        "idle_iteration_boundary_ns": np.where(first, late, 0),
        "idle_host_sync_ns": np.where(synced, late, 0),
        "idle_host_late_ns": np.where(first | synced, 0, late),
        "idle_communication_ns": waiting,
        "idle_launch_latency_ns": idle - prep - waiting,
    }


def _after_sync(script: Script, times: Times, rank: int) -> Mask:
    """Mark the first launch after each wait of the host in the midst of an iteration."""
    number = [stall.kind for stall in script.stalls].index("host_sync")
    found = np.zeros(times.start.shape[:2], bool)
    found[:, script.stalls[number].before] = times.stalls[:, number, rank] > 0
    return found.ravel()


def _waiting(script: Script, times: Times, rank: int, kernels: tuple[Ints, Ints, Ints]) -> Ints:
    """Return how long each kernel idled although the collective that it waits for had ended."""
    begin, start, launch = kernels
    after = np.array([one.after for one in script.launches])
    ended = np.where(after >= 0, times.end[:, np.maximum(after, 0), rank], -1).ravel()
    queued = (ended == begin) & (launch <= begin)
    waiting: Ints = np.where(queued, np.maximum(start - times.latency_ns - begin, 0), 0)
    return waiting


def _loading(
    script: Script, times: Times, rank: int, number: Ints, between: tuple[Ints, Ints]
) -> Ints:
    """Return how long each host waited for input within an interval of its iteration."""
    loader = next(one for one in script.ranges if one.name.startswith("enumerate(DataLoader)"))
    held = times.stalls[:, :, rank]
    kinds = [stall.kind for stall in script.stalls]
    earlier = held[:, : kinds.index("input")].sum(axis=1)
    begins = times.begin[:, rank] + loader.begin + earlier
    ends = times.begin[:, rank] + loader.end + earlier + held[:, kinds.index("input")]
    shared = np.minimum(ends[number], between[1]) - np.maximum(begins[number], between[0])
    loading: Ints = np.maximum(shared, 0)
    return loading

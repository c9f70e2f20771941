"""Writes one rank's trace as the PyTorch profiler does."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.simulate.iteration.script import WAITS
from chopper_jupyter.simulate.output import event_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chopper_jupyter.simulate.accelerators import Accelerator
    from chopper_jupyter.simulate.iteration.script import Script, Stall
    from chopper_jupyter.simulate.output.event_text import Process
    from chopper_jupyter.simulate.timing.durations import Ints
    from chopper_jupyter.simulate.timing.schedule import Times

BASE_NS = 1_750_000_000_000_000_000
"""Wall time of the true time 0."""

AGE_NS = 3_600_000_000_000
"""How long before the true time 0 the base of the traces lies, so that no time is negative."""

CALL_NS = 3_000
COMPRESSION = 4
FIRST_SEQUENCE = 1_000


@dataclass(frozen=True)
class RankTimes:
    """Times of one rank by iteration, in ns since the base of its trace, by the rank's clock."""

    begin: Ints
    stalls: Ints
    launch: Ints
    start: Ints
    end: Ints


def rank_times(times: Times, rank: int, offset_ns: int) -> RankTimes:
    """Return the times that one rank's clock shows."""
    shift = AGE_NS + offset_ns
    return RankTimes(
        times.begin[:, rank] + shift,
        times.stalls[:, :, rank],
        *(one[:, :, rank] + shift for one in (times.launch, times.start, times.end)),
    )


def write_trace(
    path: Path,
    script: Script,
    times: RankTimes,
    process: Process,
    about: dict[str, Any],
    first_iteration: int,
) -> None:
    """Write the trace of one rank, gzipped.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    script : Script
        What runs in each iteration.
    times : RankTimes
        When.
    process : Process
        Names and numbers of the rank.
    about : dict
        Members of the document beside its events.
    first_iteration : int
        Number of the first recorded iteration.
    """
    head = json.dumps({**about, "baseTimeNanoseconds": BASE_NS - AGE_NS}, indent=1)[:-2]
    with gzip.GzipFile(path, "wb", COMPRESSION, mtime=0) as file:
        file.write(f'{head},\n "traceEvents": [\n'.encode())
        for text in _chunks(script, times, process, first_iteration):
            file.write(text.encode() + b",\n")
        end = int(times.end.max()) // 1000 + 1
        closing = {
            "name": "Record Window End",
            "ph": "i",
            "s": "g",
            "pid": "",
            "tid": "",
            "ts": end,
        }
        file.write(json.dumps(closing).encode() + b"\n]}\n")


def about_rank(process: Process, hardware: Accelerator, host: str, devices: int) -> dict[str, Any]:
    """Return what a trace says about its rank, apart from its events."""
    gpus = [
        {
            "id": device, "name": hardware.product, "numSms": hardware.units,
            "totalGlobalMem": int(hardware.memory_gib * 2**30),
            "warpSize": 64 if hardware.amd else 32,
        }
        for device in range(devices)
    ]  # fmt: skip
    group = {
        "pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl",
        "pg_size": process.ranks, "ranks": list(range(process.ranks)),
    }  # fmt: skip
    return {
        "schemaVersion": 1,
        "deviceProperties": gpus,
        "record_shapes": 1,
        "distributedInfo": {
            "backend": "nccl", "rank": process.rank, "world_size": process.ranks,
            "pg_count": 1, "pg_config": [group], "nccl_version": "2.22.3",
        },
        "host_name": host,
        "simulated": 1,
        "displayTimeUnit": "ms",
        "traceName": f"rank_{process.rank}.json",
    }  # fmt: skip


def _chunks(
    script: Script, times: RankTimes, process: Process, first_iteration: int
) -> Iterator[str]:
    yield ",\n".join(event_text.frame_texts(process))
    waits = [
        stall
        for number, stall in enumerate(script.stalls)
        if stall.kind in WAITS and times.stalls[:, number].any()
    ]
    blocks = (
        event_text.range_block(script, process), event_text.call_block(script, process),
        event_text.kernel_block(script, process), event_text.arrow_block(script, process),
        event_text.gradient_block(script, process), event_text.wait_block(waits, process),
    )  # fmt: skip
    template = ",\n".join(block.text for block in blocks)
    fill = _Numbers(script, waits)
    for i in range(len(times.begin)):
        columns = fill.of(times, i)
        values = [value for block, column in zip(blocks, columns, strict=True)
                  for value in column[block.used].tolist()]  # fmt: skip
        yield template.replace(event_text.NUMBER, str(first_iteration + i)) % tuple(values)


class _Numbers:
    """What fills the places of each iteration's text."""

    def __init__(self, script: Script, waits: list[Stall]) -> None:
        ranges, launches = script.ranges, script.launches
        self.script = script
        self.begin = np.array([one.begin for one in ranges])
        self.end = np.array([one.end for one in ranges])
        self.seq = np.array([-1 if one.seq is None else one.seq for one in ranges])
        self.owner = np.array([one.external for one in launches])
        is_collective = np.array([one.work.kind == "collective" for one in launches])
        self.collectives = int(is_collective.sum())
        self.group_seq = np.cumsum(is_collective)
        self.range_seq = np.cumsum([one.collective is not None for one in ranges])
        self.stall_at = np.array([one.at for one in script.stalls])
        self.wait_at = np.array([one.at for one in waits])
        self.flows = np.array(
            [(forward.external - 1, backward.external - 1) for forward, backward in script.flows]
        ).reshape(-1, 2)

    def of(self, times: RankTimes, i: int) -> list[Ints]:
        """Return the columns of all blocks for iteration ``i``."""
        begin, end = self._host(times, i, self.begin), self._host(times, i, self.end)
        size, count, calls = len(self.begin), len(self.owner), self.script.calls
        ids = i * size + 1 + np.arange(size)
        owner = np.where(self.owner > 0, i * size + self.owner, 0)
        correlation = 1 + i * calls + np.arange(count)
        launch, start, stop = times.launch[i], times.start[i], times.end[i]
        seq_base = i * self.collectives
        flow = 1 + i * len(self.flows) + np.arange(len(self.flows))
        wait, waited = self._host(times, i, self.wait_at), self._host(times, i, self.wait_at + 1)
        return [
            np.column_stack([
                *_time(begin), *_time(end - begin), ids,
                FIRST_SEQUENCE + i * (self.script.sequence + 1) + self.seq,
                seq_base + self.range_seq, ids - 1,
            ]),
            np.column_stack([*_time(launch), owner, correlation]),
            np.column_stack([
                *_time(start), *_time(stop - start), owner, correlation,
                seq_base + self.group_seq,
            ]),
            np.column_stack([correlation, *_time(launch), correlation, *_time(start)]),
            np.column_stack([
                flow, *_time(begin[self.flows[:, 0]]), flow, *_time(begin[self.flows[:, 1]])
            ]),
            np.column_stack([
                *_time(wait), *_time(waited - wait),
                correlation[-1] + 1 + np.arange(len(self.wait_at)),
            ]),
        ]  # fmt: skip

    def _host(self, times: RankTimes, i: int, at: Ints) -> Ints:
        """Return when the host of a rank passes places of the script."""
        held = np.concatenate([[0], np.cumsum(times.stalls[i])])
        found: Ints = times.begin[i] + at + held[np.searchsorted(self.stall_at, at, side="left")]
        return found


def _time(ns: Ints) -> tuple[Ints, Ints]:
    """Split times into whole microseconds and the nanoseconds beside them."""
    return ns // 1000, ns % 1000

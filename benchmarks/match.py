"""Matching counters to kernels, from 0.125 to 2 million kernels, on one core.

Two percent of the kernels of either run are missing and two percent are extra; the counting run
warms up. Near-linear means that the time per kernel hardly grows: the last column is the exponent
of the growth since the line before (1 is linear). The baseline of the same run is a join by name,
size and occurrence from the end, which is what other tools do.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import timing

from chopper_jupyter.core.align.match import match
from chopper_jupyter.core.align.match_rates import rates
from chopper_jupyter.core.counter_events import COUNTED, VALUES, CounterRun
from chopper_jupyter.core.schema import KERNELS

SIZES = (0.125, 0.25, 0.5, 1, 2)
GPUS, LAYERS, CHANGED, WARM_UP = 8, 32, 0.02, 4000
FORWARD = [f"void forward_{i}<bf16>(int)" for i in (0, 1, 2, 3, 4, 4, 5, 6, 7, 0, 8, 9, 10, 8, 11)]
BACKWARD = [f"void backward_{i}<bf16>(int)" for i in range(30)]
STEP = [
    "embedding", *FORWARD * LAYERS, "head", "loss", "loss_back", *BACKWARD * LAYERS,
    *(f"optimizer_{i}" for i in range(20)),
]  # fmt: skip


@dataclass(frozen=True)
class Runs:
    """A timed and a counting run, and what each of their kernels is."""

    kernels: pa.Table
    counted: CounterRun
    timed_identity: np.ndarray
    counted_identity: np.ndarray


def runs(kernels: int, seed: int = 0) -> Runs:
    random = np.random.default_rng(seed)
    names, code = np.unique(STEP, return_inverse=True)
    iterations = max(1, round(kernels / GPUS / len(STEP)))
    sides = []
    for warm_up in (0, WARM_UP):
        parts = [_gpu(random, iterations, warm_up) for _ in range(GPUS)]
        gpu = np.repeat(np.arange(GPUS), [len(part) for part in parts])
        identity = np.concatenate(parts)
        name = np.where(identity >= 0, code[identity % len(STEP)], random.choice(code, len(gpu)))
        sides.append((gpu, identity, pa.DictionaryArray.from_arrays(
            pa.array(name.astype(np.int32)), pa.array(names.tolist()))))  # fmt: skip
    (gpu, identity, name), (device, other, other_name) = sides
    return Runs(
        _kernels(gpu, identity, name), CounterRun("rocprofv3", _counted(device, other_name),
        VALUES.empty_table()), identity, other)  # fmt: skip


def _gpu(random: np.random.Generator, iterations: int, warm_up: int) -> np.ndarray:
    whole = np.arange(iterations * len(STEP))
    kept = whole[random.random(len(whole)) >= CHANGED]
    at = np.sort(random.integers(0, len(kept), int(CHANGED * len(kept))))
    return np.concatenate([np.full(warm_up, -1), np.insert(kept, at, -1)])


def _kernels(gpu: np.ndarray, identity: np.ndarray, name: pa.Array) -> pa.Table:
    rows = len(gpu)
    known = {
        "kernel_id": np.arange(rows), "gpu": gpu.astype(np.int32), "stream": np.full(rows, 7),
        "name": name, "kind": _word("compute", rows), "family": _word("gemm", rows),
        "start_ns": np.arange(rows) * 1000, "dur_ns": np.full(rows, 900),
        "launch_ns": np.arange(rows) * 1000 - 500,
        "iteration": np.maximum.accumulate(identity // len(STEP)).astype(np.int32),
        "grid": _word("4,2,1", rows), "block": _word("256,1,1", rows),
    }  # fmt: skip
    return pa.table([known.get(f.name, pa.nulls(rows, f.type)) for f in KERNELS], KERNELS.names)


def _counted(device: np.ndarray, name: pa.Array) -> pa.Table:
    rows = len(device)
    known = {
        "counted_id": np.arange(rows), "pass": np.zeros(rows, np.int32), "process": 100 + device,
        "device": np.zeros(rows, np.int32), "stream": np.ones(rows, np.int64),
        "order": np.arange(rows), "name": name, "work_items": np.full(rows, 2048),
        "group_items": np.full(rows, 256),
    }  # fmt: skip
    return pa.table([known.get(f.name, pa.nulls(rows, f.type)) for f in COUNTED], COUNTED.names)


def _word(word: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word]))


def by_occurrence(made: Runs) -> tuple[np.ndarray, np.ndarray]:
    """Join by GPU, name and occurrence from the end."""
    sides = []
    for table, owner in (
        (made.kernels, made.kernels["gpu"]),
        (made.counted.counted, made.counted.counted["process"]),
    ):
        frame = pa.table({"name": table["name"].cast(pa.string()), "gpu": owner}).to_pandas()
        frame["gpu"] -= frame["gpu"].min()
        frame["at"] = np.arange(len(frame))
        frame["occurrence"] = frame.groupby(["gpu", "name"]).cumcount(ascending=False)
        sides.append(frame)
    joined = sides[0].merge(sides[1], on=["gpu", "name", "occurrence"])
    return joined["at_x"].to_numpy(), joined["at_y"].to_numpy()


def right(made: Runs, timed: np.ndarray, counted: np.ndarray) -> str:
    """Say how many pairs are of the same place in the program (repeated neighbours look alike)."""
    own, other = made.timed_identity[timed], made.counted_identity[counted]
    real = (own >= 0) & (other >= 0)
    share = np.mean(own[real] == other[real])
    return f"{len(timed):,} pairs, of those that exist in both runs {100 * share:.2f} % right"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=SIZES[-1], help="of kernels, at most")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    made = {size: runs(int(size * 1e6)) for size in SIZES if size <= options.millions}
    tasks = {
        f"match {m.kernels.num_rows:,}": timing.task(lambda m=m: match(m.kernels, m.counted))
        for m in made.values()
    }
    tasks |= {
        f"by occurrence {m.kernels.num_rows:,}": timing.task(lambda m=m: by_occurrence(m))
        for m in list(made.values())[-1:]
    }
    found = timing.interleaved(tasks, options.runs)
    timing.show(f"Counters to kernels, {GPUS} GPUs, one pass", found)
    counts = [m.kernels.num_rows for m in made.values()]
    cpus = [timing.median(found[name]) for name in list(found)[: len(counts)]]
    for i in range(1, len(cpus)):
        exponent = math.log(cpus[i] / cpus[i - 1]) / math.log(counts[i] / counts[i - 1])
        print(f"from {counts[i - 1]:,} to {counts[i]:,} kernels: exponent {exponent:.2f}")
    last = list(made.values())[-1]
    matched = match(last.kernels, last.counted)
    print(f"match: {right(last, matched.timed, matched.counted)}")
    print(f"by occurrence: {right(last, *by_occurrence(last))}")
    lowest = min(rates(last.kernels, matched, last.counted.counted).device)
    print(f"lowest match rate of a GPU: {100 * lowest:.1f} %")


if __name__ == "__main__":
    main()

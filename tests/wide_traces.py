"""Traces of any width, made column by column: millions of kernels in a second."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.schema import FAMILIES
from chopper_jupyter.core.trace import Trace, TraceInfo

PHASES = ("forward", "backward", "optimizer", None)


def wide_trace(kernels, *, gpus=64, iterations=50, layers=80, ops=500, names=500, seed=0):
    """Make kernels that touch every member of every level, at random; sizes are heavy-tailed.

    As in every trace, kernels are in the order of GPUs, and on each in the order of time.
    """
    rng = np.random.default_rng(seed)
    duration = rng.lognormal(10, 1.5, kernels).astype(np.int64) + 1
    idle = rng.integers(0, 2_000, kernels)
    op = skewed(rng, ops, kernels)
    kernel = (op * 7 + rng.integers(0, 2, kernels)) % names
    gpu = np.arange(kernels) * gpus // kernels
    iteration = np.arange(kernels) * gpus * iterations // kernels % iterations
    start = np.cumsum(duration + idle) - duration
    columns = {
        "kernel_id": np.arange(kernels),
        "gpu": gpu.astype(np.int32),
        "stream": np.full(kernels, 7),
        "name": coded(kernel, [f"void lib::kernel_{i}<{'float, ' * 20}{i}>" for i in range(names)]),
        "kind": coded(np.zeros(kernels, int), ["compute"]),
        "family": coded(kernel % len(FAMILIES), list(FAMILIES)),
        "start_ns": start - start[np.searchsorted(gpu, gpu)],
        "dur_ns": duration,
        "iteration": iteration.astype(np.int32),
        "phase": coded(rng.integers(0, len(PHASES), kernels), list(PHASES)),
        "layer": coded(rng.integers(0, layers, kernels), [f"layers.{i}" for i in range(layers)]),
        "op": coded(op, [f"block.part_{i}.proj" for i in range(ops)]),
        "recompute": np.zeros(kernels, bool),
        "overlap_ns": duration // 3,
        "busy_ns": duration - duration // 5,
        "idle_ns": idle,
    }  # fmt: skip
    table = pa.table({"gpu": np.arange(gpus, dtype=np.int32), "device": np.zeros(gpus, np.int32),
                      "offset_ns": np.zeros(gpus, np.int64)})  # fmt: skip
    tables = {"kernels": pa.table(columns), "gpus": table}
    return Trace.from_tables(tables, TraceInfo(name="wide"), Quality(kernels=kernels))


def skewed(rng, members, rows):
    """Draw members so that a few are frequent and the rest are rare, each at least once."""
    drawn = np.minimum(rng.zipf(1.3, rows) - 1, members - 1)
    drawn[: min(members, rows)] = np.arange(members)[: min(members, rows)]
    return drawn


def coded(codes, values):
    whole = pa.array(values, pa.string())
    kept = pa.array([v for v in values if v is not None], pa.string())
    mask = np.array([values[c] is None for c in range(len(values))])[codes]
    assert not mask.any() or whole[-1].as_py() is None  # only the last value may be null
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=mask), kept)

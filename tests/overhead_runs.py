"""Training runs of known overheads as tables: what each factor is, is known before the analysis.

Shapes, counters and clock samples are what they would be; nothing of the product is used.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

import numpy as np
from counted_traces import counted_trace

from chopper_jupyter.core.trace import Trace

PEAK, CLOCK, UNITS, DIES = 1307.4432e12, 2.1e9, 304, 8
BANDWIDTH = 5300e9
B = "c10::BFloat16"
SIZES = {"q_proj": (4096, 4096, 4096), "down_proj": (4096, 14336, 4096)}
VECTOR = "norm"
COUNTED_CLOCK = 0.9e9


@dataclass
class Run:
    """A trace, and what is true of every instance: a row per run of an op."""

    trace: Trace
    truth: list[dict] = field(default_factory=list)


def overhead_run(
    *,
    gpus: int = 2,
    iterations: int = 3,
    layers: int = 8,
    padding: float = 1.1,
    utilisation: float = 0.6,
    slowdown: float = 0.15,
    noise: float = 0.0,
    seed: int = 0,
    clock=lambda gpu, iteration: 0.8 - 0.1 * gpu + 0.02 * iteration,
    overlap=lambda gpu, layer: (layer % 4) / 4 * (1 - 0.2 * gpu),
    period_ns: int = 400_000,
) -> Run:
    """Make a run of two products and a norm in each layer; ``clock`` is a share of the peak's.

    ``overlap`` is the share of each kernel's time that lies under communication.
    """
    rng = np.random.default_rng(seed)
    rows, truth, telemetry = [], [], []
    for gpu in range(gpus):
        now = 0
        for iteration in range(iterations):
            begin, share = now, clock(gpu, iteration)
            for layer in range(layers):
                for op in (*SIZES, VECTOR):
                    fact = _instance(op, share, overlap(gpu, layer), slowdown, padding, utilisation)
                    disturbed = fact["actual"] * math.exp(rng.normal(0, noise))
                    dur = round(disturbed)
                    place = {
                        "gpu": gpu,
                        "iteration": iteration,
                        "layer": f"layers.{layer}",
                        "op": op,
                    }
                    count = math.exp(rng.normal(0, noise))
                    rows.append({
                        **place, "phase": "forward", "start_ns": now, "dur_ns": dur,
                        "overlap_ns": round(dur * overlap(gpu, layer)),
                        "name": f"{op}_bf16_kernel", "op_id": len(rows),
                        "flops": fact["flops"], "counters": _counters(fact, count),
                    })  # fmt: skip
                    truth.append(
                        {**place, **fact, "actual": dur, "noise": disturbed / fact["actual"]}
                    )
                    now += dur
            telemetry += [
                {"gpu": gpu, "time_ns": t, "metric": "gpu_clock_mhz",
                 "value": share * CLOCK * 1e-6 + (t // period_ns % 2) * 1e-3}
                for t in range(begin + period_ns, now, period_ns)
            ]  # fmt: skip
    ops = [{"op_id": row["op_id"], **_operator(row["op"])} for row in rows]
    return Run(counted_trace(rows, telemetry=telemetry, ops=ops), truth)


def _operator(op: str) -> dict:
    if op == VECTOR:
        shapes, kinds, flops = [[4096, 4096]], [B], None
        return {"name": "aten::relu", "input_shapes": json.dumps(shapes),
                "input_dtypes": json.dumps(kinds), "flops": flops}  # fmt: skip
    m, k, n = SIZES[op]
    return {"name": "aten::mm", "input_shapes": json.dumps([[m, k], [k, n]]),
            "input_dtypes": json.dumps([B, B]), "flops": 2 * m * k * n}  # fmt: skip


def _instance(op, share, ratio, slowdown, padding, utilisation) -> dict:
    """Every factor of one run of an op, and its time in ns."""
    slower = 1 / (1 - slowdown * ratio)
    if op == VECTOR:
        theoretical = 1e9 * 2 * 2 * 4096 * 4096 / BANDWIDTH
        return {"flops": None, "theoretical": theoretical, "overlap": slower, "rest": 1.25,
                "actual": theoretical * slower * 1.25}  # fmt: skip
    m, k, n = SIZES[op]
    flops = 2 * m * k * n
    theoretical = 1e9 * flops / PEAK
    factors = {"instruction": padding, "utilization": 1 / utilisation, "frequency": 1 / share,
               "overlap": slower}  # fmt: skip
    return {"flops": flops, "theoretical": theoretical, **factors, "rest": 1.0,
            "actual": theoretical * math.prod(factors.values())}  # fmt: skip


def _counters(fact: dict, noise: float) -> dict:
    """What the hardware counts when the kernel runs alone; its cycles vary."""
    if fact["flops"] is None:
        cycles = fact["theoretical"] * 1.25 * 1e-9 * CLOCK * noise
        return {"GRBM_GUI_ACTIVE": cycles * DIES, "SQ_VALU_MFMA_BUSY_CYCLES": 0,
                "SQ_INSTS_VALU_MFMA_MOPS_BF16": 0}  # fmt: skip
    performed = fact["flops"] * fact["instruction"]
    busy = performed / (PEAK / CLOCK / UNITS / 4)  # cycles of one of the four units of each CU
    cycles = busy * fact["utilization"] / (4 * UNITS) * noise
    return {
        "GRBM_GUI_ACTIVE": cycles * DIES,
        "SQ_VALU_MFMA_BUSY_CYCLES": busy,
        "SQ_INSTS_VALU_MFMA_MOPS_BF16": performed / 512,
        "counted_duration_ns": 1e9 * cycles / COUNTED_CLOCK,
    }


def true_parts(truth: list[dict], per: int) -> dict[str, float]:
    """Parts in ms as log shares of each instance, by the factors that made it."""
    total = dict.fromkeys(("actual", "theoretical", *FACTORS, "unexplained"), 0.0)
    for row in truth:
        actual, theoretical = row["actual"], row["theoretical"]
        step = math.log(actual / theoretical)
        weight = (actual - theoretical) / step if step else actual
        total["actual"] += actual
        total["theoretical"] += theoretical
        for name in FACTORS:
            total[name] += weight * math.log(row.get(name, 1.0))
        known = sum(math.log(row.get(name, 1.0)) for name in FACTORS)
        total["unexplained"] += weight * (step - known)
    return {name: value * 1e-6 / per for name, value in total.items()}


FACTORS = ("instruction", "utilization", "overlap", "frequency")

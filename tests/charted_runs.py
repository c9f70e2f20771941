"""Two runs with samples of sensors, and every figure of them."""

from __future__ import annotations

from dataclasses import replace

from builders import llama_trace
from sampled_traces import sample, with_samples

from chopper_jupyter import charts
from chopper_jupyter.core.trace import altered


def runs():
    traces = [llama_trace(gpus=2, iterations=3, layers=3, seed=seed) for seed in (0, 1)]
    last = 3 * 10**8
    rows = [
        sample(metric, t, value + t % 7, gpu=gpu)
        for gpu in (0, 1)
        for t in range(0, last, last // 50)
        for metric, value in (("gpu_clock_mhz", 1900), ("power_w", 600))
    ]
    rows += [
        sample("cpu_utilization_ratio", t, (core + 1) / 4, core=core)
        for core in range(4)
        for t in range(0, last, last // 20)
    ]
    return {
        name: altered(with_samples(trace, rows), info=replace(trace.info, name=name))
        for name, trace in zip(("v1", "v2"), traces, strict=True)
    }


def every(runs) -> list[charts.Chart]:
    one, two = runs.values()
    return [
        charts.end_to_end(runs), charts.gemm_time(runs), charts.vector_time(runs),
        charts.communication(runs), charts.idle_causes(runs), charts.overlap_by_layer(runs),
        charts.overlap_by_gpu(one), charts.overlap_by_config(runs), charts.cpu_utilization(one),
        charts.frequency_power(runs), charts.compare_waterfall(one, two),
        charts.timeline_excerpt(one),
    ]  # fmt: skip

"""Two runs with counters, sensors and two ranks, and every figure of them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from simulated_runs import simulated_trace

from chopper_jupyter import charts
from chopper_jupyter.core.trace import altered


@lru_cache(maxsize=1)
def simulated():
    return {f"v{n}": simulated_trace(version=n) for n in (1, 2)}


def runs():
    """Return two runs that do not say that they are simulated."""
    return {
        name: altered(trace, info=replace(trace.info, name=name, simulated=False))
        for name, trace in simulated().items()
    }


def every(runs) -> list[charts.Chart]:
    one, two = runs.values()
    return [
        charts.end_to_end(runs), charts.gemm_time(runs), charts.vector_time(runs),
        charts.communication(runs), charts.launch_overhead(runs), charts.idle_causes(runs),
        charts.overlap_by_layer(runs), charts.overlap_by_gpu(one),
        charts.overlap_by_config(runs), charts.cpu_utilization(one),
        charts.frequency_power(runs), charts.overhead_breakdown(runs),
        charts.overhead_breakdown(runs, method="chopper"), charts.roofline(runs),
        charts.collectives(runs), charts.compare_waterfall(one, two),
        charts.timeline_excerpt(one),
    ]  # fmt: skip


def count() -> int:
    """Return how many different figures there are, by the names of the module."""
    return len({*charts.__all__} - {"Chart", "use_theme"})

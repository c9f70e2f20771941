"""The figures of the Chopper paper and a few more, as functions of one run or of several.

Each returns a ``Chart``: it shows itself in a notebook, without a network as well, ``figure`` is
the bokeh figure and ``data`` what is drawn. Bokeh is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chopper_jupyter._lazy import lazily

if TYPE_CHECKING:
    from chopper_jupyter.charts.chart import Chart
    from chopper_jupyter.charts.colours import use_theme
    from chopper_jupyter.charts.cores import cpu_utilization
    from chopper_jupyter.charts.launch import idle_causes, launch_overhead
    from chopper_jupyter.charts.op_times import communication, gemm_time, vector_time
    from chopper_jupyter.charts.overheads import overhead_breakdown
    from chopper_jupyter.charts.overlap import overlap_by_config, overlap_by_gpu, overlap_by_layer
    from chopper_jupyter.charts.peaks import roofline
    from chopper_jupyter.charts.phases import end_to_end
    from chopper_jupyter.charts.ranks import collectives
    from chopper_jupyter.charts.sensors import frequency_power
    from chopper_jupyter.charts.stretch import timeline_excerpt
    from chopper_jupyter.charts.waterfall import compare_waterfall

__all__ = [
    "Chart",
    "collectives",
    "communication",
    "compare_waterfall",
    "cpu_utilization",
    "end_to_end",
    "frequency_power",
    "gemm_time",
    "idle_causes",
    "launch_overhead",
    "overhead_breakdown",
    "overlap_by_config",
    "overlap_by_gpu",
    "overlap_by_layer",
    "roofline",
    "timeline_excerpt",
    "use_theme",
    "vector_time",
]

_HOMES = {
    "Chart": "chart",
    "collectives": "ranks",
    "communication": "op_times",
    "compare_waterfall": "waterfall",
    "cpu_utilization": "cores",
    "end_to_end": "phases",
    "frequency_power": "sensors",
    "gemm_time": "op_times",
    "idle_causes": "launch",
    "launch_overhead": "launch",
    "overhead_breakdown": "overheads",
    "overlap_by_config": "overlap",
    "overlap_by_gpu": "overlap",
    "overlap_by_layer": "overlap",
    "roofline": "peaks",
    "timeline_excerpt": "stretch",
    "use_theme": "colours",
    "vector_time": "op_times",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)

"""Where did my GPU time go, and why? A GPU training profiler that lives in the notebook.

Load it with ``%load_ext chopper_jupyter``, put ``%%chopper_profile`` on top of a training
cell, or open an existing trace with ``read_trace`` and explore it with ``Explorer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chopper_jupyter._lazy import lazily
from chopper_jupyter._version import __version__ as __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from chopper_jupyter.collect.profile import profile
    from chopper_jupyter.core.analysis.breakdown import breakdown
    from chopper_jupyter.core.analysis.collectives import collectives
    from chopper_jupyter.core.analysis.compare import compare
    from chopper_jupyter.core.analysis.cpu_utilization import cpu_utilization
    from chopper_jupyter.core.analysis.efficiency import efficiency
    from chopper_jupyter.core.analysis.energy import energy
    from chopper_jupyter.core.analysis.findings import findings
    from chopper_jupyter.core.analysis.frequency import frequency
    from chopper_jupyter.core.analysis.launch_overhead import launch_overhead
    from chopper_jupyter.core.analysis.overheads import overheads
    from chopper_jupyter.core.analysis.overlap import overlap
    from chopper_jupyter.core.analysis.summary import summarize
    from chopper_jupyter.core.analysis.throughput import throughput
    from chopper_jupyter.core.analysis.variation import variation
    from chopper_jupyter.core.attach import add_counters, add_telemetry
    from chopper_jupyter.core.errors import ChopperError
    from chopper_jupyter.core.read import read_trace
    from chopper_jupyter.core.trace import Trace
    from chopper_jupyter.report import Report
    from chopper_jupyter.widgets.explorer import Explorer

__all__ = [
    "ChopperError",
    "Explorer",
    "Report",
    "Trace",
    "add_counters",
    "add_telemetry",
    "breakdown",
    "collectives",
    "compare",
    "cpu_utilization",
    "efficiency",
    "energy",
    "findings",
    "frequency",
    "launch_overhead",
    "overheads",
    "overlap",
    "profile",
    "read_trace",
    "summarize",
    "throughput",
    "variation",
]

_HOMES = {
    "ChopperError": "core.errors",
    "Explorer": "widgets.explorer",
    "Report": "report",
    "Trace": "core.trace",
    "add_counters": "core.attach",
    "add_telemetry": "core.attach",
    "breakdown": "core.analysis.breakdown",
    "collectives": "core.analysis.collectives",
    "compare": "core.analysis.compare",
    "cpu_utilization": "core.analysis.cpu_utilization",
    "efficiency": "core.analysis.efficiency",
    "energy": "core.analysis.energy",
    "findings": "core.analysis.findings",
    "frequency": "core.analysis.frequency",
    "launch_overhead": "core.analysis.launch_overhead",
    "overheads": "core.analysis.overheads",
    "overlap": "core.analysis.overlap",
    "profile": "collect.profile",
    "read_trace": "core.read",
    "summarize": "core.analysis.summary",
    "throughput": "core.analysis.throughput",
    "variation": "core.analysis.variation",
}
"""Where each public name lives."""

__getattr__, __dir__ = lazily(__name__, _HOMES, listed=("__version__",))


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Register ``%%chopper_profile``; called by ``%load_ext chopper_jupyter``."""
    from chopper_jupyter import magics  # noqa: PLC0415

    magics.register(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Remove what ``load_ipython_extension`` registered."""
    from chopper_jupyter import magics  # noqa: PLC0415

    magics.unregister(ipython)

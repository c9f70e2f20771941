"""Measures of single kernels add up to what the tables of the same quantities say."""

import numpy as np
import pytest
from builders import trace_of
from overhead_runs import overhead_run

from chopper_jupyter.core.analysis.colour_measures import colour_measures
from chopper_jupyter.core.analysis.efficiency import efficiency
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.launch_overhead import launch_overhead
from chopper_jupyter.core.analysis.metrics import METRICS, evaluate
from chopper_jupyter.core.analysis.overheads import overheads


def by(trace, level, metric):
    """Return a metric by level, from sums of single kernels."""
    which = included(trace)
    key, found = which.key(level), colour_measures(trace, which)
    sums = {name: np.bincount(key.codes, values, len(key.values)) for name, values in found.items()}
    return dict(zip(key.values, evaluate(METRICS[metric], sums), strict=True))


@pytest.fixture(scope="module")
def counted():
    return overhead_run(gpus=2, iterations=2, layers=4).trace


def test_share_of_peak_and_clock_are_those_of_the_tables(counted):
    peak, clock = by(counted, "op", "peak_share"), by(counted, "op", "clock")
    table = efficiency(counted, "op").set_index("op")["peak_share_percent"]
    for op in ("q_proj", "down_proj"):
        assert peak[op] == pytest.approx(table[op], rel=1e-4)
        row = overheads(counted, "op").set_index("op").loc[op]
        assert clock[op] == pytest.approx(row["clock_mhz"], rel=1e-4)


def test_launch_overhead_is_that_of_the_table():
    rows = [
        {"op": "a", "start_ns": 100, "dur_ns": 50, "launch_ns": 10},
        {"op": "b", "start_ns": 400, "dur_ns": 50, "launch_ns": 300, "idle_ns": 250},
        {"op": "b", "start_ns": 450, "dur_ns": 50, "launch_ns": None},
        {"op": "a", "start_ns": 700, "dur_ns": 50, "launch_ns": 420, "idle_ns": 200},
    ]
    trace = trace_of([row | {"kind": "compute"} for row in rows])
    found = by(trace, "op", "launch")
    table = launch_overhead(trace, "op").set_index("op")["mean_launch_us"]
    for op in ("a", "b"):
        assert found[op] == pytest.approx(table[op])


def test_what_nobody_recorded_is_no_measure():
    assert colour_measures(trace_of([{}], device_kind="cpu"), included(trace_of([{}]))) == {}
    trace = trace_of([{"kind": "compute", "launch_ns": None}])
    assert colour_measures(trace, included(trace)) == {}

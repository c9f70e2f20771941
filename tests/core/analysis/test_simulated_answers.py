"""Launch overhead, causes of idle time and overlap of simulated runs, exact to the nanosecond."""

from __future__ import annotations

import pandas as pd
import pytest
from simulated_runs import simulated_run, simulated_trace, truth_of

from chopper_jupyter import launch_overhead, overlap
from chopper_jupyter.core.analysis.idle_causes import CAUSES, idle_causes
from chopper_jupyter.simulate import Injections

DELAYS = {
    "input": 400_000, "host_late": 700_000, "host_sync": 300_000, "iteration_boundary": 500_000,
    "communication": 20_000, "launch_latency": 3_000,
}  # fmt: skip
EVERYTHING = Injections(
    launch_delay_ns=DELAYS, straggler=(1, 150_000), overlap_contention=1.3, noise=0.02,
    padding={"mlp.down_proj": 1.2}, clock_loss={(0, 1): 0.8}, clock_offset_ns={1: 40_000},
)  # fmt: skip
BY = ["gpu", "iteration", "phase", "op"]


@pytest.fixture(
    params=[("MI300X", 1), ("H100", 2)], ids=["MI300X FSDP1", "H100 FSDP2"], scope="module"
)
def run(request):
    """Return the trace of a run that suffers from everything, and its truth."""
    hardware, version = request.param
    options = {"hardware": hardware, "version": version, "seed": 3}
    truth = truth_of(simulated_run(EVERYTHING, **options)).rename(columns={"rank": "gpu"})
    return simulated_trace(EVERYTHING, **options), truth


def summed(frame, columns):
    """Sum columns by level; an unknown level is a value."""
    plain = frame[BY + columns].copy()
    for name in ("phase", "op"):
        plain[name] = plain[name].astype("object").where(plain[name].notna(), "other")
    plain[["gpu", "iteration", *columns]] = plain[["gpu", "iteration", *columns]].astype("int64")
    sums = plain.groupby(BY)[columns].sum()
    return sums[(sums != 0).any(axis=1)]


def assert_same(found, truth):
    pd.testing.assert_frame_equal(found, truth, check_names=False)


def test_preparation_and_call(run):
    trace, truth = run
    columns = ["prep_ns", "call_ns"]
    compute = truth[truth["kind"] == "compute"]
    assert_same(summed(launch_overhead(trace, BY), columns), summed(compute, columns))
    assert (compute[columns].sum() > 0).all()


def causes_of(trace, truth):
    """Return the causes of idle time as they are found, and as they are."""
    columns = [f"{cause}_ns" for cause in CAUSES]
    truth = truth.assign(idle_unknown_ns=0)
    told = truth[[*BY, *(f"idle_{name}" for name in columns)]]
    told = told.rename(columns={f"idle_{name}": name for name in columns})
    return summed(idle_causes(trace, BY), columns), summed(told, columns)


def test_all_causes_of_idle_time_at_once(run):
    """What a kernel starts late by after a collective is one with what it waits for that."""
    found, told = causes_of(*run)
    for one in (found, told):
        one["device_ns"] = one.pop("communication_ns") + one.pop("launch_latency_ns")
        assert (one.drop(columns="unknown_ns").sum() > 0).all()
    assert_same(found, told)


@pytest.mark.parametrize("cause", DELAYS)
def test_each_cause_of_idle_time(cause):
    injected = Injections(overlap_contention=1.0, launch_delay_ns={cause: 400_000})
    truth = truth_of(simulated_run(injected)).rename(columns={"rank": "gpu"})
    found, told = causes_of(simulated_trace(injected), truth)
    if cause == "launch_latency":  # a late start after a collective or copy is one with these
        device = ["communication_ns", "launch_latency_ns", "input_ns"]
        found, told = (
            one.assign(launch_latency_ns=one[device].sum(axis=1)) for one in (found, told)
        )
        found, told = (one.drop(columns=["communication_ns", "input_ns"]) for one in (found, told))
    assert_same(found, told)
    assert found[f"{cause}_ns"].sum() >= 400_000


def test_overlap(run):
    trace, truth = run
    answer = overlap(trace, BY)
    compute, collective = (truth[truth["kind"] == k] for k in ("compute", "collective"))
    assert compute["overlap_ns"].sum() > 0
    for told, name in ((compute, "compute"), (collective, "communication")):
        column = f"overlapped_{name}_ns"
        expected = summed(told.rename(columns={"overlap_ns": column}), [column])
        assert_same(summed(answer, [column]), expected)
        exposed = told.assign(time=told["dur_ns"])
        expected = summed(exposed.rename(columns={"time": f"{name}_ns"}), [f"{name}_ns"])
        assert_same(summed(answer, [f"{name}_ns"]), expected)

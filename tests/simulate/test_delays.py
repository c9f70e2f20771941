"""Delays on the GPU's side, waits of the host, and contention by op."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_runs import document_of, simulated_run, simulated_trace, truth_of

from chopper_jupyter.simulate import Injections

DELAY = 400_000


def told(**delays) -> Injections:
    return Injections(overlap_contention=1.0, launch_delay_ns=delays)


def difference(column, **delays):
    before, after = truth_of(simulated_run(told())), truth_of(simulated_run(told(**delays)))
    return before, after, after[column] - before[column]


def test_every_compute_kernel_starts_later_by_the_launch_latency():
    _, after, gained = difference("idle_launch_latency_ns", launch_latency=DELAY)
    compute = (after["kind"] != "collective").to_numpy()
    alone = compute & (after["overlap_ns"] == 0) & (gained > 0)
    assert alone.sum() > 0.3 * compute.sum()
    assert gained.max() <= DELAY
    assert (gained[alone] == DELAY).mean() > 0.6  # elsewhere communication filled the gap
    before = truth_of(simulated_run(told()))
    assert after["dur_ns"][compute].tolist() == before["dur_ns"][compute].tolist()


def test_waiting_kernels_start_later_after_their_collective():
    _, after, gained = difference("idle_communication_ns", communication=DELAY)
    rows = after[after["idle_communication_ns"] > 0]
    assert set(rows["idle_communication_ns"]) == {DELAY}
    assert rows["op"].isin(["fsdp_copy", "clip"]).all()
    assert gained.sum() == len(rows) * DELAY > 0
    assert (rows["idle_cause"] == "communication").all()


def test_the_host_waits_in_the_midst_of_the_forward():
    _, after, late = difference("idle_host_late_ns", host_sync=DELAY)
    per_iteration = after.groupby(["rank", "iteration"])["idle_host_sync_ns"].sum()
    assert per_iteration.between(DELAY, DELAY + 50_000).all()
    assert late.abs().max() < 1_000
    events = document_of(simulated_run(told(host_sync=DELAY)))["traceEvents"]
    waits = [e for e in events if e["name"] == "hipStreamSynchronize"]
    assert len(waits) == 3
    ends = [e["ts"] + e["dur"] for e in events if e.get("cat") == "kernel"]
    for wait in waits:
        until = max(end for end in ends if end < wait["ts"] + wait["dur"])
        assert wait["ts"] + wait["dur"] - until >= DELAY / 1000 - 0.01


def test_without_an_injection_the_host_does_not_wait_there():
    events = document_of(simulated_run(told()))["traceEvents"]
    assert not [e for e in events if e["name"] == "hipStreamSynchronize"]


@pytest.mark.parametrize(
    "cause",
    ["input", "host_late", "host_sync", "iteration_boundary", "communication", "launch_latency"],
)
def test_causes_add_up_and_readers_see_the_same_idle_time(cause):
    injected = told(**{cause: DELAY})
    truth = truth_of(simulated_run(injected))
    causes = [n for n in truth if n.startswith("idle_") and n.endswith("_ns") and n != "idle_ns"]
    assert len(causes) == 6
    assert truth[causes].sum(axis=1).tolist() == truth["idle_ns"].tolist()
    assert truth[f"idle_{cause}_ns"].sum() > 0
    kernels = simulated_trace(injected).kernels.to_pandas()
    assert kernels["idle_ns"].sum() == truth["idle_ns"].sum()


def test_contention_can_be_told_by_op():
    usual = truth_of(simulated_run())
    usual = usual[(usual["kind"] == "compute") & (usual["overlap_ns"] > 100_000)]
    slow, same = usual["op"].value_counts().index[:2]
    by_op = {slow: 1.5, same: 1.0}
    truth = truth_of(simulated_run(Injections(overlap_contention=by_op)))
    beside = truth[(truth["kind"] == "compute") & (truth["overlap_ns"] > 0)]
    slowed = beside[beside["op"] == slow]
    assert len(slowed) > 0
    lost = slowed["dur_ns"] - slowed["dur_ns"] / slowed["overlap"]
    assert np.allclose(lost, slowed["overlap_ns"] * (1 - 1 / 1.5), atol=2)
    unslowed = beside[beside["op"] == same]
    assert np.allclose(unslowed["dur_ns"] * (1 - 1 / unslowed["overlap"]), 0, atol=1)
    others = beside[~beside["op"].isin(by_op)]
    assert (others["overlap"] > 1.0001).any()


def test_contention_below_one_is_refused():
    with pytest.raises(ValueError, match="lm_head"):
        Injections(overlap_contention={"lm_head": 0.5})

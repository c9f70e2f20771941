"""For whom GPUs wait, and why: known worlds, and laws of any."""

from __future__ import annotations

import numpy as np
import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from simulated_runs import simulated_trace
from waiting_traces import meeting

from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.analysis.waiting import STATES, waiting
from chopper_jupyter.simulate import Injections


def waits(trace):
    return waiting(trace, timeline(trace, included(trace), "waiting"))


def reasons(found):
    """Sum what others waited by culprit and state, in ns."""
    sums = {}
    for culprit, because in zip(found.culprit.tolist(), found.because, strict=True):
        for state, ns in zip(STATES, because.tolist(), strict=True):
            if ns:
                sums[culprit, state] = sums.get((culprit, state), 0) + ns
    return sums


def only(gpu, ns):
    return lambda g, _i: ns if g == gpu else 0


def test_who_comes_together_does_not_wait():
    found = waits(meeting())
    assert not len(found.ns)
    assert found.calls == 4


def test_one_gpu_alone_waits_for_nobody():
    assert not len(waits(trace_of([{}])).ns)


def test_the_others_wait_for_who_computes_longer():
    found = waits(meeting(more=only(1, 200)))
    assert reasons(found) == {(1, "compute"): 200 * 2 * 4}
    assert sorted(set(found.gpu.tolist())) == [0, 2]
    assert set(found.lead.tolist()) == {200}


@pytest.mark.parametrize(("queued", "cause"), [(False, "host_late"), (True, "launch_latency")])
def test_the_others_wait_for_who_is_idle(queued, cause):
    found = waits(meeting(gap=only(2, 150), queued=queued))
    assert reasons(found) == {(2, cause): 150 * 2 * 4}


def test_several_reasons_share_the_wait():
    found = waits(meeting(gap=only(0, 100), more=only(0, 300)))
    assert reasons(found) == pytest.approx({(0, "compute"): 2400, (0, "host_late"): 800})


def test_what_all_have_is_nobodys_fault():
    found = waits(meeting(gap=lambda g, _i: 170 if g == 1 else 70, more=lambda _g, _i: 90))
    assert {state for _, state in reasons(found)} == {"host_late"}
    assert found.ns.sum() == 100 * 2 * 4


def test_clocks_that_are_not_known_so_well_tell_nothing():
    assert not len(waits(meeting(more=only(1, 200), unsure=300)).ns)
    assert len(waits(meeting(more=only(1, 200), unsure=100)).ns)


def test_waiting_beside_compute_is_no_loss():
    rows = []
    for gpu, arrival in ((0, 100), (1, 700)):
        rows += [
            {"gpu": gpu, "collective": None, "process_group": None, "collective_seq": None,
             "start_ns": 0, "dur_ns": 1000},
            {"gpu": gpu, "kind": "collective", "stream": 20, "collective": "all_gather",
             "process_group": "0", "collective_seq": 1, "start_ns": arrival,
             "dur_ns": 900 - arrival, "busy_ns": 0},
        ]  # fmt: skip
    found = waits(trace_of(rows))
    assert found.calls == 1
    assert not len(found.ns)


NS = st.integers(0, 400)


@given(st.lists(st.tuples(NS, NS), min_size=6, max_size=6), st.booleans())
def test_waits_are_as_long_as_arrivals_differ_and_wholly_explained(times, queued):
    gap, more = (lambda g, i, k=k: times[2 * g + i][k] for k in (0, 1))
    found = waits(meeting(3, 2, gap=gap, more=more, queued=queued))
    arrival = np.array([[sum(times[2 * g + i]) for g in range(3)] for i in range(2)])
    late = arrival.max(axis=1, keepdims=True) - arrival
    assert found.ns.sum() == late.sum()
    np.testing.assert_allclose(found.because.sum(axis=1), found.ns)


@pytest.mark.parametrize("version", [1, 2])
def test_a_simulated_straggler_is_last_and_idle(version):
    trace = simulated_trace(Injections(straggler=(1, 600_000)), version=version)
    sums = reasons(waits(trace))
    idle = {key: ns for key, ns in sums.items() if key[1] not in ("compute", "transfer")}
    assert {culprit for culprit, _ in idle} == {1}
    assert sum(idle.values()) > 600_000 * 3

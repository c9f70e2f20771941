"""Clocks of ranks, aligned by the ends of their collectives, where the truth is known."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from collective_runs import calls, linked_rank, ranks_of
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align.across_ranks import calls_of
from chopper_jupyter.core.align.clocks import FLOOR_NS
from chopper_jupyter.core.align.merge import join, merge
from chopper_jupyter.core.errors import ClockWarning
from chopper_jupyter.core.losses import warn_of_losses
from chopper_jupyter.core.trace import TraceInfo

INFO = TraceInfo(name="run")


def offsets_of(trace) -> list[int]:
    return trace.gpus["offset_ns"].to_pylist()


def uncertainties_of(trace) -> list[int | None]:
    return trace.gpus["offset_uncertainty_ns"].to_pylist()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0, 1_000, 20_000])
def test_offsets_lie_within_their_uncertainty(seed, noise):
    random = np.random.default_rng(seed)
    true = [0, *random.integers(-(10**7), 10**7, 3).tolist()]
    made = calls(60, 4, seed)
    trace = merge(ranks_of(made, 4, offsets=true, noise=noise, seed=seed), INFO)
    for found, unsure, offset in zip(offsets_of(trace), uncertainties_of(trace), true, strict=True):
        assert abs(-found - offset) <= unsure
        assert unsure <= FLOOR_NS + noise


@pytest.mark.parametrize("told", [True, False])
def test_what_is_aligned_is_as_if_there_was_one_clock(told):
    made = calls(40, 3)
    plain = merge(ranks_of(made, 3, told=told), INFO)
    moved = merge(ranks_of(made, 3, told=told, offsets=[0, 10**9, -(10**6)]), INFO)
    assert offsets_of(moved) == [0, -(10**9), 10**6]
    for name in ("kernels", "ops", "spans", "collectives"):
        assert moved.tables[name].to_pylist() == plain.tables[name].to_pylist()
    assert [note for note in moved.quality.notes if note.startswith("clock of rank 1 moved by")]


@given(st.lists(st.integers(-(10**8), 10**8), min_size=3, max_size=3), st.permutations(range(3)))
def test_the_order_in_which_ranks_were_joined_does_not_matter(offsets, order):
    parts = ranks_of(calls(12, 3), 3, offsets=offsets)
    one = merge(parts, INFO)
    two = merge([join(parts[:2]), parts[2]], INFO)
    assert one.gpus.to_pylist() == two.gpus.to_pylist()
    assert one.kernels.to_pylist() == two.kernels.to_pylist()
    other = merge([parts[at] for at in order], INFO)
    first = order[0]
    by_rank = dict(zip(other.gpus["rank"].to_pylist(), offsets_of(other), strict=True))
    expected = {r: offsets[first] - offsets[r] for r in range(3)}
    assert by_rank == {
        r: pytest.approx(e if abs(e) > FLOOR_NS else 0, abs=2) for r, e in expected.items()
    }


def test_small_differences_are_noise_and_stay():
    trace = merge(ranks_of(calls(30, 2), 2, offsets=[0, FLOOR_NS - 100]), INFO)
    assert offsets_of(trace) == [0, 0]
    assert uncertainties_of(trace) == [0, 2 * FLOOR_NS - 100]
    assert not trace.quality.notes


def test_ranks_of_one_host_share_its_clock():
    hosts = ["a", "a", "b", "b"]
    parts = ranks_of(calls(30, 4), 4, offsets=[0, 0, 70_000, 90_000], hosts=hosts)
    trace = merge(parts, INFO)
    assert offsets_of(trace) == [0, 0, -80_000, -80_000]
    assert uncertainties_of(trace)[:2] == [0, 0]
    assert "clock of host b moved by -80.0 µs" in trace.quality.notes[0]
    same = merge(ranks_of(calls(30, 2), 2, offsets=[0, 10**6], hosts=["a", "a"]), INFO)
    assert offsets_of(same) == [0, 0]
    assert uncertainties_of(same) == [0, 0]


def test_clocks_are_reached_through_other_ranks():
    made = calls(40, 4)
    members = [[0, 1], [1, 2], [2, 3]] * 13 + [[2, 3]]
    trace = merge(ranks_of(made, 4, offsets=[0, 10**6, -(10**6), 3 * 10**6], members=members), INFO)
    assert offsets_of(trace) == [0, -(10**6), 10**6, -3 * 10**6]
    assert uncertainties_of(trace) == [0, FLOOR_NS, 2 * FLOOR_NS, 3 * FLOOR_NS]


def test_without_collectives_in_common_nothing_is_known():
    made = calls(40, 4)
    members = [[0, 1], [2, 3]] * 20
    trace = merge(ranks_of(made, 4, offsets=[0, 10**6, 10**7, 0], members=members), INFO)
    assert offsets_of(trace) == [0, -(10**6), 0, 0]
    assert uncertainties_of(trace) == [0, FLOOR_NS, None, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_losses(trace, 1)  # one host may hold them all


def test_hosts_whose_clocks_cannot_be_compared_are_warned_of():
    parts = ranks_of(calls(2, 2), 2, hosts=["a", "b"])
    with pytest.warns(ClockWarning, match="share no collectives by which their clocks"):
        warn_of_losses(merge(parts, INFO), 1)


def test_clocks_that_are_far_apart_are_warned_of():
    trace = merge(ranks_of(calls(9, 2), 2, offsets=[0, 5 * 10**9]), INFO)
    with pytest.warns(ClockWarning, match=r"differ by up to 5\.0 s"):
        warn_of_losses(trace, 1)


def test_one_rank_has_nothing_to_be_compared_with():
    trace = merge(ranks_of(calls(9, 1), 1), INFO)
    assert (offsets_of(trace), uncertainties_of(trace)) == ([0], [None])
    assert trace.collectives.num_rows == 0
    assert merge([linked_rank(0, []), linked_rank(1, [])], INFO).gpus.num_rows == 2


def test_wrong_matches_and_late_ranks_do_not_mislead():
    made = calls(60, 2)
    parts = ranks_of(made, 2, offsets=[0, 10**6])
    rows = parts[1].kernels.to_pylist()
    for row in rows[::3]:  # a third of them end late on one rank
        row["dur_ns"] += 3 * 10**6
    late = linked_rank(1, [{k: v for k, v in row.items() if k != "kernel_id"} for row in rows])
    trace = merge([parts[0], late], INFO)
    assert offsets_of(trace) == [0, -(10**6)]


def test_sends_and_broadcasts_tell_nothing_of_clocks():
    for kind in ("broadcast", "send_recv", "reduce"):
        trace = merge(ranks_of(calls(30, 2, kinds=(kind,)), 2, offsets=[0, 10**6]), INFO)
        assert offsets_of(trace) == [0, 0]
        assert uncertainties_of(trace) == [0, None]


def test_a_kernel_that_one_rank_lacks_spoils_only_its_own_iteration():
    made = calls(30, 3)
    parts = ranks_of(made, 3, told=False)
    rows = parts[1].kernels.to_pylist()
    del rows[4]
    lacking = linked_rank(1, [{k: v for k, v in row.items() if k != "kernel_id"} for row in rows])
    found = calls_of(join([parts[0], lacking, parts[2]]).kernels)
    assert found.by_order.all()
    assert found.count == 30
    sizes = np.bincount(found.call)
    assert sorted(np.unique(sizes, return_counts=True)[1].tolist()) == [5, 25]
    assert found.unmatched == 4
    trace = merge([parts[0], lacking, parts[2]], INFO)
    assert any("4 communication kernels have no counterpart" in n for n in trace.quality.notes)


def test_the_table_of_collectives_says_who_arrived_when():
    made = calls(6, 3)
    table = merge(ranks_of(made, 3, offsets=[0, 10**6, 0]), INFO).collectives.to_pylist()
    begin = min(int(call["arrival"].min()) for call in made)
    begin = min(begin, begin - 10) + 10  # the origin is the first event
    for call, row in zip(made, table, strict=True):
        assert row["kind"] == call["kind"]
        assert row["ranks"] == 3
        assert row["message_bytes"] == 1 << 20
        assert row["first_arrival_ns"] == int(call["arrival"].min()) - begin
        assert row["last_arrival_ns"] == int(call["arrival"].max()) - begin
        assert row["end_ns"] == call["end"] - begin


def test_kernels_matched_by_order_that_never_met_are_no_call():
    made = calls(30, 2, kinds=("all_reduce",))
    parts = ranks_of(made, 2, told=False)
    rows = parts[1].kernels.to_pylist()
    for row in rows[20:]:
        row["start_ns"] += 10**9
    strange = linked_rank(1, [{k: v for k, v in row.items() if k != "kernel_id"} for row in rows])
    trace = merge([parts[0], strange], INFO)
    assert trace.collectives.num_rows == 20
    assert offsets_of(trace) == [0, 0]

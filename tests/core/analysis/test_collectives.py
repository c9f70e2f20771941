"""Collectives taken apart: against plain loops, and where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from builders import trace_of
from collective_runs import calls, ranks_of
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter import collectives
from chopper_jupyter.core.align.merge import merge
from chopper_jupyter.core.errors import MissingDataError, SchemaError
from chopper_jupyter.core.trace import TraceInfo

INFO = TraceInfo(name="run")
FACTORS = {
    "all_gather": lambda n: (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n,
    "all_reduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda _: 1.0,
}  # fmt: skip


@pytest.mark.parametrize("offsets", [None, [0, 10**6, -(10**6), 5 * 10**6]])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_skew_transfer_bandwidth_and_straggler_of_every_call(seed, told, offsets):
    made = calls(40, 4, seed, kinds=tuple(FACTORS))
    made = [call for call in made if np.diff(np.sort(call["arrival"]))[-1] > 30_000]
    trace = merge(ranks_of(made, 4, offsets=offsets, told=told), INFO)
    frame = collectives(trace)
    assert len(frame) == len(made)
    for call, row in zip(made, frame.to_dict("records"), strict=True):
        assert row["kind"] == call["kind"]
        assert row["ranks"] == 4
        assert row["skew_ns"] == np.ptp(call["arrival"])
        assert row["transfer_ns"] == call["end"] - call["arrival"].max()
        share = FACTORS[call["kind"]](4)
        assert row["bus_gb_s"] == pytest.approx(share * (1 << 20) / row["transfer_ns"])
        assert row["straggler_rank"] == int(np.argmax(call["arrival"]))
        assert row["straggler_gpu"] == row["straggler_rank"]
        assert row["matched_by"] == ("sequence number" if told else "order")
    assert frame.attrs["units"]["skew_ns"] == "ns"
    assert frame.attrs["units"]["bus_gb_s"] == "GB/s"
    assert frame.attrs["unmatched"] == 0


def test_a_lead_within_the_uncertainty_of_clocks_is_no_straggler():
    made = calls(20, 2)
    for call in made:
        call["arrival"][:] = call["arrival"].max()
    made[3]["arrival"][0] -= 4_000
    made[5]["arrival"][0] -= 100_000
    parts = ranks_of(made, 2, offsets=[0, 10**6])
    frame = collectives(merge(parts, INFO))
    assert frame.attrs["clock_uncertainty_ns"] == 5_000
    assert frame["straggler_rank"].isna().sum() == 19
    assert frame["straggler_rank"].iloc[5] == 1
    one_clock = collectives(merge(ranks_of(made, 2, hosts=["a", "a"]), INFO))
    assert one_clock["straggler_rank"].dropna().index.tolist() == [3, 5]


BY = ["kind", "iteration", ["kind", "iteration"], ["op", "process_group"]]


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(2, 4), st.sampled_from(BY))
def test_groups_equal_plain_loops(seed, count, ranks, by):
    made = calls(count, ranks, seed)
    trace = merge(ranks_of(made, ranks, hosts=["a"] * ranks), INFO)
    names = [by] if isinstance(by, str) else by
    frame = collectives(trace)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    found = collectives(trace, by=by)
    assert len(found) == len(groups)
    times = found["time_ns"].tolist()
    assert times == sorted(times, reverse=True)
    for row in found.astype(object).where(found.notna(), None).to_dict("records"):
        mine = groups[tuple(row[name] for name in names)]
        assert row["calls"] == len(mine)
        assert row["message_bytes"] == sum(one["message_bytes"] for one in mine)
        assert row["time_ns"] == sum(one["end_ns"] - one["first_arrival_ns"] for one in mine)
        for measure, unit in (("skew", "ns"), ("transfer", "ns"), ("bus", "gb_s")):
            values = [float(one[f"{measure}_{unit}"]) for one in mine]
            expected = np.quantile(values, (0.25, 0.5, 0.75))
            words = ("q1", "median", "q3")
            got = [row[f"{measure}_{word}_{unit}"] for word in words]
            assert got == pytest.approx(expected.tolist())
        last = [one["straggler_rank"] for one in mine if one["straggler_rank"] is not None]
        if last:
            most = max(sorted(set(last)), key=last.count)
            assert row["straggler_rank"] == most
            assert row["straggler_percent"] == pytest.approx(100 * last.count(most) / len(last))
        else:
            assert row["straggler_rank"] is None


def test_one_rank_cannot_tell():
    with pytest.raises(MissingDataError, match="at least two ranks"):
        collectives(merge(ranks_of(calls(3, 1), 1), INFO))


def test_keys_that_do_not_exist_are_refused():
    with pytest.raises(SchemaError, match="'kid'; did you mean 'kind'"):
        collectives(trace_of([]), by="kid")


def test_ranks_without_collectives_have_none():
    trace = trace_of([{"gpu": 0}, {"gpu": 1}])
    assert collectives(trace).empty
    assert collectives(trace, by="kind").empty


def test_a_filter_restricts_the_calls_and_not_their_ranks():
    made = calls(30, 3)
    trace = merge(ranks_of(made, 3), INFO)
    whole = collectives(trace)
    some = collectives(trace.filter(gpu=1, iteration=1))
    assert some["ranks"].tolist() == [3] * 10
    assert some["skew_ns"].tolist() == whole["skew_ns"].tolist()[10:20]


def test_warm_up_is_left_out_unless_asked_for():
    trace = merge(ranks_of(calls(30, 2), 2), TraceInfo(warmup=1))
    assert len(collectives(trace)) == 20
    assert collectives(trace).attrs["iterations"] == [1, 2]
    assert len(collectives(trace, include="all")) == 30


def test_unknown_bytes_are_null_and_never_zero():
    trace = merge(ranks_of(calls(10, 2), 2, message_bytes=None), INFO)
    frame = collectives(trace)
    assert frame["message_bytes"].isna().all()
    assert frame["bus_gb_s"].isna().all()
    grouped = collectives(trace, by="kind")
    assert grouped["message_bytes"].isna().all()
    assert grouped["bus_median_gb_s"].isna().all()
    assert grouped["skew_median_ns"].notna().all()

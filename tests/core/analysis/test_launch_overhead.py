import pandas as pd
import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from random_traces import traces
from real_traces import RANK_SETS, ranks_of
from timed_traces import by_key, covered, grouped, timed_rows, timed_trace, with_measures

from chopper_jupyter import launch_overhead
from chopper_jupyter.core.analysis.levels import KEY_COLUMNS
from chopper_jupyter.core.errors import (
    MissingDataError,
    PartialTraceWarning,
    SchemaError,
)
from chopper_jupyter.core.trace import Trace

SOME_KEYS = st.lists(st.sampled_from(sorted(KEY_COLUMNS)), unique=True, max_size=3)
METHODS = st.sampled_from(("default", "chopper"))
TIMES = ["prep_ns", "call_ns", "launch_ns"]


def slow_parts(rows, method):
    """(prep, call) of each compute kernel by its id, None if it is not measured."""
    parts = {}
    for gpu in {row["gpu"] for row in rows}:
        mine = sorted(
            (row for row in rows if row["gpu"] == gpu),
            key=lambda row: (row["start_ns"], row["kernel_id"]),
        )
        latest = previous = None
        for row in mine:
            end = row["start_ns"] + row["dur_ns"]
            if row["kind"] == "compute":
                before = latest if method == "default" else previous
                parts[row["kernel_id"]] = slow_part(row, before, method)
                previous = end
            latest = end if latest is None else max(latest, end)
    return parts


def slow_part(row, before, method):
    """Formulas (1) and (2) of the method."""
    start, launch = row["start_ns"], row["launch_ns"]
    if launch is None or row["launch_kind"] == "graph":
        return None
    if method == "chopper":
        if before is None:
            return None
        return max(launch - before, 0), min(start - launch, start - before)
    gap = 0 if before is None else max(0, start - before)
    launch = min(launch, start)  # no kernel starts before it is launched: clocks may say so
    prep = 0 if before is None or not gap else max(launch - before, 0)
    return prep, min(start - launch, gap)


def expected(rows, some, method):
    parts = [slow_parts(rows, method)[row["kernel_id"]] for row in some]
    known = [part for part in parts if part is not None]
    prep, call = (sum(part[i] for part in known) for i in (0, 1))
    none = not known
    return {
        "kernels": len(some),
        "measured": len(known),
        "prep_ns": None if none else prep,
        "call_ns": None if none else call,
        "launch_ns": None if none else prep + call,
        "mean_prep_us": None if none else prep / len(known) / 1000,
        "mean_call_us": None if none else call / len(known) / 1000,
        "mean_launch_us": None if none else (prep + call) / len(known) / 1000,
    }


@given(timed_rows(1), SOME_KEYS, METHODS, st.sampled_from(("all", "measured")), st.integers(0, 2))
def test_every_group_equals_a_plain_walk(rows, by, method, include, warmup):
    trace = timed_trace(rows, warmup=warmup)
    table = launch_overhead(trace, by, method=method, include=include)
    compute = [row for row in covered(rows, include, warmup) if row["kind"] == "compute"]
    found = by_key(table, by)
    groups = grouped(compute, by) if compute or by else {(): []}
    assert set(found) == set(groups)
    for key, some in groups.items():
        want = expected(rows, some, method)
        assert {name: found[key][name] for name in want} == pytest.approx(want)
    assert len(table) == len(found)


@given(timed_rows())
def test_by_default_launch_overhead_is_the_idle_time_that_measured_kernels_end(rows):
    table = launch_overhead(timed_trace(rows), include="all")
    idle = [
        row["idle_ns"]
        for row in rows
        if row["kind"] == "compute" and row["launch_kind"] in ("runtime", "driver")
    ]
    assert table["measured"][0] == len(idle)
    if idle:
        assert table["launch_ns"][0] == sum(idle)


@given(timed_rows(), SOME_KEYS)
def test_by_default_nothing_is_negative(rows, by):
    table = launch_overhead(timed_trace(rows), by)
    assert (table[TIMES].fillna(0) >= 0).all().all()
    assert table.attrs["counts"]["negative_call"] == 0


@given(timed_rows(1) | traces(1).map(lambda t: t.kernels.to_pylist()), SOME_KEYS, METHODS)
def test_rows_add_up_to_the_whole_exactly(rows, by, method):
    trace = timed_trace(rows)
    whole = launch_overhead(trace, method=method)
    parts = launch_overhead(trace, by, method=method)
    for column in ("kernels", "measured", *TIMES):
        assert sum(parts[column].dropna()) == sum(whole[column].dropna())
    assert (parts["launch_ns"] == parts["prep_ns"] + parts["call_ns"]).all()
    assert {str(parts[column].dtype) for column in TIMES} == {"int64[pyarrow]"}


@given(timed_rows(1), st.randoms(use_true_random=False), SOME_KEYS, METHODS)
def test_the_order_of_rows_does_not_matter(rows, random, by, method):
    before = launch_overhead(timed_trace(rows), by, method=method)
    shuffled = random.sample(rows, len(rows))
    after = launch_overhead(timed_trace(shuffled), by, method=method)
    pd.testing.assert_frame_equal(before, after)


@given(timed_rows(1), st.sampled_from(("q_proj", "up")), METHODS)
def test_a_filtered_trace_answers_as_the_row_of_the_whole_one(rows, op, method):
    trace = timed_trace(rows)
    kept = launch_overhead(trace.filter(op=op), method=method, include="all")
    row = by_key(launch_overhead(trace, "op", method=method, include="all"), ["op"]).get((op,))
    if row is None:
        assert kept["kernels"][0] == 0
    else:
        assert by_key(kept, [])[()] == {name: row[name] for name in kept.columns}


def kernel(start, end, launch=None, **row):
    kind = None if launch is None else "runtime"
    return {
        "start_ns": start,
        "dur_ns": end - start,
        "launch_ns": launch,
        "launch_kind": kind,
    } | row


def sequence(*rows):
    return timed_trace(with_measures([{"gpu": 0, "kind": "compute"} | row for row in rows]))


def test_a_late_launch_is_preparation_and_the_way_to_the_start_is_call():
    trace = sequence(kernel(0, 10, -5), kernel(25, 30, 18))
    assert launch_overhead(trace)[TIMES].iloc[0].tolist() == [8, 7, 15]
    assert launch_overhead(trace, method="chopper")[TIMES].iloc[0].tolist() == [8, 7, 15]


def test_a_kernel_launched_in_time_only_calls():
    trace = sequence(kernel(0, 10, -5), kernel(12, 20, 3))
    assert launch_overhead(trace)[TIMES].iloc[0].tolist() == [0, 2, 2]


def test_concurrent_kernels_are_negative_only_in_the_paper():
    trace = sequence(kernel(0, 10, -5), kernel(4, 8, 1), kernel(30, 31, 2))
    ours, paper = launch_overhead(trace), launch_overhead(trace, method="chopper")
    assert ours[TIMES].iloc[0].tolist() == [0, 20, 20]  # from 10, where the first kernel ends
    assert paper[TIMES].iloc[0].tolist() == [0, -6 + 22, -6 + 22]  # from 8: the one before
    assert ours.attrs["counts"]["negative_call"] == 0
    assert paper.attrs["counts"]["negative_call"] == 1
    assert (ours.attrs["method"], paper.attrs["method"]) == ("default", "chopper")


def test_time_with_communication_alone_counts_only_in_the_paper():
    gather = kernel(10, 40, 0, kind="collective", stream=20)
    trace = sequence(kernel(0, 10, -5), gather, kernel(42, 50, 3))
    assert launch_overhead(trace)["launch_ns"].tolist() == [2]
    assert launch_overhead(trace, method="chopper")["launch_ns"].tolist() == [32]


def test_kernels_without_a_launch_of_their_own_are_null_and_counted():
    graph = kernel(20, 30, 1) | {"launch_kind": "graph"}
    trace = sequence(kernel(0, 10), graph)
    table = launch_overhead(trace)
    assert table[["kernels", "measured"]].iloc[0].tolist() == [2, 0]
    assert table[[*TIMES, "mean_launch_us"]].isna().all().all()
    assert table.attrs["counts"] == {
        "measured": 0,
        "without_launch": 1,
        "by_graph": 1,
        "negative_call": 0,
        "started_before_launch": 0,
    }


def test_the_first_kernel_has_no_previous_one_in_the_paper():
    other = kernel(30, 40, 20, gpu=1)
    table = launch_overhead(sequence(kernel(0, 10, -5), other), method="chopper")
    assert table["measured"].tolist() == [0]
    assert table.attrs["counts"]["without_previous"] == 2


def test_clocks_that_disagree_are_counted_and_give_no_negative_time():
    table = launch_overhead(sequence(kernel(0, 10, 0), kernel(15, 20, 17)))
    assert table[TIMES].iloc[0].tolist() == [5, 0, 5]
    assert table.attrs["counts"]["started_before_launch"] == 1


def test_what_ran_before_counts_also_if_it_was_warm_up():
    rows = [kernel(0, 10, -5, iteration=0), kernel(16, 20, 12, iteration=1)]
    trace = timed_trace(with_measures([{"gpu": 0, "kind": "compute"} | r for r in rows]), warmup=1)
    for method in ("default", "chopper"):
        table = launch_overhead(trace, method=method)
        assert table[TIMES].iloc[0].tolist() == [2, 4, 6]
    assert table.attrs["included"] == "iteration 1 (1 warm-up left out)"


def test_a_filtered_trace_leaves_out_warm_up_too():
    times = [(0, 10, -5), (16, 20, 12), (27, 30, 26), (34, 40, 30)]
    rows = [kernel(*t, iteration=i // 2, op="ab"[i % 2]) for i, t in enumerate(times)]
    trace = timed_trace(with_measures([{"gpu": 0, "kind": "compute"} | r for r in rows]), warmup=1)
    for op, want in (("a", [6, 1, 7]), ("b", [0, 4, 4])):
        assert launch_overhead(trace.filter(op=op))[TIMES].iloc[0].tolist() == want


def test_columns_say_their_units():
    units = launch_overhead(trace_of([{}]), "op").attrs["units"]
    assert units == dict.fromkeys(TIMES, "ns") | {
        f"mean_{part}_us": "µs" for part in ("prep", "call", "launch")
    }


def test_a_filtered_trace_that_was_saved_warns_that_its_neighbours_are_gone(tmp_path):
    trace = sequence(kernel(0, 10, -5, op="a"), kernel(16, 20, 12, op="b"))
    saved = Trace.open(trace.filter(op="b").save(tmp_path / "b"))
    with pytest.warns(PartialTraceWarning, match="1 kernels were filtered away"):
        launch_overhead(saved, method="chopper")


def test_an_empty_trace_has_no_launches():
    assert launch_overhead(trace_of([]))["kernels"].tolist() == [0]
    assert len(launch_overhead(trace_of([]), "op")) == 0


def test_what_cannot_be_answered_is_refused():
    with pytest.raises(MissingDataError, match="launch overhead needs a trace recorded on a GPU"):
        launch_overhead(trace_of([{}], device_kind="cpu"))
    with pytest.raises(SchemaError, match="no method named 'choper'; did you mean 'chopper'"):
        launch_overhead(trace_of([]), method="choper")
    with pytest.raises(SchemaError, match="did you mean 'phase'"):
        launch_overhead(trace_of([]), "fase")


@pytest.mark.real
@pytest.mark.parametrize("name", RANK_SETS)
def test_real_recordings_equal_a_plain_walk(name, real_data):
    trace = ranks_of(real_data, name)
    columns = ["kernel_id", "gpu", "kind", "start_ns", "dur_ns", "launch_ns", "launch_kind", "op"]
    rows = trace.kernels.select(columns).to_pylist()
    compute = [row for row in rows if row["kind"] == "compute"]
    for method in ("default", "chopper"):
        parts = slow_parts(rows, method)
        found = by_key(launch_overhead(trace, ["gpu", "op"], method=method), ["gpu", "op"])
        for key, some in grouped(compute, ["gpu", "op"]).items():
            known = [p for row in some if (p := parts[row["kernel_id"]]) is not None]
            assert found[key]["prep_ns"] == sum(prep for prep, _ in known)
            assert found[key]["call_ns"] == sum(call for _, call in known)
            assert found[key]["measured"] == len(known)

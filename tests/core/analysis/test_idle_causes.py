import pandas as pd
import pyarrow as pa
import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from random_traces import traces
from real_traces import RANK_SETS, ranks_of
from timed_traces import (
    LOADER,
    LOADS,
    SYNCS,
    THREADS,
    by_key,
    covered,
    grouped,
    merged,
    shared,
    timed_rows,
    timed_trace,
    with_measures,
)

from chopper_jupyter import breakdown
from chopper_jupyter.core.analysis.idle_causes import CAUSES, idle_causes
from chopper_jupyter.core.analysis.levels import KEY_COLUMNS
from chopper_jupyter.core.errors import (
    MissingDataError,
    SchemaError,
)
from chopper_jupyter.core.trace import Trace

SOME_KEYS = st.lists(st.sampled_from(sorted(KEY_COLUMNS)), unique=True, max_size=3)
COLUMNS = [f"{cause}_ns" for cause in CAUSES]


def slow_causes(rows, loads, syncs, threads):
    """Causes of the gap before each kernel, by its id."""
    found = {}
    for gpu in {row["gpu"] for row in rows}:
        mine = sorted(
            (row for row in rows if row["gpu"] == gpu),
            key=lambda row: (row["start_ns"], row["kernel_id"]),
        )
        last_iteration = latest = None
        ends: dict[int, set[str]] = {}
        for row in mine:
            begin = row["start_ns"] if latest is None else min(latest, row["start_ns"])
            another = None not in (last_iteration, row["iteration"])
            another = another and last_iteration != row["iteration"]
            waits, held = (
                [
                    (start, start + dur)
                    for rank, tid, start, dur in calls
                    if rank == gpu and tid == threads.get(row["op_id"], tid)
                ]
                for calls in (loads, syncs)
            )
            found[row["kernel_id"]] = slow_cause(
                row, begin, another, waits, held, ends.get(begin, ())
            )
            end = row["start_ns"] + row["dur_ns"]
            ends.setdefault(end, set()).add(ender(row))
            latest = end if latest is None else max(latest, end)
            if row["iteration"] is not None:
                last_iteration = row["iteration"]
    return found


def ender(row):
    if row["kind"] == "memcpy" and ("HtoD" in row["name"] or "HostToDevice" in row["name"]):
        return "copy to device"
    return row["kind"]


def slow_cause(row, begin, another, waits, held, enders):
    causes = dict.fromkeys(CAUSES, 0)
    start, launch = row["start_ns"], row["launch_ns"]
    if launch is None:
        return causes | {"unknown": start - begin}
    until = min(max(launch, begin), start)
    causes["input"] = shared([(begin, until)], merged(waits))
    synced = any(begun <= begin <= ended <= launch for begun, ended in held)
    late = "iteration_boundary" if another else "host_sync" if synced else "host_late"
    causes[late] = until - begin - causes["input"]
    if launch > begin:
        causes["launch_latency"] = start - until
    elif "collective" in enders:
        causes["communication"] = start - until
    elif "copy to device" in enders:
        causes["input"] += start - until
    else:
        causes["launch_latency"] = start - until
    return causes


@given(
    timed_rows(1), LOADS, SYNCS, SOME_KEYS, st.sampled_from(("all", "measured")), st.integers(0, 2)
)
def test_every_group_equals_a_plain_walk(rows, loads, syncs, by, include, warmup):
    trace = timed_trace(rows, loads, syncs, warmup=warmup)
    table = idle_causes(trace, by, include=include)
    causes = slow_causes(rows, loads, syncs, THREADS)
    found = by_key(table, by)
    groups = grouped(covered(rows, include, warmup), by)
    assert set(found) == set(groups)
    for key, some in groups.items():
        for cause in CAUSES:
            want = sum(causes[row["kernel_id"]][cause] for row in some)
            assert found[key][f"{cause}_ns"] == want
        assert found[key]["idle_ns"] == sum(row["idle_ns"] for row in some)


@given(traces(), SOME_KEYS)
def test_causes_add_up_exactly_to_the_idle_time_of_any_numbers(trace, by):
    table = idle_causes(trace, by, include="all")
    assert (table[COLUMNS].sum(axis=1) == table["idle_ns"]).all()
    assert int(table["idle_ns"].sum()) == sum(trace.kernels["idle_ns"].to_pylist())
    assert {str(kind) for kind in table[[*COLUMNS, "idle_ns"]].dtypes} == {"int64[pyarrow]"}


@given(timed_rows(1), LOADS, SOME_KEYS)
def test_rows_add_up_and_are_those_of_the_breakdown(rows, loads, by):
    trace = timed_trace(rows, loads)
    whole, parts = idle_causes(trace).iloc[0], idle_causes(trace, by)
    assert all(int(parts[column].sum()) == int(whole[column]) for column in COLUMNS)
    pd.testing.assert_frame_equal(parts[[*by, "idle_ns"]], breakdown(trace, by)[[*by, "idle_ns"]])


@given(timed_rows(1), LOADS, st.randoms(use_true_random=False), SOME_KEYS)
def test_the_order_of_rows_does_not_matter(rows, loads, random, by):
    before = idle_causes(timed_trace(rows, loads), by)
    after = idle_causes(timed_trace(random.sample(rows, len(rows)), loads), by)
    pd.testing.assert_frame_equal(before, after)


@given(timed_rows(1), LOADS, st.sampled_from(("forward", "backward")))
def test_a_filtered_trace_answers_as_the_row_of_the_whole_one(rows, loads, phase):
    trace = timed_trace(rows, loads)
    kept = idle_causes(trace.filter(phase=phase), include="all").iloc[0].to_dict()
    rows_of = by_key(idle_causes(trace, "phase", include="all"), ["phase"])
    assert kept == {name: rows_of.get((phase,), {}).get(name, 0) for name in kept}


def kernel(start, end, launch=None, **row):
    kind = None if launch is None else "runtime"
    return {
        "start_ns": start,
        "dur_ns": end - start,
        "launch_ns": launch,
        "launch_kind": kind,
    } | row


def causes_of(*rows, loads=(), syncs=()):
    """Causes that explain any time, of a sequence of kernels."""
    rows = with_measures([{"gpu": 0, "kind": "compute"} | row for row in rows])
    whole = idle_causes(timed_trace(rows, loads, syncs), include="all").iloc[0].to_dict()
    return {cause: whole[f"{cause}_ns"] for cause in CAUSES if whole[f"{cause}_ns"]}


BEFORE = kernel(0, 10, -5)


def test_the_launch_call_divides_a_gap():
    assert causes_of(BEFORE, kernel(25, 30, 18)) == {"host_late": 8, "launch_latency": 7}
    assert causes_of(BEFORE, kernel(25, 30, 3)) == {"launch_latency": 15}


def test_a_late_host_between_iterations_is_a_boundary():
    first, second = BEFORE | {"iteration": 4}, kernel(25, 30, 18, iteration=5)
    assert causes_of(first, second) == {"iteration_boundary": 8, "launch_latency": 7}
    unknown = kernel(12, 13, 2)
    found = causes_of(first, unknown, second | {"launch_ns": 20})
    assert found == {"iteration_boundary": 7, "launch_latency": 2 + 5}


def test_time_in_the_data_loader_of_the_launching_thread_is_input():
    late = kernel(25, 30, 18, op_id=10)
    loads = [(0, THREADS[10], 5, 8)]  # from 5 to 13, of which 10 to 13 lies in the gap
    assert causes_of(BEFORE, late, loads=loads) == {
        "input": 3,
        "host_late": 5,
        "launch_latency": 7,
    }


@pytest.mark.parametrize("load", [(0, THREADS[12], 5, 8), (1, THREADS[10], 5, 8)])
def test_a_data_loader_of_another_thread_or_rank_holds_nothing_up(load):
    found = causes_of(BEFORE, kernel(25, 30, 18, op_id=10), loads=[load])
    assert found == {"host_late": 8, "launch_latency": 7}


def test_where_the_thread_is_unknown_any_data_loader_of_the_rank_counts():
    found = causes_of(BEFORE, kernel(25, 30, 18), loads=[(0, 0, 5, 8), (0, 1, 9, 3)])
    assert found == {"input": 3, "host_late": 5, "launch_latency": 7}


def test_a_thread_that_waited_until_the_gpu_was_idle_could_launch_nothing_ahead():
    late = kernel(25, 30, 18, op_id=10)
    waited = (0, THREADS[10], 3, 9)
    assert causes_of(BEFORE, late, syncs=[waited]) == {"host_sync": 8, "launch_latency": 7}
    loads = [(0, THREADS[10], 13, 2)]
    found = causes_of(BEFORE, late, loads=loads, syncs=[waited])
    assert found == {"input": 2, "host_sync": 6, "launch_latency": 7}


@pytest.mark.parametrize(
    "call",
    [
        (0, THREADS[10], 3, 4),  # over before the GPU was idle
        (0, THREADS[10], 11, 4),  # began when it was
        (0, THREADS[10], 3, 20),  # lasted beyond the launch, which came in between
        (0, THREADS[12], 3, 9),
        (1, THREADS[10], 3, 9),
    ],
)
def test_a_wait_at_another_time_or_of_another_thread_or_rank_holds_nothing_up(call):
    found = causes_of(BEFORE, kernel(25, 30, 18, op_id=10), syncs=[call])
    assert found == {"host_late": 8, "launch_latency": 7}


def test_a_wait_between_iterations_is_part_of_the_boundary():
    first, second = BEFORE | {"iteration": 4}, kernel(25, 30, 18, iteration=5)
    found = causes_of(first, second, syncs=[(0, 0, 3, 9)])
    assert found == {"iteration_boundary": 8, "launch_latency": 7}


def test_a_kernel_queued_behind_a_copy_to_the_device_waits_for_input():
    copy = kernel(0, 10, -5, kind="memcpy", name="Memcpy HtoD (Pageable -> Device)")
    assert causes_of(copy, kernel(14, 20, 5)) == {"input": 4}
    assert causes_of(copy, kernel(14, 20, 12)) == {"host_late": 2, "launch_latency": 2}
    back = copy | {"name": "Memcpy DtoH (Device -> Pageable)"}
    assert causes_of(back, kernel(14, 20, 5)) == {"launch_latency": 4}


def test_a_kernel_queued_behind_a_collective_waits_for_communication():
    gather = kernel(5, 40, 0, kind="collective", stream=20)
    assert causes_of(BEFORE, gather, kernel(42, 50, 3)) == {"communication": 2}
    assert causes_of(BEFORE, gather, kernel(42, 50, 41)) == {"host_late": 1, "launch_latency": 1}


def test_without_a_launch_the_cause_is_unknown():
    assert causes_of(BEFORE, kernel(25, 30)) == {"unknown": 15}


def test_kernels_of_a_graph_were_launched_with_it():
    graph = {"launch_kind": "graph"}
    rows = (BEFORE, kernel(25, 30, 18) | graph, kernel(34, 40, 18) | graph)
    assert causes_of(*rows) == {"host_late": 8, "launch_latency": 7 + 4}


def test_a_clock_that_is_off_gives_no_negative_time():
    assert causes_of(BEFORE, kernel(15, 20, 17)) == {"host_late": 5}


def test_warm_up_is_left_out_and_units_are_said():
    rows = [kernel(0, 10, -5, iteration=0), kernel(16, 20, 12, iteration=1)]
    rows = with_measures([{"gpu": 0, "kind": "compute"} | row for row in rows])
    table = idle_causes(timed_trace(rows, warmup=1))
    assert table[["iteration_boundary_ns", "launch_latency_ns"]].iloc[0].tolist() == [2, 4]
    assert table.attrs["units"] == dict.fromkeys([*COLUMNS, "idle_ns"], "ns")
    assert table.attrs["included"] == "iteration 1 (1 warm-up left out)"


def test_a_trace_without_ranks_or_ops_has_data_loaders_too():
    rows = with_measures([{"gpu": 0, "kind": "compute"} | r for r in (BEFORE, kernel(25, 30, 18))])
    base = timed_trace(rows)
    span = {"span_id": 0, "kind": "annotation", "name": LOADER, "tid": 3}
    span |= {"start_ns": 11, "dur_ns": 4}
    gpus = pa.table({"gpu": [0], "device": [0], "offset_ns": [0]})
    tables = {"gpus": gpus, "kernels": base.kernels, "spans": pa.Table.from_pylist([span])}
    assert idle_causes(Trace.from_tables(tables))["input_ns"].tolist() == [4]


def test_an_empty_trace_was_never_idle():
    assert idle_causes(trace_of([])).iloc[0].tolist() == [0] * (len(CAUSES) + 1)
    assert len(idle_causes(trace_of([]), "op")) == 0


def test_what_cannot_be_answered_is_refused():
    with pytest.raises(MissingDataError, match="the split of idle time needs a trace recorded"):
        idle_causes(trace_of([{}], device_kind="cpu"))
    with pytest.raises(SchemaError, match="did you mean 'phase'"):
        idle_causes(trace_of([]), "fase")


@pytest.mark.real
@pytest.mark.parametrize("name", RANK_SETS)
def test_real_recordings_equal_a_plain_walk(name, real_data):
    trace = ranks_of(real_data, name)
    columns = ["kernel_id", "gpu", "kind", "name", "start_ns", "dur_ns", "launch_ns", "op_id",
               "iteration", "phase", "idle_ns"]  # fmt: skip
    rows = trace.kernels.select(columns).to_pylist()
    spans = trace.spans.select(["rank", "tid", "start_ns", "dur_ns", "name", "kind"]).to_pylist()
    loads = [tuple(span.values())[:4] for span in spans if "DataLoader" in span["name"]]
    syncs = [tuple(span.values())[:4] for span in spans if span["kind"] == "sync"]
    assert loads
    assert syncs
    threads = dict(zip(*(trace.ops[c].to_pylist() for c in ("op_id", "tid")), strict=True))
    causes = slow_causes(rows, loads, syncs, threads)
    found = by_key(idle_causes(trace, ["gpu", "phase"]), ["gpu", "phase"])
    for key, some in grouped(rows, ["gpu", "phase"]).items():
        for cause in CAUSES:
            assert found[key][f"{cause}_ns"] == sum(causes[r["kernel_id"]][cause] for r in some)
        assert found[key]["idle_ns"] == sum(row["idle_ns"] for row in some)

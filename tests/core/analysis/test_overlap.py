import pandas as pd
import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from random_traces import traces
from real_traces import RANK_SETS, ranks_of
from timed_traces import (
    by_key,
    covered,
    grouped,
    merged,
    shared,
    timed_rows,
    timed_trace,
    with_measures,
)

from chopper_jupyter import overlap
from chopper_jupyter.core.analysis.levels import KEY_COLUMNS
from chopper_jupyter.core.errors import (
    MissingDataError,
    SchemaError,
)

SOME_KEYS = st.lists(st.sampled_from(sorted(KEY_COLUMNS)), unique=True, max_size=3)
INSTANCE_KEYS = st.lists(
    st.sampled_from(("gpu", "iteration", "phase", "layer", "op")), unique=True, max_size=5
)
INSTANCE = ("gpu", "iteration", "micro_batch", "phase", "recompute", "layer", "op", "kind")
MEASURES = (
    "compute_ns", "overlapped_compute_ns", "communication_ns", "overlapped_communication_ns",
    "exposed_communication_ns", "elapsed_ns", "communication_in_elapsed_ns",
)  # fmt: skip
RATIOS = {
    "compute_overlap_ratio": ("overlapped_compute_ns", "compute_ns"),
    "communication_overlap_ratio": ("overlapped_communication_ns", "communication_ns"),
    "elapsed_overlap_ratio": ("communication_in_elapsed_ns", "elapsed_ns"),
}


def intervals(rows):
    return [(row["start_ns"], row["start_ns"] + row["dur_ns"]) for row in rows]


def slow_measures(some, everything):
    """Measures of the instances of some kernels, among everything that ran."""
    sums = dict.fromkeys(MEASURES, 0)
    for key, instance in grouped(some, INSTANCE).items():
        gpu, kind = key[0], key[-1]
        beside = [row for row in everything if row["gpu"] == gpu and row["kind"] != kind]
        others = merged(intervals(r for r in beside if r["kind"] in ("compute", "collective")))
        ran = merged(intervals(instance))
        time, both = sum(end - start for start, end in ran), shared(ran, others)
        if kind == "compute":
            edges = intervals(instance)
            elapsed = (min(start for start, _ in edges), max(end for _, end in edges))
            sums["compute_ns"] += time
            sums["overlapped_compute_ns"] += both
            sums["elapsed_ns"] += elapsed[1] - elapsed[0]
            sums["communication_in_elapsed_ns"] += shared([elapsed], others)
        else:
            sums["communication_ns"] += time
            sums["overlapped_communication_ns"] += both
            sums["exposed_communication_ns"] += time - both
    return sums


def compare(table, some, everything, by):
    found = by_key(table, by)
    groups = grouped(some, by) if some or by else {(): []}
    assert set(found) == set(groups)
    assert len(table) == len(found)
    for key, mine in groups.items():
        want = sum_of(slow_measures(part, everything) for part in grouped(mine, by).values())
        assert {name: found[key][name] for name in MEASURES} == want
        for ratio, (part, whole) in RATIOS.items():
            value = want[part] / want[whole] if want[whole] else None
            assert found[key][ratio] == (None if value is None else pytest.approx(value))


def sum_of(parts):
    total = dict.fromkeys(MEASURES, 0)
    for part in parts:
        total = {name: total[name] + part[name] for name in MEASURES}
    return total


@given(timed_rows(1), SOME_KEYS, st.sampled_from(("all", "measured")), st.integers(0, 2))
def test_every_group_equals_a_plain_walk(rows, by, include, warmup):
    table = overlap(timed_trace(rows, warmup=warmup), by, include=include)
    mine = [r for r in covered(rows, include, warmup) if r["kind"] in ("compute", "collective")]
    compare(table, mine, rows, by)


@given(traces(1), SOME_KEYS)
def test_times_too_long_for_a_float_are_exact(trace, by):
    rows = trace.kernels.to_pylist()
    mine = [row for row in rows if row["kind"] in ("compute", "collective")]
    compare(overlap(trace, by, include="all"), mine, rows, by)


@given(timed_rows(1), st.integers(2**59, 2**60), INSTANCE_KEYS)
def test_clocks_that_started_long_ago_are_exact(rows, shift, by):
    rows = [row | {"start_ns": row["start_ns"] + shift * (row["stream"] == 7)} for row in rows]
    mine = [row for row in rows if row["kind"] in ("compute", "collective")]
    compare(overlap(timed_trace(rows), by, include="all"), mine, rows, by)


def test_instances_over_centuries_do_not_run_into_each_other():
    rows = [
        kernel(i * 2**59 + start, i * 2**59 + end, iteration=i, idle_ns=0)
        for i in range(8)
        for start, end in ((0, 10), (5, 20))
    ]
    assert overlap(timed_trace(rows))["compute_ns"].tolist() == [8 * 20]


def test_instances_that_differ_in_many_names_stay_apart():
    names = ("layer", "op", "module", "name", "collective")
    rows = [
        kernel(10 * i, 10 * i + 5, gpu=gpu, iteration=i, micro_batch=i, stream=i)
        | dict.fromkeys(names, f"no. {i}")
        for gpu in (0, 1)
        for i in range(255)  # with null 256: eight such columns fill the 64 bits of a number
    ]
    table = overlap(timed_trace(rows), ["kernel", "stream", "module", "collective"])
    assert set(table["compute_ns"]) == {2 * 5}
    assert len(table) == 255


@given(timed_rows(1), INSTANCE_KEYS)
def test_rows_add_up_to_the_whole_exactly(rows, by):
    trace = timed_trace(rows)
    whole, parts = overlap(trace).iloc[0], overlap(trace, by)
    assert all(int(parts[column].sum()) == int(whole[column]) for column in MEASURES)
    assert {str(parts[column].dtype) for column in MEASURES} == {"int64[pyarrow]"}


@given(timed_rows(1), st.randoms(use_true_random=False), SOME_KEYS)
def test_the_order_of_rows_does_not_matter(rows, random, by):
    before = overlap(timed_trace(rows), by)
    after = overlap(timed_trace(random.sample(rows, len(rows))), by)
    pd.testing.assert_frame_equal(before, after)


@given(timed_rows(1), st.sampled_from(("compute", "collective")))
def test_a_filtered_trace_answers_as_the_row_of_the_whole_one(rows, kind):
    trace = timed_trace(rows)
    kept = by_key(overlap(trace.filter(kind=kind), include="all"), [])[()]
    row = by_key(overlap(trace, "kind", include="all"), ["kind"]).get((kind,))
    assert kept == ({n: row[n] for n in kept} if row else kept | dict.fromkeys(MEASURES, 0))


@given(timed_rows(1))
def test_one_kernel_an_instance_gives_the_overlap_of_the_kernels(rows):
    alone = [row | {"layer": f"layers.{row['kernel_id']}"} for row in rows]
    table = overlap(timed_trace(alone), include="all")
    of = {
        k: sum(r["overlap_ns"] for r in rows if r["kind"] == k) for k in ("compute", "collective")
    }
    assert table["overlapped_compute_ns"].tolist() == [of["compute"]]
    assert table["overlapped_communication_ns"].tolist() == [of["collective"]]


def kernel(start, end, **row):
    base = {"gpu": 0, "kind": "compute", "op": "q_proj"}
    return base | {"start_ns": start, "dur_ns": end - start} | row


def gather(start, end, **row):
    made = {"kind": "collective", "op": "all_gather", "collective": "all_gather", "stream": 20}
    return kernel(start, end, **(made | row))


def measured(*rows, by="op"):
    return by_key(overlap(timed_trace(with_measures(list(rows))), by), [by])


def test_kernels_of_an_op_that_run_beside_each_other_count_once():
    found = measured(kernel(0, 10), kernel(5, 20, stream=8), gather(15, 40))[("q_proj",)]
    assert (found["compute_ns"], found["overlapped_compute_ns"]) == (20, 5)
    assert found["compute_overlap_ratio"] == 0.25


def test_concurrent_collectives_hide_compute_only_once():
    found = measured(kernel(0, 20), gather(5, 15), gather(10, 30, op="all_reduce", stream=21))
    assert found[("q_proj",)]["overlapped_compute_ns"] == 15
    assert found[("all_gather",)]["exposed_communication_ns"] == 0
    assert found[("all_reduce",)]["exposed_communication_ns"] == 10
    assert found[("all_reduce",)]["communication_overlap_ratio"] == 0.5


def test_the_papers_ratio_is_of_the_elapsed_time_with_its_bubbles():
    found = measured(kernel(0, 10), kernel(30, 40), gather(5, 35))[("q_proj",)]
    assert (found["elapsed_ns"], found["communication_in_elapsed_ns"]) == (40, 30)
    assert found["elapsed_overlap_ratio"] == 0.75
    assert (found["compute_ns"], found["overlapped_compute_ns"]) == (20, 10)


@pytest.mark.parametrize(
    "apart",
    [{"iteration": 1}, {"phase": "backward"}, {"layer": "b"}, {"recompute": True},
     {"micro_batch": 1}],
)  # fmt: skip
def test_another_run_of_an_op_is_another_instance(apart):
    first = kernel(0, 10, iteration=0, phase="forward", layer="a", micro_batch=0)
    found = measured(first, first | {"start_ns": 30} | apart)[("q_proj",)]
    assert found["elapsed_ns"] == 20


def test_kinds_of_collectives_are_told_apart():
    scatter = gather(50, 60, collective="reduce_scatter", op="reduce_scatter")
    found = measured(kernel(0, 20), gather(10, 30), scatter, by="collective")
    assert found[("all_gather",)]["communication_overlap_ratio"] == 0.5
    assert found[("reduce_scatter",)]["exposed_communication_ns"] == 10
    assert found[(None,)]["compute_ns"] == 20
    assert found[(None,)]["communication_overlap_ratio"] is None
    assert found[("all_gather",)]["compute_overlap_ratio"] is None


def test_copies_are_neither_compute_nor_communication():
    copy = kernel(0, 50, kind="memcpy", name="Memcpy DtoD (Device -> Device)", op="copy")
    found = measured(kernel(0, 10), copy)
    assert set(found) == {("q_proj",)}
    assert found[("q_proj",)]["overlapped_compute_ns"] == 0


def test_what_ran_beside_counts_also_if_it_was_warm_up():
    rows = with_measures([gather(0, 30, iteration=0), kernel(20, 40, iteration=1)])
    table = overlap(timed_trace(rows, warmup=1))
    assert table["overlapped_compute_ns"].tolist() == [10]
    assert table["communication_ns"].tolist() == [0]
    assert table.attrs["included"] == "iteration 1 (1 warm-up left out)"


def test_columns_say_their_units():
    units = overlap(trace_of([{}]), "op").attrs["units"]
    assert units == dict.fromkeys(MEASURES, "ns") | dict.fromkeys(RATIOS, "")


def test_an_empty_trace_has_nothing_at_once():
    table = overlap(trace_of([]))
    assert table[list(MEASURES)].iloc[0].tolist() == [0] * 7
    assert table[list(RATIOS)].isna().all().all()
    assert len(overlap(trace_of([]), "op")) == 0


def test_what_cannot_be_answered_is_refused():
    with pytest.raises(MissingDataError, match="overlap needs a trace recorded on a GPU"):
        overlap(trace_of([{}], device_kind="cpu"))
    with pytest.raises(SchemaError, match="did you mean 'phase'"):
        overlap(trace_of([]), "fase")


@pytest.mark.real
@pytest.mark.parametrize("name", RANK_SETS)
def test_real_recordings_equal_a_plain_walk(name, real_data):
    trace = ranks_of(real_data, name)
    columns = [*INSTANCE, "start_ns", "dur_ns", "overlap_ns", "collective"]
    rows = trace.filter(gpu=[0, 1]).kernels.select(columns).to_pylist()
    mine = [row for row in rows if row["kind"] in ("compute", "collective")]
    by = ["gpu", "op", "collective"]
    compare(overlap(trace.filter(gpu=[0, 1]), by, include="all"), mine, rows, by)
    assert (overlap(trace)["overlapped_communication_ns"][0] > 0) == (name != "megatron_tp8")

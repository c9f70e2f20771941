"""Counters on the right kernels, where the truth is known and every pitfall is laid."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest
from builders import trace_of
from counted_runs import counted_run
from counted_training import Training, expected
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align.counter_rows import averaged, counter_rows
from chopper_jupyter.core.align.match import MATCHED_BY, match
from chopper_jupyter.core.align.match_rates import rates, refuse_poor
from chopper_jupyter.core.errors import AlignmentError


def counted(trace, run, **options):
    """Return what was counted, by kernel: counters, pass and how it was matched."""
    found = match(trace.kernels, run, **options)
    rows = counter_rows(trace.kernels, run, found).to_pylist()
    by_kernel = defaultdict(dict)
    for row in rows:
        by_kernel[row["kernel_id"]][row["counter"]] = row
    return found, by_kernel


def rate_of(trace, run, found) -> float:
    return min(rates(trace.kernels, found, run.counted).device)


def ops_of(trace) -> dict[int, tuple[str, int, int]]:
    columns = (trace.kernels[c].to_pylist() for c in ("kernel_id", "op", "iteration", "gpu"))
    return {kernel: rest for kernel, *rest in zip(*columns, strict=True)}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("gpus", "iterations", "passes"), [(1, 3, 2), (2, 4, 1)])
def test_missing_and_extra_kernels_cost_only_themselves(gpus, iterations, passes, seed):
    work = Training(layers=8, iterations=iterations, gpus=gpus, seed=seed)
    trace = work.trace(missing=0.02)
    run = work.counted(missing=0.02, extra=0.02, passes=passes)
    found, by_kernel = counted(trace, run)
    assert rate_of(trace, run, found) > 0.96
    timed = trace.kernels.take(pa.array(found.timed))
    other = run.counted.take(pa.array(found.counted))
    for kernel, name in zip(timed.to_pylist(), other["name"].to_pylist(), strict=True):
        assert name.startswith((kernel["name"], kernel["name"].split(" ")[1].split("(")[0]))
    names = dict(zip(*(trace.kernels[c].to_pylist() for c in ("op", "name")), strict=True))
    sizes = {op: size for _, op, size in work.kernels}
    truth = ops_of(trace)
    sums, right, misplaced = Counter(), Counter(), 0
    for kernel, values in by_kernel.items():
        op, iteration, _ = truth[kernel]
        of_layers = op.split(".")[1]
        for counter in {"X", "Y"} & set(values):
            sums[of_layers, counter] += values[counter]["value"]
            right[of_layers, counter] += expected(names[op][5:-12], sizes[op])
        misplaced += values["place"]["value"] not in (expected(op), -1.0)
        assert values["iteration"]["value"] in (iteration, -1.0) or passes > 1
    assert sums == {key: pytest.approx(value, rel=1e-3) for key, value in right.items()}
    if passes == 1:
        assert misplaced <= 0.002 * len(by_kernel)


def test_without_disturbance_every_kernel_gets_what_is_its_own():
    work = Training(layers=2, iterations=2, gpus=2)
    trace = work.trace()
    found, by_kernel = counted(trace, work.counted(warm_up=0, after=0))
    truth = ops_of(trace)
    assert len(by_kernel) == trace.kernels.num_rows
    for kernel, values in by_kernel.items():
        op, iteration, _ = truth[kernel]
        assert values["place"]["value"] == expected(op)
        assert values["iteration"]["value"] == iteration
    assert len(np.unique(found.timed)) == len(found.timed)
    assert len(np.unique(found.counted)) == len(found.counted)


@pytest.mark.parametrize("spelling", ["{}", "{} [clone .kd]", "{} (.kd)", "{}.kd"])
@pytest.mark.parametrize("iterations", [2, 5])
def test_a_run_of_more_iterations_is_aligned_with_its_last_ones(spelling, iterations):
    work = Training(layers=3, iterations=2)
    trace = work.trace()
    run = work.counted(iterations, spelling=spelling)
    found, by_kernel = counted(trace, run)
    assert rate_of(trace, run, found) == 1
    truth = ops_of(trace)
    assert all(v["iteration"]["value"] == truth[k][1] for k, v in by_kernel.items())


def test_a_run_limited_to_one_iteration_counts_one_iteration():
    work = Training(layers=3, iterations=4)
    trace = work.trace()
    run = work.counted(1, warm_up=0, after=0)
    found, by_kernel = counted(trace, run)
    measured = rates(trace.kernels, found, run.counted)
    assert measured.device == [1.0]
    assert measured.iterations == [(3,)]
    assert len(by_kernel) == len(work.kernels)
    assert {ops_of(trace)[kernel][1] for kernel in by_kernel} == {3}


def rows(names, gpu=0, stream=7, **more):
    return [
        {"name": name, "gpu": gpu, "stream": stream, "start_ns": 10 * i, "grid": "2,1,1",
         "block": "32,1,1", "op": name, **more} for i, name in enumerate(names)
    ]  # fmt: skip


def test_communication_copies_and_fills_have_no_counters():
    trace = trace_of([
        *rows(["a", "b"]),
        {"name": "ncclDevKernel_AllReduce", "kind": "collective", "start_ns": 50,
         "collective": "all_reduce"},
        {"name": "Memcpy DtoD", "kind": "memcpy", "start_ns": 60},
        {"name": "__amd_rocclr_copyBuffer", "start_ns": 70},
    ])  # fmt: skip
    names = ["__amd_rocclr_fillBufferAligned.kd", "a", "ncclDevKernel_AllReduce", "b",
             "__amd_rocclr_copyBuffer"]  # fmt: skip
    run = counted_run([{"name": name, "counters": {"X": 7}} for name in names])
    found, by_kernel = counted(trace, run)
    assert sorted(by_kernel) == [0, 1]
    talk, copies = found.notes
    assert talk.startswith("counters of 1 communication kernels left out: kernels that wait for")
    assert copies == "counters of 2 copies and fills left out"
    assert rate_of(trace, run, found) == 1


def test_the_same_name_with_another_size_is_another_kernel():
    trace = trace_of([*rows(["a"]), {**rows(["a"])[0], "grid": "4,1,1", "start_ns": 20}])
    run = counted_run([
        {"name": "a", "work_items": 128, "counters": {"X": 2}},
        {"name": "a", "work_items": 64, "counters": {"X": 1}},
        {"name": "a", "work_items": 64, "group_items": 64, "counters": {"X": 3}},
    ])  # fmt: skip
    _, by_kernel = counted(trace, run)
    assert {kernel: values["X"]["value"] for kernel, values in by_kernel.items()} == {1: 2} or {
        kernel: values["X"]["value"] for kernel, values in by_kernel.items()
    } == {0: 1}


def test_sizes_that_one_side_does_not_tell_are_not_asked_for():
    trace = trace_of([{**row, "grid": None, "block": None} for row in rows(["a", "b", "a"])])
    run = counted_run([{"name": name, "counters": {"X": i}} for i, name in enumerate("aba")])
    _, by_kernel = counted(trace, run)
    assert [by_kernel[k]["X"]["value"] for k in range(3)] == [0, 1, 2]


def test_streams_are_told_by_what_they_run():
    main, side = ["a", "b", "c", "a", "d"] * 6, ["x", "y", "z"] * 5
    trace = trace_of([*rows(main, stream=7), *rows(side, stream=20)])
    order = np.random.default_rng(0).permutation([0] * len(main) + [1] * len(side))
    left = [list(main), list(side)]
    names = [(left[s].pop(0), s) for s in order.tolist()]
    run = counted_run([
        {"name": name, "stream": [5, 3][s], "counters": {"X": i}}
        for i, (name, s) in enumerate(names)
    ])  # fmt: skip
    found, by_kernel = counted(trace, run)
    assert len(by_kernel) == len(main) + len(side)
    assert len(found.devices) == 1
    values = [by_kernel[k]["X"]["value"] for k in range(len(main))]
    assert values == sorted(values)


def test_queues_that_serve_several_streams_follow_the_order_of_launches():
    names = ["a", "b", "c", "d"] * 8
    trace = trace_of([
        {**row, "stream": i % 3, "launch_ns": 5 * i, "start_ns": 1000 - 7 * i}
        for i, row in enumerate(rows(names))
    ])  # fmt: skip
    run = counted_run([
        {"name": name, "stream": i % 2, "counters": {"X": i}} for i, name in enumerate(names)
    ])  # fmt: skip
    _, by_kernel = counted(trace, run)
    assert [by_kernel[k]["X"]["value"] for k in range(len(names))] == list(range(len(names)))


def test_another_order_is_matched_by_occurrence_from_the_end():
    trace = trace_of(rows([f"k{i}" for i in range(20)] * 2))
    names = [f"k{i}" for i in reversed(range(20)) for _ in range(3)]
    run = counted_run([{"name": n, "counters": {"X": i}} for i, n in enumerate(names)])
    found, by_kernel = counted(trace, run)
    assert {MATCHED_BY[how] for how in found.how} == {"occurrence"}
    assert "another order" in found.notes[0]
    for i in range(20):
        first = 3 * (19 - i)
        assert by_kernel[i]["X"]["value"] == first + 1
        assert by_kernel[20 + i]["X"]["value"] == first + 2


def test_each_match_says_how_it_was_made():
    names = ["once", *["twice", "void long_name_with_template<int, 4>(int)"] * 2]
    trace = trace_of(rows(names))
    run = counted_run([{"name": n.split("<")[0], "counters": {"X": 1}} for n in names])
    _, by_kernel = counted(trace, run)
    how = [by_kernel[k]["X"]["matched_by"] for k in range(5)]
    assert how == ["unique", "sequence", "similar name", "sequence", "similar name"]


@pytest.mark.parametrize("swapped", [False, True])
def test_processes_are_gpus_in_order_unless_their_kernels_say_otherwise(swapped):
    trace = trace_of([*rows(["a", "b"] * 4, gpu=0), *rows(["c", "b"] * 4, gpu=1)])
    order = ["cb", "ab"] if swapped else ["ab", "cb"]
    run = counted_run([
        {"name": name, "process": 900 + p, "pass": n, "counters": {"X": p}}
        for n in (0, 1) for p in (0, 1) for name in order[p] * 4
    ])  # fmt: skip
    found, by_kernel = counted(trace, run)
    assert len(by_kernel) == 16
    assert by_kernel[0]["X"]["value"] == (1 if swapped else 0)
    assert ("in order of their numbers" in " ".join(found.notes)) is not swapped


def test_who_knows_better_can_say_which_process_is_which_gpu():
    trace = trace_of([*rows(["a", "b"], gpu=0), *rows(["a", "b"], gpu=1)])
    run = counted_run([
        {"name": name, "process": p, "device": d, "counters": {"X": 10 * p + d}}
        for p, d in ((31, 0), (30, 1)) for name in "ab"
    ])  # fmt: skip
    for told in ({31: 0, 30: 1}, {(31, 0): 0, (30, 1): 1}):
        _, by_kernel = counted(trace, run, gpus=told)
        assert [by_kernel[k]["X"]["value"] for k in range(4)] == [310, 310, 301, 301]
    _, by_kernel = counted(trace, run, gpus={30: 1})
    assert sorted(by_kernel) == [2, 3]
    with pytest.raises(AlignmentError, match=r"no process 32; it has \[30, 31\]"):
        match(trace.kernels, run, gpus={32: 0})
    for none in (5, -5):
        with pytest.raises(AlignmentError, match=f"no such GPU: {none}"):
            match(trace.kernels, run, gpus={31: none})


@pytest.mark.parametrize("lost", range(3))
def test_a_pass_that_lacks_a_process_keeps_the_others_on_their_gpus(lost):
    trace = trace_of([row for gpu in range(3) for row in rows("ab", gpu=gpu)])
    run = counted_run([
        {"name": name, "process": 10 * n + d, "device": d, "pass": n, "counters": {"XY"[n]: d}}
        for n in (0, 1) for d in range(3) if (n, d) != (1, lost) for name in "ab"
    ])  # fmt: skip
    _, by_kernel = counted(trace, run)
    for kernel, values in by_kernel.items():
        gpu = kernel // 2
        assert {name: row["value"] for name, row in values.items()} == (
            {"X": gpu} if gpu == lost else {"X": gpu, "Y": gpu}
        )


def test_one_process_may_drive_several_gpus_and_only_some_may_be_counted():
    trace = trace_of([row for gpu in range(4) for row in rows(["a", "b"], gpu=gpu)])
    run = counted_run([
        {"name": name, "device": d, "counters": {"X": d}} for d in (0, 1) for name in "ab"
    ])  # fmt: skip
    found, by_kernel = counted(trace, run)
    assert sorted(by_kernel) == [0, 1, 2, 3]
    assert [device.gpu for device in found.devices] == [0, 1]
    assert rate_of(trace, run, found) == 1


def test_multiplexed_groups_leave_each_kernel_only_its_own_counters():
    trace = trace_of(rows(["a", "b", "a", "b"]))
    run = counted_run([
        {"name": name, "counters": {"XY"[i // 2]: i}} for i, name in enumerate("abab")
    ])  # fmt: skip
    _, by_kernel = counted(trace, run)
    assert [sorted(by_kernel[k]) for k in range(4)] == [["X"], ["X"], ["Y"], ["Y"]]


def test_a_run_without_the_kernels_of_the_trace_is_refused():
    trace = trace_of(rows(["a", "b"]))
    for run in (counted_run([{"name": "__amd_rocclr_copyBuffer"}]), counted_run([])):
        found = match(trace.kernels, run)
        measured = rates(trace.kernels, found, run.counted)
        with pytest.raises(AlignmentError, match="none of the counted kernels"):
            refuse_poor(trace.kernels, run.counted, found, measured, 0.9)


def test_too_few_matches_are_refused_with_rate_and_first_mismatch():
    trace = trace_of(rows(["a", "b", "c", "d"], dur_ns=99))
    run = counted_run([{"name": n} for n in ["a", "other", "c"]])
    found = match(trace.kernels, run)
    measured = rates(trace.kernels, found, run.counted)
    assert measured.device == [0.5]
    assert measured.op == {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0}
    with pytest.raises(AlignmentError) as caught:
        refuse_poor(trace.kernels, run.counted, found, measured, 0.9)
    text = str(caught.value)
    assert text.startswith(
        "50.0 % of the kernel time of GPU 0 could be matched with pass 0, 90.0 % are needed; first "
        "mismatch: the trace has 'b' (grid 2,1,1, block 32,1,1), the pass has 'other' (work items "
        "64, group items 32)"
    )
    assert "partial=True" in text
    refuse_poor(trace.kernels, run.counted, found, measured, 0.5)


def test_rates_are_of_kernel_time_by_pass_and_gpu_and_op():
    trace = trace_of([
        *rows(["a", "b"], dur_ns=99), *rows(["a", "b"], gpu=1, dur_ns=299)
    ])  # fmt: skip
    order = [(0, 1, "a"), (0, 1, "b"), (0, 2, "a"), (3, 1, "a"), (3, 2, "b"), (3, 2, "a")]
    run = counted_run([{"name": n, "process": p, "pass": k} for k, p, n in order])
    found = match(trace.kernels, run)
    measured = rates(trace.kernels, found, run.counted)
    assert measured.record(found) == {
        "pass 0": {"gpu 0": 1.0, "gpu 1": 0.5},
        "pass 3": {"gpu 0": 0.5, "gpu 1": 0.5},
        "op": {"a": pytest.approx(1.0, abs=0.5), "b": pytest.approx(0.5, abs=0.5)},
    }


def test_what_several_passes_counted_has_its_mean_and_durations_stay_apart():
    trace = trace_of(rows(["a", "b"]))
    both = [{"GRBM_GUI_ACTIVE": 100, "counted_duration_ns": 50},
            {"GRBM_GUI_ACTIVE": 102, "counted_duration_ns": 40}]  # fmt: skip
    run = counted_run([
        {"name": name, "pass": k, "counters": both[k] | ({"Z": 5} if k else {})}
        for k in (0, 1) for name in "ab"
    ])  # fmt: skip
    table, notes = averaged([counter_rows(trace.kernels, run, match(trace.kernels, run))])
    of_a = [(r["counter"], r["value"], r["pass"]) for r in table.to_pylist() if not r["kernel_id"]]
    assert sorted(of_a) == [
        ("GRBM_GUI_ACTIVE", 101.0, 0),
        ("Z", 5.0, 1),
        ("counted_duration_ns", 40.0, 1),
        ("counted_duration_ns", 50.0, 0),
    ]
    assert len(notes) == 1
    assert notes[0].startswith(
        "GRBM_GUI_ACTIVE was counted in passes 0, 1: between them it differs"
    )
    assert "by 2 % (median over 2 kernels)" in notes[0]


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12),
       st.lists(st.sampled_from("abcdex"), max_size=12), st.integers(0, 2))  # fmt: skip
def test_no_kernel_twice_and_never_another_name(names, other, gpus):
    trace = trace_of([row for gpu in range(gpus + 1) for row in rows(names, gpu=gpu)])
    run = counted_run([{"name": name, "process": p} for p in range(2) for name in other])
    found = match(trace.kernels, run)
    assert len(set(found.timed.tolist())) == len(found.timed)
    assert len(set(found.counted.tolist())) == len(found.counted)
    timed = trace.kernels["name"].take(pa.array(found.timed)).to_pylist()
    assert timed == run.counted["name"].take(pa.array(found.counted)).to_pylist()
    for gpu in trace.kernels["gpu"].take(pa.array(found.timed)).unique().to_pylist():
        assert gpu <= 1


@given(st.permutations(range(24)))
def test_the_order_of_rows_does_not_matter(order):
    work = Training(layers=0, iterations=2)
    trace, run = work.trace(), work.counted(warm_up=1, after=1)
    plain = match(trace.kernels, run)
    moved = [at % trace.kernels.num_rows for at in order]
    shuffled = trace.kernels.take(
        pa.array([*moved, *(set(range(trace.kernels.num_rows)) - set(moved))])
    )
    again = match(shuffled, run)
    ids = shuffled["kernel_id"].to_numpy()[again.timed]
    assert dict(zip(ids, again.counted, strict=True)) == dict(
        zip(plain.timed, plain.counted, strict=True)
    )

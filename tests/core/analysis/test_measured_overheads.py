"""Injected causes come back, exactly without noise."""

import math

import numpy as np
import pytest
from counted_traces import counted_trace
from overhead_runs import BANDWIDTH, CLOCK, FACTORS, overhead_run, true_parts

from chopper_jupyter.core.analysis.efficiency import efficiency
from chopper_jupyter.core.analysis.instance_parts import (
    NOT_ASKED,
    NOT_COUNTED,
    NOT_MODELLED,
    instance_parts,
)
from chopper_jupyter.core.analysis.measured_overheads import PARTS
from chopper_jupyter.core.analysis.op_instances import instances
from chopper_jupyter.core.analysis.overheads import overheads
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.core.trace import Trace

OPS = ("q_proj", "down_proj", "norm")


def by_op(trace, **options):
    frame = overheads(trace, "op", **options)
    plain = frame.astype(object).where(frame.notna(), None)
    return {row["op"]: row for row in plain.to_dict("records")}


def without(trace, table):
    tables = {name: one for name, one in trace.tables.items() if name != table}
    return Trace.from_tables(tables, trace.info, trace.quality)


@pytest.fixture(scope="module")
def quiet():
    return overhead_run()


def test_injected_parts_come_back(quiet):
    answer = by_op(quiet.trace)
    for op in OPS:
        truth = true_parts([row for row in quiet.truth if row["op"] == op], 6)
        row = answer[op]
        assert row["actual_ms"] == pytest.approx(truth["actual"], rel=1e-12)
        assert row["theoretical_ms"] == pytest.approx(truth["theoretical"], rel=1e-6)
        for name in FACTORS:
            if op == "norm" and name != "overlap":
                assert row[f"{name}_ms"] is None
            else:
                assert row[f"{name}_ms"] == pytest.approx(truth[name], rel=0.01)
        assert row["unexplained_ms"] == pytest.approx(
            truth["unexplained"], rel=0.01, abs=1e-5 * truth["actual"]
        )
    assert answer["norm"]["unexplained_ms"] > 0
    assert answer["q_proj"]["instruction"] == pytest.approx(1.1)
    assert answer["q_proj"]["utilization"] == pytest.approx(1 / 0.6)
    assert answer["q_proj"]["clock_in_pass_mhz"] == pytest.approx(900)


@pytest.mark.parametrize("by", [None, "op", ["gpu", "iteration"], ["layer", "op"], "instance"])
def test_parts_add_up_to_the_actual_time(by, quiet):
    frame = overheads(quiet.trace, by)
    columns = ["theoretical_ms", *(f"{name}_ms" for name in PARTS), "not_modelled_ms"]
    total = frame[columns].astype("float64").fillna(0).sum(axis=1)
    assert np.allclose(total, frame["actual_ms"], rtol=1e-12)


def test_groups_are_the_sums_of_their_instances(quiet):
    single = overheads(quiet.trace, "instance")
    answer = by_op(quiet.trace)
    for op in OPS:
        mine = single[single["op"] == op]
        for name in ("actual", "theoretical", "overlap", "unexplained"):
            total = mine[f"{name}_ms"].astype("float64").sum() / 6
            assert answer[op][f"{name}_ms"] == pytest.approx(total)


def test_a_slow_gpu_that_communicates_less_is_not_taken_for_overlap():
    """Fast GPUs are the ones that communicate: across GPUs overlap seems to speed kernels up."""
    run = overhead_run(
        gpus=4,
        clock=lambda gpu, _: 0.6 + 0.1 * gpu,
        overlap=lambda gpu, layer: min(1.0, 0.25 * gpu + 0.1 * (layer % 3)),
    )
    answer = by_op(run.trace)
    for op in ("q_proj", "down_proj"):
        truth = true_parts([row for row in run.truth if row["op"] == op], 12)
        assert answer[op]["overlap_ms"] == pytest.approx(truth["overlap"], rel=0.01)
        assert answer[op]["frequency_ms"] == pytest.approx(truth["frequency"], rel=0.01)


def test_overlap_that_never_varies_is_not_identifiable():
    run = overhead_run(overlap=lambda *_: 0.5)
    row = by_op(run.trace)["q_proj"]
    assert row["overlap_ms"] is None
    assert "overlap not identifiable" in row["note"]
    truth = true_parts([r for r in run.truth if r["op"] == "q_proj"], 6)
    assert row["unexplained_ms"] == pytest.approx(truth["overlap"], rel=0.01)


def test_without_communication_overlap_costs_nothing():
    run = overhead_run(overlap=lambda *_: 0.0)
    row = by_op(run.trace)["q_proj"]
    assert (row["overlap_ms"], row["overlap"], row["note"]) == (0, 1, None)


def test_a_clock_lost_in_one_iteration_shows_there():
    run = overhead_run(gpus=2, clock=lambda g, i: 0.5 if (g, i) == (1, 2) else 0.8)
    frame = overheads(run.trace, ["gpu", "iteration"])
    loss = {(r.gpu, r.iteration): r.frequency for r in frame.itertuples()}
    assert loss[1, 2] == pytest.approx(2.0, rel=0.01)
    assert all(f == pytest.approx(1.25, rel=0.01) for k, f in loss.items() if k != (1, 2))


def test_without_samples_the_clock_is_unexplained(quiet):
    row = by_op(without(quiet.trace, "telemetry"))["q_proj"]
    truth = true_parts([r for r in quiet.truth if r["op"] == "q_proj"], 6)
    assert row["frequency_ms"] is None
    assert "clock not sampled" in row["note"]
    assert row["unexplained_ms"] == pytest.approx(truth["frequency"], rel=0.01)


def test_too_few_readings_are_no_clock():
    run = overhead_run(period_ns=4_000_000, iterations=1)
    row = by_op(run.trace)["q_proj"]
    assert row["frequency_ms"] is None
    assert "too few fresh readings" in row["note"]


def test_repeated_readings_do_not_count_as_more():
    run = overhead_run()
    rows = run.trace.telemetry.to_pylist()
    often = [row | {"time_ns": row["time_ns"] + 10_000 * k} for row in rows for k in range(5)]
    repeated = Trace.from_tables(
        {**run.trace.tables, "telemetry": type(run.trace.telemetry).from_pylist(often)},
        run.trace.info, run.trace.quality,
    )  # fmt: skip
    one, five = (by_op(t)["down_proj"]["clock_samples"] for t in (run.trace, repeated))
    assert five <= 1.1 * one
    assert overheads(repeated).attrs["refresh_ms"] == pytest.approx(0.4, rel=0.05)


def test_without_counters_utilisation_is_unexplained(quiet):
    row = by_op(without(quiet.trace, "counters"))["q_proj"]
    truth = true_parts([r for r in quiet.truth if r["op"] == "q_proj"], 6)
    assert row["utilization_ms"] is None
    assert NOT_COUNTED in row["note"]
    assert row["unexplained_ms"] > truth["utilization"]


def test_kernels_nobody_can_model_stay_apart():
    run = overhead_run(layers=2)
    rows = run.trace.kernels.to_pylist()
    extra = rows[-1] | {"kernel_id": 10**6, "op_id": None, "op": "topk", "dur_ns": 1000}
    trace = Trace.from_tables(
        {**run.trace.tables, "kernels": type(run.trace.kernels).from_pylist([*rows, extra])},
        run.trace.info, run.trace.quality,
    )  # fmt: skip
    row = by_op(trace)["topk"]
    assert row["not_modelled_ms"] == row["actual_ms"] == pytest.approx(1e-3 / 6)
    assert row["theoretical_ms"] is None
    assert row["unexplained_ms"] is None
    assert NOT_MODELLED in row["note"]


def test_memory_bound_kernels_do_not_follow_the_clock(quiet):
    row = by_op(quiet.trace)["norm"]
    assert row["theoretical_ms"] == pytest.approx(8 * 1e3 * 4 * 4096 * 4096 / BANDWIDTH, rel=1e-6)
    assert row["frequency_ms"] is None


def test_cycles_that_do_not_fit_their_time_give_no_utilisation():
    run = overhead_run(layers=2)
    rows = run.trace.counters.to_pylist()
    ids = {row["kernel_id"] for row in run.trace.kernels.to_pylist() if row["op"] == "q_proj"}
    for row in rows:
        if row["counter"] == "counted_duration_ns" and row["kernel_id"] in ids:
            row["value"] *= 0.9e9 / (1.2 * CLOCK)
    trace = Trace.from_tables(
        {**run.trace.tables, "counters": type(run.trace.counters).from_pylist(rows)},
        run.trace.info, run.trace.quality,
    )  # fmt: skip
    answer = by_op(trace)
    for name in ("utilization_ms", "instruction_ms", "clock_in_pass_mhz"):
        assert answer["q_proj"][name] is None
        assert answer["down_proj"][name] is not None
    assert "more cycles than their time holds" in answer["q_proj"]["note"]
    assert any("cycles of no use" in note for note in overheads(trace).attrs["notes"])


def test_kernels_shorter_than_the_window_of_the_counters_have_no_utilisation():
    """AMD counts the cycles of a window that is longer than the kernel."""
    run = overhead_run(layers=2)
    rows = run.trace.counters.to_pylist()
    for row in rows:
        if row["counter"] == "counted_duration_ns":
            row["value"] = 40_000
        elif row["counter"] == "GRBM_GUI_ACTIVE":
            row["value"] = 8 * 40e-6 * 1.5e9
    trace = Trace.from_tables(
        {**run.trace.tables, "counters": type(run.trace.counters).from_pylist(rows)},
        run.trace.info, run.trace.quality,
    )  # fmt: skip
    assert by_op(trace)["q_proj"]["utilization_ms"] is None
    answer = efficiency(trace)
    assert answer["utilization_percent"].isna().all()
    assert "shorter than 50 µs" in answer.attrs["sources"]["utilization"]
    paper = overheads(trace, method="chopper")  # follows its formulas, and says so
    assert paper["utilization"].notna().any()
    assert any("shorter than 50 µs" in note for note in paper.attrs["notes"])


def test_an_answer_does_not_change_when_asked_again(quiet):
    noisy = overhead_run(noise=0.02, seed=5).trace
    assert overheads(noisy).equals(overheads(noisy))


def test_a_trace_that_tells_nothing_says_how_to_record():
    with pytest.raises(MissingDataError, match="record with shapes"):
        overheads(counted_trace([{"op": "a"}]))
    with pytest.raises(MissingDataError, match="record with shapes"):
        overheads(Trace.from_tables({}))


def test_collectives_wait_and_move():
    link = 448e9
    message, ranks = 10**9, 2
    transfer = 1e9 * message * (ranks - 1) / ranks / link
    rows = []
    for call in range(4):
        for gpu in range(ranks):
            late = 300_000 if gpu == 1 else 0
            start = call * 10_000_000 + late
            end = call * 10_000_000 + 300_000 + round(2 * transfer)
            rows.append({
                "gpu": gpu, "kind": "collective", "family": "communication", "op": "all_gather",
                "collective": "all_gather", "process_group": "0", "collective_seq": call,
                "message_bytes": message, "start_ns": start, "dur_ns": end - start,
                "iteration": 0, "phase": "forward",
            })  # fmt: skip
    row = by_op(counted_trace(rows))["all_gather"]
    assert row["waiting_ms"] == pytest.approx(4 * 0.3 / 2)
    assert row["theoretical_ms"] == pytest.approx(4 * transfer * 1e-6)
    assert row["unexplained_ms"] == pytest.approx(4 * transfer * 1e-6, rel=1e-6)
    assert row["latency_ms"] is None
    assert math.isclose(
        row["actual_ms"], row["theoretical_ms"] + row["waiting_ms"] + row["unexplained_ms"]
    )


def test_latency_of_collectives_by_their_sizes():
    rows = []
    for call in range(6):
        message = (1 + call % 3) * 10**8
        carried = message / 2
        rows += [
            {
                "gpu": gpu, "kind": "collective", "family": "communication", "op": "all_gather",
                "collective": "all_gather", "process_group": "0", "collective_seq": call,
                "message_bytes": message, "start_ns": call * 10_000_000,
                "dur_ns": round(50_000 + 1e9 * carried / 300e9), "iteration": 0,
            }
            for gpu in range(2)
        ]  # fmt: skip
    row = by_op(counted_trace(rows))["all_gather"]
    assert row["latency_ms"] == pytest.approx(6 * 0.05, rel=0.01)
    moved = 2 * (1 + 2 + 3) * 1e8 / 2
    assert row["unexplained_ms"] == pytest.approx(1e3 * moved * (1 / 300e9 - 1 / 448e9), rel=0.01)


def test_a_kernel_that_a_pass_lacks_costs_no_part_of_the_others(quiet):
    """Nearly all runs of an op with as much to do speak for the few that were not counted."""
    rows = quiet.trace.counters.to_pylist()
    for lacking, told in ((13, True), (5, False)):
        some = [row for row in rows if row["kernel_id"] % lacking]
        counters = type(quiet.trace.counters).from_pylist(some)
        tables = {**quiet.trace.tables, "counters": counters}
        answer = by_op(Trace.from_tables(tables, quiet.trace.info, quiet.trace.quality))
        for op in ("q_proj", "down_proj"):
            truth = true_parts([row for row in quiet.truth if row["op"] == op], 6)
            for name in ("instruction", "utilization"):
                expected = pytest.approx(truth[name], rel=0.01) if told else None
                assert answer[op][f"{name}_ms"] == expected
            assert told or NOT_COUNTED in answer[op]["note"]


def test_effects_of_overlap_are_estimated_only_where_they_are_worth_it(quiet):
    found = instances(quiet.trace, "measured")
    every = instance_parts(quiet.trace, found).effects
    worth = instance_parts(quiet.trace, found, worth=0.2).effects
    beside = np.bincount(found.op, found.sum(found.measures["under_ns"]))
    asked = beside >= 0.2 * found.measures["time_ns"].sum()
    assert sorted(set(asked.tolist())) == [False, True]
    for one, other, mine in zip(every, worth, asked, strict=True):
        assert one.reason == ""
        assert other == one if mine else other.reason == NOT_ASKED

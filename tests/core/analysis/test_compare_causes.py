"""Why one run takes longer than another: what was injected comes back, and parts add up."""

import math

import numpy as np
import pytest
from counted_traces import counted_trace
from overhead_runs import overhead_run, true_parts
from simulated_runs import simulated_run, truth_of

from chopper_jupyter import compare, read_trace
from chopper_jupyter.core.analysis.measured_overheads import PARTS
from chopper_jupyter.core.trace import Trace
from chopper_jupyter.simulate import Injections

FACTORS = ("instruction", "utilization", "overlap", "frequency")
COLUMNS = [f"{name}_ms" for name in ("theoretical", *PARTS, "not_modelled", "unmatched")]
SIZE = {"layers": 4, "ranks": 2, "iterations": 4, "batch": 4}
EVERYTHING = Injections(
    padding={"mlp.down_proj": 1.2},
    matrix_utilisation={"mlp.up_proj": 0.5},
    overlap_contention=1.3,
    clock_loss={1: 0.9, (0, 3): 0.8},
    straggler=(1, 200_000),
)
MIXED = ("backward", "aten::scaled_dot_product_attention")
"""Has a kernel that is no product; the op's theory is that of its products."""


def altered(trace, **tables):
    kept = {name: tables.get(name, table) for name, table in trace.tables.items()}
    return Trace.from_tables(kept, trace.info, trace.quality)


def without(trace, name):
    return altered(trace, **{name: getattr(trace, name).slice(0, 0)})


def by_op(frame):
    plain = frame.astype(object).where(frame.notna(), None)
    return {row["op"]: row for row in plain.to_dict("records")}


def adds_up(frame):
    total = frame[COLUMNS].astype("float64").fillna(0).sum(axis=1)
    scale = frame[["time_a_ms", "time_b_ms"]].astype("float64").fillna(0).to_numpy().max()
    return np.allclose(total, frame["difference_ms"].astype("float64"), rtol=0, atol=1e-12 * scale)


# --- Runs whose factors are known -----------------------------------------------------------


def logs_of(truth):
    """Time, theory, and summed logarithm of each factor, each weighed as it makes time."""
    found = {}
    for row in truth:
        actual, theory = row["actual"], row["theoretical"]
        weight = (actual - theory) / math.log(actual / theory)
        one = found.setdefault(row["op"], dict.fromkeys(("actual", "theory", *FACTORS), 0.0))
        one["actual"] += actual
        one["theory"] += theory
        for name in FACTORS:
            one[name] += weight * math.log(row.get(name, 1.0))
    return found


def shares(a, b, per):
    """By hand: the share of each factor in the difference of an op, in ms."""
    change = b["actual"] - a["actual"]
    mean = change / math.log(b["actual"] / a["actual"]) if change else a["actual"]
    total = {"theoretical": mean * math.log(b["theory"] / a["theory"])}
    for name in FACTORS:
        each = [
            one[name] / ((one["actual"] - one["theory"]) / math.log(one["actual"] / one["theory"]))
            for one in (a, b)
        ]
        total[name] = mean * (each[1] - each[0])
    return {name: value * 1e-6 / per for name, value in total.items()}


QUIET = overhead_run()
CHANGED = {
    "clock": {"clock": lambda gpu, i: 0.6 - 0.05 * gpu + 0.02 * i},
    "padding": {"padding": 1.3},
    "utilisation": {"utilisation": 0.4},
    "contention": {"slowdown": 0.3},
    "all": {"padding": 1.3, "utilisation": 0.7, "slowdown": 0.25, "clock": lambda *_: 0.9},
}


@pytest.mark.parametrize("what", CHANGED)
def test_shares_are_those_of_the_factors(what):
    other = overhead_run(**CHANGED[what])
    answer = by_op(compare(QUIET.trace, other.trace, "op"))
    logs = [logs_of(run.truth) for run in (QUIET, other)]
    for op in ("q_proj", "down_proj"):
        expected = shares(*(one[op] for one in logs), 6)
        difference = answer[op]["difference_ms"]
        for name, value in expected.items():
            found = answer[op][f"{name}_ms"]
            assert found == pytest.approx(value, rel=0.01, abs=1e-3 * abs(difference))
        assert abs(answer[op]["unexplained_ms"]) < 0.005 * abs(difference)


@pytest.mark.parametrize("by", ["op", "phase", ["layer", "op"], ["gpu", "iteration"], "gpu"])
def test_causes_add_up_to_the_difference(by):
    other = overhead_run(padding=1.3, clock=lambda *_: 0.7, noise=0.02, seed=3)
    frame = compare(QUIET.trace, other.trace, by)
    assert adds_up(frame)
    assert (frame["frequency_ms"].notna()).all() or by != "phase"
    assert frame.attrs["causes"].startswith("theoretical_ms to unmatched_ms")


def test_a_run_compared_with_itself_has_no_causes():
    frame = compare(QUIET.trace, QUIET.trace, ["layer", "op"])
    assert (frame[COLUMNS].astype("float64").fillna(0).to_numpy() == 0).all()


def test_runs_of_which_other_kernels_were_counted_do_not_differ():
    rows = QUIET.trace.counters.to_pylist()
    some = [row for row in rows if row["kernel_id"] % 7]
    other = altered(QUIET.trace, counters=type(QUIET.trace.counters).from_pylist(some))
    frame = compare(QUIET.trace, other, "op")
    assert np.abs(frame[COLUMNS].astype("float64").fillna(0).to_numpy()).max() < 1e-12
    assert "b: no counters: utilisation is among the unexplained (for " in frame["note"][0]


def test_turned_around_the_signs_change():
    other = overhead_run(padding=1.3, slowdown=0.3, clock=lambda *_: 0.7)
    there, back = (
        by_op(compare(*pair, "op"))
        for pair in ((QUIET.trace, other.trace), (other.trace, QUIET.trace))
    )
    for op, row in there.items():
        for name in COLUMNS:
            value = back[op][name]
            assert row[name] == (None if value is None else pytest.approx(-value, abs=1e-12))


def test_an_interval_covers_what_noise_hides():
    hits = []
    for seed in range(12):
        a, b = (
            overhead_run(noise=0.02, seed=seed + n, layers=6, slowdown=slowdown)
            for n, slowdown in ((0, 0.15), (1000, 0.3))
        )
        answer = by_op(compare(a.trace, b.trace, "op"))
        logs = [logs_of(run.truth) for run in (a, b)]
        for op in ("q_proj", "down_proj"):
            expected = shares(*(one[op] for one in logs), 6)
            for name in ("utilization", "overlap"):
                low, high = (answer[op][f"{name}_{end}_ms"] for end in ("low", "high"))
                hits.append(low <= expected[name] <= high)
    assert 0.88 * len(hits) <= sum(hits) < len(hits)


# --- What is missing ------------------------------------------------------------------------


def test_without_counters_there_are_no_causes_and_it_says_so():
    bare = without(QUIET.trace, "counters")
    for pair, words in (
        ((bare, QUIET.trace), "run a has no counters"),
        ((QUIET.trace, bare), "run b has no counters"),
        ((bare, bare), "neither run has counters"),
    ):
        frame = compare(*pair, "op")
        assert frame.attrs["causes"].startswith(f"not split into causes: {words}; count with")
        assert "theoretical_ms" not in frame
        assert "clock_ms" in frame  # the clocks are known without counters


def test_kernels_have_no_causes():
    frame = compare(QUIET.trace, QUIET.trace, ["op", "kernel"])
    assert "of ops, not of each kernel" in frame.attrs["causes"]


def test_where_nobody_knows_how_fast_kernels_could_be_it_says_so():
    trace = counted_trace([{"op": "a", "counters": {"GRBM_GUI_ACTIVE": 8}}])
    frame = compare(trace, trace, "op")
    assert "nobody knows how fast" in frame.attrs["causes"]
    assert "theoretical_ms" not in frame


def test_what_only_one_run_has_is_unmatched():
    rows = QUIET.trace.kernels.to_pylist()
    other = [r | {"op": "k_proj"} if r["op"] == "q_proj" else r for r in rows]
    frame = compare(QUIET.trace, altered(QUIET.trace, kernels=of_rows(QUIET.trace, other)), "op")
    assert adds_up(frame)
    answer = by_op(frame)
    for op in ("q_proj", "k_proj"):
        assert answer[op]["unmatched_ms"] == answer[op]["difference_ms"] != 0
        assert answer[op]["theoretical_ms"] is answer[op]["unexplained_ms"] is None
    assert answer["down_proj"]["unmatched_ms"] == 0
    whole = compare(
        QUIET.trace, altered(QUIET.trace, kernels=of_rows(QUIET.trace, other)), "phase"
    ).iloc[0]
    assert whole["difference_ms"] == pytest.approx(0)
    assert whole["unmatched_ms"] == pytest.approx(0)


def of_rows(trace, rows):
    return type(trace.kernels).from_pylist(rows, trace.kernels.schema)


def test_an_op_that_was_counted_in_one_run_only_is_not_split():
    """The theory of one would be that of its products, of the other that of the roofline."""
    counted = QUIET.trace.counters.to_pylist()
    ids = {r["kernel_id"] for r in QUIET.trace.kernels.to_pylist() if r["op"] == "q_proj"}
    some = [row for row in counted if row["kernel_id"] not in ids]
    bare = type(QUIET.trace.counters).from_pylist(some, QUIET.trace.counters.schema)
    slow = overhead_run(clock=lambda *_: 0.6).trace
    answer = by_op(compare(altered(QUIET.trace, counters=bare), slow, "op"))
    row = answer["q_proj"]
    assert row["frequency_ms"] is row["unexplained_ms"] is None
    assert row["not_modelled_ms"] == pytest.approx(row["difference_ms"])
    assert "a: no counters" in row["note"]
    assert answer["down_proj"]["frequency_ms"] > 0


def test_a_clock_that_one_run_does_not_know_is_unexplained_and_said():
    slow = overhead_run(clock=lambda *_: 0.6)
    row = by_op(compare(QUIET.trace, without(slow.trace, "telemetry"), "op"))["q_proj"]
    assert row["frequency_ms"] is None
    assert "b: clock not sampled" in row["note"]
    parts = [true_parts([r for r in run.truth if r["op"] == "q_proj"], 6) for run in (QUIET, slow)]
    assert row["unexplained_ms"] == pytest.approx(parts[1]["actual"] - parts[0]["actual"], rel=0.01)


# --- Simulated runs -------------------------------------------------------------------------


def simulated(injections, version):
    run = simulated_run(injections, version=version, **SIZE)
    return read_trace(run), true_logs(run)


def true_logs(run):
    """What really made the times of each op, from the truth of every kernel."""
    truth = truth_of(run)
    truth = truth[truth["kind"].astype(str) == "compute"]
    rows = truth.rename(columns={"dur_ns": "actual", "theoretical_ns": "theoretical"})
    rows = rows.assign(
        op=list(zip(rows["phase"].astype(str), rows["op"].astype(str), strict=True)),
        utilization=1 / rows["utilisation"],
    )
    return logs_of(rows.to_dict("records"))


@pytest.fixture(scope="module")
def v1():
    return simulated(Injections(), 1)


def check_simulated(a, b):
    """Compare two simulated runs; return the rows by phase and op, with what is true of them."""
    frame = compare(a[0], b[0], ["phase", "op"])
    assert adds_up(frame)
    found = {}
    for row in frame.astype(object).where(frame.notna(), None).to_dict("records"):
        key = (row["phase"], row["op"])
        if key in a[1] and key in b[1] and key != MIXED:
            truth = shares(a[1][key], b[1][key], SIZE["ranks"] * SIZE["iterations"])
            found[key] = (row, truth)
            for name in FACTORS:
                if row[f"{name}_ms"] is not None:
                    half = (row[f"{name}_high_ms"] - row[f"{name}_low_ms"]) / 2
                    off = abs(row[f"{name}_ms"] - truth[name])
                    assert off <= half + 0.02 * abs(truth[name]) + 2e-3 * row["time_a_ms"], key
                    assert half < 0.05 * row["time_a_ms"], key
    return found


def test_fsdp_version_2_is_faster_by_its_clock(v1):
    found = check_simulated(v1, simulated(Injections(), 2))
    known = [row for row, _ in found.values() if row["frequency_ms"] is not None]
    assert len(known) >= 6
    assert all(row["frequency_ms"] < 0 for row in known)
    for key in (("forward", "lm_head"), ("backward", "lm_head")):
        row, _ = found[key]
        assert row["frequency_ms"] == pytest.approx(row["difference_ms"], rel=0.05)
    copies, _ = found["forward", "fsdp_copy"]
    assert copies["theoretical_ms"] > 0.9 * copies["difference_ms"] > 0  # it copies more


def test_a_lost_clock_is_all_of_the_difference(v1):
    found = check_simulated(v1, simulated(Injections(clock_loss={0: 0.8, 1: 0.8}), 1))
    known = {k: row for k, (row, _) in found.items() if row["frequency_ms"] is not None}
    assert len(known) >= 6
    for row in known.values():  # slower beside the same communication, it is less beside it
        explained = row["frequency_ms"] + (row["overlap_ms"] or 0)
        assert explained == pytest.approx(row["difference_ms"], rel=0.02)
        assert row["frequency_ms"] > 0.95 * row["difference_ms"]
        for name in ("instruction", "utilization"):
            assert abs(row[f"{name}_ms"]) < 1e-3 * row["difference_ms"]


def test_causes_injected_together_are_told_apart(v1):
    found = check_simulated(v1, simulated(EVERYTHING, 1))
    padded, truth = found["forward", "mlp.down_proj"]
    assert padded["instruction_ms"] == pytest.approx(truth["instruction"], rel=0.01)
    lower, truth = found["forward", "mlp.up_proj"]
    assert lower["utilization_ms"] == pytest.approx(truth["utilization"], rel=0.01)
    assert sum(row["overlap_ms"] is not None for row, _ in found.values()) >= 6

"""What a simulated run was told to suffer from comes back, all causes at once."""

from dataclasses import replace

import numpy as np
import pytest
from simulated_runs import simulated_run, truth_of

from chopper_jupyter import overheads, read_trace
from chopper_jupyter.simulate import Injections

FACTORS = {"instruction": 1, "utilisation": -1, "overlap": 1, "frequency": 1}
FOUND = ("instruction", "utilization", "overlap", "frequency")
EVERYTHING = Injections(
    padding={"mlp.down_proj": 1.2},
    matrix_utilisation={"mlp.up_proj": 0.5},
    overlap_contention=1.3,
    clock_loss={1: 0.9, (0, 3): 0.8},
    straggler=(1, 200_000),
    launch_delay_ns={"host_late": 300_000, "input": 200_000},
    clock_offset_ns={1: 30_000},
    counter_changes=0.02,
)
"""Overlap goes with the clock: who waits for the slow GPU communicates longer."""

SMALL = {"layers": 6, "ranks": 2, "iterations": 8, "version": 1}
MIXED = "aten::scaled_dot_product_attention"
"""Its backward has a kernel that is no product; the op's theory is that of its products."""


def true_parts(run, options):
    """Parts of each op in ms per iteration and GPU: log shares of the factors of each kernel."""
    truth = truth_of(run)
    truth = truth[truth["kind"].astype(str) == "compute"]
    step = np.log(truth["dur_ns"] / truth["theoretical_ns"])
    weight = np.where(
        np.abs(step) > 1e-9, (truth["dur_ns"] - truth["theoretical_ns"]) / step, truth["dur_ns"]
    )
    parts = truth[["phase", "op"]].astype(str)
    for name, sign in FACTORS.items():
        parts[name.replace("sation", "zation")] = sign * weight * np.log(truth[name])
    parts["actual"], parts["theoretical"] = truth["dur_ns"], truth["theoretical_ns"]
    parts["matrix"] = truth["useful_flops"] > 0
    sums = parts.groupby(["phase", "op"]).sum() * 1e-6 / (options["ranks"] * options["iterations"])
    return sums.assign(matrix=sums["matrix"] > 0)


def answer_of(injections, options):
    """Return parts as they are, and as they are found, by phase and op."""
    run = simulated_run(injections, **options)
    frame = overheads(read_trace(run)).astype({"phase": str, "op": str})
    frame = frame.set_index(["phase", "op"])
    return true_parts(run, options).join(frame.rename(columns={n: f"{n}_factor" for n in FOUND}))


@pytest.fixture(scope="module")
def answer():
    return answer_of(EVERYTHING, SMALL)


def known(answer, name):
    """Rows in which a part was found, with its truth: only ops of one kind of kernel."""
    rows = answer[answer[f"{name}_ms"].notna()]
    return rows.drop(index=("backward", MIXED), errors="ignore")


def test_times_and_theory_are_those_of_the_model(answer):
    rows = answer.drop(index=("backward", MIXED))
    found = rows[["actual_ms", "theoretical_ms"]].astype(float).to_numpy()
    np.testing.assert_allclose(found[:, 0], rows["actual"], rtol=1e-9)
    matrix = rows["matrix"].to_numpy(bool)
    np.testing.assert_allclose(found[matrix, 1], rows["theoretical"][matrix], rtol=1e-3)
    # Others need bytes; of a kernel that a pass lacks they are those that its shapes tell.
    np.testing.assert_allclose(found[~matrix, 1], rows["theoretical"][~matrix], rtol=0.07)


@pytest.mark.parametrize("name", FOUND)
def test_each_injected_part_comes_back_within_one_percent(answer, name):
    assert_true(answer, name, least=6)


@pytest.mark.parametrize("place", [("MI300X", 1), ("H100", 2)], ids=["MI300X", "H100"])
def test_with_noise_no_number_is_wrong_and_what_is_not_known_says_so(place):
    hardware, version = place
    options = SMALL | {"hardware": hardware, "version": version, "iterations": 4}
    noisy = answer_of(replace(EVERYTHING, noise=0.02), options)
    for name in FOUND:
        assert_true(noisy, name, least=5, widths=3)
    says_why(noisy)


def assert_true(answer, name, *, least, widths=1):
    """Compare the known of a part with the truth: to 1 %, or what its interval says."""
    rows = known(answer, name)
    assert len(rows) >= least
    truth, found, actual, high = (
        rows[column].to_numpy(float) for column in (name, f"{name}_ms", "actual", f"{name}_high_ms")
    )
    allowed = 0.01 * np.abs(truth) + 1e-3 * actual + widths * (high - found)
    np.testing.assert_array_less(np.abs(found - truth), allowed)
    narrow = high - found <= 0.05 * np.abs(found) + 1e-3 * actual
    assert narrow.mean() > 0.7


def test_what_was_injected_shows_where_it_was(answer):
    assert answer.loc[("forward", "mlp.down_proj"), "instruction_factor"] == pytest.approx(1.2)
    assert answer.loc[("forward", "mlp.up_proj"), "utilization_factor"] == pytest.approx(
        2, rel=1e-3
    )
    assert answer.loc[("forward", "mlp.gate_proj"), "instruction_factor"] == pytest.approx(1)


def test_parts_that_are_not_known_say_why(answer):
    says_why(answer)


def says_why(answer):
    matrix = answer[answer["matrix"]]
    for name in ("overlap", "frequency"):
        missing = matrix[matrix[f"{name}_ms"].isna()]
        assert missing["note"].notna().all()


def test_nothing_is_left_that_is_not_explained(answer):
    whole = known(known(answer, "overlap"), "frequency")
    assert len(whole) >= 6
    share = whole["unexplained_ms"].astype(float) / whole["actual_ms"].astype(float)
    assert share.abs().max() < 0.005


def test_the_straggler_makes_others_wait():
    few = SMALL | {"layers": 2, "iterations": 3}
    run = simulated_run(EVERYTHING, **few)
    quiet = simulated_run(Injections(), **few)
    waiting = [
        overheads(read_trace(one), "op").set_index("op").loc["all_gather", "waiting_ms"]
        for one in (run, quiet)
    ]
    assert waiting[0] > 3 * waiting[1]

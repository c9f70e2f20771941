"""What is injected shows in the raw data, by its own amount, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_runs import document_of, simulated_run, simulated_trace, truth_of

from chopper_jupyter.core.errors import CollectError, SchemaError
from chopper_jupyter.simulate import Injections, llama_fsdp

QUIET = {"overlap_contention": 1.0}
"""Without contention the times of kernels do not depend on when they start."""


def pair(**injected):
    """Return the truth without and with an injection."""
    quiet, told = Injections(**QUIET), Injections(**{**QUIET, **injected})
    return truth_of(simulated_run(quiet)), truth_of(simulated_run(told))


def matrix(truth):
    return truth[truth["useful_flops"] > 0]


def test_padding_lengthens_its_op_alone():
    before, after = pair(padding={"mlp.down_proj": 1.2})
    ratio = after["dur_ns"] / before["dur_ns"]
    padded = (before["op"] == "mlp.down_proj") & (before["kind"] == "compute")
    assert np.allclose(ratio[padded], 1.2, rtol=1e-5)
    assert (ratio[~padded & (before["kind"] != "collective")] == 1).all()
    assert (after["performed_flops"] / after["useful_flops"])[padded].round(9).unique() == [1.2]


def test_utilisation_sets_the_time_of_its_op():
    _, after = pair(matrix_utilisation={"self_attn.q_proj": 0.3})
    rows = after[after["op"] == "self_attn.q_proj"]
    expected = rows["theoretical_ns"] / 0.3 * rows["frequency"]
    assert np.allclose(rows["dur_ns"], expected, atol=1)


def test_contention_slows_what_runs_beside_communication():
    truth = truth_of(simulated_run(Injections(overlap_contention=1.5)))
    rows = truth[truth["kind"] == "compute"]
    alone = rows["dur_ns"] / rows["overlap"]
    beside = rows["overlap_ns"] > 0
    assert beside.sum() > 20
    assert (rows["overlap"][~beside] - 1).abs().max() < 1e-3  # whole nanoseconds
    lost = rows["overlap_ns"] * (1 - 1 / 1.5)
    assert np.allclose(rows["dur_ns"] - alone, lost, atol=2)


def test_a_lost_clock_slows_matrix_kernels_of_one_gpu_in_one_iteration():
    before, after = pair(clock_loss={(1, 2): 0.7})
    ratio = matrix(after)["dur_ns"] / matrix(before)["dur_ns"]
    iterations = sorted(after["iteration"].unique())
    hit = (matrix(after)["rank"] == 1) & (matrix(after)["iteration"] == iterations[2])
    assert np.allclose(ratio[hit], 1 / 0.7, rtol=1e-4)
    assert (ratio[~hit] == 1).all()


def test_a_lost_clock_shows_in_telemetry():
    trace = simulated_trace(Injections(clock_loss={1: 0.7}))
    samples = trace.telemetry.to_pandas()
    clocks = samples[samples["metric"] == "gpu_clock_mhz"].groupby("gpu")["value"].median()
    assert clocks[1] / clocks[0] == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize("cause", ["input", "host_late", "iteration_boundary"])
def test_a_delay_is_idle_time_of_its_cause(cause):
    before, after = pair(launch_delay_ns={cause: 3_000_000})
    column = f"idle_{cause}_ns"
    gained = after.groupby(["rank", "iteration"])[column].sum()
    gained -= before.groupby(["rank", "iteration"])[column].sum()
    gained = gained[gained.index.get_level_values("iteration") > after["iteration"].min()]
    assert len(gained) == 4
    assert gained.between(3_000_000, 3_050_000).all()


def test_a_straggler_comes_late_to_every_collective():
    truth = truth_of(simulated_run(Injections(straggler=(1, 300_000))))
    calls = truth[truth["kind"] == "collective"].copy()
    calls["call"] = calls.groupby("rank").cumcount()
    late = calls.pivot_table(index="call", columns="rank", values="start_ns")
    assert (late[1] > late[0]).all()
    assert (late[1] - late[0]).median() > 200_000


def test_a_clock_offset_shifts_all_times_of_its_rank():
    run, told = simulated_run(), simulated_run(Injections(clock_offset_ns={1: 250_000}))
    assert truth_of(run).equals(truth_of(told))
    for rank, shift in ((0, 0.0), (1, 250.0)):
        events = zip(timed(run, rank), timed(told, rank), strict=True)
        assert {round(b["ts"] - a["ts"], 3) for a, b in events} == {shift}


def timed(run, rank):
    return [event for event in document_of(run, rank)["traceEvents"] if event["ph"] == "X"]


def test_noise_spreads_the_times():
    truth = truth_of(simulated_run(Injections(noise=0.05, **QUIET)))
    noise = np.log(truth["noise"])
    assert noise.std() == pytest.approx(0.05, rel=0.1)


def test_version_1_has_lower_clocks_and_fewer_copies():
    one, two = truth_of(simulated_run(version=1)), truth_of(simulated_run(version=2))
    assert matrix(one)["frequency"].mean() > 1.2 * matrix(two)["frequency"].mean()
    copies = [frame[frame["op"] == "fsdp_copy"]["dur_ns"].sum() for frame in (one, two)]
    assert copies[1] > 2 * copies[0]


@pytest.mark.parametrize(
    "injected",
    [
        {"padding": {"lm_head": 0.9}},
        {"matrix_utilisation": {"lm_head": 0.0}},
        {"clock_loss": {0: 1.2}},
        {"overlap_contention": 0.5},
        {"overlap_contention": 0.0},
        {"overlap_contention": {"lm_head": 0.5}},
        {"launch_delay_ns": {"input": -1}},
        {"straggler": (0, -5)},
        {"noise": 1.5},
        {"counter_changes": 1.0},
    ],
)
def test_what_no_run_can_have_is_refused(injected):
    with pytest.raises(ValueError, match="must be"):
        Injections(**injected)


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(SchemaError, match="host_late"):
        Injections(launch_delay_ns={"host_slow": 5})
    with pytest.raises(SchemaError, match="MI300X"):
        llama_fsdp(tmp_path, hardware="MI300")


@pytest.mark.parametrize(
    "options",
    [
        {"ranks": 3, "hosts": 2},
        {"layers": 1},
        {"version": 3},
        {"iterations": 0},
        {"warmup": -1},
        {"injections": Injections(straggler=(9, 5))},
    ],
)
def test_runs_that_cannot_be_are_refused(tmp_path, options):
    with pytest.raises(ValueError, match="no such run"):
        llama_fsdp(tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CollectError, match="something else"):
        llama_fsdp(tmp_path, layers=2, ranks=1, iterations=1)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

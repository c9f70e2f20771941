"""What a simulated run is told to suffer from is the first thing that findings say."""

from __future__ import annotations

import pytest
from simulated_runs import simulated_run, simulated_trace, truth_of

from chopper_jupyter import findings
from chopper_jupyter.simulate import Injections

SMALL = {"layers": 3, "ranks": 2, "iterations": 3}
PLACES = [
    {"hardware": "MI300X", "version": 1, "seed": 0, **SMALL},
    {"hardware": "H100", "version": 2, "seed": 1, **SMALL},
]
CLOCK = {"clock_loss": {(1, 1): 0.75}}
PADDING = {"padding": {"mlp.down_proj": 1.3}}
STRAGGLER = {"straggler": (1, 600_000)}
HOST = {"launch_delay_ns": {"host_late": 8_000_000}}
CONTENTION = {"overlap_contention": 2.0}
FAULTS = {"clock", "padding", "straggler", "idle", "contention", "slow_gpu"}

place = pytest.mark.parametrize("place", PLACES, ids=["MI300X FSDP1", "H100 FSDP2"])


def found(place, **injected):
    return findings(simulated_trace(Injections(**injected), **place))


def first(frame, kind):
    """Return the first finding, which must be the only fault."""
    assert frame["kind"].iloc[0] == kind
    assert set(frame["kind"]) & FAULTS == {kind}
    return frame.iloc[0]


def per_gpu_ms(ns):
    """Spread a loss of the whole run over its GPUs and iterations."""
    return ns * 1e-6 / (SMALL["ranks"] * SMALL["iterations"])


def wall_ms(injections, place):
    """Return how long an iteration really took."""
    truth = truth_of(simulated_run(injections, **place))
    ends = (truth["start_ns"] + truth["dur_ns"]).groupby(truth["rank"]).max()
    begins = truth["start_ns"].groupby(truth["rank"]).min()
    return float((ends - begins).mean()) * 1e-6 / SMALL["iterations"]


@place
def test_nothing_injected_nothing_found(place):
    assert set(found(place)["kind"]) & FAULTS == set()


@place
def test_noise_and_wrong_clocks_are_no_faults(place):
    assert set(found(place, noise=0.03, clock_offset_ns={1: 300_000})["kind"]) & FAULTS == set()


@place
def test_a_clock_lost_by_one_gpu_in_one_iteration(place):
    row = first(found(place, **CLOCK), "clock")
    iterations = truth_of(simulated_run(Injections(**CLOCK), **place))["iteration"].unique()
    iteration = sorted(iterations)[1]
    assert row["selection"] == [["gpu", 1], ["iteration", iteration]]
    longer = wall_ms(Injections(**CLOCK), place) - wall_ms(Injections(), place)
    assert row["cost_ms"] == pytest.approx(longer, rel=0.2)
    assert row["cost_low_ms"] < row["cost_ms"] < row["cost_high_ms"]


@place
def test_padding(place):
    row = first(found(place, **PADDING), "padding")
    truth = truth_of(simulated_run(Injections(**PADDING), **place))
    padded = truth[(truth["op"] == "mlp.down_proj") & (truth["kind"] == "compute")]
    expected = per_gpu_ms(float(padded["dur_ns"].sum()) * (1 - 1 / 1.3))
    assert row["cost_ms"] == pytest.approx(expected, rel=0.01)
    assert row["selection"] == [["op", "mlp.down_proj"]]
    assert "1.30 times" in row["title"]


@place
def test_a_straggler(place):
    row = first(found(place, **STRAGGLER), "straggler")
    assert row["selection"] == [["gpu", 1]]
    assert "although launched" in row["title"]


@place
def test_a_late_host(place):
    row = first(found(place, **HOST), "idle")
    assert row["cost_ms"] == pytest.approx(8, rel=0.02)
    assert row["title"].startswith("Host late")
    assert ["phase", "forward"] in row["selection"]


@place
def test_contention(place):
    row = first(found(place, **CONTENTION), "contention")
    truth = truth_of(simulated_run(Injections(**CONTENTION), **place))
    computes = truth[truth["kind"] == "compute"]
    lost = float((computes["dur_ns"] * (1 - 1 / computes["overlap"])).sum())
    assert 0.6 * per_gpu_ms(lost) < row["cost_ms"] < 1.05 * per_gpu_ms(lost)
    assert row["cost_low_ms"] < row["cost_ms"] < row["cost_high_ms"]


@pytest.mark.parametrize(
    ("injected", "order"),
    [
        (CLOCK | PADDING, ["clock", "padding"]),
        (STRAGGLER | HOST, ["idle", "straggler"]),
        (CONTENTION | PADDING, ["padding", "contention"]),
        (CLOCK | STRAGGLER, ["clock", "straggler"]),
    ],
)
def test_two_faults_are_told_apart_and_put_in_order(injected, order):
    frame = found(PLACES[0], **injected)
    assert [kind for kind in frame["kind"] if kind in FAULTS] == order
    assert frame["cost_ms"].is_monotonic_decreasing


@place
def test_a_loss_is_counted_once(place):
    injected = CLOCK | PADDING | HOST
    frame = found(place, **injected)
    faults = frame[frame["kind"].isin(FAULTS)]
    assert set(faults["kind"]) == {"clock", "padding", "idle"}
    longer = wall_ms(Injections(**injected), place) - wall_ms(Injections(), place)
    assert faults["cost_ms"].sum() == pytest.approx(longer, rel=0.15)

"""Telemetry of a simulated run shows what its GPUs and hosts did."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from simulated_runs import facts_of, simulated_run, simulated_trace, truth_of

from chopper_jupyter.core.run_folder import TELEMETRY_COLUMNS, telemetry_files
from chopper_jupyter.simulate import Injections

BASE_NS = 1_750_000_000_000_000_000


def samples(metric, injections=None, **options) -> pd.DataFrame:
    run = simulated_run(injections, **options)
    parts = [pq.read_table(path).to_pandas() for *_, path in telemetry_files(run)]
    table = pd.concat(parts)
    return table[table["metric"] == metric].sort_values("wall_ns")


def window(truth, rank, iteration=None) -> tuple[int, int]:
    rows = truth[truth["rank"] == rank]
    rows = rows if iteration is None else rows[rows["iteration"] == iteration]
    return int(rows["start_ns"].min()), int((rows["start_ns"] + rows["dur_ns"]).max())


def test_files_are_those_of_the_sampler_and_say_that_they_are_simulated():
    found = telemetry_files(simulated_run())
    assert {(host, source) for host, source, *_ in found} == {
        ("simulated-0", "amdsmi"), ("simulated-0", "psutil"),
    }  # fmt: skip
    for host, source, _, path in found:
        schema = pq.read_schema(path)
        assert tuple(schema.names) == TELEMETRY_COLUMNS
        facts = json.loads(schema.metadata[b"chopper"])
        assert facts["simulated"] is True
        assert (facts["host"], facts["source"]) == (host, source)
        assert len(facts["devices"]) == (2 if source == "amdsmi" else 0)


def test_both_clocks_of_a_sample_run_alike():
    table = samples("power_w")
    apart = (table["wall_ns"] - table["monotonic_ns"]).to_numpy()
    assert (apart == apart[0]).all()
    assert len(apart) > 20


@pytest.mark.parametrize("version", [1, 2])
def test_the_clock_is_that_of_the_iteration(version):
    run = simulated_run(version=version)
    truth, facts = truth_of(run), facts_of(run)
    table = samples("gpu_clock_mhz", version=version)
    for rank in range(2):
        for i, iteration in enumerate(sorted(truth["iteration"].unique())):
            begin, end = window(truth, rank, iteration)
            at = table["wall_ns"] - BASE_NS
            rows = table[(table["device"] == rank) & (at >= begin) & (at < end)]
            assert len(rows) > 5
            assert rows["value"].mean() == pytest.approx(facts["clock_mhz"][rank][i], abs=2)


def test_a_lost_clock_shows_in_one_gpu_and_iteration():
    first = int(truth_of(simulated_run())["iteration"].min())
    lost = Injections(clock_loss={(1, 1): 0.7})
    trace = simulated_trace(lost)
    truth = truth_of(simulated_run(lost))
    slow = truth[(truth["rank"] == 1) & (truth["iteration"] == first + 1)]
    assert trace.telemetry.num_rows > 0
    table = samples("gpu_clock_mhz", lost)
    begin, end = window(truth, 1, first + 1)
    at = table["wall_ns"] - BASE_NS
    inside = (at >= begin) & (at < end)
    means = [table[inside & (table["device"] == d)]["value"].mean() for d in range(2)]
    assert means[1] / means[0] == pytest.approx(0.7, rel=0.02)
    assert slow[slow["useful_flops"] > 0]["frequency"].min() > 1.6


def test_version_2_holds_a_higher_and_steadier_clock_at_equal_power():
    rows = {}
    for version in (1, 2):
        truth = truth_of(simulated_run(version=version, iterations=6))
        begin, end = window(truth, 0)
        found = {}
        for metric in ("gpu_clock_mhz", "power_w"):
            table = samples(metric, version=version, iterations=6)
            at = table["wall_ns"] - BASE_NS
            found[metric] = table[(at > begin + 2e7) & (at < end)]["value"]
        rows[version] = found
    one, two = rows[1], rows[2]
    assert 1.15 < two["gpu_clock_mhz"].mean() / one["gpu_clock_mhz"].mean() < 1.35
    assert two["gpu_clock_mhz"].std() < one["gpu_clock_mhz"].std()
    assert two["power_w"].mean() == pytest.approx(one["power_w"].mean(), rel=0.03)


def test_memory_of_version_1_jumps():
    steps = {
        v: samples("memory_used_bytes", version=v, layers=2)["value"].diff().abs().max()
        for v in (1, 2)
    }
    assert steps[1] > 2 * steps[2]


def test_energy_is_what_power_adds_up_to():
    for _, rows in samples("energy_j").groupby("device"):
        power = samples("power_w")
        power = power[power["device"] == rows["device"].iloc[0]]["value"].to_numpy()
        seconds = np.diff(rows["monotonic_ns"]) * 1e-9
        drawn = rows["value"].iloc[-1] - rows["value"].iloc[0]
        assert drawn == pytest.approx((power[1:] * seconds).sum(), rel=0.01)
        assert (np.diff(rows["value"]) >= 0).all()


def test_a_gpu_that_rests_draws_little():
    truth = truth_of(simulated_run())
    begin, end = window(truth, 0)
    table = samples("power_w")
    at = table["wall_ns"] - BASE_NS
    assert table[at < begin - 1e7]["value"].max() < 200
    assert table[(at > begin + 3e7) & (at < end)]["value"].median() > 600


def test_cores_are_within_bounds_and_siblings_are_known():
    used = samples("cpu_utilization_ratio")
    assert used["value"].between(0, 1).all()
    assert set(used["core"]) == set(range(384))
    physical = samples("physical_core").set_index("core")["value"]
    assert physical[5] == physical[197] == 5


def test_samples_follow_the_clock_of_their_host():
    shifted = Injections(clock_offset_ns={0: 70_000_000, 1: 70_000_000})
    plain, moved = samples("power_w"), samples("power_w", shifted)
    assert ((moved["wall_ns"].to_numpy() - plain["wall_ns"].to_numpy()) == 70_000_000).all()


def test_readers_place_samples_and_know_that_they_are_simulated():
    trace = simulated_trace(ranks=4, hosts=2)
    table = trace.telemetry.to_pandas()
    gpus = table[table["metric"] == "gpu_clock_mhz"]
    assert sorted(gpus["gpu"].unique()) == [0, 1, 2, 3]
    assert set(table["host"]) == {"simulated-0", "simulated-1"}
    assert trace.info.simulated

import numpy as np
import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from sampled_traces import sample, steady, with_samples
from timed_traces import by_key, timed_rows, timed_trace

from chopper_jupyter import frequency
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.samples import running, samples
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.errors import MissingDataError


def test_the_clock_of_each_gpu_is_averaged_over_its_iterations():
    rows = [
        sample("gpu_clock_mhz", t, 1500 + 10 * gpu + (t // 100) % 2, gpu=gpu)
        for gpu in (0, 1)
        for t in range(-500, 4000, 100)  # before and after the iterations as well
    ]
    frame = frequency(with_samples(steady(gpus=2), rows))
    assert frame["gpu"].tolist() == [0, 1]
    assert frame["samples"].tolist() == [31, 31]  # both borders
    assert frame["gpu_clock_mhz"].tolist() == pytest.approx([1500.5, 1510.5], abs=0.1)
    assert frame.attrs["refresh_ms"] == {"gpu_clock_mhz": pytest.approx(1e-4)}
    assert frame.attrs["units"]["gpu_clock_mhz_std"] == "MHz"


def test_a_sample_is_of_the_kernel_that_ran():
    clock = {"mm": 1400, "norm": 2000}
    rows = []
    for i in range(3):
        rows += [
            sample("gpu_clock_mhz", 1000 * i + t, clock["mm"] + t % 3, gpu=0) for t in (1, 101, 301)
        ]
        rows += [sample("gpu_clock_mhz", 1000 * i + 650, 100, gpu=0)]  # idle: nobody's
        rows += [sample("gpu_clock_mhz", 1000 * i + 800, clock["norm"], gpu=0)]
    found = by_key(frequency(with_samples(steady(), rows), "op"), ("op",))
    assert found[("norm",)]["gpu_clock_mhz"] == 2000
    assert found[("mm",)]["gpu_clock_mhz_max"] < 1410
    assert found[("mm",)]["samples"] == 9


def test_repeated_readings_do_not_count_as_fresh():
    rows = [sample("power_w", t, 300 + 50 * (t // 500), gpu=0) for t in range(0, 3000, 10)]
    trace = with_samples(steady(), rows)
    found = samples(trace, "power_w")
    assert found.refresh_ns == {0: 500}
    assert found.fresh.sum() == 6
    row = frequency(trace).iloc[0]
    assert (row["samples"], row["fresh_samples"]) == (300, 6)


def test_a_constant_sensor_has_a_mean_but_no_refresh_interval():
    rows = [sample("power_w", t, 300, gpu=0) for t in range(0, 3000, 10)]
    frame = frequency(with_samples(steady(), rows), "iteration")
    assert frame.attrs["refresh_ms"] == {"power_w": None}
    assert frame["power_w"].tolist() == [300, 300, 300]


def test_over_time_there_is_a_row_per_sample():
    rows = [sample("gpu_clock_mhz", t, t, gpu=0) for t in (5, 10)]
    rows += [sample("power_w", 10, 7, gpu=0)]
    frame = frequency(with_samples(steady(), rows), "time")
    assert frame["time_ns"].tolist() == [5, 10]
    assert frame["power_w"].isna().tolist() == [True, False]


def test_no_samples_is_said():
    with pytest.raises(MissingDataError, match="telemetry"):
        frequency(steady())
    with pytest.raises(MissingDataError, match="GPU"):
        frequency(with_samples(trace_of([{}], device_kind="cpu"), [sample("power_w", 1, 1, gpu=0)]))


@given(timed_rows(), st.lists(st.integers(-5, 90), max_size=20))
def test_what_ran_at_a_time_equals_brute_force(rows, times):
    trace = timed_trace(rows)
    line = timeline(trace, included(trace, "all"), "this")
    gpu = np.array([t % 2 for t in times], np.int64)
    found = running(line, gpu, np.array(times, np.int64))
    names = line.ints("kernel_id")
    for g, t, place in zip(gpu, times, found, strict=True):
        there = [
            r for r in rows if r["gpu"] == g and r["start_ns"] <= t < r["start_ns"] + r["dur_ns"]
        ]
        compute = [r for r in there if r["kind"] == "compute"]
        if not there:
            assert place == -1
            continue
        kept = {r["kernel_id"] for r in (compute or there)}
        assert names[place] in kept

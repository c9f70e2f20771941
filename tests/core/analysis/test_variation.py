import statistics

import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from timed_traces import by_key, covered, grouped, timed_rows, timed_trace, with_measures

from chopper_jupyter import variation
from chopper_jupyter.core.errors import SchemaError

LEVELS = st.lists(st.sampled_from(("phase", "layer", "op", "kernel")), unique=True, max_size=3)


def slow_samples(rows, everything, *, whole: bool):
    """Kernel time by (GPU, iteration) of some rows; absent ones are 0."""
    iterations = sorted({r["iteration"] for r in everything} - {None})
    if whole and (not iterations or any(r["iteration"] is None for r in everything)):
        iterations.append(None)
    gpus = sorted({r["gpu"] for r in everything})
    return {
        (gpu, iteration): sum(
            r["dur_ns"] for r in rows if r["gpu"] == gpu and r["iteration"] == iteration
        )
        for gpu in gpus
        for iteration in iterations
    }


@given(timed_rows(smallest=1), LEVELS, st.sampled_from(("measured", "all")), st.integers(0, 2))
def test_variation_equals_brute_force(rows, by, include, warmup):
    frame = variation(timed_trace(rows, warmup=warmup), by, include=include)
    kept = covered(rows, include, warmup)
    found = by_key(frame, by)
    groups = grouped(kept, by)
    assert set(found) == set(groups)
    for key, mine in groups.items():
        samples = slow_samples(mine, kept, whole=True)
        row = found[key]
        assert row["samples"] == len(samples)
        assert row["median_ms"] == pytest.approx(statistics.median(samples.values()) * 1e-6)
        assert row["min_ms"] == pytest.approx(min(samples.values()) * 1e-6)
        assert row["max_ms"] == pytest.approx(max(samples.values()) * 1e-6)
        of_gpu = {
            gpu: statistics.median(v for (g, _), v in samples.items() if g == gpu)
            for gpu, _ in samples
        }
        slowest = row["slowest_gpu"]
        if max(of_gpu.values()) == min(of_gpu.values()):
            assert slowest is None
        else:
            assert of_gpu[slowest] == max(of_gpu.values())


def test_equal_medians_are_equal_to_the_nanosecond():
    times = [(0, 1, 6), (0, 2, 0), (1, 1, 5), (1, 2, 1)]  # both medians are 3
    rows = [
        {"gpu": gpu, "iteration": iteration, "start_ns": 10 * i, "dur_ns": dur}
        | {"kernel_id": i, "kind": "compute", "name": "one"}
        for i, (gpu, iteration, dur) in enumerate(times)
    ]
    (row,) = by_key(variation(timed_trace(with_measures(rows))), []).values()
    assert (row["slowest_gpu"], row["fastest_gpu"], row["gpu_spread_percent"]) == (None, None, 0)


def test_a_slow_gpu_and_a_slow_iteration_are_named():
    rows = [
        {"gpu": g, "iteration": i, "op": "mm", "start_ns": 1000 * i, "dur_ns": 100 + 50 * (g == 2)}
        for g in range(4)
        for i in range(5)
    ]
    rows[7]["dur_ns"] = 900  # GPU 1, iteration 2
    row = variation(trace_of(rows), "op").iloc[0]
    assert (row["slowest_gpu"], row["samples"]) == (2, 20)
    assert row["outliers"] >= 1
    assert row["gpu_spread_percent"] == pytest.approx(50)
    assert row["max_ms"] == pytest.approx(900e-6)


def test_the_varying_levels_cannot_be_kept_apart():
    with pytest.raises(SchemaError, match="over gpu and iteration"):
        variation(trace_of([{}]), ["gpu", "op"])

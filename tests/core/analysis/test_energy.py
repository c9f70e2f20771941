import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from sampled_traces import sample, steady, with_samples
from timed_traces import by_key, timed_rows, timed_trace

from chopper_jupyter import energy
from chopper_jupyter.core.errors import MissingDataError


def meter(power, until=3000, step=100, gpus=1):
    """Readings of a counter: ``power`` in watts at each time in ns."""
    rows = []
    for gpu in range(gpus):
        drawn = 0.0
        for t in range(-200, until + 200, step):
            rows.append(sample("energy_j", t, drawn, gpu=gpu))
            drawn += power(t) * step * 1e-9
    return rows


def test_energy_goes_to_what_ran():
    trace = with_samples(steady(), meter(lambda t: 700 if t % 1000 < 600 else 200))
    frame = energy(trace, "op")
    found = by_key(frame, ("op",))
    assert found[("mm",)]["energy_j"] == pytest.approx(700 * 600e-9)
    assert found[("norm",)]["energy_j"] == pytest.approx(200 * 400e-9)  # with the gap it ended
    assert found[("mm",)]["power_w"] == pytest.approx(700)
    assert frame["share_percent"].sum() == pytest.approx(100)
    assert frame.attrs["method"] == "energy counter"


def test_energy_is_per_iteration_gpu_and_token():
    trace = with_samples(steady(gpus=2, tokens_per_iteration=100), meter(lambda _: 500, gpus=2))
    row = energy(trace).iloc[0]
    assert row["energy_j"] == pytest.approx(500 * 1000e-9)
    assert row["token_mj"] == pytest.approx(500 * 1000e-9 * 1e3 / 50)
    assert row["metered_percent"] == pytest.approx(100)


def test_power_is_integrated_where_there_is_no_counter():
    rows = [sample("power_w", t, 400, gpu=0) for t in range(-200, 3400, 100)]
    frame = energy(with_samples(steady(), rows))
    assert frame.attrs["method"] == "power integrated"
    assert frame["energy_j"].tolist() == pytest.approx([400 * 1000e-9])


def test_what_was_not_metered_is_said():
    rows = [r for r in meter(lambda _: 500) if r["time_ns"] <= 1500]
    row = energy(with_samples(steady(), rows)).iloc[0]
    assert row["power_w"] == pytest.approx(500)
    assert 30 < row["metered_percent"] < 60


def test_a_counter_that_restarts_counts_on():
    rows = meter(lambda _: 500)
    restart = rows[10]["value"]
    for row in rows[10:]:
        row["value"] -= restart
    row = energy(with_samples(steady(), rows)).iloc[0]
    assert row["power_w"] == pytest.approx(500, rel=0.1)  # one step is lost


@given(timed_rows(smallest=1), st.sampled_from(("op", "phase", "kernel")))
def test_parts_add_up(rows, by):
    trace = with_samples(timed_trace(rows), meter(lambda t: 100 + t % 7, until=100, step=1, gpus=2))
    whole, parts = energy(trace, include="all"), energy(trace, by, include="all")
    assert parts["energy_j"].sum() == pytest.approx(whole["energy_j"].sum())


def test_no_samples_is_said():
    with pytest.raises(MissingDataError, match="energy or power"):
        energy(trace_of([{}]))

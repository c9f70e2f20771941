import pytest
from sampled_traces import sample, steady, with_samples

from chopper_jupyter import cpu_utilization
from chopper_jupyter.core.errors import MissingDataError, SchemaError


def cores(time, used, host=None):
    return [
        sample("cpu_utilization_ratio", time, value, core=core, host=host)
        for core, value in enumerate(used)
    ]


MAP = [sample("physical_core", 0, core % 2, core=core) for core in range(4)]


def test_active_and_least_cores():
    rows = cores(500, (1, 0.5, 0, 0)) + cores(1500, (1, 1, 1, 0.25))
    frame = cpu_utilization(with_samples(steady(), rows + MAP))
    assert frame["active_cores"].tolist() == [2, 4]
    assert frame["min_cores"].tolist() == [1.5, 3.25]
    assert frame["physical_active_cores"].tolist() == [2, 2]
    assert frame["smt_cores"].tolist() == [0, 2]
    assert frame["used_percent"].tolist() == [37.5, 81.25]
    assert frame.attrs["cores"] == 4
    assert frame.attrs["period_ms"] == pytest.approx(1e-3)


def test_a_threshold_and_no_map():
    frame = cpu_utilization(with_samples(steady(), cores(500, (1, 0.5, 0.1, 0))), threshold=0.3)
    assert frame["active_cores"].tolist() == [2]
    assert frame["smt_cores"].isna().all()


def test_means_by_iteration_and_over_all():
    rows = cores(200, (1, 0)) + cores(400, (1, 1)) + cores(1500, (0, 0)) + cores(9999, (1, 1))
    trace = with_samples(steady(), rows)
    by_iteration = cpu_utilization(trace, "iteration")
    assert by_iteration["iteration"].tolist() == [0, 1]
    assert by_iteration["active_cores"].tolist() == [1.5, 0]
    assert by_iteration["samples"].tolist() == [2, 1]
    assert cpu_utilization(trace, None)["active_cores"].tolist() == [1]


def test_hosts_are_kept_apart():
    rows = cores(500, (1, 1), "a") + cores(500, (1, 0), "b")
    frame = cpu_utilization(with_samples(steady(), rows), ["host"])
    assert dict(zip(frame["host"], frame["active_cores"], strict=True)) == {"a": 2, "b": 1}


def test_errors():
    with pytest.raises(MissingDataError, match="processor cores"):
        cpu_utilization(steady())
    with pytest.raises(SchemaError, match="did you mean"):
        cpu_utilization(with_samples(steady(), cores(1, (1,))), "iterations")

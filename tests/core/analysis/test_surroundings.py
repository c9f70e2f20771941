"""Clocks of ranks and use of processors, in words."""

import pyarrow as pa
import pytest
from builders import trace_of

from chopper_jupyter.core.analysis.headline import headline
from chopper_jupyter.core.analysis.surroundings import clocks_text, cores_text
from chopper_jupyter.core.schema import conform
from chopper_jupyter.core.trace import altered

ROWS = [{"gpu": gpu, "iteration": 0, "dur_ns": 9, "start_ns": 0} for gpu in (0, 1)]


def with_clocks(offsets, uncertainties):
    trace = trace_of(ROWS)
    gpus = trace.gpus.to_pylist()
    for row, offset, uncertainty in zip(gpus, offsets, uncertainties, strict=True):
        row |= {"offset_ns": offset, "offset_uncertainty_ns": uncertainty}
    return altered(trace, gpus=conform("gpus", pa.Table.from_pylist(gpus)))


@pytest.mark.parametrize(
    ("offsets", "uncertainties", "text"),
    [
        ((0, 0), (0, 0), "one for all ranks, offset 0"),
        ((0, -1_240_000), (0, 5_000), "offset up to 1.24 ms ± 5.00 µs, corrected"),
        ((0, 0), (0, 7_000), "offset 0 ± 7.00 µs"),
        ((0, 0), (0, None), "not compared: ranks share too few collectives"),
    ],
)
def test_clocks_are_told_with_their_uncertainty(offsets, uncertainties, text):
    trace = with_clocks(offsets, uncertainties)
    assert clocks_text(trace) == text
    assert dict(headline(trace).facts)["Clocks"] == text


def test_a_single_gpu_has_no_clock_to_compare():
    assert clocks_text(trace_of(ROWS[:1])) == ""
    assert "Clocks" not in dict(headline(trace_of(ROWS[:1])).facts)


def test_busy_cores_are_told_where_they_were_sampled():
    samples = [
        {"source": "psutil", "host": "a", "core": core, "time_ns": time,
         "metric": "cpu_utilization_ratio", "value": value}
        for time in (0, 5) for core, value in ((0, 1.0), (1, 0.5), (2, 0.0), (3, 0.0))
    ]  # fmt: skip
    trace = altered(trace_of(ROWS), telemetry=conform("telemetry", pa.Table.from_pylist(samples)))
    assert cores_text(trace) == "1.5 of 4 cores busy (37.5 %)"
    assert dict(headline(trace).facts)["Processors"] == "1.5 of 4 cores busy (37.5 %)"
    assert cores_text(trace_of(ROWS)) == ""


def test_ranks_without_gpus_are_called_ranks():
    said = headline(trace_of(ROWS, device_kind="cpu"))
    assert said.title == "trace: CPU operators of 2 ranks, no GPU recorded"
    assert "on the slowest rank" in dict(said.facts)["Iteration"]

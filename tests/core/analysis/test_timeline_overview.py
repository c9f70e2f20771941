"""The minimap, tracks, details of a kernel and parts of wall time, by small examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from builders import kernels, llama_trace, trace_of
from hypothesis import given
from timed_traces import timed_rows, timed_trace

from chopper_jupyter.core.analysis.breakdown import breakdown
from chopper_jupyter.core.analysis.cube import level_codes
from chopper_jupyter.core.analysis.idle_causes import CAUSES, idle_causes
from chopper_jupyter.core.analysis.kernel_details import kernel_details
from chopper_jupyter.core.analysis.parts import part_codes
from chopper_jupyter.core.analysis.timeline_index import timeline_index
from chopper_jupyter.core.analysis.timeline_overview import busy_share, iteration_spans
from chopper_jupyter.core.analysis.timeline_slices import Window
from chopper_jupyter.core.analysis.timeline_tracks import thinned, tracks_of
from chopper_jupyter.core.errors import SchemaError
from chopper_jupyter.core.schema import FAMILIES
from chopper_jupyter.core.trace import Trace


def test_the_minimap_keeps_the_busy_time_of_each_family():
    trace = llama_trace(gpus=2, iterations=2, layers=4)
    shares = busy_share(trace, 50)
    start, end = timeline_index(trace).extent
    time = shares.sum(1) * (end - start) / 50 * 2
    table = trace.kernels
    for family in ("gemm", "optimizer"):
        own = table.filter(pa.compute.equal(table["family"].cast(pa.string()), family))
        assert time[FAMILIES.index(family)] == pytest.approx(sum(own["busy_ns"].to_pylist()))


def test_a_kernel_fills_its_bins():
    shares = busy_share(trace_of([{"start_ns": 0, "dur_ns": 50}, {"start_ns": 90}]), 4)
    assert shares[FAMILIES.index("gemm")].tolist() == [1, 1, 0, 0.4]


def test_iterations_tell_warm_up():
    trace = llama_trace(gpus=2, iterations=3, layers=1)
    trace = replace(trace, info=replace(trace.info, warmup=1))
    spans = iteration_spans(trace, timeline_index(trace))
    assert [(span.number, span.measured) for span in spans] == [(0, False), (1, True), (2, True)]
    assert all(span.start < span.end for span in spans)


def sampled(values):
    rows = [
        {"source": "nvml", "gpu": 1, "time_ns": 10 * i, "metric": "power_w", "value": float(v)}
        for i, v in enumerate(values)
    ]
    other = {"source": "host", "time_ns": 5, "metric": "cpu_power_w", "value": 1.0}
    trace = trace_of([{"gpu": 1, "dur_ns": 1000}])
    telemetry = Trace.from_tables({"telemetry": pa.Table.from_pylist([*rows, other])}).telemetry
    return replace(trace, telemetry=telemetry)


def test_tracks_are_samples_of_gpus_by_time():
    (track,) = tracks_of(sampled([5, 7, 6]))
    assert (track.gpu, track.metric, track.highest) == (1, "power_w", 7.0)
    assert track.value.tolist() == [5, 7, 6]


def test_a_thinned_track_keeps_the_mean_and_reaches_to_both_sides():
    (track,) = tracks_of(sampled(range(100)))
    part = thinned(track, Window([1], 200, 400, 4))
    assert part.time[0] < 200
    assert part.time[-1] >= 390
    assert len(part.time) < 10
    inside = track.value[(track.time >= 200) & (track.time < 300)]
    assert inside.mean() in part.value


@given(trace=timed_rows().map(timed_trace))
def test_parts_add_up_to_the_wall_time(trace):
    codes = part_codes(trace, level_codes(trace, "all"))
    row, causes = breakdown(trace, include="all").iloc[0], idle_causes(trace, include="all").iloc[0]
    totals = codes.totals
    for part in ("compute", "exposed_communication", "memory"):
        assert totals[part] == row[f"{part}_ns"]
    for cause in CAUSES:
        assert totals[cause] == causes[f"{cause}_ns"]
    assert sum(totals.values()) == row["wall_ns"]


def test_parts_without_a_gpu_know_no_causes():
    trace = trace_of([{"idle_ns": 3, "dur_ns": 4}], device_kind="cpu")
    assert part_codes(trace, level_codes(trace)).totals == {
        "compute": 4, "exposed_communication": 0, "memory": 0, "idle": 3,
    }  # fmt: skip


def test_details_lead_to_the_op_its_forward_the_neighbours_and_the_counters():
    ops = [
        {"op_id": 5, "rank": 0, "name": "aten::mm", "start_ns": 1, "dur_ns": 2, "tid": 1,
         "forward_op_id": None},
        {
            "op_id": 6, "rank": 0, "name": "MmBackward", "start_ns": 5, "dur_ns": 2, "tid": 1,
            "forward_op_id": 5,
        },
    ]  # fmt: skip
    rows = [{"start_ns": 10 * i, "op_id": 6} for i in range(3)]
    counters = [
        {"kernel_id": 1, "counter": "c", "value": v, "pass": 0, "matched_by": "unique"}
        for v in (2.0, 4.0)
    ]
    trace = Trace.from_tables({
        "kernels": kernels(rows), "ops": pa.Table.from_pylist(ops),
        "counters": pa.Table.from_pylist(counters),
    })  # fmt: skip
    found = kernel_details(trace, timeline_index(trace), 1)
    assert found.operator["name"] == "MmBackward"
    assert found.forward["name"] == "aten::mm"
    assert (found.before["kernel_id"], found.after["kernel_id"]) == (0, 2)
    assert found.counters == {"c": 3.0}
    assert kernel_details(trace, timeline_index(trace), 0).before is None
    with pytest.raises(SchemaError, match="no kernel has the id 9"):
        kernel_details(trace, timeline_index(trace), 9)


def test_ids_of_the_index_are_those_of_the_trace():
    trace = llama_trace(gpus=2, iterations=1, layers=2)
    index = timeline_index(trace)
    assert np.array_equal(np.sort(index.kernel_id), trace.kernels["kernel_id"].to_numpy())

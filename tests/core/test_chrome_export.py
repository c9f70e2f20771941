import gzip
import json
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from builders import kernels, llama_trace, trace_of
from hypothesis import given
from random_traces import kernel_rows, traces

from chopper_jupyter.core import chrome_export
from chopper_jupyter.core.trace import Trace


@pytest.fixture
def written(tmp_path):
    """Export a trace and return its events, numbers kept as the decimals in the file."""

    def write(trace):
        text = trace.export_chrome(tmp_path / "trace.json").read_text(encoding="ascii")
        return json.loads(text, parse_float=Decimal)["traceEvents"]

    return write


def exported(trace, folder):
    path = trace.export_chrome(folder / "trace.json")
    return json.loads(path.read_text(encoding="ascii"), parse_float=Decimal)["traceEvents"]


def track_names(events):
    return {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}


def slices(events, *, track=None, cat=None):
    names = track_names(events)
    return [
        e for e in events
        if e["ph"] == "X"
        and (track is None or names[e["tid"]] == track)
        and (cat is None or e["cat"] == cat)
    ]  # fmt: skip


def span(event):
    start = int(event["ts"] * 1000)
    return start, start + int(event["dur"] * 1000)


@given(traces())
def test_every_kernel_is_there_with_its_exact_nanoseconds(tmp_path_factory, trace):
    events = exported(trace, tmp_path_factory.getbasetemp())
    found = {e["args"]["kernel_id"]: e for e in slices(events) if e["cat"] != "level"}
    rows = trace.kernels.to_pylist()
    assert len(found) == len(rows)
    for row in rows:
        event = found[row["kernel_id"]]
        assert span(event) == (row["start_ns"], row["start_ns"] + row["dur_ns"])
        assert event["name"] == row["name"]
        for level in ("iteration", "phase", "layer", "op"):
            assert event["args"].get(level) == row[level]


@given(kernel_rows())
def test_slices_of_a_level_never_overlap(tmp_path_factory, rows):
    events = exported(trace_of(rows), tmp_path_factory.getbasetemp())
    by_track = defaultdict(list)
    for event in slices(events, cat="level"):
        by_track[event["pid"], event["tid"]].append(event)
    for track in by_track.values():
        ordered = sorted(map(span, track))
        assert all(a[1] <= b[0] for a, b in pairwise(ordered))


@given(kernel_rows())
def test_a_level_slice_covers_the_start_of_every_kernel_that_carries_it(tmp_path_factory, rows):
    events = exported(trace_of(rows), tmp_path_factory.getbasetemp())
    titles = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    for row in rows:
        if row["kind"] == "collective" or row["op"] is None:
            continue
        mine = [e for e in slices(events, track="op") if e["name"] == row["op"]]
        mine = [span(e) for e in mine if titles[e["pid"]].startswith(f"GPU {row['gpu']} ")]
        assert any(start <= row["start_ns"] <= end for start, end in mine)


@given(kernel_rows())
def test_slices_of_one_stream_track_never_overlap(tmp_path_factory, rows):
    spread = [{**row, "dur_ns": row["dur_ns"] % 20} for row in rows]
    events = exported(trace_of(spread), tmp_path_factory.getbasetemp())
    by_track = defaultdict(list)
    for event in slices(events):
        if event["cat"] != "level":
            by_track[event["tid"]].append(span(event))
    for track in by_track.values():
        ordered = sorted(track)
        assert all(a[1] <= b[0] for a, b in pairwise(ordered))


def test_levels_are_tracks_above_the_streams(written):
    events = written(llama_trace(gpus=2, iterations=2, layers=2))
    first = [name for tid, name in sorted(track_names(events).items()) if tid < 20_000]
    assert first == ["iteration", "phase", "layer", "op", "stream 7", "stream 20"]
    titles = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert titles == [f"GPU {g} · rank {g} · NVIDIA H100 80GB HBM3" for g in range(2)]
    mine = [e for e in events if e["pid"] == 1]
    assert [e["name"] for e in slices(mine, track="iteration")] == ["iteration 0", "iteration 1"]
    assert [e["name"] for e in slices(mine, track="phase")] == [
        "forward", "backward", "optimizer",
    ] * 2  # fmt: skip
    layers = [e["name"] for e in slices(mine, track="layer")]
    assert layers == ["model.layers.0", "model.layers.1"] * 4


def test_a_level_ends_where_an_outer_one_changes(written):
    rows = [
        {"layer": "a", "op": "add", "start_ns": 0},
        {"layer": "b", "op": "add", "start_ns": 20},
        {"layer": None, "op": "add", "start_ns": 40},
    ]
    events = written(trace_of(rows))
    assert [span(e) for e in slices(events, track="op")] == [(0, 10), (20, 30), (40, 50)]
    assert [e["name"] for e in slices(events, track="layer")] == ["a", "b"]


def test_communication_under_compute_does_not_cut_the_level_tracks(written):
    rows = [
        {"layer": "a", "start_ns": 0},
        {"layer": "b", "start_ns": 5, "dur_ns": 40, "kind": "collective", "stream": 9},
        {"layer": "a", "start_ns": 10},
    ]
    (only,) = slices(written(trace_of(rows)), track="layer")
    assert (only["name"], span(only)) == ("a", (0, 20))


def test_names_of_any_kind_survive(written):
    name = "void k<\"x\", 'y'>\n\\ é 😀 \u2028"
    event = slices(written(trace_of([{"name": name, "op": name}])), cat="compute")[0]
    assert event["name"] == name
    assert event["args"]["op"] == name


def test_times_before_the_origin_keep_their_sign(written):
    event = slices(written(trace_of([{"start_ns": -1_500, "dur_ns": 7}])), cat="compute")[0]
    assert (event["ts"], event["dur"]) == (Decimal("-1.500"), Decimal("0.007"))


def test_arguments_are_what_is_known(written):
    row = {"grid": "8,1,1", "launch_ns": 5, "launch_kind": "graph", "recompute": True, "op_id": 3}
    args = slices(written(trace_of([row])), cat="compute")[0]["args"]
    assert args["grid"] == "8,1,1"
    assert args["launch_ns"] == 5
    assert args["launch_kind"] == "graph"
    assert args["recompute"] is True
    assert "phase" not in args
    assert "micro_batch" not in args


def test_host_ranges_nest_in_their_thread(written):
    ops = pa.Table.from_pylist(
        [
            {"op_id": 0, "rank": 0, "name": "aten::linear", "start_ns": 10, "dur_ns": 50, "tid": 1},
            {"op_id": 1, "rank": 0, "name": "aten::mm", "start_ns": 10, "dur_ns": 20, "tid": 1},
            {"op_id": 2, "rank": 1, "name": "aten::add", "start_ns": 5, "dur_ns": 20, "tid": 8},
        ]
    )
    spans = pa.Table.from_pylist(
        [
            {"span_id": i, "rank": 0, "kind": k, "name": k, "tid": 1, "start_ns": 0, "dur_ns": 99}
            for i, k in enumerate(("module", "phase"))
        ]
    )  # fmt: skip
    trace = Trace.from_tables({"ops": ops, "spans": spans, "kernels": kernels([{}])})
    events = written(trace)
    titles = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(titles.values()) == ["GPU 0", "CPU · rank 0", "CPU · rank 1"]
    first = [e["name"] for e in slices(events, track="thread 1")]
    assert first == ["module", "aten::linear", "aten::mm"]
    assert [e["name"] for e in slices(events, track="thread 8")] == ["aten::add"]


def test_a_cpu_recording_has_threads_and_no_gpu(written):
    events = written(trace_of([{"stream": 3}], device_kind="cpu"))
    assert "thread 3" in track_names(events).values()
    assert events[0]["args"]["name"] == "CPU operators · rank 0"


def test_compressed_is_the_same_and_always_the_same_bytes(tmp_path):
    trace = llama_trace(gpus=1, iterations=1, layers=1)
    plain = trace.export_chrome(tmp_path / "a.json").read_bytes()
    packed = trace.export_chrome(tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress(packed) == plain
    assert trace.export_chrome(tmp_path / "c.json.gz").read_bytes() == packed


def test_many_chunks_are_the_same_file(tmp_path, monkeypatch):
    trace = llama_trace(gpus=1, iterations=1, layers=2)
    whole = trace.export_chrome(tmp_path / "a.json").read_bytes()
    monkeypatch.setattr(chrome_export, "_CHUNK", 3)
    assert trace.export_chrome(tmp_path / "b.json").read_bytes() == whole


def test_an_empty_trace_is_an_empty_file_of_the_format(written):
    assert written(Trace.from_tables({})) == []


def test_a_failed_export_leaves_what_was_there(tmp_path, monkeypatch):
    path = trace_of([{}]).export_chrome(tmp_path / "a.json")
    before = path.read_bytes()

    def fail(*_):
        message = "disk full"
        raise OSError(message)

    monkeypatch.setattr(chrome_export, "_arguments", fail)
    with pytest.raises(OSError, match="disk full"):
        trace_of([{}, {}]).export_chrome(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]

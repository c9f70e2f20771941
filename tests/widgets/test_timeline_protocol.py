"""Windows, kernels and parts asked over the protocol; filters, size and comparison in Python."""

import json

import pytest
from builders import llama_trace, trace_of

from chopper_jupyter.core.errors import SchemaError
from chopper_jupyter.widgets.explorer import Explorer
from chopper_jupyter.widgets.extra_cubes import UNMATCHED
from chopper_jupyter.widgets.packing import packed_size
from chopper_jupyter.widgets.payload import payload_of
from chopper_jupyter.widgets.protocol import reply_to
from chopper_jupyter.widgets.sources import Sources
from chopper_jupyter.widgets.timeline_data import embedded_timeline


@pytest.fixture(scope="module")
def sources():
    return Sources(llama_trace(gpus=2, iterations=2, layers=3))


def ask(sources, kind, **message):
    return reply_to({"kind": kind, "id": 7, **message}, sources)


def window(sources, **changes):
    start, end = sources.timeline.index.extent
    asked = {"gpus": [0], "from": start, "to": end, "width": 10_000, "filters": []}
    return ask(sources, "timeline", **(asked | changes))


def test_a_window_is_answered_with_plain_columns(sources):
    picture = window(sources)["timeline"]
    json.dumps(picture)
    columns = picture["slices"]
    assert len({len(column) for column in columns.values()}) == 1
    of_gpu = sources.trace.kernels["gpu"].to_pylist().count(0)
    assert sum(columns["count"]) == of_gpu
    assert {lane["gpu"] for lane in picture["lanes"]} == {0}
    first = min(sources.trace.kernels["start_ns"].to_pylist())
    assert columns["start"][0] >= first


def test_a_selection_is_marked(sources):
    op = sources.codes.keys["op"].values.index("clip")
    marks = window(sources, filters=[["op", op]])["timeline"]["slices"]["matching"]
    assert sum(marks) == 2  # one per iteration
    assert "matching" not in window(sources)["timeline"]["slices"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpus": [5]}, "has the GPUs [0, 1]"),
        ({"gpus": []}, "has the GPUs [0, 1]"),
        ({"gpus": "all"}, "has the GPUs [0, 1]"),
        ({"from": 5, "to": 5}, "a later to"),
        ({"width": 0}, "a width"),
        ({"from": 0.5}, "whole numbers"),
        ({"filters": [["op", 99]]}, "codes -1 to"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(sources, changes, said):
    reply = window(sources, **changes)
    assert reply["kind"] == "failure"
    assert said in reply["message"]


def test_a_kernel_is_described_in_words(sources):
    details = ask(sources, "kernel", kernel=3)["details"]
    json.dumps(details)
    rows = dict(details["rows"])
    assert rows["Phase"] == "forward"
    assert rows["Launch"] == "not recorded"
    assert details["after"]["id"] == 4
    assert ask(sources, "kernel", kernel=10**9)["message"] == "no kernel has the id 1000000000"
    assert ask(sources, "kernel", kernel="3")["kind"] == "failure"


def test_parts_are_sums_of_their_own(sources):
    cube = ask(sources, "query", levels=[], filters=[], of="parts")["cube"]
    total = sum(values[0] for values in cube["measures"].values())
    assert total == sources.codes.totals["busy_ns"] + sources.codes.totals["idle_ns"]
    assert ask(sources, "query", levels=[], filters=[], of="x")["kind"] == "failure"


def test_a_page_embeds_as_fine_a_timeline_as_fits(sources):
    whole = embedded_timeline(sources.timeline, 100_000)
    assert len(whole["embedded"]) == 2
    assert packed_size(embedded_timeline(sources.timeline, 6_000)) <= 6_000
    assert embedded_timeline(sources.timeline, 10) is None


def test_a_comparison_lists_what_is_unmatched_on_both_sides():
    here = [{"op": "a", "phase": "forward", "dur_ns": 5}, {"op": "b", "dur_ns": 3}]
    there = [{"op": "a", "phase": "forward", "dur_ns": 8}, {"op": "c", "dur_ns": 2}]
    found = payload_of(Sources(trace_of(here), trace_of(there)), merge=False)
    compare = found["compare"]
    assert [row["label"] for row in compare["only_here"]["rows"]] == ["none · none · b"]
    assert [row["label"] for row in compare["only_there"]["rows"]] == ["none · none · c"]
    assert {"change", "difference"} <= {metric["name"] for metric in found["metrics"]}
    (cube,) = [c for c in compare["cubes"] if set(c["levels"]) == {"phase", "op", "layer"}]
    assert sum(cube["measures"]["time_ns"]) == 10
    assert UNMATCHED in cube["codes"][cube["levels"].index("op")]


def test_filters_restrict_everything_and_can_be_taken_back():
    trace = llama_trace(gpus=2, iterations=2, layers=2)
    explorer = Explorer(trace)
    explorer.selection = {"phase": "forward"}
    explorer.filters = {"gpu": 1}
    assert set(explorer.selected_kernels()["gpu"]) == {1}
    assert explorer.selection == [("phase", "forward")]
    assert "GPU 0" not in explorer.to_html()
    explorer.filters = None
    assert explorer.filters == {}
    assert set(explorer.selected_kernels()["gpu"]) == {0, 1}
    with pytest.raises(SchemaError, match="no level named 'gpus'"):
        explorer.filters = {"gpus": 1}


def test_the_size_is_a_measure_of_the_trace():
    explorer = Explorer(llama_trace(gpus=1, iterations=1, layers=1))
    explorer.size = "busy_ns"
    assert explorer.size == "busy_ns"
    with pytest.raises(SchemaError, match="flops"):
        explorer.size = "flops"


def test_a_window_asked_for_again_is_marked_anew():
    trace = llama_trace(gpus=2, iterations=2, layers=2)
    asked, once = Sources(trace), {}
    for filters in ([["op", 0]], [["op", 1], ["phase", 0]], [], [["op", 0]]):
        data = asked.timeline
        start, end = data.index.extent
        message = {"kind": "timeline", "id": 1, "gpus": [0, 1], "from": start, "to": end,
                   "width": 60, "filters": filters}  # fmt: skip
        reply = reply_to(message, asked)
        assert reply == reply_to(message, Sources(trace))
        once[str(filters)] = reply["timeline"]["slices"].get("matching")
    assert once["[]"] is None
    assert once["[['op', 0]]"] != once["[['op', 1], ['phase', 0]]"]

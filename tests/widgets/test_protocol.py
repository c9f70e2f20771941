import json
import logging

import pytest
from builders import llama_trace

from chopper_jupyter.core.schema import LEVELS
from chopper_jupyter.widgets import protocol
from chopper_jupyter.widgets.protocol import reply_to
from chopper_jupyter.widgets.sources import Sources


@pytest.fixture(scope="module")
def sources():
    return Sources(llama_trace(gpus=2, iterations=2, layers=3))


def ask(sources, **query):
    return reply_to({"kind": "query", "id": 7, **query}, sources)


def test_a_query_is_answered_with_sums_of_what_passes_the_filters(sources):
    reply = ask(sources, levels=["layer"], filters=[["phase", 0], ["gpu", 1]])
    assert (reply["kind"], reply["id"]) == ("answer", 7)
    cube = reply["cube"]
    assert cube["levels"] == ["layer"]
    assert cube["codes"] == [[0, 1, 2]]
    assert cube["coarse"] is None
    phase, gpu = sources.codes.keys["phase"].codes == 0, sources.codes.keys["gpu"].codes == 1
    assert sum(cube["measures"]["time_ns"]) == sources.codes.measures["time_ns"][phase & gpu].sum()
    json.dumps(reply)  # plain data that a comm can carry


def test_no_levels_give_one_row_of_totals(sources):
    cube = ask(sources, levels=[])["cube"]
    assert {name: values[0] for name, values in cube["measures"].items()} == sources.codes.totals


def test_null_is_a_code_of_its_own(sources):
    cube = ask(sources, levels=["op"], filters=[["layer", -1]])["cube"]
    ops = [sources.codes.keys["op"].values[code] for code in cube["codes"][0]]
    assert sorted(ops) == ["clip", "optimizer_step"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"levels": ["layr"]}, "did you mean 'layer'"),
        ({"levels": "op"}, "needs a list of levels"),
        ({}, "needs a list of levels"),
        ({"levels": [["op"]]}, "no level named"),
        ({"levels": ["op"], "filters": [["phase", 3]]}, "codes -1 to 2, not 3"),
        ({"levels": ["op"], "filters": [["phase", -2]]}, "codes -1 to 2, not -2"),
        ({"levels": ["op"], "filters": [["phase", "forward"]]}, "not 'forward'"),
        ({"levels": ["op"], "filters": [["phase", True]]}, "not True"),
        ({"levels": ["op"], "filters": ["phase"]}, "pairs of level and code"),
        ({"levels": ["op"], "filters": None}, "pairs of level and code"),
        ({"levels": ["op"], "filters": [["p<b>", 0]]}, "no level named"),
    ],
)
def test_what_cannot_be_answered_is_said_to_the_asker(sources, query, said):
    reply = ask(sources, **query)
    assert (reply["kind"], reply["id"]) == ("failure", 7)
    assert said in reply["message"]


def test_too_many_rows_are_refused(sources, monkeypatch):
    monkeypatch.setattr(protocol, "MOST_ROWS", 100)
    reply = ask(sources, levels=list(LEVELS))
    assert reply["kind"] == "failure"
    assert reply["message"].endswith("rows are too many to show at once; select something first")


def test_a_fault_of_our_own_reaches_the_asker_and_the_log(sources, monkeypatch, caplog):
    def broken(*_):
        return 1 // 0

    monkeypatch.setattr(protocol, "cube", broken)
    with caplog.at_level(logging.ERROR):
        reply = ask(sources, levels=["op"])
    assert reply == {
        "kind": "failure",
        "id": 7,
        "message": "ZeroDivisionError: integer division or modulo by zero",
    }
    assert caplog.records[0].exc_info is not None


@pytest.mark.parametrize("message", [{"kind": "cancel", "id": 7}, {"kind": "x"}, {}, "text", None])
def test_other_messages_need_no_reply(sources, message):
    assert reply_to(message, sources) is None

"""From theoretical to actual time, as embedded in a page and as asked of Python."""

import json

import pytest
from builders import llama_trace
from overhead_runs import overhead_run
from payload_rules import check_payload

from chopper_jupyter.widgets.overhead_tables import embedded_overheads
from chopper_jupyter.widgets.packing import packed_size
from chopper_jupyter.widgets.payload import payload_of
from chopper_jupyter.widgets.protocol import reply_to
from chopper_jupyter.widgets.sources import Sources


@pytest.fixture(scope="module")
def sources():
    return Sources(overhead_run(gpus=2, iterations=2, layers=4).trace)


def ask(sources, *filters):
    return reply_to({"kind": "overheads", "id": 3, "filters": list(filters)}, sources)


def table_of(found, *levels):
    return next(t for t in found["tables"] if t["levels"] == list(levels))


@pytest.mark.parametrize("merge", [True, False])
def test_the_payload_holds_rows_of_the_common_levels(sources, merge):
    payload = payload_of(sources, merge=merge)
    check_payload(payload)
    found = payload["overheads"]
    whole, by_op = table_of(found), table_of(found, "phase", "op")
    assert len(whole["actual"]) == 1
    assert sum(by_op["actual"]) == whole["actual"][0]
    assert set(whole["ns"]) == {part["name"] for part in found["parts"]}
    members = payload["dictionaries"]["op"]
    assert {members[code]["label"] for code in by_op["codes"][1]} == {"q_proj", "down_proj", "norm"}
    json.dumps(payload, allow_nan=False)


def test_parts_add_up_to_the_actual_time(sources):
    found = embedded_overheads(sources, sources.members, 1e9)
    for table in found["tables"]:
        for at, actual in enumerate(table["actual"]):
            parts = [values[at] or 0 for values in table["ns"].values()]
            assert sum(parts) == pytest.approx(actual, abs=len(parts))


def test_python_answers_for_any_levels_what_is_embedded_for_some(sources):
    table = table_of(embedded_overheads(sources, sources.members, 1e9), "gpu", "phase", "op")
    for at, codes in enumerate(zip(*table["codes"], strict=True)):
        filters = [list(pair) for pair in zip(table["levels"], codes, strict=True)]
        reply = ask(sources, *filters)
        assert reply["kind"] == "answer"
        assert reply["overheads"]["actual"] == [table["actual"][at]]
        assert reply["overheads"]["ns"] == {n: [v[at]] for n, v in table["ns"].items()}
    deep = ask(sources, ["gpu", 0], ["iteration", 1], ["layer", 2], ["op", 0], ["phase", 0])
    assert deep["overheads"]["actual"][0] > 0


def test_what_ran_nothing_with_counters_is_an_empty_row(sources):
    assert ask(sources, ["layer", -1])["overheads"]["actual"] == [0]


def test_questions_without_an_answer_say_why(sources):
    assert "single kernels" in ask(sources, ["kernel", 0])["message"]
    assert "codes -1 to 2" in ask(sources, ["op", 9])["message"]
    assert "no counters" in ask(Sources(llama_trace(gpus=1, iterations=1, layers=1)))["message"]


def test_without_counters_there_is_nothing_to_show():
    payload = payload_of(Sources(llama_trace(gpus=1, iterations=1, layers=1)), merge=True)
    assert payload["overheads"] is None


def test_little_room_keeps_the_coarse_rows(sources):
    whole = packed_size(embedded_overheads(sources, sources.members, 1e9))
    found = embedded_overheads(sources, sources.members, 0.7 * whole)
    assert packed_size(found) <= 0.7 * whole
    levels = [t["levels"] for t in found["tables"]]
    assert [] in levels
    assert ["gpu", "phase", "op"] not in levels

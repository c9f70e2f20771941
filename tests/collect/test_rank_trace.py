"""The rank file: Kineto's words, but for our marks and torch's path."""

from __future__ import annotations

import gzip
import json

import pytest

from chopper_jupyter.collect.rank_trace import candidate_mark, write_rank_trace


def event(name, **args):
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": 1.5, "dur": 2, "args": {"a": args}}


def document(*names):
    rows = [event("aten::mm"), *(event(name) for name in names), event('odd {"name": "} [')]
    return {"schemaVersion": 1, "traceEvents": [*rows, event("last")], "traceName": "/home/me/x"}


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_marks_are_renamed_or_go(tmp_path, indent):
    raw, target = tmp_path / "raw.json", tmp_path / "rank_0.json.gz"
    marks = [candidate_mark(number) for number in (1, 2, 12, 3)]
    raw.write_text(json.dumps(document(*marks), indent=indent))
    size = write_rank_trace(raw, target, {1: 0, 12: 1})
    found = json.loads(gzip.decompress(target.read_bytes()))
    expected = document("chopper::iteration::0", "chopper::iteration::1")
    assert found == expected | {"traceName": "rank_0.json.gz"}
    assert size == target.stat().st_size
    assert list(tmp_path.iterdir()) == [target]


def test_the_same_recording_gives_the_same_bytes(tmp_path):
    made = []
    for _ in range(2):
        raw = tmp_path / "raw.json"
        raw.write_text(json.dumps(document()))
        write_rank_trace(raw, tmp_path / "rank_0.json.gz", {})
        made.append((tmp_path / "rank_0.json.gz").read_bytes())
    assert made[0] == made[1]


def test_a_file_larger_than_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr("chopper_jupyter.collect.rank_trace._CHUNK", 7)
    raw, target = tmp_path / "raw.json", tmp_path / "rank_0.json.gz"
    raw.write_text(json.dumps(document(candidate_mark(5))))
    write_rank_trace(raw, target, {5: 3})
    found = json.loads(gzip.decompress(target.read_bytes()))
    assert found["traceEvents"][1]["name"] == "chopper::iteration::3"

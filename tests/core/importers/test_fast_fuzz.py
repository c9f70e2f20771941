"""Drawn and damaged files: the compiled reader never differs from the plain one."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from builders import Rank
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="the compiled reader needs the extra 'fast'")

import nasty_events
from same_events import check_same

from chopper_jupyter.core.importers import json_stream

BLOCKS = (2, 3, 7, 50, 1 << 20)
MUTATIONS = 60
PIECES = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"},{", b'},{"ph":"X"', b"0", b"9", b"-", b".",
    b"e", b"\n", b"\x00", b"\xff", b"\xc3", b"\xc3\xa9", b"\\u00e9", b"\\ud800", b"NaN", b"null",
    b"]}", b'"traceEvents":[', b"\xef\xbb\xbf", b"\xc2\xa0", b"\x1c", b'"args":{', b'"ph"',
)  # fmt: skip
"""What damages JSON in interesting ways."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "trace.json"


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=nasty_events.documents(), packing=st.data(), block=st.sampled_from(BLOCKS))
def test_drawn_files_are_read_alike(text, packing, block, path, monkeypatch):
    monkeypatch.setattr(json_stream, "BLOCK", block)
    path.write_bytes(packing.draw(nasty_events.packed(text)))
    check_same(path)


def valid_files() -> dict[str, bytes]:
    """Small whole files of several writers."""
    rank = Rank()
    with rank.op("aten::mm", seq=3, **{"Input Dims": [[2, 3], []], "Input type": ["float", ""]}):
        rank.launch("k<1>", dur=10.5)
    rank.event(ph="s", cat="fwdbwd", name="fwdbwd", id=7, pid=1, tid=1, ts=1001, bp="e")
    rank.event(ph="f", cat="fwdbwd", name="fwdbwd", id=7, pid=1, tid=1, ts=1003)
    for size in (64, -64):
        rank.memory(size, allocated=64)
    rank.event(ph="i", cat="cpu_instant_event", name="[memory]", pid=1, tid=1, ts=1.5, s="t")
    document = rank.document()
    document["traceEvents"] *= 3  # what comes again is read another way
    return {
        "compact": json.dumps(document, separators=(",", ":")).encode(),
        "indented": json.dumps(document, indent=1).replace("\n", "\r\n").encode(),
        "list": json.dumps(document["traceEvents"]).encode(),
        "escapes": json.dumps(document).replace("aten", "\\u0061t\u00e9n").encode(),
    }


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Flip, insert, delete, repeat or cut at one to three places."""
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(data) + 1)
        to = min(len(data), at + draw.choice((1, 1, 2, 9, 60)))
        how = draw.randrange(6)
        if how == 0:
            data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
        elif how == 1:
            data = data[:at] + draw.choice(PIECES) + data[at:]
        elif how == 2:
            data = data[:at] + draw.choice(PIECES) + data[to:]
        elif how == 3:
            data = data[:at] + data[to:]
        elif how == 4:
            data = data[:to] + data[at:]
        else:
            data = data[:at]
    return data


@pytest.mark.parametrize("kind", valid_files())
@pytest.mark.parametrize("seed", range(2))
def test_damaged_files_are_read_alike(kind, seed, path, monkeypatch):
    draw = random.Random(f"{kind}{seed}")  # noqa: S311  the same damage every time
    for _ in range(MUTATIONS):
        monkeypatch.setattr(json_stream, "BLOCK", draw.choice(BLOCKS))
        path.write_bytes(mutated(valid_files()[kind], draw))
        check_same(path)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_gzip_is_read_alike(seed, path, monkeypatch):
    draw = random.Random(seed)  # noqa: S311  the same damage every time
    packed = [gzip.compress(text, mtime=0) for text in valid_files().values()]
    for _ in range(MUTATIONS):
        monkeypatch.setattr(json_stream, "BLOCK", draw.choice(BLOCKS))
        data = draw.choice(packed) if draw.random() < 0.8 else packed[0] + packed[2]
        path.write_bytes(mutated(data, draw))
        check_same(path)

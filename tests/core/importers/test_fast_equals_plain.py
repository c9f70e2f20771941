"""The compiled reader gives exactly what the plain one gives, or leaves the file to it."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from builders import Rank

pytest.importorskip("numba", reason="the compiled reader needs the extra 'fast'")

from same_events import check_same

from chopper_jupyter.core.importers import json_stream, kineto

FOLDER = os.environ.get("CHOPPER_REAL_DATA")
REAL = sorted(Path(FOLDER, "traces").glob("*/*.json*")) if FOLDER else []

COMPACT, BLANKS, LINES = (",", ":"), (", ", ": "), (" ,\r\n\t", " : ")


def sample(names=("mm", "k<1, 2>(a*)", "mm")) -> dict:
    """One rank: operators, shapes, launches, kernels and a gradient's arrow."""
    rank = Rank()
    rank.event(ph="M", name="process_name", pid=100, tid=0, args={"name": "python"})
    for number, name in enumerate(names):
        with rank.op(
            f"aten::{name}", seq=number, **{"Input Dims": [[2, 3], []], "Concrete": ["{"]}
        ):
            rank.launch(name, dur=10.123)
    for ph in "sf":
        rank.event(ph=ph, cat="fwdbwd", name="fwdbwd", id=7, pid=100, tid=100, ts=1001, bp="e")
    return rank.document()


def text_of(document: dict | list, separators=BLANKS, **options) -> str:
    return json.dumps(document, separators=separators, **options)


@pytest.fixture
def same(tmp_path):
    """Return a function that compares both ways on some bytes; True if the fast way took them."""

    def compare(data: bytes | str) -> bool:
        path = tmp_path / "trace.json"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return check_same(path)

    return compare


@pytest.mark.real
@pytest.mark.parametrize("path", REAL, ids=lambda p: f"{p.parent.name}/{p.name}"[:60])
def test_real_files_event_by_event(path):
    assert check_same(path)


# --- Writers -----------------------------------------------------------------------------


@pytest.mark.parametrize("separators", [COMPACT, BLANKS, LINES])
@pytest.mark.parametrize("indent", [None, 0, 2, "\t"])
def test_any_writer_is_read_fast(separators, indent, same):
    assert same(text_of(sample(), separators, indent=indent))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_end_of_line_is_read_fast(end, same):
    assert same(text_of(sample(), indent=1).replace("\n", end))


def test_members_in_any_order_are_read_fast(same):
    document = sample()
    for turn in range(8):
        events = []
        for event in document["traceEvents"]:
            keys = sorted(event, key=lambda key: (len(key) * (turn + 3)) % 7)
            events.append({key: event[key] for key in keys})
        assert same(text_of(document | {"traceEvents": events}))


def test_a_byte_order_mark_and_values_behind_the_events_are_read_fast(same):
    document = {"traceEvents": sample()["traceEvents"], "baseTimeNanoseconds": 12, "traceName": "x"}
    assert same(b"\xef\xbb\xbf" + text_of(document).encode())
    assert same(text_of(dict(reversed(document.items()))))


def test_a_bare_list_is_read_fast(same):
    assert same(text_of(sample()["traceEvents"]))
    assert same(" \r\n" + text_of(sample()["traceEvents"]) + "\n")


# --- Blocks and compression ---------------------------------------------------------------


@pytest.mark.parametrize("key", ["\\u0063at", "cat", "\\u0070h"])
def test_a_list_without_events_is_read_alike(key, same):
    same('[{"name": "a", "ts": 5, "dur": 1, "args": {}, "KEY": "cpu_op"}]'.replace("KEY", key))


@pytest.mark.parametrize("block", [1, 2, 3, 5, 17, 64, 257, 1000])
def test_blocks_may_end_anywhere(block, same, monkeypatch):
    monkeypatch.setattr(json_stream, "BLOCK", block)
    assert same(text_of(sample(["mm", 'a "b" \\ é', "nn.Module: x"]), ensure_ascii=False))


@pytest.mark.parametrize("block", [2, 3, 64, 1000, 1 << 20])
@pytest.mark.parametrize("isal", [True, False])
def test_several_gzip_members_may_end_anywhere(block, isal, same, monkeypatch):
    if isal:
        pytest.importorskip("isal", reason="needs the extra 'fast'")
    else:
        monkeypatch.setitem(__import__("sys").modules, "isal", None)
    monkeypatch.setattr(json_stream, "BLOCK", block)
    data = text_of(sample(["mm"])).encode()
    for cut in (0, 1, block, 2 * block, 500, len(data) - 1, len(data)):
        assert same(gzip.compress(data[:cut]) + gzip.compress(data[cut:])), cut
        assert same(gzip.compress(data[:cut]) + gzip.compress(data[cut:]) + b"\0" * 9), cut


def test_gzip_damage_is_left_to_the_plain_way_or_read_alike(same):
    data = gzip.compress(text_of(sample()).encode(), mtime=0)
    taken = [same(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]) for at in range(len(data))]
    assert not all(taken)
    for cut in range(0, len(data), 7):
        assert not same(data[:cut])


# --- Cuts --------------------------------------------------------------------------------


def test_every_cut_is_read_alike(same):
    document = sample(["é\n{"])
    document["traceEvents"] = [e for e in document["traceEvents"] if e["ph"] == "X"]
    data = text_of(document, COMPACT, ensure_ascii=False).encode()
    taken = [same(data[:cut]) for cut in range(len(data))]
    assert sum(taken) > len(data) // 3


def test_every_cut_of_a_bare_list_is_read_alike(same):
    data = text_of(sample(["mm"])["traceEvents"], COMPACT).encode()
    for cut in range(0, len(data), 3):
        same(data[:cut])


# --- What stands around the events --------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": [1, {"ph": "M"}], "traceEvents": []}',
        '{"traceEvents": [1], "traceEvents": [2, 3]}',
        '{"traceEvents": [1], "trace\\u0045vents": []}',
        '{"x": {"traceEvents": [1, 2]}, "traceEvents": []}',
        '{"x": {"traceEvents": [1, 2]}, "traceEvents": [{"ph": "M"}]}',
        '{"\\"traceEvents": [1, 2], "traceEvents": []}',
        '[{"a": {"traceEvents": [1, 2]}}, {"ph": "M"}',
        '[{"a": {"traceEvents": [{"ph": "M"}, {"ph": ',
        '{"traceEvents": []}',
        '{"traceEvents": []}\u00a0',
        '\u000b{"traceEvents": []}',
        "[]",
        "[]\u000b",
        "\u000b[]",
        '{"traceEvents"\u00a0: [1, 2], "traceEvents": [3',
        '{"traceEvents": [1, {"ph": "M"},]}',
        '{"traceEvents": [{"ph": "M"},, {"ph": "M"}]}',
        '{"traceEvents": [, {"ph": "M"}]}',
        '{"traceEvents": [{"ph": "M"} {"ph": "M"}]}',
        '{"traceEvents": [{"ph": "M",}]}',
        '{"traceEvents": [{"ph": "M"}]} {"traceEvents": []}',
        '{"traceEvents": [{"ph": "M"}], 7: 7, "7": 77}',
        '{"traceEvents": [{"ph": "M"}, "text", null, 3, [4], -Infinity]}',
        '{"traceEvents": {"a": [{"ph": "M"}]}}',
    ],
)
def test_unusual_documents_are_read_alike(text, same):
    same(text)


@pytest.mark.parametrize("value", ["1700000000000000000", '"12"', "-5", "9e18", str(2**63), "[]"])
def test_any_base_time_is_read_alike(value, same):
    same(
        text_of(sample()).replace(
            '"baseTimeNanoseconds": ', f'"baseTimeNanoseconds": {value}, "": '
        )
    )


# --- Values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    ["0", "-0", "1.0", "0.0005", "0.9999999", "1e3", "1E-2", "-5.5", "999999999999999999",
     "9223372036854775808", "18446744073709551615", "1" * 640, "1" * 641, "1" * 4300, "1" * 4301,
     "-" + "1" * 4301, "1." + "1" * 5000, "NaN", "-Infinity", '"17"', '"0x1F"', '" 8 "', "null",
     "true", "[1]", "{}"],
    ids=lambda text: text[:12],
)  # fmt: skip
@pytest.mark.parametrize(
    "key", ["ts", "dur", "pid", "tid", "id", "External id", "correlation", "stream", "device",
            "bytes", "Sequence number", "Fwd thread id", "unknown"],
)  # fmt: skip
def test_any_number_anywhere_is_read_alike(key, number, same):
    document = sample(["mm"])
    for event in document["traceEvents"]:
        inner = event if key in ("ts", "dur", "pid", "tid", "id") else event.get("args", event)
        inner[key] = "MARK"
    same(text_of(document).replace('"MARK"', number))


@pytest.mark.parametrize(
    "text",
    ["\\u0061ten", "\\ud83d\\ude00", "\\ud800", "\\\\", '\\"}, {\\"', "}]}", "é", "\u00a0",
     "\x01\n", "\x7f", "\\x", "\\u12g4", '"', "nn.Module: x\\u0031", "\x00", "a" * 70_000],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
@pytest.mark.parametrize("key", ["ph", "cat", "name", "pid", "Input type", "unknown"])
def test_any_text_anywhere_is_read_alike(key, text, same):
    document = sample(["mm"])
    for event in document["traceEvents"]:
        inner = event if key in ("ph", "cat", "name", "pid") else event.get("args", event)
        inner[key] = ["float", "MARK"] if key == "Input type" else "MARK"
    same(text_of(document).replace('"MARK"', f'"{text}"'))
    same(text_of(document).replace(f'"{key}"', f'"\\u{ord(key[0]):04x}{key[1:]}"'))


@pytest.mark.parametrize(
    "shapes", ["[]", "[[]]", "[ [1 , 2],[-3] ]", "[-0]", "[1.5]", '[[1], 2, "a"]', '["a\\n"]',
               "[{}]", "[true]", "[" * 70 + "]" * 70],
)  # fmt: skip
@pytest.mark.parametrize(
    "key", ["grid", "block", "Input Dims", "Input dims", "Input type", "Concrete Inputs"]
)
def test_any_list_is_read_alike(key, shapes, same):
    document = sample(["mm", "conv2d"])
    for event in document["traceEvents"]:
        event.setdefault("args", {})[key] = "MARK"
    same(text_of(document).replace('"MARK"', shapes))


ARGUMENT_NAMES = {
    "aten::_scaled_dot_product_flash_attention": True,
    "FlashAttnFunc": True,
    "attn": True,
    "conv": True,
    "aten::cudnn_convolution": True,
    "ttattent": True,
    "ttent": True,
    "ttn": True,
    "aten::flatten": False,
    "tten": False,
    "att": False,
    "tt": False,
    "con": False,
    "onv": False,
    "": False,
}


@pytest.mark.parametrize(("name", "kept"), ARGUMENT_NAMES.items())
def test_written_arguments_are_kept_of_the_same_operators(name, kept, same, tmp_path):
    rank = Rank()
    inputs = ["", "0.", "True", '"', "[1, 1]"]
    with rank.op(name, **{"Concrete Inputs": inputs, "Input Dims": [[2]]}):
        rank.launch("k")
    assert same(text_of(rank.document()))
    column = kineto.read_rank_plain(tmp_path / "trace.json").ranges["concrete_inputs"]
    assert column.to_pylist() == [json.dumps(inputs, separators=COMPACT) if kept else None]


def test_bytes_that_are_no_text_are_left_to_the_plain_way(same):
    data = text_of(sample(["mm", "MARK", "mm"])).encode()
    for bad in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80"):
        assert not same(data.replace(b"MARK", bad))
        assert not same(data[:-40] + bad)


def test_repeated_keys_count_by_their_last_value(same):
    for key, value in {
        "ts": "5",
        "name": '"other"',
        "args": "{}",
        "cat": '"kernel"',
        "ph": '"M"',
    }.items():
        assert same(text_of(sample()).replace(f'"{key}": ', f'"{key}": {value}, "{key}": '))
        assert same(text_of(sample()).replace('"ph": ', f'"{key}": {value}, "ph": '))
    twice = '"args": {"External id": 3, "correlation": 4}, "args": '
    assert same(text_of(sample()).replace('"args": ', twice))


# --- Categories ---------------------------------------------------------------------------


@pytest.mark.parametrize("ph", ["X", "s", "f", "i", "M", "C", "é"])
@pytest.mark.parametrize(
    "category", ["Operator", "Kernel", "KERNEL", "Memcpy", "Runtime", "new_runtime", "x_driver",
                 "Fwdbwd", "fwdbwd", "ac2g", "Trace", "python_function", "unseen", ""],
)  # fmt: skip
def test_any_category_and_type_is_read_alike(category, ph, same):
    document = sample(["mm"])
    for event in document["traceEvents"]:
        event |= {"cat": category, "ph": ph}
    same(text_of(document))
    for event in document["traceEvents"]:
        del event["cat"]
    same(text_of(document))


def test_categories_that_come_late_are_counted_once(same):
    document = sample([f"kernel_{n}" for n in range(300)])
    document["traceEvents"] += [{"ph": ph, "cat": "late", "name": "x"} for ph in "iiCXs"]
    assert same(text_of(document))


@pytest.mark.parametrize("key", ["grid", "block", "Input type", "Input Dims"])
def test_half_a_surrogate_in_a_list_is_read_alike(key, same):
    event = (
        '{"ph":"X","cat":"CAT","name":"a","pid":1,"tid":1,"ts":5,"dur":1,'
        '"args":{"device":0,"stream":7,"KEY":["\\ud800"]}}'
    ).replace("KEY", key)
    assert same(f"[{event.replace('CAT', 'kernel')},{event.replace('CAT', 'cpu_op')}]")


@pytest.mark.parametrize(
    "key", ["External id", "Sequence number", "correlation", "bytes", "stream"]
)
def test_doubled_keys_of_repeated_events_are_read_alike(key, same):
    events = [
        f'{{"ph":"X","cat":"{cat}","name":"a","pid":1,"tid":7,"ts":{ts},"dur":2,'
        f'"args":{{"device":0,"stream":7,"{key}":{ts},"{key}":-4}}}}'
        for ts in range(100, 106)
        for cat in ("cpu_op", "cuda_runtime", "kernel")
    ]
    assert same("[" + ",".join(events) + "]")


def test_many_processes_and_threads_are_told_apart(same):
    rank = Rank()
    for number in range(2000):  # 4 million possible pairs
        rank.event(
            ph="X", cat="cpu_op", name="a", pid=number, tid=f"t{number}", ts=number, dur=1, args={}
        )
    assert same(text_of(rank.document()))


def test_arrows_belong_to_their_process(same):
    arrows = [
        {"ph": ph, "cat": "fwdbwd", "id": number, "pid": pid, "tid": pid, "ts": 1000 + pid}
        for number in (1, 2, "1")
        for pid in (1, 2, 3)
        for ph in "sf"
    ]
    for chosen in (arrows[:-6], arrows, arrows[::-1]):
        assert same(text_of(sample()["traceEvents"] + chosen))


def test_missing_fields_are_read_alike(same):
    for key in ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args"):
        document = sample()
        for event in document["traceEvents"]:
            event.pop(key, None)
        same(text_of(document))


def test_the_autograd_profilers_own_export_is_read_alike(same):
    events = [
        {"ph": "X", "name": "mm", "pid": pid, "tid": 1, "ts": n, "dur": 1.5, "args": {}}
        for n, pid in enumerate(("CPU functions", "CUDA functions", "CPU functions"), 1)
    ]
    assert same(text_of(events))


def test_names_fill_and_overfill_the_dictionary(same):
    assert same(text_of(sample([f"{n}" * 40 for n in range(900)])))
    assert same(text_of(sample(["x" * 3_000_000, "y" * 1_200_000])))

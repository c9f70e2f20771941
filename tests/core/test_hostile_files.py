"""Damaged, absurd and malicious files: never a crash, never a silently changed number."""

from __future__ import annotations

import gzip
import json

import pytest
from builders import Rank

from chopper_jupyter import read_trace
from chopper_jupyter.core.errors import ChopperError, TraceFormatError

pytestmark = pytest.mark.filterwarnings(
    "ignore::chopper_jupyter.core.errors.PartialTraceWarning",
    "ignore::chopper_jupyter.core.errors.ClockWarning",
)

KERNELS = 6


def sample(names=None) -> dict:
    """One rank with six kernels of 10 us."""
    rank = Rank()
    for number in range(KERNELS):
        with rank.op("aten::mm"):
            rank.launch(names[number] if names else f"kernel_{number}", dur=10)
    return rank.document()


def read_text(text: str | bytes, tmp_path, name="trace.json"):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return read_trace(path)


def total(trace) -> int:
    return sum(trace.kernels["dur_ns"].to_pylist())


def repaired(trace) -> int:
    return sum(trace.quality.repairs.values())


# --- What is no trace ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "   \n", "not json", "<html><body>404</body></html>", "null", "17", '"text"', "{}", "[[[",
     '{"traceEvents": null}', '{"traceEvents": 3}', '{"a": [1, 2]}', "{", "\x00" * 64,
     "ph,cat,name\nX,kernel,k\n"],
)  # fmt: skip
def test_what_is_no_trace_is_refused_with_its_name(text, tmp_path):
    with pytest.raises(TraceFormatError) as caught:
        read_text(text, tmp_path, "strange.json")
    assert "strange.json" in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "text", ["[]", '{"traceEvents": []}', "[1, 2, 3]", '{"traceEvents":["x"]}']
)
def test_a_trace_without_events_is_empty_or_refused(text, tmp_path):
    try:
        trace = read_text(text, tmp_path, "strange.json")
    except TraceFormatError as error:
        assert "strange.json" in str(error)  # noqa: PT017  one of two good answers
        return
    assert trace.kernels.num_rows == 0


def test_a_missing_path_says_so(tmp_path):
    with pytest.raises((ChopperError, FileNotFoundError)) as caught:
        read_trace(tmp_path / "nowhere.json")
    assert "nowhere.json" in str(caught.value)


def test_a_folder_without_traces_says_so(tmp_path):
    (tmp_path / "readme.txt").write_text("nothing here")
    with pytest.raises(ChopperError) as caught:
        read_trace(tmp_path)
    assert tmp_path.name in str(caught.value)


def test_a_pattern_that_matches_nothing_says_so(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(sample()))
    with pytest.raises(ChopperError) as caught:
        read_trace(tmp_path, pattern="rank_*.json")
    assert "rank_*.json" in str(caught.value)


def test_an_empty_list_of_files_says_so():
    with pytest.raises(ChopperError):
        read_trace([])


def test_a_file_that_may_not_be_a_trace_beside_traces_does_not_stop_them(tmp_path):
    (tmp_path / "rank_0.json").write_text(json.dumps(sample()))
    (tmp_path / "settings.json").write_text('{"lr": 0.1}')
    (tmp_path / "notes.txt").write_text("x")
    try:
        trace = read_trace(tmp_path)
    except TraceFormatError as error:
        assert "settings.json" in str(error)  # noqa: PT017  one of two good answers
        return
    assert trace.kernels.num_rows == KERNELS


# --- Compression --------------------------------------------------------------------------


def test_gzip_is_known_by_its_bytes_not_its_name(tmp_path):
    data = json.dumps(sample()).encode()
    assert read_text(gzip.compress(data), tmp_path, "plain.json").kernels.num_rows == KERNELS
    assert read_text(data, tmp_path, "zipped.json.gz").kernels.num_rows == KERNELS


def test_several_gzip_members_are_one_file(tmp_path):
    data = json.dumps(sample()).encode()
    joined = gzip.compress(data[:700]) + gzip.compress(data[700:])
    assert read_text(joined, tmp_path, "a.json.gz").kernels.num_rows == KERNELS


def test_a_gzip_file_cut_short_gives_what_is_intact_and_counts(tmp_path):
    rank = Rank()
    for number in range(2000):
        with rank.op("aten::mm"):
            rank.launch(f"kernel_{number % 17}", dur=10)
    data = gzip.compress(json.dumps(rank.document()).encode())
    trace = read_text(data[: len(data) // 2], tmp_path, "a.json.gz")
    assert 0 < trace.kernels.num_rows < 2000
    assert total(trace) == 10_000 * trace.kernels.num_rows
    assert repaired(trace) > 0


@pytest.mark.parametrize("data", [b"\x1f\x8b", b"\x1f\x8b" + b"\x00" * 40, b"\x1f\x8b\x08\x00zz"])
def test_a_gzip_file_without_content_is_refused(data, tmp_path):
    with pytest.raises(TraceFormatError, match=r"a\.json\.gz"):
        read_text(data, tmp_path, "a.json.gz")


# --- Damage -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.999])
def test_a_file_cut_short_gives_what_is_intact_and_counts(share, tmp_path):
    text = json.dumps(sample())
    trace = read_text(text[: int(len(text) * share)], tmp_path)
    assert trace.kernels.num_rows <= KERNELS
    assert total(trace) == 10_000 * trace.kernels.num_rows
    assert repaired(trace) > 0


def test_every_cut_gives_a_trace_or_a_clear_error(tmp_path):
    text = json.dumps(sample())
    for end in range(0, len(text), 37):
        try:
            trace = read_text(text[:end], tmp_path)
        except TraceFormatError:
            continue
        if trace.info.device_kind == "gpu":  # else only operators came before the cut
            assert total(trace) == 10_000 * trace.kernels.num_rows
        assert repaired(trace) > 0


def test_a_trailing_comma_is_ignored(tmp_path):
    text = json.dumps(sample())
    trace = read_text(text.replace("}]}", "},]}"), tmp_path)
    assert trace.kernels.num_rows == KERNELS
    assert repaired(trace) > 0


def test_a_list_left_open_is_read_as_chrome_does(tmp_path):
    text = json.dumps(sample()["traceEvents"])
    assert read_text(text[:-1], tmp_path).kernels.num_rows == KERNELS
    assert read_text(text[:-1] + ",", tmp_path).kernels.num_rows == KERNELS


def test_bytes_that_are_no_text_are_replaced_and_counted(tmp_path):
    data = json.dumps(sample()).encode().replace(b"kernel_2", b"kernel_\xff\xfe")
    trace = read_text(data, tmp_path)
    assert trace.kernels.num_rows == KERNELS
    assert total(trace) == 60_000
    assert repaired(trace) > 0


def test_control_characters_in_names_are_harmless(tmp_path):
    text = json.dumps(sample()).replace("kernel_2", "kernel\t\n\x01_2")
    trace = read_text(text, tmp_path)
    assert trace.kernels.num_rows == KERNELS
    assert "kernel\t\n\x01_2" in trace.kernels["name"].to_pylist()


def test_quotes_that_nobody_escaped_cost_one_event_at_most(tmp_path):
    text = json.dumps(sample()).replace("kernel_2", 'kernel "two", or {so}')
    trace = read_text(text, tmp_path)
    assert KERNELS - 1 <= trace.kernels.num_rows <= KERNELS
    assert total(trace) == 10_000 * trace.kernels.num_rows
    assert repaired(trace) > 0


def test_backslashes_that_nobody_escaped_cost_one_event_at_most(tmp_path):
    text = json.dumps(sample()).replace("kernel_2", r"C:\new\xyz")
    trace = read_text(text, tmp_path)
    assert trace.kernels.num_rows >= KERNELS - 1
    assert repaired(trace) > 0


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_values_that_json_does_not_know_are_no_numbers(value, tmp_path):
    document = sample()
    document["traceEvents"][1]["args"]["est. achieved occupancy %"] = "MARK"
    text = json.dumps(document).replace('"MARK"', value)
    assert total(read_text(text, tmp_path)) == 60_000


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_a_duration_that_is_no_number_is_counted(value, tmp_path):
    text = json.dumps(sample())
    trace = read_text(text.replace('"dur": 10,', f'"dur": {value},', 1), tmp_path)
    assert total(trace) == 50_000
    assert repaired(trace) + sum(trace.quality.skipped.values()) > 0


def test_deep_nesting_does_not_overflow(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    text = json.dumps(sample()).replace('"grid": [8, 1, 1]', f'"grid": {deep}', 1)
    try:
        trace = read_text(text, tmp_path)
    except TraceFormatError:
        return
    assert KERNELS - 1 <= trace.kernels.num_rows <= KERNELS


def test_deeply_nested_ranges_do_not_overflow(tmp_path):
    rank = Rank()
    depth = 5000
    for level in range(depth):
        rank.event(ph="X", cat="cpu_op", name="aten::deep", pid=100, tid=100, ts=1000 + level,
                   dur=2 * (depth - level) + 20, args={})  # fmt: skip
    rank.now = 1000.0 + depth
    rank.launch("kernel")
    trace = read_text(json.dumps(rank.document()), tmp_path)
    assert trace.kernels["op_id"].null_count == 0


# --- Numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    [2**63, 2**64 - 1, 2**64, 2**80, -(2**63), -(2**70), 10**400],
    ids=lambda n: f"{n:.3e}" if abs(n) < 10**300 else "huge",
)
@pytest.mark.parametrize("key", ["External id", "correlation", "stream", "device"])
def test_ids_beyond_int64_change_no_time(key, number, tmp_path):
    document = sample()
    for event in document["traceEvents"]:
        if event["cat"] == "kernel" or (event["cat"] != "kernel" and key == "correlation"):
            event["args"][key] = number
    trace = read_text(json.dumps(document), tmp_path)
    assert trace.kernels.num_rows == KERNELS
    assert total(trace) == 60_000


@pytest.mark.parametrize("value", [1.5, True, [], {}, None, "x", ""])
@pytest.mark.parametrize("key", ["External id", "correlation", "stream", "device", "grid"])
def test_values_of_the_wrong_type_change_no_time(key, value, tmp_path):
    document = sample()
    for event in document["traceEvents"]:
        if event["cat"] == "kernel":
            event["args"][key] = value
    trace = read_text(json.dumps(document), tmp_path)
    assert trace.kernels.num_rows == KERNELS
    assert total(trace) == 60_000


@pytest.mark.parametrize("key", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"])
@pytest.mark.parametrize("value", [None, 3, 2.5, [], {}, "", "x", True])
def test_any_field_of_any_type_is_survived(key, value, tmp_path):
    document = sample()
    for event in document["traceEvents"][::3]:
        event[key] = value
    trace = read_text(json.dumps(document), tmp_path)
    assert trace.kernels.num_rows <= KERNELS
    assert all(dur >= 0 for dur in trace.kernels["dur_ns"].to_pylist())


@pytest.mark.parametrize("key", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"])
def test_any_field_may_be_absent(key, tmp_path):
    document = sample()
    for event in document["traceEvents"]:
        event.pop(key, None)
    try:
        trace = read_text(json.dumps(document), tmp_path)
    except TraceFormatError as error:
        assert "trace.json" in str(error)  # noqa: PT017  one of two good answers
        return
    assert trace.kernels.num_rows <= KERNELS


@pytest.mark.parametrize(
    "value", [None, 5, "x", [], [1], {"rank": "x"}, {"rank": -1}, {"rank": {}}]
)
@pytest.mark.parametrize("key", ["distributedInfo", "deviceProperties", "baseTimeNanoseconds"])
def test_values_beside_the_events_may_be_anything(key, value, tmp_path):
    trace = read_text(json.dumps(sample() | {key: value}), tmp_path)
    assert trace.kernels.num_rows == KERNELS
    assert total(trace) == 60_000


# --- Text ---------------------------------------------------------------------------------

NAMES = [
    "<script>alert('x')</script>",
    "</td><b>bold & beautiful</b>",
    "ядро 核 🔥",
    "\u202eright to left",
    "a" * 5000,
    "\ud800 lone surrogate",
]


def test_names_are_kept_as_text(tmp_path):
    trace = read_text(json.dumps(sample(NAMES)), tmp_path)
    kept = trace.kernels["name"].to_pylist()
    assert kept[:5] == NAMES[:5]
    assert "lone surrogate" in kept[5]
    assert "<script>" not in trace._repr_html_()


def test_a_file_name_is_text_too(tmp_path):
    name = "<b>bold<b>.json"
    trace = read_text(json.dumps(sample()), tmp_path, name)
    assert "<b>bold" not in trace._repr_html_().removeprefix("<div><b>")


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n", "\u00a0"[:0]])
def test_line_ends_of_any_system_are_read(end, tmp_path):
    text = json.dumps(sample(), indent=1).replace("\n", end)
    assert total(read_text(text, tmp_path)) == 60_000


def test_a_byte_order_mark_is_ignored(tmp_path):
    data = b"\xef\xbb\xbf" + json.dumps(sample()).encode()
    trace = read_text(data, tmp_path)
    assert total(trace) == 60_000
    assert repaired(trace) == 0

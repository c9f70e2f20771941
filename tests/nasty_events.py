"""Texts of Kineto files as nobody should write them, drawn by hypothesis."""

from __future__ import annotations

import gzip
import random
import re
from dataclasses import dataclass

from hypothesis import strategies as st

from chopper_jupyter.core.importers.event_layout import ARG_KEYS, TOP_KEYS
from chopper_jupyter.core.importers.kineto_fast import ROLES

ODD_VALUES = (
    b"null", b"true", b"false", b"NaN", b"Infinity", b"-Infinity", b"0", b"-0", b"-1", b"1.5",
    b"1e3", b"-1.5E-2", b"0.0005", b"1E+2", b"9223372036854775807", b"9223372036854775808",
    b"18446744073709551615", b"-9223372036854775809", b"999999999999999999", b"1" + b"0" * 30,
    b"[]", b"{}", b'""', b'"7"', b'"0x1f"', b'" 8 "', b'"1_0"', b'"stream 7"',
    b'[1, [2, {"a": "}]"}]]', b'{"ph": "X", "ts": 5}',
    b"[-0, 1.0]", b'["a", "\\u00e9", 1]', b'["\xc3\xa9"]', b"[[1, 2], [ ], [3,4]]",
    b'[{"a": [1]}, 2]', b'"\\ud83d\\ude00"', b'"\\ud800"', b'"\\u0000"', b'"a\\"b\\\\"',
    b'"}, {\\"ph\\": \\"X\\""',
    b'"},{"', b'"]}"', b'"tab\tline\n"', b'"\xf0\x9f\x94\xa5"', b'"\xc3\xa9"', b'"\x7f"',
    b"[[[[[[1]]]]]]",
)  # fmt: skip

PLAUSIBLE = {
    "ph": (b'"s"', b'"f"', b'"M"', b'"i"', b'"XX"'),
    "cat": tuple(f'"{c}"'.encode() for c in (*ROLES, "KERNEL", "Fwdbwd", "FWDBWD", "hip_driver",
                 "concurrent_kernel", "new_runtime", "unseen", "Python_Function")),
    "name": (b'"aten::mm"', b'"aten::convolution"', b'"xattn"', b'"my_attention"', b'"atten"',
             b'"conv"', b'"con"', b'"vcconvo"', b'"ttn"', b'"tt"',
             b'"k<1,2>(a*, b)"', b'"nn.Module: Linear_0"', b'"ProfilerStep#3"'),
    "pid": (b"1", b"100", b'"1"', b'"CPU functions"', b'"CUDA functions"', b"0"),
    "tid": (b"1", b"7", b'"7"', b'"stream 7"', b"140230"),
    "ts": (b"1000.123", b"5", b'"1000.5"', b"5136886850441.0385", b"2300000000000000.5",
           b"9999999999999999", b"99999999999999999999"),
    "dur": (b"10", b"0", b"3.25", b"0.9996", b'"2"', b"2305843009213693"),
    "id": (b"1", b"2", b'"1"', b"77"),
    "grid": (b"[8, 1, 1]", b"[8,1,1]", b"[ 8 , 1 ]"),
    "block": (b"[128, 1, 1]",),
    "Input Dims": (b"[[2, 3], [], [[1], [2, 2]]]",),
    "Input dims": (b"[[2,3]]",),
    "Input type": (b'["float", "", "c10::Half"]', b'["a b", "\\\\"]'),
    "Collective name": (b'"allreduce"',),
    "Concrete Inputs": (b'["", "0.", "True"]', b'[ "", "[1, 1]" ]', b"[]"),
    "Bytes": (b"512", b"-512", b"8589934592"),
    "Device Type": (b"0", b"1", b"6"),
    "Device Id": (b"-1", b"0", b"3"),
    "Total Allocated": (b"1024", b"-1"),
}  # fmt: skip
OTHER_NUMBERS = (
    b"0", b"7", b"42", b"12345678", b"123456789", b"5.5", b"1000.123", b"0.0004", b"0.9996",
    b"12345678.12345678", b"007", b"-3", b"1e2", b"1.", b"2300000000000001", b"4294967296",
    b"999999999999999999", b"9223372036854775807", b"9223372036854775808", b"1" + b"0" * 30,
)  # fmt: skip
DAMAGE = (b"", b"", b" ", b"x", b'"', b",", b"}", b"{", b"\\", b"\x00", b"\xff", b"0", b".")
NUMBERS = (b"1", b"2", b"17", b"123456")
ALLOCATIONS = (b'"[memory]"', b'"[memory]"', b'"[memory]"', b'"[memory] "', b'"\\u005bmemory]"')
MEMORY_KEYS = ("Bytes", "Device Type", "Device Id", "Total Allocated", "Total Reserved")

HEADS = (b'{"traceEvents": [', b'{"schemaVersion": 1, "traceEvents":[', b"[", b" \r\n[",
         b'{"baseTimeNanoseconds": 1700000000000000000, "traceEvents"\n:\t[',
         b'{"distributedInfo": {"rank": 3, "world_size": 8}, "traceEvents": [',
         b'{"deviceProperties": [{"id": 0, "name": "\xc3\xa9"}], "traceEvents": [',
         b'{"traceEvents": [1], "traceEvents": [',
         b'{"a": {"traceEvents": []}, "traceEvents": [')  # fmt: skip
TAILS = (b"]}", b"]", b"]\n}\n", b'], "traceName": "x"}', b'], "baseTimeNanoseconds": "12"}', b"",
         b"],}", b",]}", b'], "traceEvents": []}', b']}, "traceEvents": []}', b"]} x", b"]\xc2\xa0",
         b'], "distributedInfo": {"rank": 1}}', b'], "name": "cut')  # fmt: skip


@dataclass(frozen=True)
class Style:
    """How a writer puts blanks: behind commas between events and members, and around colons."""

    between: bytes
    comma: bytes
    colon: bytes
    pad: bytes = b""


STYLES = (
    Style(b",", b",", b":"),
    Style(b",\n  ", b", ", b": "),
    Style(b",\r\n    ", b",\r\n      ", b": ", b"\r\n"),
    Style(b"\t,\t", b" , ", b" : ", b" "),
)


def _values(key: str):
    good = st.sampled_from(PLAUSIBLE.get(key, NUMBERS))
    return st.one_of(good, good, good, st.sampled_from(ODD_VALUES))


@st.composite
def _members(draw, keys: tuple[str, ...]) -> list[tuple[bytes, bytes]]:
    chosen = draw(st.lists(st.sampled_from(keys), max_size=5))
    members = []
    for key in chosen:
        text = key.encode()
        if draw(st.integers(0, 15)) == 0:
            text = b"\\u%04x" % text[0] + text[1:]
        members.append((text, draw(_values(key))))
    return members


@st.composite
def events(draw, style: Style) -> bytes:
    """Draw one event: what a complete one has, then changed, doubled, shuffled or left out."""
    if draw(st.integers(0, 25)) == 0:
        return draw(st.sampled_from(ODD_VALUES))
    args = draw(_members((*ARG_KEYS, "other")))
    members = [
        (b"ph", draw(st.sampled_from((b'"X"', b'"X"', b'"X"', *PLAUSIBLE["ph"])))),
        (b"cat", draw(_values("cat"))),
        (b"name", draw(st.sampled_from(PLAUSIBLE["name"]))),
    ]
    if draw(st.integers(0, 4)) == 0:
        members = [(b"ph", b'"i"'), (b"name", draw(st.sampled_from(ALLOCATIONS)))]
        members += [(b"cat", b'"cpu_instant_event"')] * draw(st.integers(0, 1))
        args = [(key.encode(), draw(_values(key))) for key in MEMORY_KEYS]
    members += [
        (b"pid", b"1"),
        (b"tid", b"1"),
        (b"ts", draw(st.sampled_from(PLAUSIBLE["ts"]))),
        (b"dur", draw(st.sampled_from(PLAUSIBLE["dur"]))),
        (b"args", _object(args, style)),
    ]
    if draw(st.booleans()):
        members += draw(_members((*TOP_KEYS, *ARG_KEYS, "bp", "s")))
    if draw(st.integers(0, 3)) == 0:
        members = draw(st.permutations(members))
    if draw(st.integers(0, 5)) == 0:
        members.pop(draw(st.integers(0, len(members) - 1)))
    return _object(members, style)


def _object(members: list[tuple[bytes, bytes]], style: Style) -> bytes:
    inner = style.comma.join(b'"' + k + b'"' + style.colon + v for k, v in members)
    return b"{" + style.pad + inner + style.pad + b"}"


@st.composite
def repetitions(draw, parts: list[bytes]) -> list[bytes]:
    """Draw the same events again, once or twice, most with other numbers, some damaged."""
    change = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311  drawn one by one is slow
    return [_varied(part, change) for part in parts * change.randint(1, 2)]


def _varied(event: bytes, change: random.Random) -> bytes:
    def other(number: re.Match[bytes]) -> bytes:
        return change.choice(OTHER_NUMBERS) if change.random() < share else number[0]

    share = change.choice((0.0, 0.3, 1.0))
    event = re.sub(rb"\d+(\.\d+)?", other, event)
    if change.random() < 0.1:
        at = change.randrange(len(event) + 1)
        event = event[:at] + change.choice(DAMAGE) + event[at + change.randint(0, 1) :]
    return event


@st.composite
def documents(draw) -> bytes:
    """Draw the text of a file; most have a plain head and tail, so that the events decide."""
    style = draw(st.sampled_from(STYLES))
    parts = draw(st.lists(events(style), min_size=1, max_size=6))
    if draw(st.booleans()):
        parts += draw(repetitions(parts))
    plain = draw(st.integers(0, 2)) > 0
    head = HEADS[0] if plain else draw(st.sampled_from(HEADS))
    tail = TAILS[0] if plain else draw(st.sampled_from(TAILS))
    bom = b"\xef\xbb\xbf" if not plain and draw(st.booleans()) else b""
    return bom + head + style.between.join(parts) + tail


@st.composite
def packed(draw, text: bytes) -> bytes:
    """Draw how the text is stored: as it is, gzipped, or in several gzip members."""
    how = draw(st.integers(0, 3))
    if how < 2:
        return text
    cut = draw(st.integers(0, len(text))) if how == 3 else len(text)
    return gzip.compress(text[:cut], 1) + (gzip.compress(text[cut:], 1) if how == 3 else b"")

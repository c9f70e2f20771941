"""Events that come again with other numbers are read from memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled reader needs the extra 'fast'")

from chopper_jupyter.core.importers import event_layout as layout
from chopper_jupyter.core.importers import event_scan, kineto_fast


def op(name="aten::mm", ts=1000.5, dur=2, tid=7, **args):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
            "args": {"External id": 3, "Ev Idx": 4, "Input Dims": [[2, 3]], **args}}  # fmt: skip


def scanned(*parts):
    """Scan lists of events one after another; after the first, spoil what is remembered."""
    state = kineto_fast._State()
    found = []
    for number, events in enumerate(parts):
        texts = (e if isinstance(e, str) else json.dumps(e) for e in events)
        text = b"".join(e.encode() + b",\n" for e in texts)
        buffer = np.frombuffer(text + bytes(64), np.uint8)
        if number:
            state.repeats.rows[:, layout.C_NAME] = -7
        kineto_fast.scan(
            buffer, 0, len(text), state.keys, state.roles, state.stack, state.memory, state.table,
            state.rows, state.odd, state.drops, state.state, state.notes, state.repeats,
        )  # fmt: skip
        used = state.state[event_scan.USED]
        found.append(state.rows[0, :, :used].T.copy())
        state.state[event_scan.USED] = 0
    return found


FIRST = [op(), op("aten::add"), op(), op("aten::add")]


def test_other_numbers_are_read_from_memory():
    again = op(ts=12345678901.678, dur=0.9996, **{"External id": 0, "Ev Idx": 123456789012})
    _, rows = scanned(FIRST, [again])
    assert rows[0, layout.C_NAME] == -7
    assert rows[0, layout.C_TS] == 12345678901678
    assert rows[0, layout.C_DUR] == 1000
    assert rows[0, layout.C_EXTERNAL] == 0
    assert rows[0, layout.C_ROLE] == layout.RANGE


@pytest.mark.parametrize(
    "other",
    [op("aten::mn"), op(tid=8), op(dur=-2), op(**{"Input Dims": [[2, 4]]}), op(more=1),
     op(**{"External id": "3"})],
    ids=["name", "thread", "sign", "shape", "key", "type"],
)  # fmt: skip
def test_anything_else_is_parsed(other):
    _, rows = scanned(FIRST, [other])
    assert -7 not in rows[:, layout.C_NAME]


def test_the_latest_of_a_doubled_key_counts():
    other = json.dumps(op(dur=5)).replace('"dur": 5', '"dur": 8, "dur": 9')
    doubled = json.dumps(op()).replace('"dur": 2', '"dur": 3, "dur": 4')
    _, rows = scanned([doubled, doubled], [other])
    assert rows[0, layout.C_NAME] == -7
    assert rows[0, layout.C_DUR] == 9000


@pytest.mark.parametrize("key", ["External id", "Sequence number", "Fwd thread id"])
def test_a_negative_number_behind_a_plain_one_counts(key):
    doubled = json.dumps(op(**{key: 3})).replace(f'"{key}": 3', f'"{key}": 3, "{key}": -4')
    first, rows = scanned([doubled, doubled, doubled], [doubled])
    columns = [layout.C_EXTERNAL, layout.C_SEQ, layout.C_FWD]
    assert -4 in first[2, columns]
    assert -4 in rows[0, columns]
    assert 3 not in rows[0, [c for c in columns if rows[0, c] == -4]]


def test_long_events_are_parsed():
    long = [op(**{f"key {k}": k for k in range(2 * layout.HOLES)}), op(more="x" * 2000)]
    first, rows = scanned(long * 3, long)
    assert len(first) == 6
    assert -7 not in rows[:, layout.C_NAME]

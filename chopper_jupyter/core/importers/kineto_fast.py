"""The fast way through a large Kineto file: compiled scanning, block by block.

Gives exactly what the plain reader gives, or leaves the file to it. Memory grows with the
columns that are kept, not with the text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.core.importers import event_layout as layout
from chopper_jupyter.core.importers import fast_columns, word_table
from chopper_jupyter.core.importers.event_scan import scan
from chopper_jupyter.core.importers.json_events import (
    CUT_SHORT,
    Document,
    salvage_events,
)
from chopper_jupyter.core.importers.json_stream import (
    NotPlain,
    blocks,
    check_utf8,
    read_value,
    split_head,
    utf8,
    values_before,
    values_beside,
)
from chopper_jupyter.core.importers.kineto_events import (
    SKIP_REASONS,
    EventReader,
    rank_events,
    skip_reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chopper_jupyter.core.events import RankEvents

ROLES: dict[str, int] = {
    **dict.fromkeys(("cpu_op", "Operator", "user_annotation"), layout.RANGE),
    "python_function": layout.STACK,
    **dict.fromkeys(("cuda_runtime", "Runtime", "cuda_driver", "hip_runtime", "xpu_runtime"),
                    layout.LAUNCH),
    **dict.fromkeys(("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"),
                    layout.ACTIVITY),
    "fwdbwd": layout.FLOW,
    **dict.fromkeys(("ac2g", "async_cpu_to_gpu", "async", "gpu_user_annotation", "Trace",
                     "cpu_instant_event", "overhead"), layout.DROP),
}  # fmt: skip
"""Categories that files hold by the million; events of others go through the plain reader."""

MAX_EVENT = 64 << 20
DROP_COLUMNS = 256


@dataclass
class Scan:
    """What a scan of one file found.

    Parameters
    ----------
    blocks : dict of str to list
        Columns of the understood events by table, one entry a block of text.
    words : list of bytes
        Texts by code; the first ones are the categories of ``ROLES``.
    odd : list of (int, object)
        Number and content of each event for the plain reader.
    drops : list of (str, str, int)
        Dropped events: type, category, count.
    meta, repairs : dict, Counter
        The values beside the events; repairs made.
    events : int
        Events in the file.
    """

    blocks: dict[str, list[fast_columns.Block]] = field(default_factory=dict)
    words: list[bytes] = field(default_factory=list)
    odd: list[tuple[int, Any]] = field(default_factory=list)
    drops: list[tuple[str, str, int]] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    repairs: Counter[str] = field(default_factory=Counter)
    events: int = 0


MAX_BASE_NS = 2**61


def read_rank(path: Path) -> RankEvents:
    """Read a file by scanning; see ``kineto.read_rank``.

    Raises
    ------
    NotPlain
        If the plain reader must take the file.
    """
    found = scan_file(path)
    reader = EventReader(found.meta)
    if not 0 <= reader.base_ns < MAX_BASE_NS:
        raise NotPlain  # the sum with a time could pass the limit that the plain reader checks
    made = fast_columns.tables(found.blocks, found.words, found.odd, reader)
    for ph, category, count in found.drops:
        word = category.lower()
        reason = SKIP_REASONS[word] if ph == "X" else skip_reason(ph, word)
        reader.skipped[reason] += count
    document = Document([], found.meta, found.repairs)
    return rank_events(made, document, reader, found.events, path.name)


def scan_file(path: Path) -> Scan:
    """Scan a whole file.

    Raises
    ------
    NotPlain
        If the file is not what the scanner is sure of: the plain reader must take it.
    """
    stream = blocks(path)
    head, data = split_head(stream)
    state = _State()
    ended, rest = state.run(data, stream)
    result = state.result
    if ended:
        result.meta = values_beside(head, rest + b"".join(stream))
    else:
        result.meta = values_before(head)
        state.salvage(rest)
    result.words = word_table.words_of(state.table)
    result.events = int(state.state[0])
    result.drops = state.dropped()
    return result


class _State:
    """The arrays that the compiled scanner works on."""

    def __init__(self) -> None:
        self.keys = layout.key_table()
        self.roles = np.array(list(ROLES.values()), np.int64)
        self.stack = np.frombuffer(b"nn.Module: ", np.uint8)
        self.table = word_table.new_table()
        word_table.seed(self.table, [c.encode() for c in ROLES])
        self.drops = np.zeros((256, DROP_COLUMNS), np.int64)
        self.state = np.zeros(4, np.int64)
        self.result = Scan()

    def run(self, data: bytes, stream: Iterator[bytes]) -> tuple[bool, bytes]:
        """Scan to the end of the array, or of the file; say which, and return what is left."""
        while True:
            ended, at = self._block(data)
            if ended == layout.DONE:
                return True, data[at:]
            if ended == layout.INVALID or len(data) - at > MAX_EVENT:
                raise NotPlain
            following = next(stream, b"")
            if not following:
                if not self.state[0]:
                    raise NotPlain  # nothing whole
                return False, data[at:]
            data = data[at:] + following

    def salvage(self, rest: bytes) -> None:
        """Take what is left of a file cut short as the plain reader does: one event at most."""
        events, _ = salvage_events(utf8(rest), 0, self.result.repairs)
        if self.result.repairs != {CUT_SHORT: 1}:
            raise NotPlain  # there is more to repair than the cut
        for event in events:
            self.result.odd.append((int(self.state[0]), event))
            self.state[0] += 1

    def _block(self, data: bytes) -> tuple[int, int]:
        """Scan one block as far as it goes."""
        buf = np.frombuffer(data, np.uint8)
        at = 0
        while True:
            capacity = data.count(b'"ph"', at) + 64
            rows = np.empty((capacity, layout.COLUMNS), np.int64)
            odd = np.empty((capacity, 3), np.int64)
            self.state[1:3] = 0
            ended, position = scan(
                buf, at, len(buf), self.keys, self.roles, self.stack, self.table, rows, odd,
                self.drops, self.state,
            )  # fmt: skip
            check_utf8(data[at:position])
            for name, columns in fast_columns.split(rows[: self.state[1]]).items():
                self.result.blocks.setdefault(name, []).append(columns)
            for number, start, end in odd[: self.state[2]].tolist():
                self.result.odd.append((number, read_value(utf8(data[start:end]))))
            at = position
            if ended == layout.NO_WORDS:
                self.table = word_table.grown(self.table, 1 << 16)
            elif ended != layout.NO_ROOM:
                return ended, at

    def dropped(self) -> list[tuple[str, str, int]]:
        """Return the dropped events by type and category."""
        words = [w.decode() for w in word_table.words_of(self.table)[:DROP_COLUMNS]]
        return [
            (chr(ph), "" if category == DROP_COLUMNS - 1 else words[category],
             int(self.drops[ph, category]))
            for ph, category in np.argwhere(self.drops).tolist()
        ]  # fmt: skip

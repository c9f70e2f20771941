"""The fast way through a large Kineto file: compiled scanning, block by block.

Gives exactly what the plain reader gives, or leaves the file to it. Memory grows with the
columns that are kept, not with the text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chopper_jupyter.core.importers import event_layout as layout
from chopper_jupyter.core.importers import event_repeats, fast_columns, word_table
from chopper_jupyter.core.importers.column_chunks import Chunks
from chopper_jupyter.core.importers.event_scan import EVENTS, ODD_USED, USED, scan
from chopper_jupyter.core.importers.fast_columns import LAYOUT, WIDE
from chopper_jupyter.core.importers.json_events import (
    CUT_SHORT,
    Document,
    salvage_events,
)
from chopper_jupyter.core.importers.json_stream import (
    NotPlain,
    blocks,
    read_value,
    split_head,
    utf8,
    values_before,
    values_beside,
)
from chopper_jupyter.core.importers.kineto_args import MEMORY_EVENT
from chopper_jupyter.core.importers.kineto_events import (
    SKIP_REASONS,
    EventReader,
    rank_events,
    skip_reason,
)
from chopper_jupyter.core.importers.raw_bytes import IS_LITTLE, PADDING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chopper_jupyter.core.events import RankEvents

Ints = npt.NDArray[np.int64]

ROLES: dict[str, int] = {
    **dict.fromkeys(("cpu_op", "Operator", "user_annotation"), layout.RANGE),
    "python_function": layout.STACK,
    **dict.fromkeys(("cuda_runtime", "Runtime", "cuda_driver", "hip_runtime", "xpu_runtime"),
                    layout.LAUNCH),
    **dict.fromkeys(("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"),
                    layout.ACTIVITY),
    "fwdbwd": layout.FLOW,
    "cpu_instant_event": layout.MEMORY,
    **dict.fromkeys(("ac2g", "async_cpu_to_gpu", "async", "gpu_user_annotation", "Trace",
                     "overhead"), layout.DROP),
}  # fmt: skip
"""Categories that files hold by the million; events of others go through the plain reader."""

MAX_EVENT = 64 << 20
DROP_COLUMNS = 256

ROWS, ODD_ROWS = 4000, 1 << 11
"""Room for the rows of each table, and for odd events, in one call of the scanner."""


@dataclass
class Scan:
    """What a scan of one file found.

    Parameters
    ----------
    rows : dict of str to Chunks
        Columns of the understood events by table.
    words : list of bytes
        Texts by code; the first ones are the categories of ``ROLES``.
    odd : list of (list of int, object)
        Events for the plain reader, each with the number of rows of every table before it.
    drops : list of (str, str, int)
        Dropped events: type, category, count.
    meta, repairs : dict, Counter
        The values beside the events; repairs made.
    events : int
        Events in the file.
    """

    rows: dict[str, Chunks]
    words: list[bytes] = field(default_factory=list)
    odd: list[tuple[list[int], Any]] = field(default_factory=list)
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
    made = fast_columns.tables(found.rows, found.words, found.odd, reader)
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
    result.events = int(state.state[EVENTS])
    result.drops = state.dropped()
    if not _holds_events(result):
        raise NotPlain  # it may be JSON of another kind
    return result


def _holds_events(found: Scan) -> bool:
    """Say whether any entry of a file is an event: what the scanner understands has a type."""
    return (
        bool(found.drops)
        or any(kept.rows for kept in found.rows.values())
        or any(isinstance(event, dict) and "ph" in event for _, event in found.odd)
    )


class _Text:
    """The text that is not scanned yet, in one buffer that is used again and again."""

    def __init__(self) -> None:
        self.buffer = np.zeros(0, np.uint8)
        self.end = 0

    def add(self, block: bytes, at: int) -> None:
        """Drop what lies before ``at`` and put a block behind the rest."""
        kept = self.end - at
        end = kept + len(block)
        buffer = self.buffer
        if end + PADDING > len(buffer):
            buffer = np.zeros(2 * end + PADDING, np.uint8)
        buffer[:kept] = self.buffer[at : self.end]
        buffer[kept:end] = np.frombuffer(block, np.uint8)
        buffer[end : end + PADDING] = 0
        self.buffer, self.end = buffer, end

    def part(self, at: int, end: int) -> bytes:
        """Return a part of the text."""
        return self.buffer[at:end].tobytes()


class _State:
    """The arrays that the compiled scanner works on."""

    def __init__(self) -> None:
        if not IS_LITTLE:
            raise NotPlain
        self.keys = layout.key_table()
        self.roles = np.array(list(ROLES.values()), np.int64)
        self.stack = np.frombuffer(b"nn.Module: ", np.uint8)
        self.memory = np.frombuffer(MEMORY_EVENT.encode(), np.uint8)
        self.table = word_table.new_table()
        word_table.seed(self.table, [c.encode() for c in ROLES])
        self.drops = np.zeros((256, DROP_COLUMNS), np.int64)
        self.rows = np.empty((layout.TABLES, layout.COLUMNS, ROWS), np.int64)
        self.odd = np.empty((ODD_ROWS, 2 + layout.TABLES), np.int64)
        self.state = np.zeros(USED + layout.TABLES, np.int64)
        self.notes = layout.new_scratch()
        self.repeats = event_repeats.new_repeats()
        self.result = Scan({name: Chunks(columns, WIDE) for name, columns in LAYOUT.items()})

    def run(self, data: bytes, stream: Iterator[bytes]) -> tuple[bool, bytes]:
        """Scan to the end of the array, or of the file; say which, and return what is left."""
        text = _Text()
        text.add(data, 0)
        while True:
            ended, at = self._block(text)
            if ended == layout.INVALID or text.end - at > MAX_EVENT:
                raise NotPlain
            following = b"" if ended == layout.DONE else next(stream, b"")
            if not following:
                if not self.state[EVENTS] and ended != layout.DONE:
                    raise NotPlain  # nothing whole
                self._keep_rows()
                return ended == layout.DONE, text.part(at, text.end)
            text.add(following, at)

    def salvage(self, rest: bytes) -> None:
        """Take what is left of a file cut short as the plain reader does: one event at most."""
        events, _ = salvage_events(utf8(rest), 0, self.result.repairs)
        if self.result.repairs != {CUT_SHORT: 1}:
            raise NotPlain  # there is more to repair than the cut
        for event in events:
            self.result.odd.append((self._kept().tolist(), event))
            self.state[EVENTS] += 1

    def _block(self, text: _Text) -> tuple[int, int]:
        """Scan the text that is there as far as it goes."""
        at = 0
        while True:
            ended, position = scan(
                text.buffer, at, text.end, self.keys, self.roles, self.stack, self.memory,
                self.table, self.rows, self.odd, self.drops, self.state, self.notes, self.repeats,
            )  # fmt: skip
            if text.buffer[at:position].max(initial=0) >= 128:  # noqa: PLR2004  not ASCII
                utf8(text.part(at, position))
            odd = self.odd[: self.state[ODD_USED]]
            before = (odd[:, 2:] + self._kept()).tolist()
            for (start, end), rows in zip(odd[:, :2].tolist(), before, strict=True):
                self.result.odd.append((rows, read_value(utf8(text.part(start, end)))))
            self.state[ODD_USED] = 0
            at = position
            if ended == layout.NO_WORDS:
                self.table = word_table.grown(self.table, 1 << 16)
            elif ended == layout.NO_ROOM:
                self._keep_rows()
            else:
                return ended, at

    def _kept(self) -> Ints:
        """Count the rows of each table that are in columns already."""
        return np.array([chunks.rows for chunks in self.result.rows.values()], np.int64)

    def _keep_rows(self) -> None:
        """Move the rows into columns, so that there is room for more."""
        for kept, rows, used in zip(
            self.result.rows.values(), self.rows, self.state[USED:].tolist(), strict=True
        ):
            kept.add(rows[:, :used])
        self.state[USED:] = 0

    def dropped(self) -> list[tuple[str, str, int]]:
        """Return the dropped events by type and category."""
        words = [w.decode() for w in word_table.words_of(self.table)[:DROP_COLUMNS]]
        return [
            (chr(ph), "" if category == DROP_COLUMNS - 1 else words[category],
             int(self.drops[ph, category]))
            for ph, category in np.argwhere(self.drops).tolist()
        ]  # fmt: skip

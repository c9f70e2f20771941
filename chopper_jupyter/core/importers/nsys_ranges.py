"""NVTX ranges in an export of Nsight Systems."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.importers.event_tables import durations, numbered
from chopper_jupyter.core.importers.range_text import is_library, range_columns
from chopper_jupyter.core.importers.sqlite_columns import integers, texts

if TYPE_CHECKING:
    import sqlite3

    from chopper_jupyter.core.importers.event_tables import Ints

TABLE = "NVTX_EVENTS"
RANGE_TYPES = (59, 60, 70, 71)
"""Push-pop and start-end ranges, of NVTX and of NVTX text files."""

DOMAIN_TYPE = 75
MARK_TYPES = (34, 65)
PROCESS_SHIFT = 24
OPEN = -(2**63)


@dataclass(frozen=True)
class Ranges:
    """Host ranges of all processes.

    Parameters
    ----------
    columns : dict of str to array
        By ``events.RANGES``; ``tid`` is the global thread number.
    process : int64 array
        Process of each range.
    labels : mapping of int to list of str
        Names that each process gave to its threads.
    """

    columns: dict[str, Any]
    process: Ints
    labels: dict[int, list[str]] = field(default_factory=dict)


def read(
    db: sqlite3.Connection,
    strings: dict[int, str],
    origin: int,
    skipped: Counter[str],
    repairs: Counter[str],
) -> Ranges:
    """Read the ranges; what is none or never ended is counted as skipped."""
    wanted = {"start": 0, "end": OPEN, "eventType": 0, "globalTid": 0, "domainId": 0, "textId": -1}
    raw = integers(db, TABLE, wanted)
    text = _texts(db, raw["textId"], strings)
    kind, process = raw["eventType"], raw["globalTid"] >> PROCESS_SHIFT
    ranges = np.isin(kind, RANGE_TYPES)
    ended = raw["end"] != OPEN
    _count(skipped, kind, ranges, ended)
    code, words = text
    named = code >= 0
    kept = ranges & ended & named
    skipped.update(_some({"NVTX ranges without a text": int((ranges & ended & ~named).sum())}))
    library = _in_library(kind, process, raw["domainId"], text)[kept]
    start = raw["start"][kept]
    columns = range_columns(code[kept], words, library) | {
        "tid": raw["globalTid"][kept],
        "start_ns": start + origin,
        "dur_ns": durations(start, raw["end"][kept], repairs),
    }
    return Ranges(columns, process[kept], _labels(kind, process, text))


def _texts(db: sqlite3.Connection, ids: Ints, strings: dict[int, str]) -> tuple[Ints, list[str]]:
    """Return the text of each row as codes (-1 for none) and words: its own, else by number."""
    if not len(ids):
        return ids, []
    own = texts(db, TABLE, "text")
    number, distinct = numbered(ids)
    by_id = pa.array([strings.get(one) for one in distinct.tolist()], pa.string())
    joined = pa.compute.coalesce(own, by_id.take(pa.array(number))).dictionary_encode()
    codes = pa.compute.fill_null(joined.indices, -1).to_numpy()
    return np.asarray(codes, np.int64), joined.dictionary.to_pylist()


def _count(skipped: Counter[str], kind: Ints, ranges: Any, ended: Any) -> None:
    marks = np.isin(kind, MARK_TYPES)
    skipped.update(_some({
        "NVTX marks": int(marks.sum()),
        "NVTX names of domains, threads and the like": int((~ranges & ~marks).sum()),
        "NVTX ranges that had not ended when the recording did": int((ranges & ~ended).sum()),
    }))  # fmt: skip


def _some(counts: dict[str, int]) -> dict[str, int]:
    return {what: count for what, count in counts.items() if count}


def _in_library(kind: Ints, process: Ints, domain: Ints, text: tuple[Ints, list[str]]) -> Any:
    """Mark the rows in domains of libraries."""
    code, words = text
    found = np.zeros(len(kind), bool)
    for row in np.flatnonzero((kind == DOMAIN_TYPE) & (code >= 0)).tolist():  # a handful a process
        if is_library(words[code[row]]):
            found |= (process == process[row]) & (domain == domain[row])
    return found


def _labels(kind: Ints, process: Ints, text: tuple[Ints, list[str]]) -> dict[int, list[str]]:
    """Return the names that processes gave to their threads."""
    code, words = text
    found: dict[int, list[str]] = defaultdict(list)
    for row in np.flatnonzero((kind == THREAD_NAME) & (code >= 0)).tolist():
        found[int(process[row])].append(words[code[row]])
    return dict(found)


THREAD_NAME = 39

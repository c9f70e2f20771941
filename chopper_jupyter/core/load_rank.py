"""Loads one rank: a pure function of its files, whose result can travel between processes."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.align.link import LinkedRank, link
from chopper_jupyter.core.align.merge import join
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers import rocprof_trace
from chopper_jupyter.core.importers.recordings import read_ranks
from chopper_jupyter.core.quality import Quality

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.core.events import RankEvents

FACTS = "facts.json"
TABLES = ("gpus", "spans", "ops", "kernels", "memory")
LOST_SEGMENTS = "recorded segments that could not be read left out"


@dataclass(frozen=True)
class LoadedRank:
    """One rank, imported and linked, and what is needed to join it with others.

    Parameters
    ----------
    linked : LinkedRank
        Its part of the tables.
    source : str
        Name of its (first) file.
    rank, world_size : int or None
        As the recording says; None if it does not.
    ranks : tuple of int
        Ranks in a file that holds several, each with its number; else empty.
    fused : bool
        True if several processes with several devices wrote into the file.
    fingerprints : frozenset of str
        Hashes of the times of what ran, one a device; equal ones are the same recording.
    """

    linked: LinkedRank
    source: str = ""
    rank: int | None = None
    world_size: int | None = None
    ranks: tuple[int, ...] = ()
    fused: bool = False
    fingerprints: frozenset[str] = frozenset()


def load_rank(paths: Sequence[Path], *, more_text: int = 0) -> LoadedRank:
    """Import and link one rank, or all those that one file holds.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        The rank's trace file, or the segments of its recording in order, or the CSV files
        that rocprofv3 wrote for one process.
    more_text : int, optional
        Bytes of text of the other ranks that this process loads, which decide with what it
        reads them, never what it finds.

    Returns
    -------
    LoadedRank
        A segment that cannot be read is left out and counted if another one can.

    Raises
    ------
    TraceFormatError
        If no file can be read, or a fusion of ranks cannot be told apart.
    """
    found = _read(paths, more_text)
    linked = [_linked(events) for events in found]
    first, several = found[0], len(found) > 1
    return LoadedRank(
        join(linked) if several else linked[0],
        first.source,
        None if several else first.rank,
        first.world_size,
        ranks=tuple(e.rank for e in found if e.rank is not None) if several else (),
        fused=not several and _is_fused(first),
        fingerprints=frozenset().union(*(_fingerprints(events) for events in found)),
    )


def _linked(events: RankEvents) -> LinkedRank:
    """Link the events of one rank; what its importer has to say stands first in the record."""
    linked = link(events)
    notes = (*events.meta.get("notes", ()), *linked.quality.notes)
    return replace(linked, quality=replace(linked.quality, notes=notes))


def _read(paths: Sequence[Path], more_text: int) -> list[RankEvents]:
    """Read the files of one recording, one rank or several; join segments of one rank."""
    if len(paths) > 1 and all(rocprof_trace.is_part(path) for path in paths):
        return read_ranks(paths)
    parts: list[RankEvents] = []
    failures = []
    for path in paths:
        try:
            parts += read_ranks([path], more_text=more_text)
        except TraceFormatError as error:  # noqa: PERF203  a file is far slower than a try
            failures.append(error)
    if not parts:
        raise failures[0]
    if len(paths) == 1:
        return parts
    events = _concatenate(parts)
    if failures:
        events = replace(events, repairs={**events.repairs, LOST_SEGMENTS: len(failures)})
    return [events]


def _concatenate(parts: list[RankEvents]) -> RankEvents:
    """Join the segments of one rank; their threads are the same where their numbers are."""
    if len(parts) == 1:
        return parts[0]
    tables = {
        name: pa.concat_tables([getattr(p, name) for p in parts]).unify_dictionaries()
        for name in ("ranges", "launches", "device", "flows", "memory")
    }
    return replace(
        parts[0],
        **tables,
        skipped=dict(sum((Counter(p.skipped) for p in parts), Counter())),
        repairs=dict(sum((Counter(p.repairs) for p in parts), Counter())),
        events_read=sum(p.events_read for p in parts),
    )


def _is_fused(events: RankEvents) -> bool:
    devices = len(events.device["device"].unique())
    return devices > 1 and len(events.launches["pid"].unique()) > 1


def _fingerprints(events: RankEvents) -> set[str]:
    """Hash the times of what ran, one hash a device; a fused file may repeat another's device."""
    table = events.device if events.device.num_rows else events.ranges
    if not table.num_rows:
        return set()
    start, dur = (table[column].to_numpy() for column in ("start_ns", "dur_ns"))
    devices = table["device"].to_numpy() if events.device.num_rows else np.zeros(len(start))
    found = set()
    for device in np.unique(devices):
        rows = np.flatnonzero(devices == device)
        rows = rows[np.lexsort((dur[rows], start[rows]))]
        digest = hashlib.sha1(usedforsecurity=False)
        digest.update(start[rows].tobytes())
        digest.update(dur[rows].tobytes())
        found.add(digest.hexdigest())
    return found


def hand_over(loaded: LoadedRank, folder: Path) -> None:
    """Write a loaded rank into a folder, for another process to ``take_over``.

    Raises
    ------
    OSError
        If there is no room.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        table = getattr(loaded.linked, name)
        with (
            pa.OSFile(str(folder / f"{name}.arrow"), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
    facts = {
        "device_kind": loaded.linked.device_kind,
        "quality": loaded.linked.quality.to_dict(),
        "source": loaded.source,
        "rank": loaded.rank,
        "world_size": loaded.world_size,
        "ranks": loaded.ranks,
        "fused": loaded.fused,
        "fingerprints": sorted(loaded.fingerprints),
    }
    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def take_over(folder: Path) -> LoadedRank:
    """Read what ``hand_over`` wrote; the folder may be removed afterwards.

    The tables are mapped, not read: of a column that a join does not change, no copy is made.
    """
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    tables = {name: _mapped(folder / f"{name}.arrow") for name in TABLES}
    quality = Quality.from_dict(facts["quality"])
    return LoadedRank(
        LinkedRank(**tables, quality=quality, device_kind=facts["device_kind"]),
        facts["source"],
        facts["rank"],
        facts["world_size"],
        ranks=tuple(facts["ranks"]),
        fused=facts["fused"],
        fingerprints=frozenset(facts["fingerprints"]),
    )


def _mapped(path: Path) -> pa.Table:
    """Map a file that stays alive though removed; where that cannot be, read it."""
    source = pa.memory_map(str(path)) if os.name == "posix" else pa.py_buffer(path.read_bytes())
    return pa.ipc.open_file(source).read_all()

"""Which rank each file holds, and that no two files hold the same."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.load_rank import LoadedRank
    from chopper_jupyter.core.rank_pool import Outcome

_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_.]?(\d+)", re.IGNORECASE)

NOTES = {
    "name": "rank taken from the file name",
    "order": "rank taken from the order of the files: they do not say it",
    "single": "the file does not say its rank: taken as rank 0",
    "fused": "the file holds several ranks and does not say which: their ranks are unknown",
}
"""What the quality record says of a rank, by how it was found."""


@dataclass(frozen=True)
class Found:
    """One rank: its number, what became of its files, and how the number was found.

    Parameters
    ----------
    rank : int or None
        None for a file that holds several ranks, or cannot be read.
    outcome : Outcome
        Loaded or failed.
    rank_from : str
        ``"file"`` or ``"run"``, or a key of ``NOTES``.
    shift : int
        What to add to the ranks in a file that holds several.
    """

    rank: int | None
    outcome: Outcome
    rank_from: str
    shift: int = 0

    @property
    def ranks(self) -> set[int | None]:
        """The numbers of all ranks in the file; None for an unknown one."""
        several = self.outcome.loaded.ranks if self.outcome.loaded is not None else ()
        return {rank + self.shift for rank in several} or {self.rank}


def rank_in_name(name: str) -> int | None:
    """Return the rank that a file name says.

    Examples
    --------
    >>> rank_in_name("worker_3.1698.pt.trace.json"), rank_in_name("trace.json")
    (3, None)
    """
    match = _RANK_IN_NAME.search(name)
    return int(match[1]) if match else None


def looks_like_a_rank(name: str) -> bool:
    """Say whether a file that could not be read was meant to be one rank's trace.

    Examples
    --------
    >>> looks_like_a_rank("node1_77.1698.pt.trace.json.gz"), looks_like_a_rank("settings.json")
    (True, False)
    """
    return rank_in_name(name) is not None or "trace" in name.lower()


def ranks_of(outcomes: Sequence[Outcome]) -> list[Found]:
    """Give every file a rank: its own word, else its name's, else its place in the list."""
    first = outcomes[0].loaded
    if any(o.loaded is not None and o.loaded.ranks for o in outcomes):
        return _with_several(outcomes)
    if len(outcomes) == 1 and first is not None and first.rank is None:
        return [_single(outcomes[0], first)]
    said = [o.loaded.rank if o.loaded else None for o in outcomes]
    taken = {rank for rank in said if rank is not None}
    free = (n for n in range(len(said) + len(taken)) if n not in taken)
    result = []
    for rank, outcome in zip(said, outcomes, strict=True):
        if rank is not None:
            result.append(Found(rank, outcome, "file"))
            continue
        named = rank_in_name(outcome.paths[0].name)
        if named is None and outcome.loaded is None and taken:
            result.append(Found(None, outcome, "file"))  # what it said cannot be read
            continue
        found = next(free) if named is None else named
        result.append(Found(found, outcome, "order" if named is None else "name"))
    return result


def _with_several(outcomes: Sequence[Outcome]) -> list[Found]:
    """Rank files that hold several ranks: as they say, else one file after the other."""
    counts = [max(len(o.loaded.ranks), 1) if o.loaded else 1 for o in outcomes]
    said = [rank for o in outcomes if o.loaded for rank in o.loaded.ranks or (o.loaded.rank,)]
    known = [rank for rank in said if rank is not None]
    if len(set(known)) == sum(counts):
        return [Found(o.loaded.rank if o.loaded else None, o, "file") for o in outcomes]
    result, begin = [], 0
    for outcome, count in zip(outcomes, counts, strict=True):
        several = outcome.loaded is not None and bool(outcome.loaded.ranks)
        shift = begin if several and len(outcomes) > 1 else 0
        result.append(Found(None if several else begin, outcome, "order", shift))
        begin += count
    return result


def _single(outcome: Outcome, loaded: LoadedRank) -> Found:
    """Rank a lone file: by its name, else 0; unknown if several processes wrote into it."""
    named = rank_in_name(loaded.source)
    if named is not None:
        return Found(named, outcome, "name")
    return Found(None, outcome, "fused") if loaded.fused else Found(0, outcome, "single")


def refuse_several_runs(found: Sequence[Found]) -> None:
    """Refuse exports of profilers in a folder that were recorded far apart in time.

    PyTorch's traces are not judged: their ranks say who they are.

    Raises
    ------
    TraceFormatError
        With the names of the files.
    """
    spans: dict[object, list[tuple[int, int, str]]] = defaultdict(list)
    for one in found:
        loaded, path = one.outcome.loaded, one.outcome.paths[0]
        if loaded is None or ".json" in path.suffixes or not loaded.linked.kernels.num_rows:
            continue
        start, dur = (loaded.linked.kernels[c].to_numpy() for c in ("start_ns", "dur_ns"))
        clock = None if start[0] > FIRST_WALL_NS else path.parent
        spans[clock].append((int(start.min()), int((start + dur).max()), loaded.source))
    for several in spans.values():
        several.sort()
        apart = MAX_APART_NS + max(end - start for start, end, _ in several)
        for (_, end, before), (start, _, after) in itertools.pairwise(several):
            if start - end > apart:
                msg = (
                    f"{before} and {after} were recorded {(start - end) / 1e9:,.0f} s apart, so "
                    "that they are no ranks of one run; choose the files of one recording with "
                    "pattern="
                )
                raise TraceFormatError(msg)


MAX_APART_NS = 60 * 10**9
FIRST_WALL_NS = 10**18
"""Times before this (2001) are of a clock that starts with the machine, each with its own."""


def refuse_duplicates(found: Sequence[Found]) -> None:
    """Refuse files that claim the same rank or hold the same kernels.

    Raises
    ------
    TraceFormatError
        With the names of the files.
    """
    by_rank: dict[int | None, list[str]] = defaultdict(list)
    by_content: dict[str, list[str]] = defaultdict(list)
    for one in found:
        loaded = one.outcome.loaded
        if loaded is None:
            continue
        for rank in one.ranks:
            by_rank[rank].append(loaded.source)
        for key in loaded.fingerprints:
            by_content[key].append(loaded.source)
    hint = "choose the files of one recording with pattern=, for instance pattern='rank*.json.gz'"
    for rank, sources in sorted(by_rank.items(), key=str):
        if len(sources) > 1:
            msg = f"{len(sources)} files claim to be rank {rank}: {', '.join(sources)}; {hint}"
            raise TraceFormatError(msg)
    for sources in by_content.values():
        if len(sources) > 1:
            msg = f"{len(sources)} files hold the same kernels: {', '.join(sources)}; {hint}"
            raise TraceFormatError(msg)

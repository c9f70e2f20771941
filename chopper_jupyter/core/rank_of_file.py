"""Which rank each file holds, and that no two files hold the same."""

from __future__ import annotations

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
        None for a file that holds several ranks and does not say which, or cannot be read.
    outcome : Outcome
        Loaded or failed.
    rank_from : str
        ``"file"`` or ``"run"``, or a key of ``NOTES``.
    """

    rank: int | None
    outcome: Outcome
    rank_from: str


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


def _single(outcome: Outcome, loaded: LoadedRank) -> Found:
    """Rank a lone file: by its name, else 0; unknown if several processes wrote into it."""
    named = rank_in_name(loaded.source)
    if named is not None:
        return Found(named, outcome, "name")
    return Found(None, outcome, "fused") if loaded.fused else Found(0, outcome, "single")


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
        by_rank[one.rank].append(loaded.source)
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

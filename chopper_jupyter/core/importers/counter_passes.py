"""Which files of a counting run are of one pass, told by folders, counters and times."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chopper_jupyter.core.importers.counter_parts import Part

_PASS = re.compile(r"(?:pass|pmc)[_-]?\d+", re.IGNORECASE)
_FORMS = ("csv", "json", "rocpd", "raw", "details", "pass", "merged")
"""Of one run in several forms the first one is read."""

TWICE = "files that hold what another one holds: left out"
JOINED = "files that join passes which are there one by one: left out"


def without_copies(parts: Sequence[Part], skipped: Counter[str]) -> list[Part]:
    """Leave out what a run wrote in another form, too, or what joins passes that are there."""
    ordered = sorted(parts, key=lambda part: (_FORMS.index(part.form), _natural(part.source)))
    passes: dict[Path, set[str]] = defaultdict(set)
    for part in ordered:
        if part.form == "pass":
            passes[part.source.parent].update(part.counters)
    raw = {_same_kernels(part) for part in ordered if part.form == "raw"}
    kept: dict[tuple[Any, ...], Part] = {}
    for part in ordered:
        if part.form == "merged" and set(part.counters) <= passes[part.source.parent]:
            skipped[JOINED] += 1
        elif (part.form == "details" and _same_kernels(part) in raw) or (
            kept.setdefault(_identity(part), part) is not part
        ):
            skipped[TWICE] += 1
    return list(kept.values())


def _same_kernels(part: Part) -> tuple[Path, bytes]:
    """Return what both pages of one report have in common."""
    return part.source.parent, _digest(part)


def _identity(part: Part) -> tuple[Any, ...]:
    """Return what only a copy has in common: process, kernels, order, times and counters."""
    timed = bool(part.kernels["start"].any())
    values = () if timed else tuple(np.round(np.sort(part.value), 3).tolist())
    return part.tool, _digest(part), part.counters, values


def _digest(part: Part) -> bytes:
    rows = np.lexsort((part.kernels["order"], part.kernels["process"]))
    digest = hashlib.blake2b()
    for column in ("process", "order", "start", "work_items"):
        digest.update(np.ascontiguousarray(part.kernels[column][rows]).tobytes())
    return digest.digest()


def numbered(parts: Sequence[Part]) -> list[tuple[int, Part]]:
    """Give each part the number of its pass, from 0.

    Parameters
    ----------
    parts : sequence of Part
        Of one tool.

    Returns
    -------
    list of (int, Part)
        By pass, then by path. A folder ``pass_3`` or ``pmc_3`` is a pass, and so is each file of
        rocprof-compute. Elsewhere files of one folder, or of hosts side by side, are one pass if
        they have the same counters and were counted at the same time.
    """
    groups: dict[tuple[Any, ...], list[Part]] = defaultdict(list)
    for part in parts:
        groups[_place(part)].append(part)
    passes: list[tuple[Any, list[Part]]] = []
    for place, members in groups.items():
        explicit = place[1] is None
        clusters = [members] if explicit else _at_one_time(members)
        for n, cluster in enumerate(clusters):
            first = min(_natural(part.source) for part in cluster)
            passes += [((place[0], first, n, k), own) for k, own in _once(cluster)]
    passes.sort(key=lambda found: found[0])
    return [
        (number, part)
        for number, (_, members) in enumerate(passes)
        for part in sorted(members, key=lambda part: (part.processes, _natural(part.source)))
    ]


def _place(part: Part) -> tuple[Any, tuple[str, ...] | None]:
    """Return the folder of a part's pass; with its counters where folders do not tell."""
    if part.tool == "rocprof-compute":
        return _natural(part.source), None
    folder = part.source.parent
    for above in (folder, *folder.parents):
        if _PASS.fullmatch(above.name):
            return _natural(above), None
    if folder.name in map(str, part.processes):  # <host>/<process>/<process>_counter...
        folder = folder.parent
    return _natural(folder.parent), part.counters


def _natural(path: Path) -> tuple[tuple[tuple[int, str], ...], ...]:
    """Return a key that sorts ``pass_2`` before ``pass_10``."""
    return tuple(
        tuple((int(piece), "") if i % 2 else (-1, piece) for i, piece in enumerate(pieces))
        for pieces in (re.split(r"(\d+)", name) for name in path.parts)
    )


def _at_one_time(members: Sequence[Part]) -> list[list[Part]]:
    """Part what lies in one folder but was counted at different times, in order of time.

    Clocks of several hosts cannot be compared.
    """
    if len({part.source.parent for part in members}) > 1:
        return [list(members)]
    clusters: list[list[Part]] = []
    last = 0
    for part in sorted(members, key=lambda part: (_span(part), _natural(part.source))):
        start, end = _span(part)
        if not clusters or start > last:
            clusters.append([])
        clusters[-1].append(part)
        last = max(last, end)
    return clusters


def _span(part: Part) -> tuple[int, int]:
    timed = part.kernels["start"] > 0
    if not timed.any():
        return 0, 0
    return int(part.kernels["start"][timed].min()), int(part.kernels["end"][timed].max())


def _once(members: Sequence[Part]) -> list[tuple[int, list[Part]]]:
    """Part files of the same process on the same host: it counted several times."""
    rounds: Counter[tuple[Any, ...]] = Counter()
    found: dict[int, list[Part]] = defaultdict(list)
    for part in sorted(members, key=lambda part: (_span(part)[0], _natural(part.source))):
        key = (part.source.parent, part.processes)
        found[rounds[key]].append(part)
        rounds[key] += 1
    return sorted(found.items())

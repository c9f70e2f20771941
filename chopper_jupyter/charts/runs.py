"""What figures are made of: one run, or several by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from chopper_jupyter.charts.axes import text
from chopper_jupyter.charts.colours import theme
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.quantities import counted
from chopper_jupyter.core.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Runs: TypeAlias = Trace | Mapping[str, Trace] | Mapping[tuple[str, str], Trace]
"""One run; several by name; or several by configuration and variant, ``("b1s4", "FSDP v1")``,
where runs of one variant have one colour."""

OTHER = "other"
"""How null is shown."""

ROWS = 60
"""Rows that a figure of rows has at most, about: more runs leave room for fewer ops."""

DASHES = ("solid", "dashed", "dotted", "dotdash", "dashdot")

_SHORT = {"forward": "f", "backward": "b", "optimizer": "opt"}


def named(runs: Runs) -> dict[str, Trace]:
    """Return the runs by name; a single Trace has its own."""
    if isinstance(runs, Trace):
        return {runs.info.name: runs}
    return {_name(key): trace for key, trace in runs.items()}


def _name(key: Sequence[str]) -> str:
    return key if isinstance(key, str) else " ".join(key)


def colour_of(runs: Runs) -> dict[str, str]:
    """Return the colour of each run: that of its variant, if runs are named by one."""
    variant = variant_of(runs)
    kinds = list(dict.fromkeys(variant.values()))
    series = theme().series
    return {name: series[kinds.index(kind) % len(series)] for name, kind in variant.items()}


def variant_of(runs: Runs) -> dict[str, str]:
    """Return what the colour of each run stands for: its variant, else its name."""
    if isinstance(runs, Trace):
        return {runs.info.name: runs.info.name}
    return {_name(key): key if isinstance(key, str) else key[1] for key in runs}


def dash_of(runs: Runs) -> dict[str, str]:
    """Return the kind of line of each run: that of its configuration, if runs are named by one."""
    if isinstance(runs, Trace):
        return {runs.info.name: DASHES[0]}
    first = [key if isinstance(key, str) else key[0] for key in runs]
    kinds = list(dict.fromkeys(one for one, key in zip(first, runs, strict=True) if one != key))
    place = {one: DASHES[kinds.index(one) % len(DASHES)] for one in kinds}
    return {_name(key): place.get(one, DASHES[0]) for one, key in zip(first, runs, strict=True)}


def most_ops(runs: Runs, most: int = 12) -> int:
    """Return how many ops a figure shows that has a row for each op of each run."""
    return max(4, min(most, ROWS // max(1, len(named(runs)))))


def per_run(runs: Runs, table: Callable[[Trace], pd.DataFrame]) -> pd.DataFrame:
    """Make a table of each run and put them below each other; the first column names the run."""
    parts = []
    for name, trace in named(runs).items():
        part = table(trace)
        part.insert(0, "run", name)
        part.attrs = {}
        parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"run": []})


def longest_ops(data: pd.DataFrame, size: pd.Series, most: int) -> pd.DataFrame:
    """Keep the ops with the largest total, largest first, runs in their order in each."""
    total = size.groupby(data["op"], sort=False).sum().sort_values(ascending=False, kind="stable")
    place = {op: i for i, op in enumerate(total.index[:most])}
    kept = data[data["op"].isin(place)]
    return kept.sort_values("op", key=lambda c: c.map(place), kind="stable", ignore_index=True)


def provenance(runs: Runs, what: str) -> str:
    """Say what was computed from what.

    Parameters
    ----------
    runs : Trace or mapping
        The runs.
    what : str
        What was computed, as a sentence without its full stop.
    """
    every = named(runs)
    which = [included(trace) for trace in every.values()]
    gpus = sorted({len(one.gpus) for one in which})
    covers = list(dict.fromkeys(one.phrase() for one in which))
    sizes = (
        f"{gpus[0]} to {gpus[-1]} GPUs"
        if len(gpus) > 1
        else counted(gpus[0], "GPU")
        if gpus
        else ""
    )
    said = f"{what}. {sizes}; {covers[0] if len(covers) == 1 else 'iterations after warm-up'}."
    return said + (" Simulated." if any(t.info.simulated for t in every.values()) else "")


def titled(runs: Runs, title: str) -> str:
    """Return the title, which says so where anything is simulated."""
    simulated = any(trace.info.simulated for trace in named(runs).values())
    return f"{title} (simulated)" if simulated else title


def factors(names: Iterable[str], run: Iterable[str], *, run_first: bool) -> list[Any]:
    """Return the places of bars on an axis: grouped with their run, unless there is but one."""
    names, run = list(names), list(run)
    short, of_run = apart(names), apart(run)
    pairs = [(short[name], of_run[one]) for name, one in zip(names, run, strict=True)]
    if len(set(run)) < 2:  # noqa: PLR2004  one run needs no name at every bar
        return [name for name, _ in pairs]
    return [(run, name) if run_first else (name, run) for name, run in pairs]


def apart(names: Iterable[object]) -> dict[Any, str]:
    """Return the label of each name; names that look alike when shortened stay apart.

    Examples
    --------
    >>> labels = apart(["x" * 40 + "a" + "x" * 40, "x" * 40 + "b" + "x" * 40])
    >>> len(set(labels.values()))
    2
    """
    found: dict[Any, str] = {}
    for name in dict.fromkeys(names):
        label = text(name)
        while label in found.values():
            label += "\u200b"
        found[name] = label
    return found


def op_labels(rows: pd.DataFrame) -> pd.Series:
    """Return the op of each row with its phase before it, as the paper writes it: ``f q_proj``."""
    phase = words(rows["phase"]).map(lambda name: _SHORT.get(name, name))
    return phase + " " + words(rows["op"])


def words(column: pd.Series, other: str = OTHER) -> pd.Series:
    """Return a column of names as plain text, null as ``other``."""
    return column.astype(object).where(column.notna(), other).astype(str)

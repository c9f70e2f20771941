"""What figures are made of: one run, or several by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.quantities import counted
from chopper_jupyter.core.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Runs: TypeAlias = Trace | Mapping[str, Trace]

OTHER = "other"
"""How null is shown."""

_SHORT = {"forward": "f", "backward": "b", "optimizer": "opt"}


def named(runs: Runs) -> dict[str, Trace]:
    """Return the runs by name; a single Trace has its own."""
    return {runs.info.name: runs} if isinstance(runs, Trace) else dict(runs)


def per_run(runs: Runs, table: Callable[[Trace], pd.DataFrame]) -> pd.DataFrame:
    """Make a table of each run and put them below each other; the first column names the run."""
    parts = []
    for name, trace in named(runs).items():
        part = table(trace)
        part.insert(0, "run", name)
        part.attrs = {}
        parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"run": []})


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
    text = f"{what}. {sizes}; {covers[0] if len(covers) == 1 else 'iterations after warm-up'}."
    return text + (" Simulated." if any(t.info.simulated for t in every.values()) else "")


def titled(runs: Runs, title: str) -> str:
    """Return the title, which says so where anything is simulated."""
    simulated = any(trace.info.simulated for trace in named(runs).values())
    return f"{title} (simulated)" if simulated else title


def factors(names: Iterable[str], run: Iterable[str], *, run_first: bool) -> list[Any]:
    """Return the places of bars on an axis: grouped with their run, unless there is but one."""
    pairs = list(zip(map(str, names), map(str, run), strict=True))
    if len({run for _, run in pairs}) < 2:  # noqa: PLR2004  one run needs no name at every bar
        return [name for name, _ in pairs]
    return [(run, name) if run_first else (name, run) for name, run in pairs]


def op_labels(rows: pd.DataFrame) -> pd.Series:
    """Return the op of each row with its phase before it, as the paper writes it: ``f q_proj``."""
    phase = words(rows["phase"]).map(lambda name: _SHORT.get(name, name))
    return phase + " " + words(rows["op"])


def words(column: pd.Series, other: str = OTHER) -> pd.Series:
    """Return a column of names as plain text, null as ``other``."""
    return column.astype(object).where(column.notna(), other).astype(str)

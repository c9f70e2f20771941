"""What ranks ran on, in a few words: how far their clocks are apart, and their processors' use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from chopper_jupyter.core.analysis.cpu_utilization import cpu_utilization
from chopper_jupyter.core.analysis.quantities import counted, duration, percent
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace


def clocks_text(trace: Trace) -> str:
    """Say how far the clocks of the ranks were apart, and how well that is known.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> clocks_text(Trace.from_tables({}))
    ''
    """
    gpus = trace.gpus
    if gpus.num_rows < 2:  # noqa: PLR2004  nothing to compare
        return ""
    offsets, known = (gpus[c].to_pylist() for c in ("offset_ns", "offset_uncertainty_ns"))
    if None in known:
        return "not compared: ranks share too few collectives"
    if not any(offsets) and not any(known):
        return "one for all ranks, offset 0"
    apart, uncertain = max(offsets) - min(offsets), duration(max(known))
    offset = f"up to {duration(apart)} ± {uncertain}, corrected" if apart else f"0 ± {uncertain}"
    return f"offset {offset}"


def cores_text(trace: Trace) -> str:
    """Say how many processor cores were busy; empty if they were not sampled.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> cores_text(Trace.from_tables({}))
    ''
    """
    try:
        found = cpu_utilization(trace, by=())
    except MissingDataError:
        return ""
    if not len(found) or pd.isna(found["min_cores"].iloc[0]):
        return ""
    row = found.iloc[0]
    cores = counted(found.attrs["cores"], "core")
    share = percent(float(row["used_percent"]) / 100)
    return f"{float(row['min_cores']):.1f} of {cores} busy ({share})"

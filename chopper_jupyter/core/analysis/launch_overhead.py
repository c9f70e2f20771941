"""How long compute kernels waited for their launch, and for their start after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.frames import key_columns, to_frame
from chopper_jupyter.core.analysis.grouping import Ints, Key, group
from chopper_jupyter.core.analysis.included import Include, included
from chopper_jupyter.core.analysis.levels import encode, key_names
from chopper_jupyter.core.analysis.timeline import Mask, Timeline, timeline
from chopper_jupyter.core.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from chopper_jupyter.core.trace import Trace

Method = Literal["default", "chopper"]
"""How the time before a kernel is measured; see ``launch_overhead``."""


@dataclass(frozen=True)
class LaunchParts:
    """Launch overhead of every kernel, by place of a ``Timeline``.

    Parameters
    ----------
    prep, call : numpy.ndarray of int64
        Preparation and call in ns; 0 where ``measured`` is false.
    measured : numpy.ndarray of bool
        Compute kernels with a launch call of their own.
    left_out : mapping of str to numpy.ndarray of bool
        Compute kernels that are not measured, by reason.
    early : numpy.ndarray of bool
        Measured kernels that start before their launch call: the clocks disagree.
    """

    prep: Ints
    call: Ints
    measured: Mask
    left_out: dict[str, Mask]
    early: Mask


def launch_overhead(
    trace: Trace,
    by: str | Iterable[str] | None = None,
    *,
    method: Method = "default",
    include: Include = "measured",
) -> pd.DataFrame:
    """Measure the idle time before compute kernels, in two parts that add up.

    Preparation: the GPU was idle and the CPU had not called the launch yet. Call: launched, but
    not started. Both end at the start of the kernel; kernels that overlap have none.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : str or iterable of str, optional
        Levels to keep apart, as in ``summarize``; nothing gives one row.
    method : {"default", "chopper"}
        ``"default"`` counts from the latest end so far of anything on the GPU, so launch
        overhead is exactly the idle time (``idle_ns``) that the kernel ended; it is never
        negative. ``"chopper"`` follows the paper: from the end of the compute kernel that
        started before, so time in which only communication or copies run counts as well, and
        the call of kernels that run beside each other is negative.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed; one row per group that owns compute kernels, in reading order:
        ``kernels`` (compute kernels) and ``measured`` (those of them with a launch call of their
        own); ``prep_ns``, ``call_ns`` and ``launch_ns``, the sum of both, as int64 sums over the
        measured kernels; and their means ``mean_prep_us``, ``mean_call_us``,
        ``mean_launch_us``. Times are null where no kernel is measured. ``attrs`` holds
        ``units``, ``included``, ``iterations``, ``gpus``, ``method``, and ``counts`` of compute
        kernels: ``measured``, why others are not (``without_launch``, ``by_graph``,
        ``without_previous``), ``negative_call``, and ``started_before_launch``.

    Raises
    ------
    SchemaError
        If a level or the method does not exist.
    MissingDataError
        If no GPU was recorded.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> launch_overhead(Trace.from_tables({}))["kernels"].tolist()
    [0]
    """
    names = key_names(by)
    if method not in get_args(Method):
        raise unknown_name(what="method", name=method, known=get_args(Method))
    which = included(trace, include)
    line = timeline(trace, which, "launch overhead")
    parts = launch_parts(line, method)
    rows = np.flatnonzero(line.named("kind", "compute")[line.covered])
    at = line.covered[rows]
    keys = [Key(k.name, k.values, k.codes[rows]) for k in (encode(which.kernels, n) for n in names)]
    groups = group(keys, len(rows))
    measured = groups.sum_of(parts.measured[at].astype(np.int64))
    columns = key_columns(keys, groups)
    columns["kernels"] = pa.array(groups.sum_of(np.ones(len(rows), np.int64)))
    columns["measured"] = pa.array(measured)
    prep, call = groups.sum_of(parts.prep[at]), groups.sum_of(parts.call[at])
    columns |= _times({"prep": prep, "call": call, "launch": prep + call}, measured)
    units = {n: "µs" if n.endswith("_us") else "ns" for n in columns if n.endswith(("_ns", "_us"))}
    frame = to_frame(pa.table(columns), which, units)
    frame.attrs |= {"method": method, "counts": _counts(parts, at)}
    return frame


def launch_parts(line: Timeline, method: Method = "default") -> LaunchParts:
    """Measure preparation and call of every compute kernel."""
    compute = line.named("kind", "compute")
    launch, launched = line.ints("launch_ns"), line.known("launch_ns")
    by_graph = launched & line.named("launch_kind", "graph")
    left_out = {"without_launch": compute & ~launched, "by_graph": compute & by_graph}
    measured = compute & launched & ~by_graph
    if method == "chopper":
        before, first = _previous_end(line, compute)
        left_out["without_previous"] = measured & first
        measured &= ~first
        prep = np.maximum(launch - before, 0)
        call = np.minimum(line.start - launch, line.start - before)
    else:
        gap = line.ints("idle_ns")
        prep = np.clip(launch - (line.start - gap), 0, gap)
        call = gap - prep
    prep, call = np.where(measured, prep, 0), np.where(measured, call, 0)
    return LaunchParts(prep, call, measured, left_out, measured & (line.start < launch))


def _previous_end(line: Timeline, compute: Mask) -> tuple[Ints, Mask]:
    """Return the end of the compute kernel that started before, and where there is none."""
    before, first = np.zeros(len(compute), np.int64), np.ones(len(compute), bool)
    rows = np.flatnonzero(compute)
    before[rows[1:]] = line.end[rows[:-1]]
    first[rows[1:]] = line.gpu[rows[1:]] != line.gpu[rows[:-1]]
    return before, first


def _times(sums: dict[str, Ints], measured: Ints) -> dict[str, pa.Array]:
    none = measured == 0
    columns = {f"{name}_ns": pa.array(total, mask=none) for name, total in sums.items()}
    for name, total in sums.items():
        mean = total / np.maximum(measured, 1) / 1000
        columns[f"mean_{name}_us"] = pa.array(mean, mask=none)
    return columns


def _counts(parts: LaunchParts, at: Ints) -> dict[str, int]:
    marks = {
        "measured": parts.measured,
        **parts.left_out,
        "negative_call": parts.call < 0,
        "started_before_launch": parts.early,
    }
    return {name: int(np.count_nonzero(mask[at])) for name, mask in marks.items()}

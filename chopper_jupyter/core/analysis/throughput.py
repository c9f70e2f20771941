"""Tokens per second: of the whole run, or of each iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.analysis.frames import to_frame
from chopper_jupyter.core.analysis.grouping import Floats, Ints, group
from chopper_jupyter.core.analysis.included import Included, included
from chopper_jupyter.core.analysis.launch_overhead import launch_parts
from chopper_jupyter.core.analysis.levels import encode
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.analysis.tokens import tokens_per_iteration
from chopper_jupyter.core.errors import MissingDataError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from chopper_jupyter.core.trace import Trace


class _Walls(NamedTuple):
    """Longest time over GPUs of every iteration, in ns."""

    wall: Ints
    chopper: Ints


def throughput(
    trace: Trace, by: str | None = None, *, tokens_per_iteration: int | None = None
) -> pd.DataFrame:
    """Measure tokens per second.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : {None, "iteration"}
        Nothing gives one row of medians over the iterations after warm-up.
    tokens_per_iteration : int, optional
        Tokens of one iteration over all GPUs. By default what the recording was told, else
        inferred from the shapes of the input of the embedding.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed: ``iteration_ms``, the longest wall time over the GPUs;
        ``chopper_iteration_ms``, the paper's: the longest sum over the GPUs of the time of
        compute kernels and the launch overhead before them; ``tokens``;
        ``tokens_per_second`` and ``tokens_per_second_per_gpu``, by the wall time, and
        ``chopper_tokens_per_second_per_gpu``. ``attrs["tokens_from"]`` says where the number
        of tokens comes from.

    Raises
    ------
    MissingDataError
        If the number of tokens is not known, there are no iterations, or no GPU was recorded.

    Notes
    -----
    With P for the definition of Kurzynski et al., arXiv 2512.08242 (2025): tokens per GPU over
    the median over iterations of the maximum over GPUs of compute time and launch gaps.

    Examples
    --------
    >>> from chopper_jupyter import simulate  # doctest: +SKIP
    >>> throughput(trace)["tokens_per_second"]  # doctest: +SKIP
    """
    if by not in {None, "iteration"}:
        raise unknown_name(what="level of throughput", name=str(by), known=("iteration",))
    which = included(trace)
    if not which.iterations:
        msg = "throughput needs iterations; this recording has none: record a training loop"
        raise MissingDataError(msg)
    tokens, source = _tokens(trace, tokens_per_iteration)
    walls = _walls(trace, which)
    wall, chopper = (np.asarray(w, np.float64) for w in walls)
    columns: dict[str, pa.Array] = {"iteration": pa.array(which.iterations, pa.int64())}
    if by is None:
        columns, wall, chopper = (
            {},
            np.median(wall, keepdims=True),
            np.median(chopper, keepdims=True),
        )
    columns |= _rates(wall, chopper, tokens, len(which.gpus))
    units = {"iteration_ms": "ms", "chopper_iteration_ms": "ms"}
    frame = to_frame(pa.table(columns), which, units)
    frame.attrs["tokens_from"] = source
    return frame


def _tokens(trace: Trace, given: int | None) -> tuple[int, str]:
    if given is not None:
        return given, "given"
    found = tokens_per_iteration(trace)
    if found is None:
        msg = (
            "the number of tokens is not known: give tokens_per_iteration=, record with --tokens, "
            "or record shapes, so that the input of the embedding tells"
        )
        raise MissingDataError(msg)
    return found.count, found.source


def _walls(trace: Trace, which: Included) -> _Walls:
    line = timeline(trace, which, "throughput")
    parts = launch_parts(line, "chopper")
    compute = line.named("kind", "compute")[line.covered]
    launch = (parts.prep + parts.call)[line.covered]
    kernels = which.kernels
    groups = group([encode(kernels, "iteration"), encode(kernels, "gpu")], kernels.num_rows)
    busy, idle, dur = (kernels[c].to_numpy() for c in ("busy_ns", "idle_ns", "dur_ns"))
    longest = []
    for time in (busy + idle, np.where(compute, dur + launch, 0)):
        most = np.zeros(len(which.iterations), np.int64)
        known = groups.codes[0] >= 0
        np.maximum.at(most, groups.codes[0][known], groups.sum_of(time)[known])
        longest.append(most)
    return _Walls(*longest)


def _rates(wall: Floats, chopper: Floats, tokens: int, gpus: int) -> dict[str, pa.Array]:
    with np.errstate(divide="ignore"):
        rate = np.where(wall > 0, tokens / (wall * 1e-9), np.nan)
        paper = np.where(chopper > 0, tokens / (chopper * 1e-9), np.nan)
    values = {
        "iteration_ms": wall * 1e-6,
        "chopper_iteration_ms": chopper * 1e-6,
        "tokens": np.full(len(wall), tokens, np.float64),
        "tokens_per_second": rate,
        "tokens_per_second_per_gpu": rate / gpus,
        "chopper_tokens_per_second_per_gpu": paper / gpus,
    }
    return {name: pa.array(v, pa.float64(), from_pandas=True) for name, v in values.items()}

"""How many processor cores worked, and how many would have sufficed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.windows import iteration_windows
from chopper_jupyter.core.errors import MissingDataError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.trace import Trace

KEYS = ("time", "host", "iteration")
_COUNTS = ("active_cores", "min_cores", "physical_active_cores", "smt_cores", "used_percent")


@dataclass(frozen=True)
class CoreUse:
    """Utilisation of every core at every sample.

    Parameters
    ----------
    host : tuple of (str or None)
        Names of the hosts; ``moment_host`` counts in them.
    moment_host, time : numpy.ndarray of int64
        Host and time (ns since the origin) of each moment.
    moment, core : numpy.ndarray of int64
        Moment and logical core of each reading.
    used : numpy.ndarray of float64
        Utilisation of the core, 0 to 1.
    physical : numpy.ndarray of int64 or None
        Physical core of each reading; None if not recorded.
    """

    host: tuple[str | None, ...]
    moment_host: Ints
    time: Ints
    moment: Ints
    core: Ints
    used: Floats
    physical: Ints | None


def cpu_utilization(
    trace: Trace, by: str | Iterable[str] | None = "time", *, threshold: float = 0.0
) -> pd.DataFrame:
    """Count the processor cores in use.

    Parameters
    ----------
    trace : Trace
        The trace.
    by : str or iterable of str, optional
        ``time`` (one row per host and sample), ``host``, ``iteration``; nothing gives one row of
        means. All but ``time`` are means over the samples of the iterations after warm-up.
    threshold : float
        Utilisation (0 to 1) above which a core counts as active.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed: ``active_cores``, logical cores above the threshold; ``min_cores``, the
        sum of utilisation: cores that would suffice at full use; ``physical_active_cores``,
        physical cores with an active logical one, and ``smt_cores``, those with two or more,
        null if the map was not recorded; ``used_percent`` of all cores; ``samples``.
        ``attrs`` holds ``threshold``, ``cores`` and ``period_ms``, on which the number of active
        cores depends: the longer a period, the more cores were active in it.

    Raises
    ------
    MissingDataError
        If there are no samples of processor cores.
    SchemaError
        If a level is none of the three.

    Notes
    -----
    ``active_cores`` and ``min_cores`` are C_active and C_min, equations (4) and (5), of
    Kurzynski et al., arXiv 2512.08242 (2025).

    Examples
    --------
    >>> cpu_utilization(trace, by="iteration")["active_cores"]  # doctest: +SKIP
    """
    names = tuple(dict.fromkeys([by] if isinstance(by, str) else by or ()))
    for name in names:
        if name not in KEYS:
            raise unknown_name(what="level of CPU utilisation", name=name, known=KEYS)
    use = core_use(trace)
    table = _by_moment(use, threshold)
    table["iteration"] = _iterations(trace, use)
    if "time" not in names:
        table = _means(table[table["iteration"] != _OUTSIDE], list(names))
    else:
        table = table.drop(columns=["iteration"])
    frame = _arrow(table)
    units = {"time_ns": "ns", "used_percent": "%"}
    frame.attrs = {
        "units": {name: units.get(name, "") for name in frame.columns if name in units},
        "threshold": threshold,
        "cores": int(use.core.max(initial=-1)) + 1,
        "period_ms": _period_ms(use),
    }
    return frame


_OUTSIDE = -2
_NO_ITERATION = -1


def core_use(trace: Trace) -> CoreUse:
    """Return the utilisation of every core at every sample.

    Raises
    ------
    MissingDataError
        If there are no samples of processor cores.
    """
    table = trace.telemetry.filter(pc.is_valid(trace.telemetry["core"]))
    metric = table["metric"].cast(pa.string())
    used = table.filter(pc.equal(metric, "cpu_utilization_ratio"))
    if not used.num_rows:
        msg = "this trace holds no samples of processor cores: record with telemetry on"
        raise MissingDataError(msg)
    hosts = sorted(set(used["host"].cast(pa.string()).to_pylist()), key=lambda h: (h is None, h))
    number = {host: i for i, host in enumerate(hosts)}
    host = _numbers(used, number)
    time, core = (used[n].to_numpy().astype(np.int64) for n in ("time_ns", "core"))
    moments, moment = np.unique(np.stack([host, time]), axis=1, return_inverse=True)
    physical = _physical(table.filter(pc.equal(metric, "physical_core")), number, host, core)
    return CoreUse(
        tuple(hosts),
        moments[0],
        moments[1],
        moment.reshape(-1),
        core,
        used["value"].to_numpy(),
        physical,
    )


def _numbers(table: pa.Table, number: dict[str | None, int]) -> Ints:
    encoded = table["host"].cast(pa.string()).combine_chunks().dictionary_encode()
    known = [number.get(name, -1) for name in encoded.dictionary.to_pylist()]
    codes = pc.fill_null(encoded.indices, len(known)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*known, number.get(None, -1)], np.int64)[codes])


def _physical(
    table: pa.Table, number: dict[str | None, int], host: Ints, core: Ints
) -> Ints | None:
    """Return the physical core of each reading; None unless all are known."""
    if not table.num_rows:
        return None
    most = int(max(core.max(), pc.max(table["core"]).as_py())) + 1
    known = np.full(len(number) * most, -1)
    at = _numbers(table, number)
    kept = at >= 0
    place = at * most + table["core"].to_numpy().astype(np.int64)
    known[place[kept]] = table["value"].to_numpy().astype(np.int64)[kept]
    found = known[host * most + core]
    return None if (found < 0).any() else found


def _by_moment(use: CoreUse, threshold: float) -> pd.DataFrame:
    count = len(use.time)
    active = use.used > threshold
    cores = np.bincount(use.moment, minlength=count)
    least = np.bincount(use.moment, use.used, count)
    table = pd.DataFrame(
        {
            "time_ns": use.time,
            "host": pd.array([use.host[h] for h in use.moment_host], dtype="string"),
            "active_cores": np.bincount(use.moment[active], minlength=count),
            "min_cores": least,
            "physical_active_cores": np.nan,
            "smt_cores": np.nan,
            "used_percent": 100 * least / cores,
        }
    )
    if use.physical is not None:
        pairs = np.stack([use.moment[active], use.physical[active]])
        cells, times = np.unique(pairs, axis=1, return_counts=True)
        table["physical_active_cores"] = np.bincount(cells[0], minlength=count).astype(float)
        table["smt_cores"] = np.bincount(cells[0][times > 1], minlength=count).astype(float)
    return table


def _iterations(trace: Trace, use: CoreUse) -> Ints:
    """Return the iteration of each moment on its host."""
    found = np.full(len(use.time), _OUTSIDE)
    hosts = trace.gpus["host"].to_pylist()
    for number, host in enumerate(use.host):
        gpus = [i for i, name in enumerate(hosts) if name == host]
        own = trace.gpus["gpu"].to_numpy()[gpus].tolist()
        windows = iteration_windows(trace, own or None)  # a host that no GPU names: all
        mine = np.flatnonzero(use.moment_host == number)
        place = windows.place(use.time[mine])
        names = [_NO_ITERATION if i is None else i for i in windows.iterations]
        found[mine] = np.array([*names, _OUTSIDE])[place]
    return found


def _means(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    kept = table.assign(samples=1)
    sums = {**dict.fromkeys(_COUNTS, "mean"), "samples": "sum"}
    if not names:
        row = kept.agg(sums).to_frame().T if len(kept) else pd.DataFrame(columns=[*sums])
        return row.astype({"samples": "int64"}) if len(row) else row
    made = kept.groupby(names, dropna=False, sort=True).agg(sums).reset_index()
    if "iteration" in names:
        made["iteration"] = made["iteration"].astype("Int64")
        made["iteration"] = made["iteration"].mask(made["iteration"] == _NO_ITERATION)
    return made


def _period_ms(use: CoreUse) -> float | None:
    steps = np.concatenate([np.diff(use.time[use.moment_host == h]) for h in range(len(use.host))])
    return float(np.median(steps)) * 1e-6 if len(steps) else None


def _arrow(table: pd.DataFrame) -> pd.DataFrame:
    made = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    frame: pd.DataFrame = made.to_pandas(types_mapper=pd.ArrowDtype)
    return frame

"""The same run of known overheads under ever new noise: fast, for there are a hundred of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from overhead_runs import CLOCK, FACTORS, overhead_run

from chopper_jupyter.core.trace import Trace

CYCLES = ("GRBM_GUI_ACTIVE", "counted_duration_ns")
PERIOD_NS = 400_000


@dataclass
class Noisy:
    """A quiet run as columns, one row per kernel in order of GPU and time.

    Parameters
    ----------
    trace : Trace
        The run without noise.
    op, cell : arrays
        Op, and number of the GPU and iteration, of each kernel.
    shares : float array
        Clock of each cell as a share of that of the peak.
    quiet, theoretical : float arrays
        Time without noise, and the least one.
    logs : dict of str to float array
        Logarithm of each factor.
    """

    trace: Trace
    op: np.ndarray
    cell: np.ndarray
    shares: np.ndarray
    quiet: np.ndarray
    theoretical: np.ndarray
    logs: dict[str, np.ndarray]

    def under(self, seed: int, *, noise: float, sensor: float) -> tuple[Trace, np.ndarray]:
        """Return the run with noise on times, cycles and readings of clocks, and its times."""
        rng = np.random.default_rng(seed)
        kernels, counters = self.trace.kernels, self.trace.counters
        gpu = kernels["gpu"].to_numpy()
        share = kernels["overlap_ns"].to_numpy() / kernels["dur_ns"].to_numpy()
        dur = np.rint(self.quiet * np.exp(rng.normal(0, noise, len(gpu)))).astype(np.int64)
        end = np.concatenate([np.cumsum(dur[gpu == g]) for g in np.unique(gpu)])
        cycles = np.exp(rng.normal(0, noise, len(gpu)))[counters["kernel_id"].to_numpy()]
        counted = np.isin(counters["counter"].to_numpy(zero_copy_only=False), CYCLES)
        value = counters["value"].to_numpy() * np.where(counted, cycles, 1.0)
        columns = {"start_ns": end - dur, "dur_ns": dur, "busy_ns": dur,
                   "overlap_ns": np.rint(share * dur).astype(np.int64)}  # fmt: skip
        tables = {
            **self.trace.tables,
            "kernels": _with(kernels, columns),
            "counters": _with(counters, {"value": value}),
            "telemetry": self._readings(gpu, end, rng, sensor),
        }
        return Trace.from_tables(tables, self.trace.info, self.trace.quality), dur

    def _readings(self, gpu, end, rng, sensor) -> pa.Table:
        rows = []
        for g in np.unique(gpu):
            mine = np.flatnonzero(gpu == g)
            time = np.arange(PERIOD_NS, end[mine[-1]], PERIOD_NS)
            at = self.cell[mine[np.searchsorted(end[mine], time)]]
            value = self.shares[at] * CLOCK * 1e-6 * np.exp(rng.normal(0, sensor, len(time)))
            rows.append(pa.table({"gpu": pa.array(np.full(len(time), g)), "time_ns": time,
                                  "value": value}))  # fmt: skip
        table = pa.concat_tables(rows)
        for name, text in (("source", "test"), ("host", "h"), ("metric", "gpu_clock_mhz")):
            table = table.append_column(name, pa.array([text] * table.num_rows))
        return table

    def truth(self, dur: np.ndarray, op: str, per: int) -> dict[str, float]:
        """Return the parts of an op in ms, as log shares of its runs."""
        mine = self.op == op
        actual, theoretical = dur[mine].astype(float), self.theoretical[mine]
        step = np.log(actual / theoretical)
        weight = (actual - theoretical) / step
        logs = {name: values[mine] for name, values in self.logs.items()}
        logs["unexplained"] = step - sum(logs.values())
        return {name: float(weight @ values) * 1e-6 / per for name, values in logs.items()}


def noisy(**options) -> Noisy:
    """Make a run; ``options`` are those of ``overhead_run``."""
    run = overhead_run(**options)
    truth = run.truth
    cells = sorted({(row["gpu"], row["iteration"]) for row in truth})
    number = {cell: i for i, cell in enumerate(cells)}
    cell = np.array([number[row["gpu"], row["iteration"]] for row in truth])
    shares = np.array([options["clock"](*one) for one in cells])
    logs = {name: np.log([row.get(name, 1.0) for row in truth]) for name in FACTORS}
    quiet, theoretical = (np.array([r[n] for r in truth], float) for n in ("actual", "theoretical"))
    op = np.array([row["op"] for row in truth])
    return Noisy(run.trace, op, cell, shares, quiet, theoretical, logs)


def _with(table: pa.Table, columns: dict[str, np.ndarray]) -> pa.Table:
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values))
    return table

"""Counters, clocks and stragglers of simulated runs, whose answers are known."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from simulated_runs import simulated_run, simulated_trace, truth_of

from chopper_jupyter import collectives, read_trace
from chopper_jupyter.core.align.match import match
from chopper_jupyter.core.errors import ClockWarning
from chopper_jupyter.core.importers.counters import read_counters
from chopper_jupyter.simulate import Injections

CHANGED = Injections(counter_changes=0.02)
BIG = {"layers": 8, "ranks": 2, "iterations": 4}


@pytest.fixture(params=[1, 2], ids=["fsdp1", "fsdp2"])
def matched(request) -> pd.DataFrame:
    """Return every match of a run whose passes lack and add 2 % of the kernels, and the truth."""
    options = {**BIG, "version": request.param}
    trace, run = simulated_trace(CHANGED, **options), simulated_run(CHANGED, **options)
    ((one,)) = read_counters(run / "counters")
    found = match(trace.kernels, one)
    timed = trace.kernels.to_pandas().iloc[found.timed].reset_index(drop=True)
    other = one.counted.to_pandas().iloc[found.counted].reset_index(drop=True)
    told = pq.read_table(run / "truth_counters.parquet").to_pandas()
    other = other.merge(
        told.rename(columns={"process_id": "process", "dispatch_id": "order"}),
        on=["pass", "process", "order"], how="left", suffixes=("", "_told"),
    )  # fmt: skip
    timed["true_correlation"] = other["correlation_id"].to_numpy()
    timed["pass"], timed["rank"] = other["pass"].to_numpy(), other["rank"].to_numpy()
    timed["possible"] = trace.filter(kind="compute").kernels.num_rows * told["pass"].nunique()
    return timed


def test_no_wrong_matches_among_distinct_kernels(matched):
    truth = matched[matched["true_correlation"].notna()]
    assert len(truth) >= 0.96 * matched["possible"].iloc[0]
    assert (truth["rank"] == truth["gpu"]).all()
    wrong = truth[truth["true_correlation"] != truth["correlation_id"]]
    key = ["pass", "gpu", "iteration", "name", "grid"]
    distinct = ~matched.duplicated(key, keep=False).reindex(wrong.index)
    assert not distinct.any()
    assert len(wrong) <= 0.005 * len(truth)


@pytest.mark.parametrize("version", [1, 2])
def test_counter_sums_per_op_are_right(version):
    options = {**BIG, "version": version}
    trace, truth = simulated_trace(CHANGED, **options), truth_of(simulated_run(CHANGED, **options))
    counted = trace.counters.to_pandas()
    flops = counted[counted["counter"] == "SQ_INSTS_VALU_MFMA_MOPS_BF16"]
    kernels = trace.kernels.to_pandas().assign(rank=lambda k: k["gpu"])
    found = kernels.merge(flops, on="kernel_id").merge(
        truth[["rank", "correlation_id", "performed_flops"]], on=["rank", "correlation_id"]
    )
    sums = found.groupby(["phase", "op"], observed=True)[["value", "performed_flops"]].sum()
    sums = sums[sums["performed_flops"] > 0]
    assert len(sums) > 5
    np.testing.assert_allclose(512 * sums["value"], sums["performed_flops"], rtol=1e-3)
    rates = [r for name, by in trace.quality.counted.items() if name != "op" for r in by.values()]
    assert len(rates) >= 2
    assert min(rates) > 0.95


@pytest.mark.parametrize("seed", range(4))
def test_clock_offsets_lie_within_their_uncertainty(seed):
    ahead = {1: 3_000_000 * (seed + 1), 2: -700_000, 3: 40_000 * seed}
    options = {"layers": 2, "ranks": 4, "hosts": 4, "iterations": 3, "seed": seed}
    injected = Injections(clock_offset_ns=ahead, noise=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClockWarning)
        trace = read_trace(simulated_run(injected, **options), cache=False)
    for row in trace.gpus.to_pylist():
        assert row["offset_uncertainty_ns"] is not None
        assert abs(row["offset_ns"] + ahead.get(row["rank"], 0)) <= row["offset_uncertainty_ns"]
        assert row["offset_uncertainty_ns"] < 100_000


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("ahead", [{}, {1: 5_000_000, 3: -2_000_000}])
def test_the_straggler_is_always_right(rank, ahead):
    injected = Injections(straggler=(rank, 2_000_000), clock_offset_ns=ahead, noise=0.01)
    options = {"layers": 2, "ranks": 4, "hosts": 4, "iterations": 3}
    frame = collectives(simulated_trace(injected, **options))
    assert len(frame) > 10
    assert frame["straggler_rank"].notna().all()
    assert set(frame["straggler_rank"]) == {rank}
    assert frame["skew_ns"].median() == pytest.approx(2_000_000, rel=0.2)
    grouped = collectives(simulated_trace(injected, **options), by="kind")
    assert set(grouped["straggler_rank"]) == {rank}
    assert (grouped["straggler_percent"] == 100).all()

"""What a reader finds in a simulated run is what happened in it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from simulated_runs import SMALL, facts_of, simulated_run, simulated_trace, truth_of

from chopper_jupyter.simulate import Injections, llama_fsdp


def both(injections=None, **options) -> pd.DataFrame:
    """Join truth and Trace by rank and correlation id; the Trace's columns end in ``_read``."""
    trace = simulated_trace(injections, **options)
    kernels = trace.kernels.to_pandas()
    ranks = trace.gpus.to_pandas().set_index("gpu")["rank"]
    kernels["rank"] = kernels["gpu"].map(ranks)
    truth = truth_of(simulated_run(injections, **options))
    found = truth.merge(
        kernels, on=["rank", "correlation_id"], suffixes=("", "_read"), validate="1:1"
    )
    assert len(found) == len(truth) == len(kernels)
    return found


def plain(column) -> list:
    return column.astype(object).where(column.notna(), None).tolist()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("level", ["iteration", "phase", "layer", "op", "stream", "kind"])
def test_levels_are_read_back(version, level):
    found = both(version=version)
    assert plain(found[level]) == plain(found[f"{level}_read"])


@pytest.mark.parametrize("version", [1, 2])
def test_everything_is_linked(version):
    linked = simulated_trace(version=version).quality.linked
    assert linked["launch"] == linked["op"] == linked["iteration"] == 1
    assert linked["phase"] > 0.999


@pytest.mark.parametrize("version", [1, 2])
def test_times_are_exact(version):
    found = both(version=version)
    assert found["dur_ns"].tolist() == found["dur_ns_read"].tolist()
    shift = (found["start_ns"] - found["start_ns_read"]).unique()
    assert len(shift) == 1
    assert found["idle_ns"].tolist() == found["idle_ns_read"].tolist()
    assert found["overlap_ns"].tolist() == found["overlap_ns_read"].tolist()


def test_useful_operations_are_those_of_the_shapes():
    found = both()
    matrix = found[found["useful_flops"] > 0]
    assert len(matrix) > 100
    assert matrix["useful_flops"].astype(int).tolist() == matrix["flops"].tolist()
    assert found[found["useful_flops"] == 0]["flops"].isna().all()


def test_factors_multiply_to_the_time():
    truth = truth_of(simulated_run(Injections(noise=0.02, padding={"mlp.down_proj": 1.2})))
    rows = truth[truth["kind"] == "compute"]
    product = rows["theoretical_ns"] * rows["instruction"] / rows["utilisation"]
    product *= rows["overlap"] * rows["frequency"] * rows["noise"]
    assert np.abs(product - rows["dur_ns"]).max() <= 1.01


def test_parts_of_idle_time_add_up():
    truth = truth_of(simulated_run())
    causes = [name for name in truth if name.startswith("idle_") and name.endswith("_ns")]
    parts = truth[[name for name in causes if name != "idle_ns"]].sum(axis=1)
    assert parts.tolist() == truth["idle_ns"].tolist()
    assert (truth["prep_ns"] + truth["call_ns"]).tolist() == truth["idle_ns"].tolist()


def test_collectives_end_together_after_the_last_rank_came():
    truth = truth_of(simulated_run(Injections(noise=0.05, straggler=(1, 200_000))))
    calls = truth[truth["kind"] == "collective"].copy()
    calls["end_ns"] = calls["start_ns"] + calls["dur_ns"]
    calls["call"] = calls.groupby("rank").cumcount()
    per_call = calls.groupby("call").agg(
        ranks=("rank", "nunique"), ends=("end_ns", "nunique"), last=("start_ns", "max"),
        end=("end_ns", "max"),
    )  # fmt: skip
    assert (per_call["ranks"] == 2).all()
    assert (per_call["ends"] == 1).all()
    assert (per_call["end"] > per_call["last"]).all()
    last = calls.loc[calls.groupby("call")["start_ns"].idxmax()]
    assert (last["rank"] == 1).mean() > 0.9


def test_kernels_of_a_stream_run_one_after_the_other():
    truth = truth_of(simulated_run(Injections(noise=0.05))).sort_values("start_ns")
    for _, rows in truth.groupby(["rank", "stream"]):
        ends = (rows["start_ns"] + rows["dur_ns"]).to_numpy()
        assert (rows["start_ns"].to_numpy()[1:] >= ends[:-1]).all()


def test_the_same_seed_gives_the_same_files(tmp_path):
    one, two, other = (
        llama_fsdp(tmp_path / name, injections=Injections(noise=0.03), seed=seed, **SMALL)
        for name, seed in (("one", 1), ("two", 1), ("other", 2))
    )
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(two) for path in two.rglob("*") if path.is_file())
    assert [name for name in files if (one / name).read_bytes() != (two / name).read_bytes()] == []
    assert (one / "rank_0.json.gz").read_bytes() != (other / "rank_0.json.gz").read_bytes()


def test_the_run_tells_what_it_was_made_to_suffer():
    facts = facts_of(simulated_run(Injections(clock_offset_ns={1: 500_000}, straggler=(1, 1000))))
    assert facts["simulated"] is True
    assert facts["clock_offset_ns"] == {"0": 0, "1": 500_000}
    assert facts["straggler"]["rank"] == 1
    assert json.dumps(facts["injections"])

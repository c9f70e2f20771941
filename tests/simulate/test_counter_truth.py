"""Which timed kernel each counted one is: by the truth, and by what readers match."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from simulated_runs import facts_of, simulated_run, simulated_trace, truth_of

from chopper_jupyter.core.run_folder import pass_folder
from chopper_jupyter.simulate import Injections

CHANGED = Injections(counter_changes=0.02)


def answers(run) -> pd.DataFrame:
    return pq.read_table(run / "truth_counters.parquet").to_pandas()


def counted_names(run, number, pid) -> pd.Series:
    path = next(pass_folder(run, "rocprofv3", number).rglob(f"{pid}_counter_collection.csv"))
    rows = pd.read_csv(path).drop_duplicates("Dispatch_Id").set_index("Dispatch_Id")
    return rows["Kernel_Name"].str.removesuffix(" [clone .kd]")


@pytest.mark.parametrize("injected", [None, CHANGED])
def test_counted_kernels_are_the_timed_ones_by_name(injected):
    run = simulated_run(injected)
    truth = truth_of(run).set_index(["rank", "correlation_id"])["name"]
    for (number, rank, pid), rows in answers(run).groupby(["pass", "rank", "process_id"]):
        names = counted_names(run, number, pid)
        assert sorted(names.index) == sorted(rows["dispatch_id"])
        known = rows[rows["correlation_id"].notna()]
        assert known["correlation_id"].is_unique
        timed = truth.loc[rank].loc[known["correlation_id"].astype(int)].astype(str)
        found = names.loc[known["dispatch_id"]].to_numpy()
        copies = timed.to_numpy() == "CopyHostToDevice"
        assert (found[copies] == "__amd_rocclr_copyBuffer").all()
        assert (found[~copies] == timed.to_numpy()[~copies]).all()


def test_all_timed_kernels_are_counted_if_nothing_is_changed():
    run = simulated_run()
    truth, told = truth_of(run), answers(run)
    countable = truth[truth["kind"] != "collective"]
    for _, rows in told.groupby(["pass", "rank"]):
        assert rows["correlation_id"].notna().sum() == len(countable) / 2
    assert {(c["missing"], c["extra"]) for c in facts_of(run)["kernels_changed"]} == {(0, 0)}


def test_as_many_kernels_are_changed_as_told():
    run = simulated_run(CHANGED)
    changes = facts_of(run)["kernels_changed"]
    assert len(changes) == 3 * 2
    countable = (truth_of(run)["kind"] != "collective").sum() / 2 * 5 / 3
    for kind in ("missing", "extra"):
        shares = np.array([change[kind] for change in changes]) / countable
        assert shares.mean() == pytest.approx(0.02, abs=0.01)
        assert len(set(shares)) > 1  # other kernels in each pass and rank


def test_readers_tie_no_counter_to_a_wrong_kernel():
    run, trace = simulated_run(CHANGED), simulated_trace(CHANGED)
    told = answers(run)
    told = told[told["correlation_id"].notna() & (told["pass"] == 0)]
    kernels = trace.kernels.to_pandas()
    kernels["rank"] = kernels["gpu"]
    values = trace.counters.to_pandas()
    values = values[(values["pass"] == 0) & (values["counter"] == "SQ_INSTS_VALU_MFMA_MOPS_BF16")]
    read = kernels.merge(values, on="kernel_id")
    truth = truth_of(run)[["rank", "correlation_id", "performed_flops"]]
    found = read.merge(truth, on=["rank", "correlation_id"])
    assert len(found) > 0.97 * len(told) * 0.97
    assert np.allclose(found["value"] * 512, found["performed_flops"], rtol=1e-6, atol=512)


def test_on_nvidia_rows_of_the_table_are_told():
    run = simulated_run(hardware="H100")
    truth, told = truth_of(run), answers(run)
    known = told[told["correlation_id"].notna()]
    assert len(known) == (truth["kind"] == "compute").sum()
    assert set(told["pass"]) == {0}

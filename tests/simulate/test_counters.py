"""Counters of a simulated run, read as plain CSV and compared with the truth."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest
from simulated_runs import SMALL, simulated_run, simulated_trace, truth_of

from chopper_jupyter.core.run_folder import pass_folder
from chopper_jupyter.simulate import Injections

UNITS, SIMDS, DIES = 304, 4, 8
FLOPS_PER_CLOCK = 1307.4e12 / 2100e6
MATRIX = ("GRBM_GUI_ACTIVE", "SQ_VALU_MFMA_BUSY_CYCLES", "SQ_INSTS_VALU_MFMA_MOPS_BF16")


def rows_of(run, number, rank=0) -> pd.DataFrame:
    files = sorted(pass_folder(run, "rocprofv3", number).rglob("*_counter_collection.csv"))
    return pd.read_csv(files[rank])


def wide(run, number, rank=0) -> pd.DataFrame:
    """Return one row per dispatch, a column per counter, in order of dispatch."""
    rows = rows_of(run, number, rank)
    found = rows.pivot_table(index="Dispatch_Id", columns="Counter_Name", values="Counter_Value")
    first = rows.drop_duplicates("Dispatch_Id").set_index("Dispatch_Id")
    return first.join(found).sort_index()


def recorded(run, number, rank=0) -> pd.DataFrame:
    """Return the counted kernels of the recorded iterations beside their truth."""
    truth = truth_of(run)
    truth = truth[(truth["rank"] == rank) & (truth["kind"] != "collective")]
    truth = truth.sort_values("correlation_id").reset_index(drop=True)
    return truth.join(wide(run, number, rank).tail(len(truth)).reset_index())


def test_header_and_values_are_spelt_as_by_the_tool():
    run = simulated_run()
    path = next(pass_folder(run, "rocprofv3", 0).rglob("*_counter_collection.csv"))
    with path.open() as file:
        head = file.readline().strip()
        line = file.readline().strip()
    assert head.startswith('"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id"')
    assert head.endswith('"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"')
    assert ',"Agent 2",' in line
    assert line.split(",")[-3].endswith(".000000")


def test_matrix_counters_are_those_of_the_truth():
    found = recorded(simulated_run(Injections(padding={"mlp.down_proj": 1.2})), 0)
    matrix = found[found["useful_flops"] > 0]
    assert len(matrix) == SMALL["iterations"] * (2 * 8 + 1) * 3 - SMALL["iterations"] * 2
    flops = 512 * matrix["SQ_INSTS_VALU_MFMA_MOPS_BF16"]
    assert np.allclose(flops, matrix["performed_flops"], rtol=1e-6)
    cycles = matrix["GRBM_GUI_ACTIVE"] / DIES
    used = matrix["SQ_VALU_MFMA_BUSY_CYCLES"] / (cycles * UNITS * SIMDS)
    assert np.allclose(used, matrix["utilisation"], rtol=1e-5)
    assert np.allclose(cycles * used * FLOPS_PER_CLOCK, matrix["performed_flops"], rtol=1e-5)
    assert (found[found["useful_flops"] == 0]["SQ_VALU_MFMA_BUSY_CYCLES"] == 0).all()


def test_requests_to_memory_add_up_to_what_elementwise_kernels_move():
    run = simulated_run()
    read, written = recorded(run, 1), recorded(run, 2)
    silu = read["name"].str.contains("silu_kernel")
    elements = 2 * 4096 * 14336
    long, short = read["TCC_BUBBLE_sum"], read["TCC_EA0_RDREQ_sum"] - read["TCC_BUBBLE_sum"]
    assert silu.sum() == SMALL["iterations"] * SMALL["layers"]
    assert ((128 * long + 64 * short)[silu] == 2 * elements).all()
    assert ((64 * written["TCC_EA0_WRREQ_64B_sum"])[silu] == 2 * elements).all()


def test_kernels_run_one_by_one_at_a_clock_of_their_own():
    rows = wide(simulated_run(), 0)
    begins, ends = rows["Start_Timestamp"].to_numpy(), rows["End_Timestamp"].to_numpy()
    assert (begins[1:] > ends[:-1]).all()
    long = rows[ends - begins > 100_000]
    clock = long["GRBM_GUI_ACTIVE"] / DIES / (long["End_Timestamp"] - long["Start_Timestamp"]) * 1e3
    assert clock.max() - clock.min() < 0.1
    assert 0.95 < clock.median() / 2100 < 0.99


def test_processes_differ_in_every_pass_and_warm_up_is_in_them():
    run = simulated_run()
    pids = [rows_of(run, n, r)["Process_Id"].unique().tolist() for n in range(3) for r in range(2)]
    assert len({pid for found in pids for pid in found}) == 6
    truth = truth_of(run)
    timed = ((truth["rank"] == 0) & (truth["kind"] != "collective")).sum()
    counted = rows_of(run, 0)["Dispatch_Id"].nunique()
    assert counted > timed * (SMALL["iterations"] + 2) / SMALL["iterations"]


def test_collectives_are_left_out():
    names = rows_of(simulated_run(), 0)["Kernel_Name"]
    assert not names.str.contains("nccl").any()
    assert names.str.contains("copyBuffer").any()


def test_agents_are_described():
    run = simulated_run()
    path = next(pass_folder(run, "rocprofv3", 0).rglob("*_agent_info.csv"))
    with path.open() as file:
        gpus = [row for row in csv.DictReader(file) if row["Agent_Type"] == "GPU"]
    assert [row["Node_Id"] for row in gpus] == ["2", "3"]
    assert {(row["Num_Xcc"], row["Cu_Count"], row["Product_Name"]) for row in gpus} == {
        ("8", "304", "AMD Instinct MI300X")
    }


def test_every_kernel_but_collectives_gets_its_counters():
    trace = simulated_trace()
    counted = set(trace.counters["kernel_id"].to_pylist())
    kernels = trace.kernels.to_pandas()
    compute = kernels[kernels["kind"] == "compute"]
    assert set(compute["kernel_id"]) == counted


@pytest.mark.parametrize("number", range(3))
def test_changes_take_and_add_kernels(number):
    same, changed = simulated_run(), simulated_run(Injections(counter_changes=0.2))
    before, after = wide(same, number), wide(changed, number)
    other = after["Kernel_Name"].str.contains("FillFunctor<int>").sum()
    assert before["Kernel_Name"].str.contains("FillFunctor<int>").sum() < other
    assert abs(len(after) - len(before)) < 0.15 * len(before)
    per_name = (before["Kernel_Name"].value_counts() - after["Kernel_Name"].value_counts()).dropna()
    assert (per_name != 0).sum() > 5


def test_the_timed_run_does_not_depend_on_the_counters():
    one, other = simulated_run(), simulated_run(Injections(counter_changes=0.2))
    assert truth_of(one).equals(truth_of(other))

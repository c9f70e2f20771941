"""On NVIDIA the counters of a simulated run are a table of Nsight Compute."""

from __future__ import annotations

import io
from collections import Counter

import pandas as pd
import pytest
from simulated_runs import simulated_run, simulated_trace, truth_of

from chopper_jupyter.core.analysis.counted import counted_measures
from chopper_jupyter.core.run_folder import pass_folder
from chopper_jupyter.simulate import Injections

H100 = {"hardware": "H100"}


def lines_of(injections=None, **options) -> list[str]:
    run = simulated_run(injections, **H100, **options)
    path = pass_folder(run, "ncu", 0) / "simulated-0" / "ncu.csv"
    return path.read_text(encoding="utf-8").splitlines()


def table_of(injections=None, **options) -> pd.DataFrame:
    lines = [line for line in lines_of(injections, **options) if not line.startswith("==PROF==")]
    return pd.read_csv(io.StringIO("\n".join(lines)), dtype=str, keep_default_na=False)


def test_the_file_is_a_raw_page_with_its_units():
    lines = lines_of()
    assert [line[:8] for line in lines[:2]] == ["==PROF=="] * 2
    table = table_of()
    assert list(table.columns[:11]) == [
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC",
    ]  # fmt: skip
    units = table.iloc[0]
    assert units["gpu__time_duration.sum"] == "ns"
    assert units["dram__bytes_read.sum"] == "byte"
    assert table["ID"].tolist()[1:] == [str(i) for i in range(len(table) - 1)]
    assert table["Grid Size"][1:].str.fullmatch(r"\(\d+, \d+, \d+\)").all()


def test_no_copies_and_no_collectives_are_counted_but_the_warm_up_is():
    table, truth = table_of()[1:], truth_of(simulated_run(**H100))
    assert not table["Kernel Name"].str.contains("nccl|Memcpy").any()
    mine = truth[(truth["rank"] == 0) & (truth["kind"] == "compute")]
    per_iteration = Counter(mine[mine["iteration"] == mine["iteration"].min()]["name"])
    counted = Counter(table[table["Device"] == "0"]["Kernel Name"])
    assert {name: counted[name] for name in per_iteration} == {
        name: 5 * count for name, count in per_iteration.items()
    }
    assert len(set(table["Process ID"])) == 2


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_factors_come_back_through_the_counters(phase):
    injected = Injections(
        padding={"mlp.down_proj": 1.25}, matrix_utilisation={"mlp.gate_proj": 0.5}
    )
    trace = simulated_trace(injected, **H100)
    truth = truth_of(simulated_run(injected, **H100))
    measures = counted_measures(trace, trace.kernels)
    kernels = trace.kernels.to_pandas().assign(**measures)
    for op in ("mlp.down_proj", "mlp.gate_proj", "lm_head"):
        rows = kernels[(kernels["op"] == op) & (kernels["phase"] == phase)]
        rows = rows[rows["flops"].notna()]
        told = truth[(truth["op"] == op) & (truth["phase"] == phase) & (truth["useful_flops"] > 0)]
        assert len(rows) == len(told) > 0
        performed = rows["matrix_flops"].sum() / rows["flops"].sum()
        assert performed == pytest.approx(told["instruction"].iloc[0], rel=1e-6)
        used = rows["matrix_busy_cycles"].sum() / rows["matrix_capacity_cycles"].sum()
        assert used == pytest.approx(told["utilisation"].iloc[0], rel=1e-4)
        cycles = rows["cycles"].sum() / 1830e6
        at_peak = (told["theoretical_ns"] * told["instruction"] / told["utilisation"]).sum() * 1e-9
        assert cycles == pytest.approx(at_peak, rel=1e-4)


def test_kernels_are_lost_and_added_as_told():
    table, whole = table_of(Injections(counter_changes=0.05)), table_of()
    first, other = Counter(table["Kernel Name"]), Counter(whole["Kernel Name"])
    assert first != other
    assert abs(len(table) - len(whole)) < 0.05 * len(whole)
    assert (other - first).total() == pytest.approx(0.05 * len(whole), rel=0.6)

"""The runs of the gallery show what the Chopper paper found, in small as in full size."""

from __future__ import annotations

from pathlib import Path

import nbformat
import numpy as np
import pytest

from chopper_jupyter import charts, read_trace, summarize
from chopper_jupyter.charts.launch import launch_overhead_data
from chopper_jupyter.charts.op_times import op_samples
from chopper_jupyter.charts.overheads import overhead_breakdown_data
from chopper_jupyter.charts.phases import end_to_end_data
from chopper_jupyter.charts.sensors import frequency_power_data
from chopper_jupyter.simulate import llama_fsdp

GALLERY = Path(__file__).parents[2] / "example_notebooks" / "06_figures.ipynb"
SMALL = {"ranks": 2, "layers": 4, "iterations": 3, "warmup": 0}
FACTORS = ("instruction", "utilization", "overlap", "frequency")
ATTENTION = "aten::scaled_dot_product_attention"
V1, V2 = ("b2s4", "v1"), ("b2s4", "v2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Simulate three of the gallery's runs, told to suffer from what the gallery says."""
    told: dict = {}
    exec(nbformat.read(GALLERY, as_version=4).cells[1].source, told)  # noqa: S102  our own cell
    made = {}
    for name, version in (("b1s4", 1), ("b2s4", 1), ("b2s4", 2)):
        batch, sequence = told["CONFIGURATIONS"][name]
        made[name, f"v{version}"] = read_trace(
            llama_fsdp(
                tmp_path_factory.mktemp("run") / "run", batch=batch, sequence=sequence,
                version=version, injections=told["injections"](name, SMALL["ranks"]), **SMALL,
            )
        )  # fmt: skip
    return made


def test_a_batch_of_one_is_slower_per_token(runs):
    rate = charts.end_to_end(runs).data.groupby("run")["tokens_per_second"].first()
    assert 0.6 < rate["b1s4 v1"] / rate["b2s4 v1"] < 0.9
    assert rate["b2s4 v2"] > rate["b2s4 v1"]


def test_products_are_most_of_forward_and_backward(runs):
    data = end_to_end_data(runs)
    data = data[data["phase"].isin(["forward", "backward"])]
    assert 0.5 < data["gemm"].sum() / data.drop(columns=["run", "phase"]).to_numpy().sum() < 0.85


def test_attention_of_a_batch_of_one_takes_as_long_as_of_two(runs):
    data = op_samples(runs, ("attention",))
    time = data[data["op"] == f"b {ATTENTION}"].groupby("run")["time_ms"].median()
    assert time["b1s4 v1"] > time["b2s4 v1"]


def test_frequency_is_the_largest_part_of_products_and_padding_only_of_one(runs):
    data = overhead_breakdown_data(runs, "chopper").set_index(["run", "op"])
    for run in ("b1s4 v1", "b2s4 v1"):
        for op in ("gate_proj", "up_proj", "down_proj"):
            parts = data.loc[(run, f"f mlp.{op}"), [f"{name}_ms" for name in FACTORS]]
            assert parts.idxmax() == "frequency_ms"
    padded = data[data["instruction_ms"] > 0.05 * data["theoretical_ms"]].index
    assert set(padded) == {("b1s4 v1", "f mlp.down_proj"), ("b1s4 v1", "b mlp.down_proj")}
    saved = data["frequency_ms"] / data["theoretical_ms"]
    assert saved["b2s4 v2"]["f mlp.up_proj"] < saved["b2s4 v1"]["f mlp.up_proj"]


def test_clocks_of_the_second_version_are_higher_and_steadier_at_equal_power(runs):
    data = frequency_power_data({"v1": runs[V1], "v2": runs[V2]})
    load = data[data["power_w"] > 500].groupby("run")
    clock, spread = load["gpu_clock_mhz"].mean(), load["gpu_clock_mhz"].std()
    assert 1.2 < clock["v2"] / clock["v1"] < 1.27
    assert spread["v2"] < spread["v1"] / 3
    assert load["power_w"].mean()["v2"] == pytest.approx(load["power_w"].mean()["v1"], rel=0.05)


def test_kernels_are_prepared_late_only_at_the_edges_of_an_iteration(runs):
    data = launch_overhead_data({"v1": runs[V1], "v2": runs[V2]})
    late = data[data["prep_us"] > 0.01]
    assert 0 < late["op"].nunique() <= 3


def test_more_cores_are_active_than_would_suffice(runs):
    data = charts.cpu_utilization(runs[V1]).data.astype({"active_cores": float})
    busy = data[data["min_cores"] > 1]
    assert (busy["active_cores"] > 2 * busy["min_cores"]).all()


def test_the_rank_that_comes_last_is_last_in_most_collectives(runs):
    bars = [
        r for r in charts.collectives(runs[V1]).figure.select({})
        if type(getattr(r, "glyph", None)).__name__ == "VBar"
    ]  # fmt: skip
    assert np.argmax(bars[0].data_source.data["share"]) == 1


def test_the_second_version_copies_more(runs):
    copies = {
        key: summarize(runs[key].filter(op="fsdp_copy"), "op", ["time"])["time_ms"].sum()
        for key in (V1, V2)
    }
    assert copies[V2] > 1.5 * copies[V1]

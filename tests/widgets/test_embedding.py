"""What is embedded stays small and exact, however large the trace is."""

import pytest
from payload_rules import check_payload
from wide_traces import wide_trace

from chopper_jupyter.core.analysis.cube import level_codes
from chopper_jupyter.widgets.packing import pack
from chopper_jupyter.widgets.payload import BUDGET, payload_of
from chopper_jupyter.widgets.sources import Sources


def embedded(trace, **more):
    found = payload_of(Sources(trace), merge=True, **more)
    check_payload(found)  # among others: every cube sums up to the exact totals
    return found


def levels_of(payload):
    return {frozenset(cube["levels"]): cube for cube in payload["cubes"]}


def test_a_large_run_stays_under_the_budget():
    found = embedded(wide_trace(1_000_000))  # 64 GPUs, 50 iterations, 80 layers, 500 ops
    assert len(pack(found)) <= BUDGET
    cubes = levels_of(found)
    assert cubes[frozenset(["gpu", "iteration"])]["coarse"] is None
    where = cubes[frozenset(["phase", "op", "layer", "kernel"])]
    assert "merged" in where["coarse"]
    assert "totals are exact" in where["coarse"]


@pytest.mark.parametrize(
    "shape",
    [
        {"gpus": 3_000},
        {"iterations": 20_000, "gpus": 1},
        {"layers": 5_000},
        {"ops": 20_000},
        {"names": 10_000, "ops": 10_000},
    ],
    ids=["gpus", "iterations", "layers", "ops", "kernels"],
)
def test_any_one_level_may_be_huge(shape):
    sizes = {"gpus": 4, "iterations": 4, "layers": 8, "ops": 20, "names": 20} | shape
    found = embedded(wide_trace(30_000, **sizes))
    assert len(pack(found)) <= BUDGET
    assert found["cubes"]


def test_all_levels_huge_at_once():
    sizes = {"gpus": 1_000, "iterations": 200, "layers": 2_000, "ops": 9_000, "names": 9_000}
    assert len(pack(embedded(wide_trace(60_000, **sizes)))) <= BUDGET


@pytest.mark.parametrize("budget", [60_000, 25_000, 12_000])
def test_a_smaller_budget_is_kept_too(budget):
    trace = wide_trace(50_000, gpus=8, iterations=5, layers=32, ops=30, names=60)
    assert len(pack(embedded(trace, budget=budget))) <= budget


def test_ordinary_training_needs_no_merging():
    trace = wide_trace(50_000, gpus=8, iterations=5, layers=12, ops=12, names=12)
    found = embedded(trace)
    assert {cube["coarse"] for cube in found["cubes"]} == {None}
    assert frozenset(["phase", "op", "layer", "kernel"]) in levels_of(found)


def test_the_ops_with_the_most_time_keep_their_own_rows():
    trace = wide_trace(200_000, gpus=2, iterations=2, layers=80, ops=300, names=300)
    found = embedded(trace)
    where = levels_of(found)[frozenset(["phase", "op", "layer", "kernel"])]
    members = found["dictionaries"]["op"]
    shown = {code for code in where["codes"][where["levels"].index("op")] if code >= 0}
    plain = sorted(code for code in shown if "folded" not in members[code])
    assert plain == list(range(len(plain)))  # codes of ops are in the order of their time
    merged = [members[code] for code in shown if "folded" in members[code]]
    assert [m["folded"] + len(plain) for m in merged] == [300]
    assert merged[0]["label"] == f"{300 - len(plain)} small ops"


def test_merged_kernels_keep_the_time_of_their_family():
    trace = wide_trace(200_000, gpus=2, iterations=2, layers=80, ops=300, names=300)
    found = embedded(trace, budget=120_000)
    members = found["dictionaries"]["kernel"]
    time = trace.kernels.group_by("family").aggregate([("dur_ns", "sum")]).to_pylist()
    truth = {row["family"]: row["dur_ns_sum"] for row in time}
    (cube,) = [cube for cube in found["cubes"] if "kernel" in cube["levels"]]
    assert "small kernels" in cube["coarse"]
    sums = dict.fromkeys(truth, 0)
    codes = cube["codes"][cube["levels"].index("kernel")]
    for code, ns in zip(codes, cube["measures"]["time_ns"], strict=True):
        sums[members[code]["family"]] += ns
    assert sums == truth


def test_null_is_not_merged_with_small_members():
    trace = wide_trace(200_000, gpus=2, iterations=2, layers=80, ops=300, names=300)
    cube = levels_of(embedded(trace))[frozenset(["phase", "op", "layer", "kernel"])]
    phases = cube["codes"][0]
    unknown = sum(
        ns for code, ns in zip(phases, cube["measures"]["time_ns"], strict=True) if code < 0
    )
    null = trace.kernels.filter(trace.kernels["phase"].is_null())
    assert unknown == sum(null["dur_ns"].to_pylist())


def test_a_level_with_endless_members_is_left_out_and_the_rest_is_embedded():
    trace = wide_trace(60_000, iterations=30_000, gpus=1, layers=8, ops=20, names=20)
    found = embedded(trace)
    assert found["dictionaries"]["iteration"] == []
    assert found["instances"]["iterations"] == 30_000
    cubes = levels_of(found)
    assert frozenset(["phase", "op", "layer", "kernel"]) in cubes
    assert not any("iteration" in levels for levels in cubes)


def test_a_live_view_keeps_every_member_and_merges_nothing():
    trace = wide_trace(200_000, ops=500)
    codes = level_codes(trace)
    found = payload_of(Sources(trace), merge=False)
    check_payload(found)
    assert {cube["coarse"] for cube in found["cubes"]} == {None}
    for level, values in codes.dictionaries.items():
        assert len(found["dictionaries"][level]) == len(values)

"""Real recordings of both vendors, of one rank and of many, against a plain walk of their JSON.

The folder is named by the environment variable CHOPPER_REAL_DATA; without it these tests skip.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import warnings
from pathlib import Path

import brute_force
import json_walk
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from chopper_jupyter import read_trace
from chopper_jupyter.core.errors import (
    ChopperError,
    ClockWarning,
    PartialTraceWarning,
    TraceFormatError,
)
from chopper_jupyter.core.trace import Trace

FOLDER = os.environ.get("CHOPPER_REAL_DATA")
TRACES = Path(FOLDER or "unset") / "traces"

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        FOLDER is None, reason="set CHOPPER_REAL_DATA to the folder of real recordings"
    ),
]

EXPECTED = json.loads((TRACES / "EXPECTED.json").read_text()) if FOLDER else {}
WITH_KERNELS = [name for name, facts in EXPECTED.items() if facts["kernels"]]
WITHOUT_KERNELS = [name for name, facts in EXPECTED.items() if not facts["kernels"]]
MERGED = "hpc_ddp4_mi/merged_all_events.json.gz"

RANK_SETS = {
    "ddp_resnet18_2rank": ("ddp_resnet18_2rank", None, 2),
    "torchrec_4rank_noqcomm": ("torchrec_4rank_noqcomm", None, 4),
    "megatron_tp8": ("megatron_tp8", None, 8),
    "param_dlrm8": ("param_dlrm8", None, 8),
    "hpc_ddp4_mi": ("hpc_ddp4_mi", "derived_*", 4),
    "ddp_patch": ("own_cpu", "ddp_patch_rank*.json.gz", 2),
    "fsdp1_patch": ("own_cpu", "fsdp1_patch_rank*.json.gz", 2),
    "fsdp2_patch": ("own_cpu", "fsdp2_patch_rank*.json.gz", 2),
    "fsdp2ckpt_patch": ("own_cpu", "fsdp2ckpt_patch_rank*.json.gz", 2),
}
SMALL_WITH_COMMUNICATION = [
    "ddp_resnet18_2rank/85866.1698107929560561434.pt.trace.json.gz",
    "torchrec_4rank_noqcomm/45922.1698957822183453346.pt.trace.json.gz",
    "ao/syncless_ep_moe_fwd_b200.json.gz",
    "param_dlrm8/worker3_step_12.1694128201557.pt.trace.json.gz",
    "megatron_tp8/rank5.json.gz",
    "tracelens/mi210_gpu_only.json.gz",
    "tracelens/vllm_decode_graph_exec.json.gz",
]


def quietly(path, **options) -> Trace:
    """Read although part of a real file is damaged or unlinked: that is the point here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)
        warnings.simplefilter("ignore", ClockWarning)
        return read_trace(path, **options)


@functools.cache
def trace_of(name: str) -> Trace:
    return quietly(TRACES / name)


@functools.cache
def trace_of_set(name: str) -> Trace:
    folder, pattern, _ = RANK_SETS[name]
    return quietly(TRACES / folder, pattern=pattern)


def device_kernels(trace: Trace):
    """Rows that a plain walk finds as kernels: computation and communication, no copies."""
    kinds = trace.kernels["kind"].cast("string")
    return trace.kernels.filter(pc.is_in(kinds, pa.array(["compute", "collective"])))


def numbers(table, column: str) -> np.ndarray:
    return table[column].drop_null().to_numpy()


@pytest.mark.parametrize("name", EXPECTED)
def test_every_file_loads_or_says_clearly_why_not(name):
    try:
        trace = trace_of(name)
    except ChopperError as error:
        assert not EXPECTED[name]["kernels"], str(error)  # noqa: PT017  only for the others
        assert Path(name).name in str(error)  # noqa: PT017  such a refusal is fine
        return
    assert trace.quality.events_read > 0
    assert trace.info.name


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_kernels_are_all_there_with_their_time(name):
    rows = device_kernels(trace_of(name))
    facts = EXPECTED[name]
    assert rows.num_rows == facts["kernels"]
    total_us = numbers(rows, "dur_ns").sum() / 1000
    assert total_us == pytest.approx(
        facts["kernel_time_us"], abs=1 + 0.002 * facts["kernels"], rel=0
    )


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_copies_are_all_there(name):
    kinds = pc.value_counts(trace_of(name).kernels["kind"].cast("string")).to_pylist()
    found = {row["values"]: row["counts"] for row in kinds}
    by_category = EXPECTED[name]["by_ph_cat"]
    for kind, categories in (
        ("memcpy", ("X:gpu_memcpy", "X:Memcpy")),
        ("memset", ("X:gpu_memset", "X:Memset")),
    ):
        assert found.get(kind, 0) == sum(by_category.get(c, 0) for c in categories)


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_every_kernel_whose_launch_is_in_the_file_is_linked_to_it(name):
    facts = EXPECTED[name]
    if facts["events"] > 120_000:  # counts only: the walk takes its time
        linked = facts["kernels"] - device_kernels(trace_of(name))["launch_ns"].null_count
        assert linked == facts["kernels_with_launch_correlation"]
        return
    truth = json_walk.linked_kernels(json_walk.events(TRACES / name))
    assert len({id_ for id_, _, _ in truth}) == EXPECTED[name]["kernels_with_launch_correlation"]
    rows = device_kernels(trace_of(name))
    linked = rows.filter(pc.is_valid(rows["launch_ns"]))
    by_correlation = linked.filter(pc.is_valid(linked["correlation_id"]))
    assert by_correlation.num_rows >= len(truth)
    delays = numbers(linked, "start_ns") - numbers(linked, "launch_ns")
    expected = np.array(
        [start - calls[0] for _, start, calls in truth if len(calls) == 1], np.int64
    )
    _assert_contains(delays, expected)


def _assert_contains(found: np.ndarray, wanted: np.ndarray) -> None:
    """Every wanted number occurs among the found ones, as often, give or take rounding."""
    found, wanted = np.sort(found), np.sort(wanted)
    if len(found) == len(wanted):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2)
        return
    at = 0
    for number in wanted.tolist():
        while at < len(found) and found[at] < number - 2:
            at += 1
        assert at < len(found)
        assert abs(int(found[at]) - number) <= 2
        at += 1


@pytest.mark.parametrize("name", WITHOUT_KERNELS)
def test_without_a_gpu_the_computing_operators_are_the_kernels(name):
    rows = json_walk.events(TRACES / name)
    if json_walk.has_device_rows(rows):
        pytest.skip("holds copies of a GPU, so it is no recording of a CPU")
    leaves = json_walk.computing_aten(rows)
    if not leaves:
        with pytest.raises(ChopperError):
            trace_of(name)
        return
    trace = trace_of(name)
    assert trace.info.device_kind == "cpu"
    assert trace.gpus.num_rows == 1
    compute = trace.filter(kind="compute").kernels
    assert compute.num_rows == len(leaves)
    assert numbers(compute, "dur_ns").sum() == sum(dur for _, dur in leaves)
    first = leaves[0][0]
    starts = np.sort(numbers(compute, "start_ns"))
    assert (starts - starts[0]).tolist() == [start - first for start, _ in leaves]


@pytest.mark.parametrize("name", RANK_SETS)
def test_a_set_of_ranks_is_one_trace(name):
    folder, pattern, ranks = RANK_SETS[name]
    trace = trace_of_set(name)
    assert trace.gpus["gpu"].to_pylist() == list(range(ranks))
    assert trace.gpus["rank"].to_pylist() == list(range(ranks))
    assert trace.info.world_size == ranks
    assert trace.info.missing_ranks == ()
    one_by_one = [trace_of(f"{folder}/{file.name}") for file in sorted(
        (TRACES / folder).glob(pattern or "*.json*"))]  # fmt: skip
    assert trace.kernels.num_rows == sum(t.kernels.num_rows for t in one_by_one)
    assert numbers(trace.kernels, "dur_ns").sum() == sum(
        numbers(t.kernels, "dur_ns").sum() for t in one_by_one
    )
    for column in ("launch_ns", "op_id", "phase", "layer", "op", "iteration"):
        together = trace.kernels[column].null_count
        assert together == sum(t.kernels[column].null_count for t in one_by_one), column


def test_four_ranks_in_one_file_are_four_gpus_of_unknown_rank():
    trace = trace_of(MERGED)
    assert trace.gpus["rank"].to_pylist() == [None] * 4
    per_gpu = pc.value_counts(device_kernels(trace)["gpu"]).to_pylist()
    assert sorted(row["counts"] for row in per_gpu) == [3089, 3089, 3089, 3114]
    apart = trace_of_set("hpc_ddp4_mi")
    for column in ("dur_ns", "overlap_ns", "busy_ns", "idle_ns"):
        assert numbers(trace.kernels, column).sum() == pytest.approx(
            numbers(apart.kernels, column).sum(), rel=1e-6
        )
    delays = [
        np.sort(numbers(t.kernels, "start_ns") - numbers(t.kernels, "launch_ns"))
        for t in (trace, apart)
        if t.kernels["launch_ns"].null_count == 0
    ]
    assert len(delays) == 2
    np.testing.assert_allclose(delays[0], delays[1], rtol=0, atol=2)


def test_two_files_of_the_same_rank_are_refused_by_name(tmp_path):
    shutil.copy(TRACES / "megatron_tp8/rank0.json.gz", tmp_path / "first.json.gz")
    shutil.copy(TRACES / "megatron_tp8/rank0.json.gz", tmp_path / "second.json.gz")
    shutil.copy(TRACES / "megatron_tp8/rank1.json.gz", tmp_path / "third.json.gz")
    with pytest.raises(TraceFormatError) as caught:
        quietly(tmp_path)
    assert "first.json.gz" in str(caught.value)
    assert "second.json.gz" in str(caught.value)
    assert "third.json.gz" not in str(caught.value)
    assert "pattern=" in str(caught.value)
    assert quietly(tmp_path, pattern="[ft]*.json.gz").gpus["rank"].to_pylist() == [0, 1]


def test_the_same_kernels_twice_are_refused_by_name(tmp_path):
    for name in ("one.json.gz", "two.json.gz"):
        shutil.copy(TRACES / "tracelens/h100_bert_small.json.gz", tmp_path / name)
    with pytest.raises(TraceFormatError, match="pattern=") as caught:
        quietly(tmp_path)
    assert "one.json.gz" in str(caught.value)
    assert "two.json.gz" in str(caught.value)


def test_a_fused_file_beside_one_of_its_ranks_is_refused(tmp_path):
    for name in ("derived_rank2.json.gz", "merged_all_events.json.gz"):
        shutil.copy(TRACES / "hpc_ddp4_mi" / name, tmp_path)
    with pytest.raises(TraceFormatError, match="pattern=") as caught:
        quietly(tmp_path)
    assert "derived_rank2.json.gz" in str(caught.value)
    assert "merged_all_events.json.gz" in str(caught.value)


def test_a_folder_of_unrelated_files_is_refused(tmp_path):
    for file in (TRACES / "hta").iterdir():
        if file.stat().st_size < 30_000:
            shutil.copy(file, tmp_path)
    with pytest.raises(TraceFormatError, match="pattern="):
        quietly(tmp_path)


@pytest.mark.parametrize("name", SMALL_WITH_COMMUNICATION)
def test_overlap_busy_and_idle_equal_brute_force(name):
    trace = trace_of(name)
    for gpu in trace.gpus["gpu"].to_pylist():
        kernels = trace.filter(gpu=gpu).kernels
        rows = kernels.select(["start_ns", "dur_ns", "kind"]).to_pylist()
        measured = list(
            zip(
                *(kernels[c].to_pylist() for c in ("overlap_ns", "busy_ns", "idle_ns")), strict=True
            )
        )
        truth = brute_force.times(rows)
        assert [sum(t) for t in zip(*measured, strict=True)] == [
            sum(t) for t in zip(*truth, strict=True)
        ]
        for row, found, expected in zip(rows, measured, truth, strict=True):
            alone = sum(r["start_ns"] == row["start_ns"] for r in rows) == 1
            if alone:
                assert found == expected, row
            assert found[0] == expected[0] or row["kind"] in ("memcpy", "memset")


@pytest.mark.parametrize("name", EXPECTED)
def test_busy_and_idle_add_up_to_the_window_of_each_gpu(name):
    if name not in WITH_KERNELS and not name.startswith("own_cpu"):
        pytest.skip("no kernels to add up")
    trace = trace_of(name)
    for gpu in trace.gpus["gpu"].to_pylist():
        kernels = trace.filter(gpu=gpu).kernels
        start = numbers(kernels, "start_ns")
        if not len(start):
            continue
        window = (start + numbers(kernels, "dur_ns")).max() - start.min()
        assert numbers(kernels, "busy_ns").sum() + numbers(kernels, "idle_ns").sum() == window


@pytest.mark.parametrize("name", WITH_KERNELS + [n for n in EXPECTED if n.startswith("own_cpu")])
def test_ids_exist_and_children_lie_in_their_parents(name):
    trace = trace_of(name)
    _check_ids(trace)
    _check_nesting(trace.ops, "op_id")
    _check_nesting(trace.spans, "span_id")


@pytest.mark.parametrize("name", RANK_SETS)
def test_ids_of_several_ranks_exist(name):
    trace = trace_of_set(name)
    _check_ids(trace)
    _check_nesting(trace.ops, "op_id")


def _check_ids(trace: Trace) -> None:
    for table, key in (("kernels", "kernel_id"), ("ops", "op_id"), ("spans", "span_id")):
        ids = trace.tables[table][key]
        assert pc.count_distinct(ids).as_py() == len(ids), f"{key} is not unique"
    ops = set(trace.ops["op_id"].to_pylist())
    assert set(numbers(trace.kernels, "op_id").tolist()) <= ops
    assert set(numbers(trace.ops, "parent_id").tolist()) <= ops
    assert set(numbers(trace.ops, "forward_op_id").tolist()) <= ops
    assert set(numbers(trace.spans, "parent_id").tolist()) <= set(
        trace.spans["span_id"].to_pylist()
    )
    assert set(trace.kernels["gpu"].to_pylist()) <= set(trace.gpus["gpu"].to_pylist())


def _check_nesting(table, key: str) -> None:
    """A child lies in its parent, but for the half microsecond that old clocks round away."""
    ids = table[key].to_numpy()
    order = np.argsort(ids)
    children = table.filter(pc.is_valid(table["parent_id"]))
    if not children.num_rows:
        return
    at = order[np.searchsorted(ids, children["parent_id"].to_numpy(), sorter=order)]
    start, dur = table["start_ns"].to_numpy(), table["dur_ns"].to_numpy()
    inner = children["start_ns"].to_numpy()
    assert (inner >= start[at] - 1000).all()
    assert (inner + children["dur_ns"].to_numpy() <= start[at] + dur[at] + 1000).all()


def test_the_order_of_the_files_does_not_matter():
    files = sorted((TRACES / "torchrec_4rank_noqcomm").glob("*.json.gz"))
    forward, backward = quietly(files), quietly(files[::-1])
    assert forward.info == backward.info
    for name, table in forward.tables.items():
        assert table.equals(backward.tables[name]), name


@pytest.mark.parametrize("name", ["ddp_resnet18_2rank", "fsdp2ckpt_patch"])
def test_saving_and_opening_changes_nothing(name, tmp_path):
    trace = trace_of_set(name)
    again = read_trace(trace.save(tmp_path / "saved"))
    assert again.info == trace.info
    assert again.quality == trace.quality
    for table in trace.tables:
        assert again.tables[table].equals(trace.tables[table]), table


def test_amd_and_nvidia_recordings_of_one_model_look_alike():
    for model in ("bert_small", "owlv2", "qwen15"):
        shares = []
        for vendor in ("h100", "mi300"):
            rows = device_kernels(trace_of(f"tracelens/{vendor}_{model}.json.gz"))
            linked = rows.num_rows - rows["op"].null_count
            gemm = pc.sum(rows.filter(pc.equal(rows["family"].cast("string"), "gemm"))["dur_ns"])
            shares.append((linked / rows.num_rows, (gemm.as_py() or 0) > 0))
        assert abs(shares[0][0] - shares[1][0]) < 0.05, model
        assert shares[0][1], model
        assert shares[1][1], model

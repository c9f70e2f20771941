"""Layer, op and phase of every operator of real training, plain and under every wrapper.

The recordings hold module ranges of an experiment; they are renamed to what ours are called
and compared, operator by operator, with a plain walk.
"""

from __future__ import annotations

import collections
import functools
import gzip
import json
import os
import warnings
from pathlib import Path

import level_walk
import pytest
from json_walk import ns

from chopper_jupyter import read_trace
from chopper_jupyter.core.annotations import iteration_mark
from chopper_jupyter.core.errors import ClockWarning, PartialTraceWarning
from chopper_jupyter.core.trace import Trace

FOLDER = os.environ.get("CHOPPER_REAL_DATA")
OWN = Path(FOLDER or "unset") / "traces" / "own_cpu"

pytestmark = pytest.mark.real

FILES = [
    "tiny_llama_cpu.json.gz",
    "ddp_patch_rank0.json.gz",
    "fsdp1_patch_rank0.json.gz",
    "fsdp2_patch_rank0.json.gz",
    "fsdp2ckpt_patch_rank0.json.gz",
]
PROJECTIONS = {
    "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.o_proj",
    "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
}  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a function: file name to (truth by start and length, Trace)."""

    @functools.cache
    def load(name: str):
        document = json.loads(gzip.decompress((OWN / name).read_bytes()), parse_float=str)
        rows = [e for e in document["traceEvents"] if e.get("ph") == "X" and "dur" in e]
        truth = level_walk.walk(rows)
        _mark_iterations(document["traceEvents"], rows)
        level_walk.with_our_names(document["traceEvents"])
        path = tmp_path_factory.mktemp("renamed") / name.removesuffix(".gz")
        path.write_text(json.dumps(document))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PartialTraceWarning)
            warnings.simplefilter("ignore", ClockWarning)
            return truth, read_trace(path)

    return load


def _mark_iterations(events, rows) -> None:
    """Add what a recording of ours has: an empty range at the first call of each iteration."""
    roots = sorted((r for r in rows if r["name"] == "CHM::<root>"), key=lambda r: ns(r["ts"]))
    for number, root in enumerate(roots):
        events.append(root | {"name": iteration_mark(number), "dur": 0, "args": {}})


def rows_by_time(trace: Trace):
    """Compute rows with their absolute start."""
    rows = trace.filter(kind="compute").kernels.to_pylist()
    return rows, trace.info.origin_ns


@pytest.mark.parametrize("name", FILES)
def test_every_operator_gets_the_levels_that_a_plain_walk_finds(name, recorded):
    truth, trace = recorded(name)
    rows, _ = rows_by_time(trace)
    first = min(start for start, _ in truth)
    shift = first - min(row["start_ns"] for row in rows)
    assert len(rows) == len(truth)
    wrong = collections.Counter()
    for row in rows:
        expected = truth[row["start_ns"] + shift, row["dur_ns"]]
        if expected is None or expected.phase in (None, "optimizer"):
            continue
        found = (row["phase"], row["layer"], row["recompute"])
        if found != (expected.phase, expected.layer, expected.recompute):
            wrong["levels", row["name"], found, expected] += 1
        elif expected.op is not None and row["op"] != expected.op:
            wrong["op", row["name"], row["op"], expected] += 1
    assert not wrong, wrong.most_common(5)


@pytest.mark.parametrize("name", FILES)
def test_the_optimizer_has_its_phase_and_no_layer(name, recorded):
    truth, trace = recorded(name)
    rows = trace.filter(phase="optimizer").kernels.to_pylist()
    known = sum(t is not None and t.phase == "optimizer" for t in truth.values())
    assert known <= len(rows) <= known * 1.2
    assert {row["layer"] for row in rows} == {None}
    ops = {row["op"] for row in rows if row["dur_ns"] > 0.001 * sum(r["dur_ns"] for r in rows)}
    assert {op for op in ops if not op.startswith("aten::")} == {"optimizer_step"}


@pytest.mark.parametrize("name", FILES)
def test_layers_are_the_blocks_and_what_is_not_repeated(name, recorded):
    layers = {row["layer"] for row in recorded(name)[1].kernels.to_pylist()}
    assert layers - {None} == {"embed", "norm", "lm_head", *(f"layers.{i}" for i in range(4))}


@pytest.mark.parametrize("name", FILES)
def test_each_projection_multiplies_once_forward_and_twice_backward(name, recorded):
    _, trace = recorded(name)
    iterations = len(trace.iterations)
    counts = collections.Counter(
        (row["layer"], row["op"], row["phase"])
        for row in trace.ops.to_pylist()
        if row["name"] == "aten::mm"
    )
    again = 1 if "ckpt" in name else 0
    for layer in (f"layers.{i}" for i in range(4)):
        for op in PROJECTIONS:
            assert counts[layer, op, "forward"] == iterations
            assert counts[layer, op, "backward"] == (2 + again) * iterations


@pytest.mark.parametrize("name", FILES)
def test_nothing_before_the_last_optimizer_step_is_without_iteration(name, recorded):
    _, trace = recorded(name)
    rows = trace.kernels.to_pylist()
    assert trace.iterations == (list(range(3)) if "tiny" in name else [0, 1])
    per = collections.Counter(row["iteration"] for row in rows if row["op"] == "optimizer_step")
    assert len(set(per.values())) == 1
    assert set(per) == set(trace.iterations)
    last = max(row["start_ns"] for row in rows if row["phase"] == "optimizer")
    assert all(row["iteration"] is not None for row in rows if row["start_ns"] <= last)


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("ddp_patch_rank0.json.gz", {"all_reduce", "broadcast", "bucket_copy"}),
        ("fsdp2_patch_rank0.json.gz", {"all_gather", "reduce_scatter", "fsdp_copy"}),
        ("fsdp1_patch_rank0.json.gz", {"all_gather", "reduce_scatter", "fsdp_copy"}),
    ],
)
def test_communication_names_itself(name, ops, recorded):
    rows = recorded(name)[1].kernels.to_pylist()
    assert ops <= {row["op"] for row in rows}
    collectives = [row for row in rows if row["kind"] == "collective"]
    assert collectives
    assert all(row["op"] == row["collective"] for row in collectives)
    assert all(row["family"] == "communication" for row in collectives)
    assert all(row["phase"] in ("forward", "backward") for row in collectives)
    assert all(row["iteration"] is not None for row in collectives)


def test_fsdp_copies_carry_the_layer_that_their_range_names(recorded):
    rows = recorded("fsdp2_patch_rank0.json.gz")[1].filter(op="fsdp_copy").kernels.to_pylist()
    layers = {row["layer"] for row in rows}
    assert {f"layers.{i}" for i in range(4)} <= layers


@pytest.mark.parametrize("name", FILES)
def test_few_operators_stay_without_a_phase(name, recorded):
    rows, _ = rows_by_time(recorded(name)[1])
    lost = sum(row["dur_ns"] for row in rows if row["phase"] is None)
    assert lost < 0.02 * sum(row["dur_ns"] for row in rows)

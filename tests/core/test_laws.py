"""Laws that hold for every recording, on random ones that a program might have left."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import brute_force
from builders import BASE_NS, Rank
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chopper_jupyter import read_trace
from chopper_jupyter.core.align import clocks
from chopper_jupyter.core.errors import ClockWarning, PartialTraceWarning
from chopper_jupyter.core.trace import Trace

relaxed = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

KERNEL_NAMES = ("gemm_kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "void add<float>(int)")
duration = st.integers(0, 400)
launch = st.tuples(
    st.sampled_from(KERNEL_NAMES), duration, st.sampled_from((7, 7, 20)), st.integers(0, 60)
)
layer = st.tuples(st.integers(0, 2), st.lists(launch, max_size=3), st.booleans())
iteration = st.lists(layer, min_size=1, max_size=4)
program = st.lists(iteration, min_size=1, max_size=3)


def run(iterations, rank: Rank) -> Rank:
    """Train: blocks forward, their gradients in reverse, one optimizer step."""
    number = 0
    for step, layers in enumerate(iterations):
        rank.mark(step)
        forwards = []
        with rank.module("", "Model"):
            for index, launches, flow in layers:
                number += 1
                with (
                    rank.module(f"layers.{index}", "Block"),
                    rank.module(f"layers.{index}.fc"),
                    rank.op("aten::mm", seq=number) as forward,
                ):
                    rank.memory(512 * number, 512 * number * (number + 1) // 2, 2**30)
                    start(rank, launches)
                forwards.append((number, forward, launches, flow))
        for seq, forward, launches, flow in reversed(forwards):
            with rank.backward("MmBackward0", seq, tid=rank.pid + 1) as backward:
                start(rank, launches)
            if flow:
                rank.pair(forward, backward)
        with rank.annotation("Optimizer.step#SGD.step"), rank.op("aten::add_"):
            rank.launch("void add<float>(int)", dur=3)
    return rank


def start(rank: Rank, launches) -> None:
    for name, dur, stream, delay in launches:
        rank.launch(name, dur=dur, stream=stream, delay=delay)


def read(*documents) -> Trace:
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)
        warnings.simplefilter("ignore", ClockWarning)
        paths = []
        for number, document in enumerate(documents):
            paths.append(Path(folder) / f"rank_{number}.json")
            paths[-1].write_text(json.dumps(document))
        return read_trace(paths if len(paths) > 1 else paths[0])


def same(one: Trace, other: Trace) -> None:
    for name, table in one.tables.items():
        assert table.to_pylist() == other.tables[name].to_pylist(), name


@given(program)
@relaxed
def test_every_kernel_knows_its_iteration_phase_layer_and_op(iterations):
    trace = read(run(iterations, Rank()).document())
    for row in trace.kernels.to_pylist():
        assert row["iteration"] is not None
        assert row["launch_ns"] is not None
        if row["phase"] == "optimizer":
            assert (row["layer"], row["op"]) == (None, "optimizer_step")
        else:
            assert row["phase"] in ("forward", "backward")
            op = row["module"].removeprefix(row["layer"] + ".")
            assert row["op"] == ("all_reduce" if row["kind"] == "collective" else op)
    done = [row["iteration"] for row in trace.kernels.to_pylist() if row["phase"] == "optimizer"]
    assert done == list(range(len(iterations)))


@given(program)
@relaxed
def test_forward_and_backward_of_a_layer_launch_alike(iterations):
    rows = read(run(iterations, Rank()).document()).kernels.to_pylist()

    def launched(phase):
        chosen = [r for r in rows if r["phase"] == phase]
        return sorted((r["iteration"], r["module"], r["name"], r["dur_ns"]) for r in chosen)

    assert launched("forward") == launched("backward")


@given(program)
@relaxed
def test_busy_idle_and_overlap_equal_brute_force(iterations):
    kernels = read(run(iterations, Rank()).document()).kernels
    rows = kernels.select(["start_ns", "dur_ns", "kind"]).to_pylist()
    truth = brute_force.times(rows)
    columns = [kernels[c].to_pylist() for c in ("overlap_ns", "busy_ns", "idle_ns")]
    for column, expected in zip(columns, zip(*truth, strict=True), strict=True):
        assert sum(column) == sum(expected)
    window = max(r["start_ns"] + r["dur_ns"] for r in rows) - min(r["start_ns"] for r in rows)
    assert sum(columns[1]) + sum(columns[2]) == window
    assert all(0 <= o <= r["dur_ns"] for o, r in zip(columns[0], rows, strict=True))


@given(program, st.randoms(use_true_random=False))
@relaxed
def test_the_order_of_events_in_the_file_does_not_matter(iterations, shuffler: random.Random):
    document = run(iterations, Rank()).document()
    ordered = read(document)
    shuffler.shuffle(document["traceEvents"])
    shuffled = read(document)
    columns = [
        "start_ns",
        "stream",
        "dur_ns",
        "name",
        "launch_ns",
        "iteration",
        "phase",
        "layer",
        "op",
    ]
    one, other = (
        sorted(map(str, t.kernels.select(columns).to_pylist())) for t in (ordered, shuffled)
    )
    assert one == other


@given(program, st.integers(-(10**15), 10**15))
@relaxed
def test_shifting_all_clocks_changes_nothing_but_the_origin(iterations, shift):
    document = run(iterations, Rank()).document()
    plain = read(document)
    moved = read(document | {"baseTimeNanoseconds": BASE_NS + shift})
    same(plain, moved)
    assert moved.info.origin_ns - plain.info.origin_ns == shift


@given(program, st.integers(1, 10**9))
@relaxed
def test_a_rank_does_not_change_what_another_says(iterations, shift):
    first = run(iterations, Rank(rank=0, world_size=2)).document()
    second = run(iterations, Rank(rank=1, world_size=2)).document()
    second["baseTimeNanoseconds"] = BASE_NS + shift
    alone = read(first)
    together = read(first, second)
    assert together.gpus["rank"].to_pylist() == [0, 1]
    of_first = together.filter(gpu=0).kernels.drop_columns(["op_id", "kernel_id"])
    assert of_first.to_pylist() == alone.kernels.drop_columns(["op_id", "kernel_id"]).to_pylist()
    starts = [together.filter(gpu=g).kernels["start_ns"].to_pylist() for g in (0, 1)]
    collectives = alone.filter(kind="collective").kernels.num_rows
    left = 0 if collectives >= clocks.FEWEST and shift > clocks.FLOOR_NS else shift
    assert [b - a for a, b in zip(*starts, strict=True)] == [left] * len(starts[0])


@given(program, st.integers(2 * 10**6, 10**12), st.booleans())
@relaxed
def test_shifting_all_clocks_of_a_rank_changes_nothing_after_alignment(
    iterations, shift, first_too
):
    documents = [run(iterations, Rank(rank=r, world_size=2)).document() for r in (0, 1)]
    late = 10**6  # else both would hold the same kernels at the same times, and be refused
    documents[1]["baseTimeNanoseconds"] = BASE_NS + late
    plain = read(*documents)
    if plain.filter(kind="collective").kernels.num_rows < 2 * clocks.FEWEST:
        return  # nothing tells how far the clocks are apart
    moved = [{**document} for document in documents]
    moved[0 if first_too else 1]["baseTimeNanoseconds"] = BASE_NS + shift
    again = read(*moved)
    for name in ("kernels", "spans", "ops", "collectives"):
        assert again.tables[name].to_pylist() == plain.tables[name].to_pylist()
    assert again.gpus["offset_ns"].to_pylist() == [0, shift - late if first_too else -shift]


@given(program)
@relaxed
def test_saving_and_opening_is_identity(iterations):
    trace = read(run(iterations, Rank()).document())
    with TemporaryDirectory() as folder:
        again = Trace.open(trace.save(Path(folder) / "saved"))
    same(trace, again)
    assert again.info == trace.info
    assert again.quality == trace.quality


@given(program)
@relaxed
def test_ids_exist_and_children_lie_in_their_parents(iterations):
    trace = read(run(iterations, Rank()).document())
    for table, key in ((trace.ops, "op_id"), (trace.spans, "span_id")):
        rows = {row[key]: row for row in table.to_pylist()}
        assert len(rows) == table.num_rows
        for row in rows.values():
            if row["parent_id"] is not None:
                parent = rows[row["parent_id"]]
                assert parent["start_ns"] <= row["start_ns"]
                end = parent["start_ns"] + parent["dur_ns"]
                assert row["start_ns"] + row["dur_ns"] <= end
    ops = set(trace.ops["op_id"].to_pylist())
    assert set(trace.kernels["op_id"].to_pylist()) <= ops

import json

import pyarrow as pa
import pytest
from builders import trace_of
from sampled_traces import steady

from chopper_jupyter import throughput
from chopper_jupyter.core.analysis.tokens import tokens_per_iteration
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.core.trace import Trace


def embedded(trace: Trace, calls, parallel="FSDP::pre_forward (layers.0)") -> Trace:
    """Add embedding calls: (rank, iteration, rows of the table, shape of the index)."""
    ops = [
        {"op_id": i, "rank": rank, "name": "aten::embedding", "start_ns": 0, "dur_ns": 1, "tid": 0,
         "iteration": iteration, "input_shapes": json.dumps([[rows, 64], index, [], []])}
        for i, (rank, iteration, rows, index) in enumerate(calls)
    ]  # fmt: skip
    ops.append(ops[0] | {"op_id": len(ops), "name": parallel, "input_shapes": None})
    return Trace.from_tables({**trace.tables, "ops": pa.Table.from_pylist(ops)}, trace.info)


def test_tokens_over_the_median_iteration():
    row = throughput(steady(gpus=2), tokens_per_iteration=64).iloc[0]
    assert row["iteration_ms"] == pytest.approx(1000e-6)
    assert row["tokens_per_second"] == pytest.approx(64 / 1000e-9)
    assert row["tokens_per_second_per_gpu"] == pytest.approx(32 / 1000e-9)


def test_the_papers_iteration_is_compute_and_launch_gaps():
    rows = [
        {"iteration": 0, "start_ns": 0, "dur_ns": 100, "launch_ns": -10, "launch_kind": "runtime"},
        {"iteration": 0, "start_ns": 150, "dur_ns": 100, "launch_ns": 120,
         "launch_kind": "runtime", "idle_ns": 10},
        {"iteration": 0, "start_ns": 110, "dur_ns": 30, "kind": "collective", "idle_ns": 10},
    ]  # fmt: skip
    row = throughput(trace_of(rows), tokens_per_iteration=1).iloc[0]
    assert row["chopper_iteration_ms"] == pytest.approx((100 + 50 + 100) * 1e-6)
    assert row["iteration_ms"] == pytest.approx(250e-6)


def test_tokens_come_from_the_largest_embedding_of_every_rank():
    calls = [(rank, i, 32000, [2, 8]) for rank in (0, 1) for i in range(3) for _ in range(4)]
    calls += [(rank, i, 512, [8]) for rank in (0, 1) for i in range(3)]  # positions
    found = tokens_per_iteration(embedded(steady(gpus=2), calls))
    assert found.count == 2 * 4 * 16  # two ranks, four micro-batches
    frame = throughput(embedded(steady(gpus=2), calls), "iteration")
    assert frame["iteration"].tolist() == [0, 1, 2]
    assert frame.attrs["tokens_from"] == "inferred from the input of the embedding"


def test_ranks_that_may_see_the_same_tokens_tell_nothing():
    calls = [(rank, i, 32000, [2, 8]) for rank in (0, 1) for i in range(3)]
    assert tokens_per_iteration(embedded(steady(gpus=2), calls, "aten::mm")) is None
    assert tokens_per_iteration(embedded(steady(), calls[:3], "aten::mm")).count == 16


def test_what_was_told_comes_first():
    trace = embedded(steady(tokens_per_iteration=7), [(0, 0, 100, [2, 8])])
    assert throughput(trace).attrs["tokens_from"] == "as the recording was told"
    assert throughput(trace, tokens_per_iteration=9)["tokens"].tolist() == [9]


def test_unreadable_shapes_tell_nothing():
    trace = embedded(steady(), [(0, 0, 100, [])])
    assert tokens_per_iteration(trace) is None


def test_errors():
    with pytest.raises(MissingDataError, match="--tokens"):
        throughput(steady())
    with pytest.raises(MissingDataError, match="needs iterations"):
        throughput(trace_of([{}]), tokens_per_iteration=1)

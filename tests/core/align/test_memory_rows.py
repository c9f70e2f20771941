"""The table ``memory``: whose allocations, how much, and where in the training."""

import gzip
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from builders import Rank
from hypothesis import given, settings
from hypothesis import strategies as st

from chopper_jupyter.core.align.link import link
from chopper_jupyter.core.align.memory_rows import COUNTED, ELSEWHERE_SKIPPED, HOST_SKIPPED
from chopper_jupyter.core.importers.json_events import Document
from chopper_jupyter.core.importers.kineto import read_rank_plain
from chopper_jupyter.core.importers.kineto_events import events_of

FOLDER = os.environ.get("CHOPPER_REAL_DATA")
HOST = {"Device Type": 0, "Device Id": -1}


def linked(rank):
    document = rank.document()
    return link(events_of(Document(document.pop("traceEvents"), document), "test"))


def test_a_row_has_the_levels_of_what_runs_around_it():
    rank = Rank()
    rank.mark(0)
    with rank.module("", "Model"), rank.module("layers.0", "Block"):
        with rank.module("layers.0.fc"), rank.op("aten::mm", seq=1) as forward:
            rank.memory(512, 512, 2048)
            rank.launch("gemm")
        rank.memory(-512, 0, 2048)  # what Python drops between two operators
    with rank.module("", "Model"), rank.module("layers.1", "Block"), rank.module("layers.1.fc"):
        pass
    with rank.backward("MmBackward0", 1, tid=rank.pid + 1) as backward:
        rank.memory(1024, 1024, 2048)
    rank.pair(forward, backward)
    rank.mark(1)
    rank.memory(256, 1280, 2048)
    made = linked(rank)
    rows = made.memory.to_pylist()
    levels = [(r["iteration"], r["phase"], r["layer"], r["op"]) for r in rows]
    assert levels == [
        (0, "forward", "layers.0", "fc"),
        (0, "forward", "layers.0", None),
        (0, "backward", "layers.0", "fc"),
        (1, None, None, None),
    ]
    names = {row["op_id"]: row["name"] for row in made.ops.to_pylist()}
    assert [names.get(r["op_id"]) for r in rows] == ["aten::mm", None, "MmBackward0", None]
    assert [r["bytes"] for r in rows] == [512, -512, 1024, 256]
    assert [r["allocated_bytes"] for r in rows] == [512, 0, 1024, 1280]
    assert {r["reserved_bytes"] for r in rows} == {2048}


def test_with_a_gpu_the_memory_of_the_host_is_left_out_and_counted():
    rank = Rank()
    with rank.op("aten::mm"):
        rank.launch("gemm")
        rank.memory(512, 512)
        rank.memory(64, 64, 0, **HOST)
    made = linked(rank)
    assert made.memory["bytes"].to_pylist() == [512]
    assert made.quality.skipped[HOST_SKIPPED] == 1


def test_without_a_gpu_the_host_is_the_device_and_reserves_nothing():
    rank = Rank()
    with rank.op("aten::mm"):
        rank.memory(64, 64, 0, **HOST)
        rank.memory(512, 512, 1024)
    made = linked(rank)
    assert made.memory.select(["gpu", "bytes", "reserved_bytes"]).to_pylist() == [
        {"gpu": 0, "bytes": 64, "reserved_bytes": None}
    ]
    assert made.quality.skipped[ELSEWHERE_SKIPPED] == 1


def test_one_device_under_two_numbers_is_one_gpu():
    rank = Rank(amd=True, device=2)  # kernels name it as the driver counts
    with rank.op("aten::mm"):
        rank.launch("gemm")
        rank.memory(512, 512, **{"Device Id": 0})
    assert linked(rank).memory["gpu"].to_pylist() == [0]


def test_of_several_devices_each_number_counts():
    rank = Rank()
    for device in (3, 1):
        rank.device = device
        with rank.op("aten::mm"):
            rank.launch("gemm", stream=device)
            rank.memory(device, device)
    rank.memory(7, 7, **{"Device Id": 5})
    made = linked(rank)
    assert made.gpus["device"].to_pylist() == [1, 3]
    assert made.memory.select(["gpu", "bytes"]).to_pylist() == [
        {"gpu": 1, "bytes": 3}, {"gpu": 0, "bytes": 1}
    ]  # fmt: skip
    assert made.quality.skipped[ELSEWHERE_SKIPPED] == 1


def test_totals_that_a_file_does_not_tell_are_counted_and_that_is_said():
    rank = Rank(gpu=None)
    with rank.op("aten::mm"):
        rank.launch("gemm")
        for size in (512, 256, -512):
            rank.memory(size)
    made = linked(rank)
    assert made.memory["allocated_bytes"].to_pylist() == [512, 768, 256]
    assert made.memory["reserved_bytes"].null_count == 3
    assert COUNTED in made.quality.notes


change = st.tuples(st.integers(0, 1), st.integers(1, 10**12), st.booleans())


@given(st.lists(change, max_size=30), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_what_is_allocated_is_the_running_sum_of_bytes(changes, told, shuffler):
    """Per device, whether the file tells the totals or not, in whatever order it is written."""
    rank, live, total = Rank(), ([], []), [0, 0]
    for device in (0, 1):
        rank.device = device
        with rank.op("aten::mm"):
            rank.launch("gemm", stream=device)
    for device, size, free in changes:
        bytes_ = -live[device].pop() if free and live[device] else size
        if bytes_ > 0:
            live[device].append(bytes_)
        total[device] += bytes_
        with rank.op("aten::empty"):
            rank.memory(bytes_, total[device] if told else None, **{"Device Id": device})
    shuffler.shuffle(rank.events)
    made = linked(rank).memory
    assert made.num_rows == len(changes)
    for gpu in (0, 1):
        rows = [r for r in made.to_pylist() if r["gpu"] == gpu]
        running = list(itertools.accumulate(r["bytes"] for r in rows))
        assert [r["allocated_bytes"] for r in rows] == running
        assert running[-1:] == [sum(live[gpu])][: len(rows)]


@pytest.mark.real
@pytest.mark.skipif(not FOLDER, reason="CHOPPER_REAL_DATA is not set")
@pytest.mark.parametrize("name", ["h100_qwen15", "mi300_bert_small"])
def test_in_real_files_the_totals_are_the_running_sum(name):
    path = Path(FOLDER, f"traces/tracelens/{name}.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    told = [e["args"] for e in events if e["name"] == "[memory]" and e["args"]["Device Type"]]
    memory = link(read_rank_plain(path)).memory
    allocated, size = (memory[c].to_numpy() for c in ("allocated_bytes", "bytes"))
    assert len(allocated) == len(told) > 200
    assert allocated.max() == max(args["Total Allocated"] for args in told)
    assert (np.diff(allocated) == size[1:]).all()
    assert (memory["reserved_bytes"].to_numpy() >= allocated).all()

"""The files of a simulated run are what the PyTorch profiler writes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest
from simulated_runs import document_of, simulated_run

from chopper_jupyter.core.run_folder import read_run


def events(cat, **options):
    document = document_of(simulated_run(**options))
    return [e for e in document["traceEvents"] if e.get("cat") == cat]


@pytest.mark.parametrize("version", [1, 2])
def test_every_kernel_has_one_launch_call_and_an_arrow_from_it(version):
    kernels = [*events("kernel", version=version), *events("gpu_memcpy", version=version)]
    calls = {e["args"]["correlation"]: e for e in events("cuda_runtime", version=version)}
    arrows = defaultdict(dict)
    for arrow in events("ac2g", version=version):
        arrows[arrow["id"]][arrow["ph"]] = arrow
    numbers = [e["args"]["correlation"] for e in kernels]
    assert len(set(numbers)) == len(numbers) > 0
    for kernel in kernels:
        call, ends = calls[kernel["args"]["correlation"]], arrows[kernel["args"]["correlation"]]
        assert call["ts"] <= kernel["ts"]
        assert (ends["s"]["ts"], ends["s"]["tid"]) == (call["ts"], call["tid"])
        assert (ends["f"]["ts"], ends["f"]["tid"]) == (kernel["ts"], kernel["tid"])


def test_host_ranges_of_a_thread_nest():
    spans = defaultdict(list)
    for cat in ("cpu_op", "user_annotation", "cuda_runtime"):
        for e in events(cat):
            spans[e["tid"]].append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)))
    assert len(spans) == 2
    for rows in spans.values():
        stack = []
        for begin, end in sorted(rows, key=lambda row: (row[0], -row[1])):
            while stack and stack[-1] <= begin:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)


def test_backward_runs_on_a_thread_of_its_own_and_is_tied_to_its_forward():
    ops = {(e["ts"], e["tid"]): e for e in events("cpu_op")}
    flows = defaultdict(dict)
    for flow in events("fwdbwd"):
        flows[flow["id"]][flow["ph"]] = ops[flow["ts"], flow["tid"]]
    assert flows
    for ends in flows.values():
        forward, backward = ends["s"]["args"], ends["f"]["args"]
        assert forward["Sequence number"] == backward["Sequence number"]
        assert (forward["Fwd thread id"], backward["Fwd thread id"]) == (0, 1)
        assert ends["s"]["tid"] != ends["f"]["tid"]
        assert "Backward" in ends["f"]["name"]


def test_numbers_of_operators_are_unique_and_kernels_name_theirs():
    hosts = [*events("cpu_op"), *events("user_annotation")]
    numbers = Counter(e["args"]["External id"] for e in hosts)
    assert set(numbers.values()) == {1}
    assert {e["args"]["External id"] for e in events("kernel")} <= set(numbers)


def test_collectives_tell_what_they_move_and_all_ranks_agree():
    said = []
    for rank in range(2):
        document = document_of(simulated_run(), rank)
        kernels = [e for e in document["traceEvents"] if e.get("cat") == "kernel"]
        calls = [e["args"] for e in kernels if "Collective name" in e["args"]]
        keys = (
            "Collective name", "In msg nelems", "Out msg nelems", "Process Group Name", "Seq",
            "dtype", "Group size", "Process Group Ranks",
        )  # fmt: skip
        said.append([[call[key] for key in keys] for call in calls])
    assert said[0] == said[1]
    assert {row[0] for row in said[0]} == {"_allgather_base", "_reduce_scatter_base", "allreduce"}
    assert [row[4] for row in said[0]] == sorted(row[4] for row in said[0])
    assert all(row[6] == 2 and json.loads(row[7]) == [0, 1] for row in said[0])


def test_steps_marks_and_loaders_come_once_per_iteration():
    names = Counter(e["name"].split("::")[0].split("#")[0] for e in events("user_annotation"))
    assert names["ProfilerStep"] == 3
    assert names["enumerate(DataLoader)"] == 3
    assert names["Optimizer.step"] == 3
    marks = [e["name"] for e in events("cpu_op") if e["name"].startswith("chopper::iteration::")]
    assert len(set(marks)) == 3


def test_files_say_where_they_are_from_and_that_they_are_simulated():
    document = document_of(simulated_run(), 1)
    assert document["distributedInfo"]["rank"] == 1
    assert document["distributedInfo"]["world_size"] == 2
    assert {gpu["name"] for gpu in document["deviceProperties"]} == {"AMD Instinct MI300X"}
    assert document["baseTimeNanoseconds"] > 10**18
    run = read_run(simulated_run())
    assert run["simulated"] is True
    assert any("simulated" in note for note in run["notes"])


@pytest.mark.parametrize(("hardware", "word"), [("MI300X", "hip"), ("H100", "cuda")])
def test_calls_are_named_as_the_vendor_names_them(hardware, word):
    calls = {e["name"] for e in events("cuda_runtime", hardware=hardware)}
    assert {name[: len(word)] for name in calls} <= {word, "cu"}

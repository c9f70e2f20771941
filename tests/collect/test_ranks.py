"""Ranks that a profiled cell starts: all of them in one recording, each attributed rightly."""

from __future__ import annotations

import collections
import functools
import json
import sys
from pathlib import Path

import pytest
from collect import ranks, truth
from collect.judging import compare, mistakes, share
from collect.one_kernel import Kernel

from chopper_jupyter import read_trace
from chopper_jupyter.core.run_folder import rank_file, read_run

KINDS = list(ranks.WRAP)
SPAWN = "mp.spawn(ranks.main, ({kind!r}, {folder!r}, {store!r}), nprocs=2)"
TORCHRUN = (
    "!{python} -m torch.distributed.run --standalone --nproc-per-node 2 {script} {kind} {folder}"
)
LAUNCHES = {"spawn": SPAWN, "torchrun": TORCHRUN}
SHARDED = {"all_gather", "reduce_scatter", "all_reduce", "broadcast", "fsdp_copy", "bucket_copy"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A Jupyter kernel that can import the training script."""
    with Kernel(tmp_path_factory.mktemp("ranks")) as made:
        path = str(Path(__file__).parents[1])
        made.well(
            f"%load_ext chopper_jupyter\nimport sys; sys.path.insert(0, {path!r})\n"
            "import torch.multiprocessing as mp\nfrom collect import ranks"
        )
        yield made


@pytest.fixture(scope="module")
def recorded(kernel):
    """Return a function: how and what to launch to the folder of its recording."""

    @functools.cache
    def record(launch, kind):
        folder = kernel.folder / f"{launch}-{kind}"
        cell = LAUNCHES[launch].format(
            kind=kind, folder=str(kernel.folder / launch), store=f"{folder}.store",
            python=sys.executable, script=ranks.__file__,
        )  # fmt: skip
        (kernel.folder / launch).mkdir(exist_ok=True)
        kernel.well(
            f"%%chopper_profile -q --no-telemetry --warmup 1 --iterations 1 --run-dir {folder}\n"
            + cell
        )
        rows = [truth.take_out(rank_file(folder, rank)) for rank in range(2)]
        return rows, folder

    return record


@pytest.fixture(scope="module")
def unrecorded_losses(kernel):
    """Losses of all kinds from two ranks that nobody records."""
    folder = kernel.folder / "bare"
    folder.mkdir()
    kernel.well(SPAWN.format(kind=" ".join(KINDS), folder=str(folder), store=f"{folder}.store"))
    return {kind: json.loads((folder / f"{kind}.losses").read_text()) for kind in KINDS}


every_recording = pytest.mark.parametrize(
    ("launch", "kind"), [(launch, kind) for launch in LAUNCHES for kind in KINDS]
)


@every_recording
def test_one_trace_of_all_ranks(recorded, launch, kind):
    _, folder = recorded(launch, kind)
    run, trace = read_run(folder), read_trace(folder)
    assert (run["ranks"], run["world_size"]) == ({"0": "complete", "1": "complete"}, 2)
    assert run["recorded_iterations"] == 2
    assert trace.gpus["rank"].to_pylist() == [0, 1]
    assert trace.info.missing_ranks == ()
    assert [note for note in trace.quality.notes if "is none of the ranks" in note]
    for gpu in range(2):
        assert trace.filter(gpu=gpu).iterations == [0, 1]


@every_recording
def test_attribution(recorded, launch, kind):
    rows, folder = recorded(launch, kind)
    trace = read_trace(folder)
    for gpu in range(2):
        mine = trace.filter(gpu=gpu, kind="compute")
        judged = [r for r in compare(rows[gpu], mine, beside=False) if r[1] is not None]
        work = [row for row in judged if row[1] is not truth.SHARDING]
        sharding = [row for row in judged if row[1] is truth.SHARDING]
        assert len(work) > 800
        assert share(work, "layer") >= 0.98, mistakes(work, "layer")
        assert share(work, "phase") >= 0.98, mistakes(work, "phase")
        assert share(work, "op") >= 0.98, mistakes(work, "op")
        assert {found.op for _, _, found, _ in sharding} <= SHARDED
        placed = [(e, f) for _, e, f, _ in work if e.iteration is not None and e.op != "zero_grad"]
        assert [pair for pair in placed if pair[0].iteration != pair[1].iteration] == []


@every_recording
def test_collectives_are_the_same_on_all_ranks(recorded, launch, kind):
    _, folder = recorded(launch, kind)
    trace = read_trace(folder).filter(kind="collective")
    assert trace.kernels.num_rows
    counted = [calls(trace.filter(gpu=gpu)) for gpu in range(2)]
    assert counted[0] == counted[1]
    expected = {"ddp": {"all_reduce", "broadcast"}}.get(kind, {"all_gather", "reduce_scatter"})
    assert {collective for collective, _ in counted[0]} == expected
    assert sum(counted[0].values()) * 2 == trace.kernels.num_rows


def calls(trace):
    columns = (trace.kernels[name].to_pylist() for name in ("collective", "iteration"))
    return collections.Counter(zip(*columns, strict=True))


@every_recording
def test_losses_are_the_same_to_the_bit(recorded, unrecorded_losses, kernel, launch, kind):
    recorded(launch, kind)
    losses = json.loads((kernel.folder / launch / f"{kind}.losses").read_text())
    assert losses == unrecorded_losses[kind]


def test_a_killed_rank_leaves_the_other(kernel):
    folder = kernel.folder / "killed"
    kernel.well(
        f"%%chopper_profile -q --no-telemetry --warmup 0 --iterations 9 --run-dir {folder}\n"
        "try:\n"
        f"    mp.spawn(ranks.main, ('ddp', {str(folder)!r}, '{folder}.store', 2), nprocs=2)\n"
        "except mp.ProcessExitedException as error:\n"
        "    assert 'SIGKILL' in str(error), error\n"
        "else:\n"
        "    raise AssertionError"
    )
    trace = read_trace(folder)
    assert read_run(folder)["ranks"] == {"0": "partial", "1": "missing"}
    assert trace.info.missing_ranks == (1,)
    assert trace.gpus["rank"].to_pylist() == [0]
    assert {0, 1} <= set(trace.iterations)
    told = "\n".join(trace.quality.notes)
    assert "rank 0 is partial" in told
    assert "rank 1 is missing: its process ended" in told
    assert "no recording of rank 1" in str(trace.headline())


FORKED = """
import os, torch
def train(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    model = torch.nn.Linear(4, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        sgd.step()
"""


def test_forked_functions_of_the_notebook(kernel):
    folder = kernel.folder / "forked"
    kernel.well(FORKED)
    kernel.well(
        f"%%chopper_profile -q --no-telemetry --warmup 0 --iterations 2 --run-dir {folder}\n"
        "mp.start_processes(train, nprocs=2, start_method='fork')"
    )
    assert read_run(folder)["ranks"] == {"0": "complete", "1": "complete"}
    trace = read_trace(folder)
    assert [trace.filter(gpu=gpu).iterations for gpu in range(2)] == [[0, 1], [0, 1]]


def test_nothing_of_it_stays_in_the_jupyter_kernel(kernel, recorded):
    recorded("spawn", "ddp")
    found = kernel.well(
        "import os, signal, sys, torch\n"
        "[os.environ.get('CHOPPER_JUPYTER_RECORDING'), os.environ.get('PYTHONPATH'),\n"
        " mp.start_processes.__module__, sys.modules['torch.multiprocessing.spawn']\n"
        " .start_processes is mp.start_processes, torch.nn.Module.__call__.__module__]"
    )
    expected = [None, None, "torch.multiprocessing.spawn", True, "torch.nn.modules.module"]
    assert found == repr(expected)

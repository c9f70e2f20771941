"""Ranks that a profiled cell starts: all of them in one recording, each attributed rightly."""

from __future__ import annotations

import ast
import collections
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from collect import ranks, truth
from collect.judging import compare, mistakes, share
from collect.one_kernel import PACKAGE, Kernel

from chopper_jupyter import collectives, read_trace
from chopper_jupyter.core.run_folder import rank_file, read_run

KINDS = list(ranks.WRAP)
TESTS = str(Path(__file__).parents[1])
CELL = "%%chopper_profile -q --no-telemetry --warmup 1 --iterations 1 --run-dir {folder}\n"
SPAWN = "mp.spawn(ranks.main, ({kind!r}, {losses!r}, {store!r}), nprocs=2)"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
COMMAND = "import sys; from chopper_jupyter.cli import main; sys.exit(main())"
SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from collect import ranks
from chopper_jupyter import profile
with profile({folder!r}, warmup=1, iterations=1, telemetry=False):
    ranks.main(None, {kind!r}, {losses!r})
"""
SHARDED = {"all_gather", "reduce_scatter", "all_reduce", "broadcast", "fsdp_copy", "bucket_copy"}


def spawn(kernel, folder, kind, losses):
    """Start the ranks by torch.multiprocessing in a cell."""
    cell = SPAWN.format(kind=kind, losses=losses, store=f"{folder}.store")
    kernel.well(CELL.format(folder=folder) + cell)


def torchrun(kernel, folder, kind, losses):
    """Start torchrun in a cell."""
    kernel.well(CELL.format(folder=folder) + "!" + " ".join(torchrun_of(kind, losses)))


def command(_kernel, folder, kind, losses):
    """Record torchrun from the terminal."""
    options = ["--no-telemetry", "--warmup", "1", "--iterations", "1", "--run-dir", folder]
    told = terminal(
        [sys.executable, "-c", COMMAND, "profile", *options, "--", *torchrun_of(kind, losses)]
    )
    assert "iteration" in told
    assert f"Recording: {folder}" in told


def script(_kernel, folder, kind, losses):
    """Let the ranks that torchrun starts record themselves."""
    path = Path(f"{folder}.py")
    text = SCRIPT.format(tests=TESTS, folder=folder, kind=kind, losses=losses)
    path.write_text(text, encoding="utf-8")
    terminal([*TORCHRUN, str(path)])


def torchrun_of(kind, losses):
    return [*TORCHRUN, ranks.__file__, kind, losses]


def terminal(words):
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"PYTHONPATH": PACKAGE},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


LAUNCHES = {"spawn": spawn, "torchrun": torchrun, "command": command, "script": script}
RECORDINGS = [
    *(("spawn", kind) for kind in KINDS),
    ("torchrun", "fsdp2"), ("command", "ddp"), ("script", "fsdp1"),
]  # fmt: skip


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A Jupyter kernel that can import the training script."""
    with Kernel(tmp_path_factory.mktemp("ranks")) as made:
        made.well(
            f"%load_ext chopper_jupyter\nimport sys; sys.path.insert(0, {TESTS!r})\n"
            "import torch.multiprocessing as mp\nfrom collect import ranks"
        )
        made.well(FORKED)
        yield made


@pytest.fixture(scope="module")
def recorded(kernel):
    """Return a function: how and what to launch to the folder of its recording."""

    @functools.cache
    def record(launch, kind):
        folder, losses = kernel.folder / f"{launch}-{kind}", kernel.folder / launch
        losses.mkdir(exist_ok=True)
        LAUNCHES[launch](kernel, str(folder), kind, str(losses))
        rows = [truth.take_out(rank_file(folder, rank)) for rank in range(2)]
        return rows, folder

    return record


@pytest.fixture(scope="module")
def unrecorded_losses(kernel):
    """Losses of all kinds from two ranks that nobody records."""
    folder = kernel.folder / "bare"
    folder.mkdir()
    kernel.well(fork("ranks.main", " ".join(KINDS), str(folder), f"{folder}.store"))
    return {kind: json.loads((folder / f"{kind}.losses").read_text()) for kind in KINDS}


def fork(function, *args, ranks=2):
    """Return a cell that forks ranks: cheap, and well as long as the kernel ran no backward."""
    return f"mp.start_processes({function}, {args!r}, nprocs={ranks}, start_method='fork')"


every_recording = pytest.mark.parametrize(("launch", "kind"), RECORDINGS)


@every_recording
def test_one_trace_of_all_ranks(recorded, launch, kind):
    _, folder = recorded(launch, kind)
    run, trace = read_run(folder), read_trace(folder)
    assert (run["ranks"], run["world_size"]) == ({"0": "complete", "1": "complete"}, 2)
    assert run["recorded_iterations"] == 2
    assert trace.gpus["rank"].to_pylist() == [0, 1]
    assert trace.info.missing_ranks == ()
    said = [note for note in trace.quality.notes if "is none of the ranks" in note]
    assert len(said) == (launch in ("spawn", "torchrun"))
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
    matched = collectives(trace, include="all")
    assert len(matched) * 2 == trace.kernels.num_rows
    assert (set(matched["ranks"]), matched.attrs["unmatched"]) == ({2}, 0)


def calls(trace):
    columns = (trace.kernels[name].to_pylist() for name in ("collective", "iteration"))
    return collections.Counter(zip(*columns, strict=True))


@every_recording
def test_losses_are_the_same_to_the_bit(recorded, unrecorded_losses, kernel, launch, kind):
    recorded(launch, kind)
    losses = json.loads((kernel.folder / launch / f"{kind}.losses").read_text())
    assert losses == unrecorded_losses[kind]


def recorded_well(kernel, name, cell, iterations=2):
    """Record a cell; return what the run says of itself."""
    folder = kernel.folder / name
    options = f"-q --no-telemetry --warmup 0 --iterations {iterations}"
    kernel.well(f"%%chopper_profile {options} --run-dir {folder}\n{cell}")
    return read_run(folder), folder


def expecting(cell, error, text=""):
    """Return a cell that must fail like this."""
    return f"import pytest\nwith pytest.raises({error}, match={text!r}):\n    {cell}"


def test_a_killed_rank_leaves_the_other(kernel):
    folder = kernel.folder / "killed"
    cell = fork("ranks.main", "ddp", str(kernel.folder), f"{folder}.store", 2)
    run, folder = recorded_well(
        kernel, "killed", expecting(cell, "mp.ProcessExitedException", "SIGKILL"), 9
    )
    trace = read_trace(folder)
    assert run["ranks"] == {"0": "partial", "1": "missing"}
    assert trace.info.missing_ranks == (1,)
    assert trace.gpus["rank"].to_pylist() == [0]
    assert {0, 1} <= set(trace.iterations)
    told = "\n".join(trace.quality.notes)
    assert "rank 0 is partial" in told
    assert "rank 1 is missing: its process ended" in told
    assert "no recording of rank 1" in str(trace.headline())


FORKED = """
import os, signal, sys, torch
from chopper_jupyter import profile
class Rows(torch.utils.data.Dataset):
    scale = torch.nn.Linear(4, 4)
    def __len__(self): return 8
    def __getitem__(self, i): return self.scale(torch.ones(4)).detach()
def train(rank, end="", ranks=2):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
    loop()
    exec(end)
def loop():
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for row in torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=1):
        model(row).sum().backward()
        sgd.step()
def recording_itself(rank, folder):
    with profile(folder, warmup=0, iterations=4, telemetry=False) as recording:
        loop()
    assert recording.recorded_iterations == 4, recording.recorded_iterations
"""


def test_forked_functions_of_the_notebook_whose_data_loaders_fork_again(kernel):
    run, folder = recorded_well(kernel, "forked", fork("train"))
    assert run["ranks"] == {"0": "complete", "1": "complete"}
    trace = read_trace(folder)
    assert [trace.filter(gpu=gpu).iterations for gpu in range(2)] == [[0, 1], [0, 1]]


def test_the_second_launch_of_the_same_ranks_is_left_out_and_said(kernel):
    run, folder = recorded_well(kernel, "twice", f"{fork('train')}\n{fork('train')}")
    assert run["ranks"] == {"0": "complete", "1": "complete"}
    assert len([note for note in run["notes"] if "was rank 0 already" in note]) == 1
    assert read_trace(folder).info.missing_ranks == ()


@pytest.mark.parametrize(
    ("end", "error", "state"),
    [
        ("1 / 0", "ProcessRaisedException", "partial"),
        ("sys.exit(3)", "ProcessExitedException", "partial"),
        ("sys.exit()", None, "complete"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "ProcessExitedException", "partial"),
        ("os._exit(3)", "ProcessExitedException", "missing"),
    ],
)
def test_a_rank_that_ends_in_the_window(kernel, end, error, state):
    cell = fork("train", end, 1, ranks=1)
    cell = cell if error is None else expecting(cell, f"mp.{error}")
    name = "".join(filter(str.isalnum, end))
    run, folder = recorded_well(kernel, f"end-{name}", cell, 9)
    assert run["ranks"] == {"0": state}
    if state != "missing":
        assert read_trace(folder).iterations == [0, 1, 2, 3]


def test_the_second_try_of_a_rank_takes_the_place_of_the_first_even_where_it_is_killed(kernel):
    tries = [
        expecting(fork("train", end, 1, ranks=1), f"mp.{error}")
        for end, error in (
            ("1 / 0", "ProcessRaisedException"), ("os._exit(3)", "ProcessExitedException"),
        )
    ]  # fmt: skip
    run, folder = recorded_well(kernel, "tries", "\n".join(tries), 9)
    assert run["ranks"] == {"0": "missing"}
    assert not rank_file(folder, 0).exists()


ELASTIC = """
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
def entry():
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    loop()
    assert not first or os.environ["RANK"] == "1"
    if first: signal.pause()
elastic_launch(LaunchConfig(
    min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="none", rdzv_backend="c10d",
    rdzv_endpoint="127.0.0.1:0", start_method="fork", max_restarts=1, monitor_interval=0.1,
), entry)()
"""


def test_ranks_that_an_elastic_launch_starts_again(kernel):
    """As notebook_launcher of accelerate launches; the second try takes the place of the first."""
    run, folder = recorded_well(kernel, "elastic", ELASTIC, 9)
    assert run["ranks"] == {"0": "complete", "1": "complete"}
    trace = read_trace(folder)
    assert [trace.filter(gpu=gpu).iterations for gpu in range(2)] == [[0, 1, 2, 3]] * 2
    assert [note for note in run["notes"] if "not recorded" in note] == []


def test_loader_workers_forked_inside_of_a_recording_leave_it_alone(kernel):
    folder = kernel.folder / "itself"
    kernel.well(fork("recording_itself", str(folder), ranks=1))
    assert read_run(folder)["ranks"] == {"0": "complete"}
    assert read_trace(folder).iterations == [0, 1, 2, 3]


def test_nothing_of_it_stays_in_the_jupyter_kernel(kernel, recorded):
    recorded("spawn", "fsdp2")
    found = kernel.well(
        "import os, signal, sys, torch\n"
        "[os.environ.get('CHOPPER_JUPYTER_RECORDING'), os.environ.get('PYTHONPATH'),\n"
        " mp.start_processes.__module__, sys.modules['torch.multiprocessing.spawn']\n"
        " .start_processes is mp.start_processes, torch.nn.Module.__call__.__module__]"
    )
    expected = [None, PACKAGE, "torch.multiprocessing.spawn", True, "torch.nn.modules.module"]
    assert ast.literal_eval(found) == expected

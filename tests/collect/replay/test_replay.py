"""Replays with stand-ins for the counter tools, which the machines of CI do not have."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from collect.replay import stand_in

from chopper_jupyter.collect.replay import checks
from chopper_jupyter.collect.replay.cells import Cell
from chopper_jupyter.collect.replay.checks import problems
from chopper_jupyter.collect.replay.request import collect_counters
from chopper_jupyter.collect.replay.script import write_script
from chopper_jupyter.collect.replay.tools import Tool, find_tool
from chopper_jupyter.core.errors import CollectError

AMD, NVIDIA = ("amd", "gfx942"), ("nvidia", "sm_90")
SETUP = (
    "import torch\nmodel = torch.nn.Linear(4, 1)\nsgd = torch.optim.SGD(model.parameters(), lr=.1)"
)
LOOP = """%%chopper_profile
for turn in range(1000):
    print('turn', turn, flush=True)
    model(torch.ones(2, 4)).sum().backward()
    sgd.step()
"""


def script_of(folder, setup=SETUP, loop=LOOP, **how):
    return write_script(folder, [Cell(1, setup, "a", True)], Cell(2, loop, "b", True), **how)


def plain_script(folder, text="print('hello')"):
    path = folder / "script.py"
    path.write_text(text)
    return path


def test_the_script_runs_a_few_iterations_and_ends_well(tmp_path):
    made = script_of(tmp_path, warmup=1, iterations=2)
    done = subprocess.run(
        [sys.executable, str(made.path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    turns = [line for line in done.stdout.splitlines() if line.startswith("turn")]
    assert turns == ["turn 0", "turn 1", "turn 2", "turn 3"]  # the fourth only begins
    assert made.cells == (1,)
    assert "earlier cells 1" in str(made)
    assert "%%chopper_profile" in str(made)


def test_a_loop_that_ends_sooner_ends_the_script(tmp_path):
    made = script_of(tmp_path, loop="model(torch.ones(2, 4))", warmup=1, iterations=2)
    assert subprocess.run([sys.executable, str(made.path)], check=False).returncode == 0


def test_quotes_in_what_is_left_out_do_no_harm(tmp_path):
    made = script_of(tmp_path, setup=SETUP + '\n!echo """ \\" \'\'\'')
    compile(made.path.read_text(encoding="utf-8"), "replay", "exec")


def test_cells_can_be_chosen(tmp_path):
    cells = [Cell(1, "a = 1"), Cell(2, "b = 1"), Cell(3, "c = 1"), Cell(9, "later = 1")]
    made = write_script(tmp_path, cells, Cell(4, "d = 1"), only={1, 3})
    text = made.path.read_text(encoding="utf-8")
    assert made.cells == (1, 3)
    assert "b = 1" not in text
    assert "later" not in text


def test_a_pass_for_every_few_counters(tmp_path, monkeypatch):
    log = stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    said: list[str] = []
    folders = collect_counters(
        tmp_path, plain_script(tmp_path), ["matrix"], agreed=True, say=said.append, gpu=AMD
    )
    assert [f.relative_to(tmp_path).as_posix() for f in folders] == [
        f"counters/rocprofv3/pass_{n}" for n in range(3)
    ]
    commands = log.read_text().splitlines()
    assert len(commands) == 3
    assert all(
        "--output-format csv" in c and "--kernel-exclude-regex nccl.*" in c for c in commands
    )
    assert all(list(folder.rglob("*counter_collection.csv")) for folder in folders)
    assert any("2 to go" in text for text in said)


def test_finished_passes_are_kept_after_a_failure(tmp_path, monkeypatch):
    log = stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    marker = tmp_path / "broken"
    text = (
        "import pathlib, sys\n"
        f"log, marker = pathlib.Path({str(log)!r}), pathlib.Path({str(marker)!r})\n"
        "if marker.exists() and len(log.read_text().splitlines()) == 2:\n"
        "    print('HIP out of memory'); sys.exit(3)\n"
    )
    script = plain_script(tmp_path, text)
    marker.touch()
    with pytest.raises(CollectError, match="exit code 3") as failure:
        collect_counters(tmp_path, script, ["matrix"], agreed=True, say=str, gpu=AMD)
    assert "HIP out of memory" in str(failure.value)
    assert "rocprofv3 --pmc" in str(failure.value)
    marker.unlink()
    said: list[str] = []
    collect_counters(tmp_path, script, ["matrix"], agreed=True, say=said.append, gpu=AMD)
    assert sum("there already" in text for text in said) == 1
    assert len(log.read_text().splitlines()) == 4  # one, the failure, and the two that were left


def test_an_edited_script_is_run_again(tmp_path, monkeypatch):
    log = stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    for text in ("x = 1", "x = 1", "x = 2"):
        collect_counters(
            tmp_path, plain_script(tmp_path, text), ["SQ_WAVES"], agreed=True, say=str, gpu=AMD
        )
    assert len(log.read_text().splitlines()) == 2


def test_a_counter_that_the_gpu_lacks_is_an_error_though_the_tool_says_nothing(
    tmp_path, monkeypatch
):
    stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    with pytest.raises(CollectError, match="wrote no counters"):
        collect_counters(
            tmp_path, plain_script(tmp_path), ["UNKNOWN_X"], agreed=True, say=str, gpu=AMD
        )


def test_nsight_compute_runs_once(tmp_path, monkeypatch):
    log = stand_in.install(tmp_path / "bin", "ncu", monkeypatch)
    monkeypatch.setattr(checks, "NVIDIA_PARAMS", tmp_path / "none")
    (folder,) = collect_counters(
        tmp_path, plain_script(tmp_path), [["matrix", "memory"][0], "memory"], agreed=True,
        say=str, gpu=NVIDIA,
    )  # fmt: skip
    (command,) = log.read_text().splitlines()
    assert "--clock-control none" in command
    assert "--nvtx-include chopper_replay/" in command
    assert (folder / "ncu.csv").read_text().startswith("==PROF==")
    assert json.loads((folder / "pass.json").read_text())["seconds"] >= 0


def test_nothing_is_run_without_consent(tmp_path, monkeypatch):
    log = stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    said: list[str] = []
    made = collect_counters(
        tmp_path, plain_script(tmp_path), ["matrix"], agreed=False, say=said.append, gpu=AMD
    )
    assert made == []
    assert not log.exists()
    assert "--yes" in said[-1]


def test_what_is_missing_is_said_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CollectError, match=r"rocprofv3 is not on the PATH.*ROCm 6\.2"):
        find_tool("amd")
    with pytest.raises(CollectError, match="need a GPU"):
        find_tool(None)
    stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    with pytest.raises(CollectError, match="no script to replay"):
        collect_counters(tmp_path, tmp_path / "x.py", ["matrix"], agreed=True, say=str, gpu=AMD)


def test_permissions(tmp_path):
    params, kfd = tmp_path / "params", tmp_path / "kfd"
    params.write_text("RmProfilingAdminOnly: 1\n")
    ncu, rocprof = Tool("ncu", "ncu"), Tool("rocprofv3", "rocprofv3")

    def asked(tool, *, root):
        return problems(tool, nvidia_params=params, amd_device=kfd, is_root=lambda: root)

    assert "ERR_NVGPUCTRPERM" in asked(ncu, root=False)[0]
    assert asked(ncu, root=True) == []
    params.write_text("RmProfilingAdminOnly: 0\n")
    assert asked(ncu, root=False) == []
    assert asked(rocprof, root=False) == []  # no device: the tool will say so

"""Processes that a recorded block starts: how they find the recording, and what they write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

from chopper_jupyter import profile
from chopper_jupyter.cli import main
from chopper_jupyter.collect.joined import join
from chopper_jupyter.collect.options import ProfileOptions
from chopper_jupyter.collect.ticket import HOOK_FOLDER, VARIABLE, Ticket, announced
from chopper_jupyter.core.run_folder import (
    add_note,
    process_numbers,
    process_stem,
    rank_file,
    rank_files,
    read_run,
    statuses,
    write_run,
    write_status,
)

# No optimizer: making the first one imports a compiler, which takes longer than all of torch.
TRAIN = """
import torch
model = torch.nn.Linear(4, 1)
for _ in range(4):
    model(torch.ones(2, 4)).sum().backward()
"""
ELSEWHERE = """
import importlib.util as u
find = u.find_spec
u.find_spec = lambda name, *a: None if "chopper" in name else find(name, *a)
"""


def start(code, **environment):
    """Run code in a fresh interpreter."""
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip


def end(process, status=0):
    """Wait for it; return what it printed."""
    out, errors = process.communicate(timeout=300)
    assert process.returncode == status, errors
    return out if status == 0 else errors


def without_torch(folder):
    """Return a path on which torch is empty: what joins fails, what does not is quick."""
    (folder / "empty").mkdir()
    (folder / "empty" / "torch.py").touch()
    return f"{HOOK_FOLDER}{os.pathsep}{folder / 'empty'}"


def train(turns=3):
    model = nn.Linear(4, 1)
    for _ in range(turns):
        model(torch.ones(2, 4)).sum().backward()


def recording(folder, **options):
    return profile(folder, **{"warmup": 0, "iterations": 2, "telemetry": False} | options)


def ticket(folder, *, is_open=True):
    made = Ticket(folder, "a1", "here", ProfileOptions(warmup=0, iterations=2, telemetry=False))
    write_run(folder, {"recording": "a1", "open": is_open, "ranks": {}})
    return made


@pytest.fixture(autouse=True)
def untouched():
    def state():
        spawn = sys.modules["torch.multiprocessing.spawn"]
        return (
            os.environ.get(VARIABLE), os.environ.get("PYTHONPATH"), mp.start_processes,
            spawn.start_processes, vars(nn.Module)["__call__"], signal.getsignal(signal.SIGTERM),
        )  # fmt: skip

    before = state()
    yield
    assert state() == before


class TestAnnouncing:
    @pytest.mark.parametrize("path", [None, "", "/a", "/a::/b"])
    def test_the_environment_is_put_back(self, tmp_path, monkeypatch, path):
        if path is None:
            monkeypatch.delenv("PYTHONPATH", raising=False)
        else:
            monkeypatch.setenv("PYTHONPATH", path)
        with announced(ticket(tmp_path)):
            assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(HOOK_FOLDER)
            assert os.environ["PYTHONPATH"].endswith(path or str(HOOK_FOLDER))
        assert os.environ.get("PYTHONPATH") == path
        assert VARIABLE not in os.environ

    def test_what_the_block_adds_stays(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", "/a")
        with announced(ticket(tmp_path)):
            os.environ["PYTHONPATH"] += os.pathsep + "/b"
        assert os.environ["PYTHONPATH"] == os.pathsep.join(["/a", "/b"])

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_also_after_errors(self, tmp_path, error):
        def fail():
            assert VARIABLE in os.environ
            assert mp.start_processes.__module__ == "chopper_jupyter.collect.launches"
            raise error

        with pytest.raises(error), recording(tmp_path):
            fail()


class TestFreshInterpreters:
    def test_all_that_train_are_recorded(self, tmp_path):
        begin = "from chopper_jupyter import profile\nwith profile('elsewhere') as mine:\n"
        with recording(tmp_path / "run", iterations=9) as made:
            train()  # this process trains, too
            failing = start(ELSEWHERE + TRAIN + "1 / 0")
            own = start(f"{begin}    exec({TRAIN!r})\nprint(mine.run_dir)")
            # Torch comes in by the import of what joins: half of it is there when it is to join.
            idle = start("from chopper_jupyter.collect import joined; print(joined.joined())")
            assert "ZeroDivisionError" in end(failing, status=1)
            assert end(own) == f"{tmp_path / 'run'}\n"
            assert "Joined" in end(idle)
        run = read_run(tmp_path / "run")
        assert sorted(run["ranks"].values()) == ["complete", "complete", "partial"]
        assert made.trace.gpus["rank"].to_pylist() == [0, 1, 2]
        assert [made.trace.filter(gpu=gpu).iterations for gpu in range(3)] == [
            [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3],
        ]  # fmt: skip
        assert not (tmp_path / "elsewhere").exists()
        assert [note for note in run["notes"] if "not recorded" in note] == []

    def test_a_recording_that_is_over_takes_nobody(self, tmp_path):
        assert join(ticket(tmp_path, is_open=False)) is None
        assert join() is None
        assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


class TestHook:
    @pytest.mark.parametrize("text", ["{", "[]", "5"])
    def test_a_strange_variable_breaks_nothing(self, tmp_path, text):
        with pytest.raises(ValueError):  # noqa: PT011  the number of ways is what is tested
            Ticket.from_text(text)
        environment = {VARIABLE: text, "PYTHONPATH": without_torch(tmp_path)}
        assert end(start("import torch; print('fine')", **environment)) == "fine\n"

    def test_a_package_that_is_gone_breaks_nothing_and_is_said(self, tmp_path):
        text = json.loads(ticket(tmp_path).to_text()) | {"package": str(tmp_path)}
        environment = {VARIABLE: json.dumps(text), "PYTHONPATH": without_torch(tmp_path)}
        end(start(ELSEWHERE + "import torch", **environment))
        (note,) = read_run(tmp_path)["notes"]
        assert note.startswith("a process was not recorded: it could not join: FileNotFoundError")

    def test_another_sitecustomize_runs_too(self, tmp_path):
        (tmp_path / "sitecustomize.py").write_text("import sys; sys.theirs = __file__")
        code = "import sys, sitecustomize as s; print(s.__file__ == sys.theirs, sys.path)"
        with announced(ticket(tmp_path)):
            told = end(start(code, PYTHONPATH=f"{HOOK_FOLDER}{os.pathsep}{tmp_path}"))
        assert told.startswith("True")
        assert str(HOOK_FOLDER) not in told

    def test_without_torch_nothing_is_imported(self, tmp_path):
        code = "import sys; print([m for m in sys.modules if m in ('torch', 'chopper_jupyter')])"
        with announced(ticket(tmp_path)):
            assert end(start(code)) == "[]\n"


class TestCommand:
    """``chopper-jupyter profile`` runs the command as it would run without."""

    @pytest.mark.parametrize(
        ("code", "status"),
        [("pass", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)],
    )
    def test_the_status_is_that_of_the_command(self, tmp_path, capfd, code, status):
        assert self.run(tmp_path / "run", sys.executable, "-c", code) == status
        assert "nothing was recorded" in capfd.readouterr().err
        run = read_run(tmp_path / "run")
        assert (run["command"], run["open"]) == ([sys.executable, "-c", code], False)

    def test_no_such_command(self, tmp_path, capfd):
        assert self.run(tmp_path / "run", "no-such-command") == 2
        assert "cannot run no-such-command" in capfd.readouterr().err
        assert read_run(tmp_path / "run")["open"] is False

    def run(self, folder, *words):
        return main(["profile", "--no-telemetry", "--run-dir", str(folder), "--", *words])


class TestFolder:
    def test_processes_without_a_rank_come_after_the_ranks(self, tmp_path):
        stems = [process_stem(5, 7), "rank_0", process_stem(3, 9)]
        for stem in stems:
            size = 2 if stem == "rank_0" else None
            write_status(tmp_path, stem, {"state": "partial", "world_size": size})
        assert process_numbers(tmp_path) == {"rank_0": 0, stems[2]: 2, stems[0]: 3}

    def test_files_of_two_processes(self, tmp_path):
        rank_file(tmp_path, 1, 2).touch()
        (tmp_path / "rank_1.status.json").touch()
        (tmp_path / f"{process_stem(1, 2)}.json.gz").touch()
        assert [found[:2] for found in rank_files(tmp_path)] == [(1, 2), (2, 0)]
        assert statuses(tmp_path) == {}

    def test_notes_are_said_once(self, tmp_path):
        write_run(tmp_path, {"notes": ["one"]})
        for _ in range(2):
            add_note(tmp_path, "it\nfailed")
        assert read_run(tmp_path)["notes"] == ["one", "it failed"]

"""``profile()``: what it leaves on disk, and how it gets on with others."""

from __future__ import annotations

import json
import os
import re
import threading

import pytest
import torch
from collect import recorded
from collect.leaks import ROW, replaceable, train
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import profiler as autograd_profiler

from chopper_jupyter import profile
from chopper_jupyter.core.errors import CollectError


@pytest.fixture(autouse=True)
def untouched():
    """No test may leave anything behind."""
    before = replaceable()
    yield before
    assert replaceable() == before


class TestFolder:
    def test_what_is_in_it(self, tmp_path):
        with profile(tmp_path / "run", warmup=1, iterations=2, tokens=64) as recording:
            train(6)
        assert sorted(p.name for p in recording.run_dir.iterdir()) == [
            "rank_0.json.gz", "run.json", "telemetry"
        ]  # fmt: skip
        run = recorded.run(recording.run_dir)
        assert run["format_version"] == 1
        assert run["options"] == {
            "warmup": 1, "iterations": 2, "tokens": 64, "shapes": True, "stacks": False,
            "memory": False, "telemetry": True,
        }  # fmt: skip
        assert run["recorded_iterations"] == 3
        assert (run["world_size"], run["ranks"]) == (1, {"0": "complete"})
        assert run["versions"]["torch"] == torch.__version__
        assert run["notes"] == []
        cost = run["profiler_cost"]
        assert cost["bytes"] == recording.size_bytes == file_size(recording)
        assert all(cost[name] > 0 for name in ("start_s", "stop_s", "export_s", "ratio"))
        assert recording.trace.info.tokens_per_iteration == 64
        assert recording.trace.info.warmup == 1

    def test_it_tells_nothing_of_this_machine_but_its_name(self, tmp_path):
        with profile(tmp_path) as recording:
            train()
        document = json.dumps(recorded.events(tmp_path)) + (tmp_path / "run.json").read_text()
        assert str(tmp_path) not in document
        assert recording.trace.info.name == tmp_path.name

    def test_none_of_our_own_marks_stay(self, tmp_path):
        with profile(tmp_path):
            train()
        ours = {re.sub(r"\d+", "N", n) for n in recorded.names(tmp_path) if "chopper" in n}
        assert ours == {"chopper::iteration::N", "chopper::module::Linear::::Linear"}

    def test_default_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        made = []
        for _ in range(3):
            with profile() as recording:
                ROW.sum()
            made.append(recording.run_dir)
        assert len(set(made)) == 3
        assert {p.parent for p in made} == {tmp_path / "chopper_runs"}
        assert all(re.fullmatch(r"\d{8}-\d{6}-profile(-\d)?", p.name) for p in made)
        assert (tmp_path / "chopper_runs" / ".gitignore").read_text() == "*\n"

    def test_the_block_may_change_the_current_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "elsewhere").mkdir()
        with profile("run") as recording:
            train()
            os.chdir("elsewhere")
        assert recording.run_dir == tmp_path / "run"
        assert recording.trace.iterations == [0, 1, 2, 3]

    def test_a_recording_is_made_once(self, tmp_path):
        recording = profile(tmp_path)
        with recording:
            train()
        with pytest.raises(CollectError, match="call profile"), recording:
            pass
        assert recording.trace.iterations == [0, 1, 2, 3]

    def test_recording_again_into_the_same_folder(self, tmp_path):
        for turns in (4, 2):
            with profile(tmp_path):
                train(turns)
        (tmp_path / "rank_1.json.gz").write_bytes(b"of an earlier run")
        with profile(tmp_path) as recording:
            train(3)
        assert recording.trace.iterations == [0, 1, 2]
        assert not (tmp_path / "rank_1.json.gz").exists()

    def test_other_peoples_folders_are_not_written_to(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("...")
        with pytest.raises(CollectError, match=r"thesis\.tex"), profile(tmp_path):
            pass
        assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(CollectError, match="cannot write"), profile(tmp_path / "file" / "run"):
            pass

    def test_ranks_of_one_run_share_a_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("WORLD_SIZE", "2")
        for rank in (1, 0):
            monkeypatch.setenv("RANK", str(rank))
            with profile(tmp_path) as recording:
                train()
        assert recorded.run(tmp_path)["ranks"] == {"0": "complete", "1": "complete"}
        assert recorded.run(tmp_path)["world_size"] == 2
        assert recording.trace.gpus["rank"].to_pylist() == [0, 1]
        with pytest.raises(CollectError, match="same folder"), profile():
            pass

    def test_a_full_disk_loses_the_recording_not_the_training(self, tmp_path, monkeypatch):
        def full(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("chopper_jupyter.collect.rank_trace.gzip.GzipFile", full)
        turns = []
        with (
            pytest.raises(CollectError, match="No space left"),
            profile(tmp_path, warmup=0, iterations=2, telemetry=False),
        ):
            train(5, then=turns.append)
        assert turns == [0, 1, 2, 3, 4]
        monkeypatch.undo()
        assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
        assert recorded.run(tmp_path)["ranks"] == {"0": "missing"}

    def test_a_full_disk_at_the_beginning(self, tmp_path, monkeypatch):
        def full(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("chopper_jupyter.core.run_folder.os.replace", full)
        with pytest.raises(CollectError, match=r"could not start.*No space"), profile(tmp_path):
            pass

    def test_a_full_disk_does_not_hide_an_error_of_the_block(self, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("chopper_jupyter.collect.session.write_rank_trace", full)
        with pytest.raises(ZeroDivisionError), profile(tmp_path):
            train(then=lambda turn: 1 / (turn - 2))

    def test_stacks_and_no_shapes(self, tmp_path):
        with profile(tmp_path, shapes=False, stacks=True):
            train()
        rows = recorded.events(tmp_path)
        assert any(row.get("cat") == "python_function" for row in rows)
        assert not any("Input Dims" in row.get("args", {}) for row in rows)


def file_size(recording):
    return (recording.run_dir / "rank_0.json.gz").stat().st_size


class TestNested:
    def test_a_second_recording_is_refused_and_the_first_unharmed(self, tmp_path):
        def nest(turn):
            if turn == 0:
                with pytest.raises(CollectError, match="outer"), profile(tmp_path / "inner"):
                    pass

        with profile(tmp_path / "outer", warmup=0, iterations=3) as recording:
            train(2, then=nest)
        assert recording.recorded_iterations == 2
        assert not (tmp_path / "inner").exists()
        with profile(tmp_path / "after"):
            train()

    @pytest.mark.parametrize("all_threads", [True, False])
    def test_a_running_profiler_is_said(self, tmp_path, all_threads):
        config = _ExperimentalConfig(profile_all_threads=all_threads)
        with (
            torch.profiler.profile(experimental_config=config) as theirs,
            pytest.raises(CollectError, match="torch profiler is running"),
            profile(tmp_path),
        ):
            pass
        assert theirs.events() is not None

    @pytest.mark.parametrize("kind", [torch.profiler.profile, autograd_profiler.profile])
    def test_the_users_own_profiler_works_and_ours_goes_on(self, tmp_path, kind):
        model = nn.Linear(4, 1)
        with profile(tmp_path, warmup=0, iterations=4) as recording:
            train(2, model)
            with kind() as theirs:
                train(1, model)
            train(4, model)
        counts = {row.key: row.count for row in theirs.key_averages()}
        assert counts["aten::addmm"] == 1
        assert not any("chopper" in key for key in counts)
        assert recording.recorded_iterations == 4
        assert recorded.marks(tmp_path) == [0, 1, 2, 3]
        assert sorted(p.name for p in tmp_path.glob("r*")) == [
            "rank_0.1.json.gz", "rank_0.json.gz", "run.json",
        ]  # fmt: skip
        assert "Another torch profiler" in recording.notes()[0]
        assert recording.trace.iterations == [0, 1, 2, 3]

    def test_the_users_profiler_with_a_schedule(self, tmp_path):
        ready = []
        schedule = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
        with (
            profile(tmp_path, warmup=0, iterations=20) as recording,
            torch.profiler.profile(schedule=schedule, on_trace_ready=ready.append) as theirs,
        ):
            train(6, then=lambda _: theirs.step())
        assert len(ready) == 1
        assert {row.key for row in theirs.key_averages()} >= {"aten::addmm"}
        assert recording.recorded_iterations >= 3

    def test_the_users_profiler_around_everything(self, tmp_path):
        with profile(tmp_path) as recording, torch.profiler.profile() as theirs:
            train(3)
        assert {row.key for row in theirs.key_averages()} >= {"aten::addmm"}
        assert recording.recorded_iterations == 0


class TestThreads:
    def test_operators_of_threads_are_recorded(self, tmp_path):
        def work():
            torch.linalg.det(torch.eye(3))

        with profile(tmp_path, warmup=0, iterations=9):
            nn.Linear(4, 1)(ROW)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert recorded.names(tmp_path)["aten::linalg_det"] == 1


@pytest.mark.parametrize("wrong", [{"warmup": -1}, {"iterations": 0}, {"tokens": 0}])
def test_numbers_out_of_range(tmp_path, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        profile(tmp_path, **wrong)

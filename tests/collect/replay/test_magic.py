"""Counters asked for in a notebook."""

from __future__ import annotations

import warnings

import pytest
from collect.replay import stand_in
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from chopper_jupyter import magics
from chopper_jupyter.collect.replay import request

SETUP = "import torch\n!echo hello\nmodel = torch.nn.Linear(4, 1)"
LOOP = (
    "sgd = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "for _ in range(9):\n    model(torch.ones(2, 4)).sum().backward()\n    sgd.step()\n"
)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(request, "gpu_of_torch", lambda: ("amd", "gfx942"))
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shell = InteractiveShell.instance(config=config)
    magics.register(shell)
    yield shell
    magics.unregister(shell)
    InteractiveShell.clear_instance()


def run(shell, source):
    with capture_output() as shown:
        result = shell.run_cell(source, store_history=True)
    return result, shown.stdout + shown.stderr


def test_the_script_is_shown_and_not_run(shell, tmp_path, monkeypatch):
    log = stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    run(shell, SETUP)
    run(shell, "1/0")
    _, shown = run(shell, f"%%chopper_profile -o t --run-dir r --counters matrix --no-show\n{LOOP}")
    text = (tmp_path / "r" / "replay" / "replay.py").read_text()
    assert "model = torch.nn.Linear(4, 1)" in text
    assert "1/0" not in text
    assert "Not run" in shown
    assert "left out: !echo hello" in shown
    assert not log.exists()
    assert shell.user_ns["t"].kernels.num_rows


def test_counters_after_consent_and_later(shell, tmp_path, monkeypatch):
    log = stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    run(shell, SETUP)
    cell = (
        f"%%chopper_profile -o t --run-dir r --counters SQ_WAVES --setup-cells 1 --no-show\n{LOOP}"
    )
    _, shown = run(shell, cell)
    assert "pass 1 of 1" in shown
    assert (tmp_path / "r" / "counters" / "rocprofv3" / "pass_0" / "pass.json").is_file()
    assert len(log.read_text().splitlines()) == 1
    result, shown = run(shell, "%chopper counters r --counters SQ_WAVES --yes")
    assert result.success
    assert "there already" in shown  # the same cells make the same script


def test_a_failed_pass_loses_neither_cell_nor_recording(shell, tmp_path, monkeypatch):
    stand_in.install(tmp_path / "bin", "rocprofv3", monkeypatch)
    run(shell, "import torch")  # the model is missing from the script
    shell.user_ns["model"] = __import__("torch").nn.Linear(4, 1)
    result, shown = run(
        shell, f"%%chopper_profile -o t --run-dir r --counters SQ_WAVES --yes --no-show\n{LOOP}"
    )
    assert result.success
    assert "no counters: a pass failed: exit code 1" in shown
    assert "NameError" in shown
    assert shell.user_ns["t"].kernels.num_rows


def test_what_cannot_be_counted_is_said_in_one_line(shell, tmp_path):
    for line, words in (
        ("%chopper counters nowhere", "neither a run folder nor a Trace"),
        ("%chopper nothing x", "invalid choice"),
    ):
        result, shown = run(shell, line)
        assert not result.success
        assert words in shown + str(result.error_in_exec)

"""``%%chopper_profile`` in a real Jupyter kernel, as Run All, papermill and Ctrl-C see it."""

from __future__ import annotations

import re

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from chopper_jupyter import read_trace
from chopper_jupyter.core import run_folder

TRAIN = """
import torch
model = torch.nn.Linear(4, 1)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range({turns}):
    model(torch.ones(2, 4)).sum().backward()
    sgd.step()
"""
PATIENCE_S = 180


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A Jupyter kernel of its own, in an empty folder, with the extension loaded."""
    folder = tmp_path_factory.mktemp("kernel")
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(folder))
    made = Kernel(manager, client, folder)
    assert made.run("%load_ext chopper_jupyter")["status"] == "ok"
    yield made
    client.stop_channels()
    manager.shutdown_kernel(now=True)


class Kernel:
    def __init__(self, manager, client, folder):
        self.manager, self.client, self.folder = manager, client, folder

    def run(self, cell, *, interrupt_at=None):
        """Run a cell; interrupt it once it has printed a text. Return reply and outputs."""
        outputs = []

        def hear(message):
            kind, content = message["header"]["msg_type"], message["content"]
            if kind in ("stream", "display_data", "execute_result", "error"):
                outputs.append(nbformat.v4.output_from_msg(message))
            if interrupt_at and kind == "stream" and interrupt_at in content["text"]:
                self.manager.interrupt_kernel()

        reply = self.client.execute_interactive(cell, output_hook=hear, timeout=PATIENCE_S)
        return {**reply["content"], "outputs": outputs}


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_result_comes_before_the_report(kernel):
    found = kernel.run(f"%%chopper_profile -o trace --run-dir run\n{TRAIN.format(turns=9)}'done'")
    assert found["status"] == "ok"
    kinds = [output["output_type"] for output in found["outputs"]]
    assert kinds[0] == "execute_result"
    assert set(kinds[1:]) == {"display_data"}
    shown = "\n".join(str(output["data"].get("text/plain")) for output in found["outputs"])
    assert "Recording: run (" in shown
    assert str(read_trace(kernel.folder / "run").headline().lines[1]) in shown
    assert kernel.run("len(trace.iterations)")["outputs"][0]["data"]["text/plain"] == "7"


def test_top_level_await_and_semicolon(kernel):
    cell = "import asyncio\nawait asyncio.sleep(0.01)\n'awaited'"
    found = kernel.run(f"%%chopper_profile -q\n{cell}")
    assert [output["data"]["text/plain"] for output in found["outputs"]] == ["'awaited'"]
    assert kernel.run(f"%%chopper_profile -q\n{cell};")["outputs"] == []


@pytest.mark.parametrize("cell", ["\n\n1/0", "import asyncio\nawait asyncio.sleep(0)\n1/0"])
def test_errors_are_errors(kernel, cell):
    """Run All and papermill stop where the reply says so."""
    expected = kernel.run(f"# %%chopper_profile -q\n{cell}")
    found = kernel.run(f"%%chopper_profile -q\n{cell}")
    assert found["status"] == "error"
    (one,) = found["outputs"]
    (other,) = expected["outputs"]
    numbers = r"Cell In\[\d+\]"
    assert re.sub(numbers, "", plain("\n".join(one["traceback"]))) == re.sub(
        numbers, "", plain("\n".join(other["traceback"]))
    )


def test_wrong_use_is_an_error_too(kernel):
    found = kernel.run("%%chopper_profile --nonsense\nran = True")
    assert found["status"] == "error"
    assert "UsageError" in str(found["outputs"])


def test_interrupted_training_is_kept_and_the_kernel_lives(kernel):
    endless = TRAIN.format(turns=3) + "import time\nprint('ready', flush=True)\ntime.sleep(600)"
    found = kernel.run(f"%%chopper_profile -q --run-dir cut\n{endless}", interrupt_at="ready")
    assert (found["status"], found["ename"]) == ("error", "KeyboardInterrupt")
    assert run_folder.read_run(kernel.folder / "cut")["ranks"] == {"0": "partial"}
    assert read_trace(kernel.folder / "cut").iterations == [0, 1, 2]
    again = kernel.run(f"%%chopper_profile -q --run-dir cut\n{TRAIN.format(turns=4)}")
    assert again["status"] == "ok"
    assert read_trace(kernel.folder / "cut").iterations == [0, 1, 2, 3]


def test_nothing_is_written_beside_the_output(kernel):
    """Kineto would write to stderr each time it starts."""
    found = kernel.run(f"%%chopper_profile -q\n{TRAIN.format(turns=9)}")
    assert found["outputs"] == []

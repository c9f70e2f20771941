"""``%%chopper_profile`` in a real IPython shell: the cell does what it does without it."""

from __future__ import annotations

import asyncio
import re
import warnings
from pathlib import Path

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from torch import nn
from traitlets.config import Config

from chopper_jupyter import magics, read_trace
from chopper_jupyter.collect.segment import profiler_running
from chopper_jupyter.core import run_folder

TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(9):
    loss = model(torch.ones(2, 4)).pow(2).sum()
    loss.backward()
    sgd.step()
    sgd.zero_grad()
    losses.append(loss.item())
"""

BROKEN_MODEL = """
import torch
class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.inner(x)
Broken()(torch.ones(3))
"""

CELLS = {
    "expression": "x = 41\nx + 1",
    "semicolon": "x = 1\nx + 2;",
    "print": "print('a')\nprint('b')",
    "nothing": "",
    "comment": "# only this",
    "training": TRAIN + "losses",
    "error": "y = 1\n\n\n1/0",
    "error in a function": "def f():\n    z = 1\n    raise ValueError('in f')\nf()",
    "error in a model": BROKEN_MODEL,
    "error after training": TRAIN + "raise KeyError('late')",
    "syntax error": "y = = 1",
    "indentation error": "  y = 1\n z = 2",
    "interrupt": "x = 1\nraise KeyboardInterrupt",
    "exit": "raise SystemExit('bye')",
    "await": "import asyncio\nawait asyncio.sleep(0)\n'awaited'",
    "await and error": "import asyncio\nawait asyncio.sleep(0)\n1/0",
    "display": "display({'text/plain': 'shown'}, raw=True)\n'last'",
    "line magic": "%who_ls\nsome = %who_ls\nsome",
    "shell command": "!echo from the shell",
    "assigned shell command": "lines = !echo one\nlines[0]",
    "help": "len?",
    "comprehension": "q = 5\n[q + i for i in range(2)]",
    "class": "class A:\n    x = 1\n    def f(self):\n        return __class__\nA().f()",
    "global": "def f():\n    global made\n    made = 1\nf()",
    "multi-line string": "text = '''a\n  b\n\n%%chopper_profile\n'''\ntext",
    "names": "sorted(n for n in globals() if not n.startswith('_'))",
    "dunder name": "__name__",
    "own frame": "import sys\nsys._getframe().f_lineno",
}
HANDED_OVER = {
    "capture": "%%capture caught\nprint('hi')\n5",
    "future": "from __future__ import annotations\ndef f(x: Unknown): pass\nf.__annotations__",
    "future and error": "from __future__ import annotations\n1/0",
    "future and semicolon": "from __future__ import annotations\n3;",
    "future and training": "from __future__ import annotations" + TRAIN + "losses",
}


@pytest.fixture(scope="module")
def only_shell():
    """One shell for the module: IPython has a single instance."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    made = InteractiveShell.instance(config=config)
    made.names_at_first = set(made.user_ns)
    yield made
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(only_shell, tmp_path, monkeypatch):
    """The shell as new, in an empty folder, with the extension loaded."""
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # IPython asks for the event loop
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        fresh(only_shell)
        only_shell.run_line_magic("load_ext", "chopper_jupyter")
        yield only_shell
        only_shell.run_line_magic("unload_ext", "chopper_jupyter")
        asyncio.set_event_loop(None)
        loop.close()


def fresh(shell):
    """Begin a session anew; ``shell.reset`` does the same, but collects garbage for seconds."""
    for name in set(shell.user_ns) - shell.names_at_first:
        del shell.user_ns[name]
    shell.user_ns["Out"].clear()
    shell.execution_count = 1
    shell.compile._filename_map.clear()


def run(shell, cell):
    """Run a cell in a fresh session; return all that a user could see of it."""
    fresh(shell)
    with capture_output() as seen:
        result = shell.run_cell(cell, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    hidden = {*shell.user_ns_hidden, "In", "Out", "exit", "quit"}
    return {
        "result": repr(result.result),
        "error": (type(error), without_chance(str(error))),
        "stdout": without_chance(seen.stdout),
        "stderr": seen.stderr,
        "displayed": [output.data for output in seen.outputs],
        "names": sorted(n for n in shell.user_ns if n not in hidden and not n.startswith("_")),
        "losses": shell.user_ns.get("losses"),
        "count": shell.execution_count,
    }


def without_chance(text):
    """Blank out what differs between any two runs: addresses, temporary and cell file names."""
    return re.sub(r"0x[0-9a-f]+|/tmp/\S+|ipython-input-\d+-\w+", "...", text)


def state(shell):
    """All that the magic could leave behind in the shell and in torch."""
    return {
        "callbacks": {name: list(calls) for name, calls in shell.events.callbacks.items()},
        "transformers": list(shell.input_transformers_cleanup),
        "call": vars(nn.Module)["__call__"],
        "profiler": profiler_running(),
    }


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_the_same_with_the_magic(shell, name):
    before = state(shell)
    # A comment in the magic's place, so that lines have the same numbers.
    expected = run(shell, f"# %%chopper_profile -q\n{CELLS[name]}")
    found = run(shell, f"%%chopper_profile -q\n{CELLS[name]}")
    if name == "error in a model":  # IPython says that frames of ours were left out
        found["stdout"] = found["stdout"].replace("    [... skipping hidden 1 frame]\n\n", "")
    assert found == expected
    assert state(shell) == before


@pytest.mark.parametrize("name", HANDED_OVER)
def test_a_cell_that_cannot_begin_with_a_call_is_the_same(shell, name):
    before = state(shell)
    expected = run(shell, HANDED_OVER[name])
    found = run(shell, f"%%chopper_profile -q\n{HANDED_OVER[name]}")
    if name == "future and error":
        assert "----> 3 1/0" in found.pop("stdout")
        expected.pop("stdout")
    assert found == expected
    assert state(shell) == before


def test_the_traceback_shows_the_cell_as_it_was_written(shell):
    shown = run(shell, "%%chopper_profile -q --iterations 3\n1/0")["stdout"]
    assert "----> 2 1/0" in shown
    assert "1 # %%chopper_profile -q --iterations 3" in shown
    assert "__import__" not in shown
    assert "magics" not in shown


def only_run():
    (folder,) = Path("chopper_runs").glob("2*")
    return folder


def texts(seen):
    return "\n".join(str(output.data.get("text/plain")) for output in seen.outputs)


def test_trace_is_bound_and_shown(shell):
    with capture_output() as seen:
        shell.run_cell(f"%%chopper_profile -o trace --warmup 1 --iterations 3 --tokens 8\n{TRAIN}")
    trace = shell.user_ns["trace"]
    assert trace.iterations == [0, 1, 2, 3]
    assert trace.measured_iterations == [1, 2, 3]
    assert trace.info.tokens_per_iteration == 8
    shown = texts(seen)
    assert str(trace.headline()) in shown
    assert re.search(r"Recording: chopper_runs/\d{8}-\d{6}-1 \(\d+ kB\)", shown)
    assert "Explorer" in shown
    assert seen.stderr == ""


def test_what_is_shown_can_be_less(shell):
    def shown(options):
        with capture_output() as seen:
            shell.run_cell(f"%%chopper_profile {options}\n{TRAIN}")
        return texts(seen) + seen.stdout

    assert "Explorer" not in shown("--no-show")
    assert "Recording" in shown("--no-show")
    assert shown("-q") == ""


def test_run_dir_and_what_is_in_it(shell, tmp_path):
    cell = f"%%chopper_profile -q --run-dir runs/first --stacks\n{TRAIN}"
    shell.run_cell(cell)
    run_json = run_folder.read_run(tmp_path / "runs" / "first")
    assert run_json["cell_source"] == cell
    assert run_json["options"]["stacks"] is True
    assert not (tmp_path / "chopper_runs").exists()
    shell.run_cell(cell)  # running a cell again replaces its recording
    assert read_trace("runs/first").iterations == list(range(7))


def test_cell_source_of_a_handed_over_cell(shell):
    cell = "%%chopper_profile -q\n%%capture\nprint(1)"
    run(shell, cell)
    assert run_folder.read_run(only_run())["cell_source"].strip() == cell


def test_failed_cell_is_still_recorded_and_shown(shell):
    with capture_output() as seen:
        result = shell.run_cell(f"%%chopper_profile -o trace --no-show\n{TRAIN}\n1/0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert shell.user_ns["trace"].iterations == list(range(7))
    assert "Recording: " in texts(seen)


def test_a_cell_that_fails_inside_the_window_is_marked_partial(shell):
    cell = TRAIN.replace("range(9)", "range(3)")
    run(shell, f"%%chopper_profile -q\n{cell}1/0")
    assert run_folder.read_run(only_run())["ranks"] == {"0": "partial"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--bad", "unrecognized arguments"),
        ("--iterations 0", "iterations=0"),
        ("--warmup many", "invalid int value"),
        ("-o 1x", "not a name"),
        ("--run-dir .", "is not a run folder"),
    ],
)
def test_wrong_options_are_said_in_one_line_and_the_cell_does_not_run(shell, options, message):
    Path("file").write_text("of somebody else")
    found = run(shell, f"%%chopper_profile {options}\nran = True")
    assert found["error"][0].__name__ == "UsageError"
    assert "ran" not in found["names"]
    assert message in found["stderr"]
    assert found["stderr"].count("\n") == 1
    assert "Traceback" not in found["stdout"] + found["stderr"]


class TestNested:
    def test_inside_another_profiled_cell(self, shell):
        inner = "get_ipython().run_cell('%%chopper_profile -q --run-dir inner\\n1')"
        found = run(shell, f"%%chopper_profile -q --run-dir outer\n{TRAIN}{inner}\nlosses")
        assert "already recording into outer" in found["stderr"]
        assert read_trace("outer").iterations == list(range(7))
        assert not Path("inner").exists()

    def test_a_recording_around_the_cell(self, shell):
        run(shell, "1")
        shell.run_cell("import chopper_jupyter\nouter = chopper_jupyter.profile('outer')\n"
                       "outer.__enter__()")  # fmt: skip
        with capture_output() as seen:
            shell.run_cell("%%chopper_profile -q\n1")
        shell.run_cell(f"{TRAIN}\nouter.__exit__(None, None, None)")
        assert "already recording into outer" in seen.stderr
        assert read_trace("outer").iterations == list(range(7))

    def test_cells_that_the_cell_runs_do_not_end_the_recording(self, shell):
        quoted = repr(TRAIN)
        run(
            shell,
            "%%chopper_profile -q --run-dir run\n"
            f"get_ipython().run_cell('1')\nget_ipython().run_cell('')\n"
            f"get_ipython().run_cell({quoted})",
        )
        assert read_trace("run").iterations == list(range(7))

    def test_two_on_top_of_each_other(self, shell):
        before = state(shell)
        found = run(shell, "%%chopper_profile -q\n%%chopper_profile -q\n1")
        assert "already recording" in found["stderr"]
        assert state(shell) == before

    def test_under_time(self, shell):
        found = run(shell, f"%%time\n%%chopper_profile -q --run-dir run\n{TRAIN}losses")
        assert "Wall time" in found["stdout"]
        assert read_trace("run").iterations == list(range(7))


def test_reading_may_fail_and_the_cell_goes_well(shell, monkeypatch):
    def unreadable(_folder):
        message = "cannot read this"
        raise ValueError(message)

    monkeypatch.setattr("chopper_jupyter.core.read.read_trace", unreadable)
    found = run(shell, f"%%chopper_profile -o trace\n{TRAIN}losses")
    assert found["error"] == (type(None), "None")
    assert len(found["losses"]) == 9
    assert "trace" not in found["names"]
    assert re.fullmatch(
        r"chopper_profile: the recording is safe in chopper_runs/\S+ \(\d+ kB\), but showing it "
        r"failed: ValueError: cannot read this\n",
        found["stderr"],
    )


def test_a_full_disk_is_said_and_the_cell_goes_well(shell, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chopper_jupyter.collect.session.write_rank_trace", full)
    for end in ("losses", "1/0"):
        found = run(shell, f"%%chopper_profile\n{TRAIN}{end}")
        assert len(found["losses"]) == 9
        assert "No space left" in found["stderr"]


def test_a_cell_without_torch_is_told_so(shell):
    assert "ran no torch operator" in run(shell, "%%chopper_profile\n1 + 1")["stderr"]


def test_as_a_function_of_the_shell(shell):
    value = shell.run_cell_magic("chopper_profile", "-q --run-dir run", f"{TRAIN}len(losses)")
    assert value == 9
    assert read_trace("run").iterations == list(range(7))


def test_help_and_listing(shell):
    with capture_output() as seen:
        shell.run_cell("%%chopper_profile?")
    help_text = seen.outputs[0].data["text/plain"] if seen.outputs else seen.stdout
    for word in ("--warmup", "--iterations", "--tokens", "--run-dir", "--no-show", "-q", "-o"):
        assert word in help_text
    assert "chopper_profile" in shell.magics_manager.lsmagic()["cell"]


def test_loading_twice_and_unloading(only_shell):
    before = state(only_shell)
    magics.register(only_shell)
    magics.register(only_shell)
    assert only_shell.input_transformers_cleanup.count(magics.transform) == 1
    magics.unregister(only_shell)
    magics.unregister(only_shell)
    assert state(only_shell) == before
    assert "chopper_profile" not in only_shell.magics_manager.lsmagic()["cell"]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["\n"],
        ["x = 1\n", "%%chopper_profile\n"],
        ["%%chopper_profiler\n"],
        ["%%chopper_profile?\n"],
        ["%%chopper_profile ?\n"],
        ["%%time\n", "%%chopper_profile\n"],
    ],
)
def test_other_cells_are_left_alone(lines):
    assert magics.transform(lines) == lines


@pytest.mark.parametrize("before", [[], ["\n", "\n"], ["# about this cell\n"]])
def test_the_magic_may_stand_below_comments(before):
    lines = magics.transform([*before, "%%chopper_profile -o 'a\"b'\n", "x\n"])
    assert lines[: len(before)] == before
    assert lines[-1] == "x\n"
    compile(lines[-2], "cell", "exec")

import subprocess
import sys
from types import SimpleNamespace

import IPython
import pytest

from chopper_jupyter.core.errors import SchemaError
from chopper_jupyter.widgets.headless import MODE_VARIABLE, display_mode


@pytest.fixture
def in_kernel(monkeypatch):
    """Return a function that makes this process look like a Jupyter kernel, or not like one."""
    monkeypatch.delenv(MODE_VARIABLE, raising=False)

    def enter(shell):
        monkeypatch.setattr(IPython, "get_ipython", lambda: shell)

    return enter


def shell(request):
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: request))


def asked(**content):
    return shell({"content": content, "metadata": {}})


def test_a_front_end_that_takes_input_is_live(in_kernel):
    in_kernel(asked(allow_stdin=True))
    assert display_mode() == "live"


def test_headless_execution_is_static(in_kernel):
    in_kernel(asked(allow_stdin=False))
    assert display_mode() == "static"


def test_terminal_ipython_and_plain_python_are_static(in_kernel):
    in_kernel(SimpleNamespace())
    assert display_mode() == "static"
    in_kernel(None)
    assert display_mode() == "static"


@pytest.mark.parametrize(
    "silent",
    [SimpleNamespace(kernel=SimpleNamespace()), shell({}), shell(None), asked()],
    ids=["no get_parent", "empty", "none", "does not tell"],
)
def test_a_jupyter_kernel_that_does_not_tell_is_live(in_kernel, silent):
    in_kernel(silent)
    assert display_mode() == "live"


@pytest.mark.parametrize("mode", ["live", "static"])
def test_the_environment_overrules(in_kernel, monkeypatch, mode):
    in_kernel(asked(allow_stdin=mode == "static"))
    monkeypatch.setenv(MODE_VARIABLE, mode)
    assert display_mode() == mode


@pytest.mark.parametrize("mode", ["auto", ""])
def test_auto_looks_at_the_front_end(in_kernel, monkeypatch, mode):
    in_kernel(asked(allow_stdin=True))
    monkeypatch.setenv(MODE_VARIABLE, mode)
    assert display_mode() == "live"


def test_another_word_in_the_environment_is_an_error(monkeypatch):
    monkeypatch.setenv(MODE_VARIABLE, "statc")
    with pytest.raises(SchemaError, match=r"'statc'; did you mean 'static'\?"):
        display_mode()


def test_plain_python_needs_no_ipython():
    code = (
        "import sys\n"
        "from chopper_jupyter.widgets.headless import display_mode\n"
        "assert display_mode() == 'static'\n"
        "assert 'IPython' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

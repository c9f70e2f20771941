import pytest

from chopper_jupyter.collect.replay.cells import Cell, last_successful, plain
from chopper_jupyter.core.errors import CollectError


def test_magics_and_commands_are_left_out():
    source = (
        "%matplotlib inline\nimport math\n!pip install nothing\nfiles = !ls\n"
        "if True:\n    %time x = math.pi\ny = '''\n%not a magic\n'''\nmath.pi?"
    )
    made = plain(Cell(3, source))
    space: dict = {}
    exec(made.code, space)  # noqa: S102  it is what a replay does
    assert space["y"] == "\n%not a magic\n"
    assert "files" not in space
    assert made.left_out[:3] == ("%matplotlib inline", "!pip install nothing", "files = !ls")
    assert len(made.left_out) == 5


def test_the_python_below_some_cell_magics_is_kept():
    made = plain(Cell(1, "%%chopper_profile -o trace\n%%time\nx = 1"))
    assert made.code.strip() == "x = 1"
    assert made.left_out == ("%%chopper_profile -o trace", "%%time")


def test_cells_of_other_languages_are_left_out():
    made = plain(Cell(4, "%%bash\nrm -rf /\n"))
    assert (made.code, made.left_out) == ("", ("cell 4 (%%bash)",))


def test_an_await_outside_functions_is_refused():
    with pytest.raises(CollectError, match="cell 2 awaits"):
        plain(Cell(2, "await something()"))
    assert plain(Cell(2, "async def f():\n    await something()")).code


def test_a_cell_that_never_compiled_is_refused():
    with pytest.raises(CollectError, match="cell 7 cannot be a script"):
        plain(Cell(7, "def f(:\n"))


def test_the_last_version_that_succeeded_counts():
    cells = [
        Cell(1, "a = 1", "A", True), Cell(2, "b = 1", "B", True), Cell(3, "b = 1/0", "B", False),
        Cell(4, "a = 2", "A", True), Cell(5, "c", None, None), Cell(6, "c", None, None),
    ]  # fmt: skip
    assert [cell.number for cell in last_successful(cells)] == [2, 4, 6]

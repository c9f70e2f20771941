"""The example notebooks run as they are, and are committed as they ran."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[1] / "example_notebooks"
TEMPLATE = "report_template.ipynb"
"""Papermill runs it with parameters, in the tests of the report."""
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
LARGEST_EXPLORER = 300_000
LARGEST_FIGURE = 600_000
"""The first figure of a notebook brings BokehJS along."""
LARGEST_REPORT = 2_000_000
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|usr|opt|private|Users)/")


def code_cells(path: Path):
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]


def texts(cell) -> list[str]:
    """Return all that a cell shows, as text."""
    bundles = [output.get("data", {"text": output.get("text", "")}) for output in cell.outputs]
    return [str(text) for bundle in bundles for text in bundle.values()]


def kinds(cell) -> list[str]:
    """Name what a cell shows; a stream counts once, and what a slow machine complains of, never."""
    shown = {output.output_type + output.get("name", "") for output in cell.outputs}
    return sorted(shown - {"streamstderr"})


def largest(text: str) -> int:
    """Return how many bytes an output may have."""
    if "<h2>Method</h2>" in text:
        return LARGEST_REPORT
    return LARGEST_FIGURE if "__chopperBokeh" in text else LARGEST_EXPLORER


def test_there_are_notebooks():
    assert NOTEBOOKS[0] == "01_profile_a_training_cell.ipynb"


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != TEMPLATE])
def test_notebook_runs_and_shows_what_is_committed(name, tmp_path):
    done = tmp_path / "done.ipynb"
    (tmp_path / name).write_text((FOLDER / name).read_text(encoding="utf-8"), encoding="utf-8")
    command = ["nbconvert", "--to=notebook", "--execute", f"--output={done.name}", name]
    run = subprocess.run(
        [sys.executable, "-m", "jupyter", *command],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    for now, then in zip(code_cells(done), code_cells(FOLDER / name), strict=True):
        assert kinds(now) == kinds(then), now.source


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_committed_executed_small_and_anonymous(name):
    notebook = nbformat.read(FOLDER / name, as_version=4)
    assert "widgets" not in notebook.metadata
    cells = code_cells(FOLDER / name)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert "error" not in kinds(cell)
        assert [out.text for out in cell.outputs if out.get("name") == "stderr"] == []
        assert [t for t in texts(cell) if MACHINE_PATH.search(t)] == []
        for text in texts(cell):
            assert len(text.encode()) <= largest(text)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_holds_an_explorer_that_needs_no_kernel(name):
    shown = [text for cell in code_cells(FOLDER / name) for text in texts(cell)]
    assert any("data-chopper-static=" in text for text in shown)

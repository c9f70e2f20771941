"""The explorer in notebooks and pages that reach a reader without the kernel that made them."""

from __future__ import annotations

import re
import subprocess
import sys

import nbformat
import pytest
from browser.view import View
from playwright.sync_api import expect

SHOW = "import chopper_jupyter as cj\ncj.Explorer(cj.Trace.open('trace'))"
DEAD = "Error displaying widget"


def expect_no_dead_widget(notebook) -> None:
    expect(notebook.output(0).get_by_text(DEAD).locator("visible=true")).to_have_count(0)
    expect(notebook.output(0).get_by_text("Loading widget").locator("visible=true")).to_have_count(
        0
    )


@pytest.fixture(scope="session")
def executed(lab):
    """Return a notebook executed as nbclient does it, by nobody who could use a widget."""
    return lab.execute(lab.write("executed.ipynb", SHOW))


@pytest.fixture
def saved(write, opened):
    """Return a notebook run and saved in JupyterLab, its Jupyter kernel gone."""
    notebook = opened(write(SHOW))
    notebook.run_all()
    View(notebook.output(0))
    notebook.save()
    notebook.forget_kernels()
    return notebook.path


def test_reopened_without_its_jupyter_kernel(saved, opened, shoot):
    notebook = opened(saved)
    View(notebook.output(0)).drill_by_mouse()
    expect_no_dead_widget(notebook)
    shoot()


def test_a_new_run_takes_over_from_the_saved_view(saved, opened, shoot):
    notebook = opened(saved)
    View(notebook.output(0))
    notebook.run_all()
    expect(notebook.output(0).locator("[data-mode=live]")).to_be_visible()
    View(notebook.output(0)).drill_by_mouse()
    shoot()


def test_what_needs_python_says_so(lab, opened, shoot):
    notebook = opened(
        lab.trust(lab.execute(lab.write("large.ipynb", SHOW.replace("trace", "large"))))
    )
    view = View(notebook.output(0))
    chips = view.root.locator("[data-testid=level-chip][aria-disabled=true]")
    expect(chips.first).to_have_attribute(
        "aria-label", re.compile("needs a running Jupyter kernel")
    )
    expect(
        view.root.get_by_text(re.compile("needs? a running Jupyter kernel")).first
    ).to_be_visible()
    shoot()


def test_untrusted_shows_the_plain_table(saved, opened, shoot):
    foreign = nbformat.read(saved, as_version=4)
    foreign.cells.append(nbformat.v4.new_markdown_cell("Sent by a colleague."))
    path = saved.with_name("untrusted.ipynb")
    nbformat.write(foreign, path)
    notebook = opened(path)
    table = notebook.output(0).locator("table").first
    expect(table).to_be_visible()
    expect(table).to_contain_text("Compute")
    expect(notebook.output(0)).to_contain_text("mlp.gate_proj")
    expect(notebook.output(0).get_by_test_id("icicle")).to_have_count(0)
    expect_no_dead_widget(notebook)
    shoot()


def test_executed_by_a_program_then_trusted(executed, lab, opened, shoot):
    assert "widgets" not in nbformat.read(executed, as_version=4).metadata
    notebook = opened(lab.trust(executed))
    View(notebook.output(0)).drill_by_mouse()
    expect_no_dead_widget(notebook)
    shoot()


def test_executed_by_papermill(lab, opened):
    source, done = lab.write("parameters.ipynb", SHOW), lab.folder / "papermill.ipynb"
    subprocess.run(
        [sys.executable, "-m", "papermill", "--no-progress-bar", source.name, done.name],
        cwd=lab.folder, env=lab.env, check=True, capture_output=True,
    )  # fmt: skip
    notebook = opened(lab.trust(done))
    View(notebook.output(0)).drill_by_mouse()


@pytest.mark.parametrize("origin", ["executed", "saved"])
def test_exported_page_works_without_a_network(origin, lab, page, request, shoot):
    path = request.getfixturevalue(origin)
    lab.run("nbconvert", "--to=html", path.name, path=path)
    page.goto(path.with_suffix(".html").as_uri())
    View(page).drill_by_mouse()
    expect(page.get_by_text(DEAD)).to_have_count(0)
    shoot(full_page=True)


def test_exported_page_follows_a_dark_reader(executed, lab, page, shoot):
    lab.run("nbconvert", "--to=html", "--theme=dark", executed.name, path=executed)
    page.goto(executed.with_suffix(".html").as_uri())
    View(page)
    shoot(full_page=True)

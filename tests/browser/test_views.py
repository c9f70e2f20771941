"""Every view and link on a recorded, a simulated and a real run, live and static."""

from __future__ import annotations

import pytest
from browser import traces, walk
from browser.conftest import watched
from browser.lab import OpenNotebook
from browser.view import View

import chopper_jupyter as cj

RUNS = {
    "cpu": traces.cpu,
    "simulated": traces.simulated,
    "real": lambda: traces.real("ddp_resnet18_2rank"),
}
KINDS = ["cpu", "simulated", pytest.param("real", marks=pytest.mark.real)]


@pytest.mark.parametrize("kind", KINDS)
def test_all_views_of_a_page(kind, page, tmp_path):
    page.goto(cj.Explorer(RUNS[kind]()).save(tmp_path / f"{kind}.html").as_uri())
    walk.all_of(View(page), page)


@pytest.fixture(scope="module")
def notebook(browser, lab):
    """Open one notebook for all runs: a cell each, run by its test."""
    cells = [f"cj.Explorer(cj.Trace.open('{kind}'))" for kind in RUNS]
    path = lab.write("views.ipynb", "import chopper_jupyter as cj", *cells)
    with watched(browser) as page:
        made = OpenNotebook(page, lab, path)
        made.wait_for_kernel()
        made.run_cell(0)
        yield made
        made.forget_kernels()


@pytest.mark.parametrize("kind", KINDS)
def test_all_views_in_a_notebook(kind, notebook, lab):
    RUNS[kind]().save(lab.folder / kind)
    at = 1 + list(RUNS).index(kind)
    notebook.run_cell(at)
    view = View(notebook.output(at))
    assert view.mode() == "live"
    walk.all_of(view, notebook.page)

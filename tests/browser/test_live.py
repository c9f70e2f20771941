"""The live explorer in JupyterLab: drill, keys, and Python on the other side."""

from __future__ import annotations

import re

import pytest
from browser.view import View
from playwright.sync_api import expect

SHOW = "import chopper_jupyter as cj\nexplorer = cj.Explorer(cj.Trace.open('trace'))\nexplorer"
READ = "print(explorer.selection)"


@pytest.fixture
def notebook(write, opened):
    made = opened(write(SHOW, READ))
    made.run_all()
    return made


@pytest.fixture
def view(notebook):
    return View(notebook.output(0))


def test_drill_by_mouse_and_read_the_selection_in_python(notebook, view, shoot):
    assert notebook.run_cell(1) == "[]"
    shoot("whole-run")
    view.drill_by_mouse()
    notebook.run_until(1, "[('phase', 'backward')]")
    shoot("backward")


def test_drill_by_keyboard(notebook, view, shoot):
    view.icicle.locator("[tabindex='0']").focus()
    page = notebook.page
    page.keyboard.press("ArrowDown")
    first = page.evaluate("document.activeElement.dataset.label")
    page.keyboard.press("ArrowRight")
    second = page.evaluate("document.activeElement.dataset.label")
    assert {first, second} == {"forward", "backward"}
    shoot("focus")
    page.keyboard.press("Enter")
    view.expect_path("All", second)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(view.crumb.locator("[aria-current]")).not_to_have_text(second)
    page.keyboard.press("Escape")
    view.expect_path("All", second)
    page.keyboard.press("Backspace")
    view.expect_path("All")


def test_notebook_shortcuts_do_not_leak_in(notebook, view):
    page, cells = notebook.page, notebook.cell_count()
    view.icicle.locator("[tabindex='0']").focus()
    for key in ("a", "b", "d", "d", "x", "c", "v", "m", "y", "z", "o", "l", "0", "0"):
        page.keyboard.press(key)
    assert notebook.cell_count() == cells
    assert notebook.page.locator(".jp-MarkdownCell").count() == 0
    assert notebook.page.locator(".jp-Dialog").count() == 0
    expect(view.icicle).to_be_visible()
    # Where the notebook has the focus, the same key inserts a cell: the test can fail.
    notebook.command("notebook:enter-command-mode")
    page.locator(".jp-Notebook .jp-Cell.jp-mod-active").focus()
    page.keyboard.press("b")
    notebook.expect_cells(cells + 1)


def test_a_selection_made_in_python_moves_the_view(write, opened):
    notebook = opened(write(SHOW, "explorer.selection = {'gpu': 1}"))
    notebook.run_all()
    view = View(notebook.output(0))
    assert view.mode() == "live"
    view.expect_path("All", "GPU 1")


def test_what_is_not_embedded_is_asked_of_python(write, opened, shoot):
    source = f"{SHOW.rpartition(chr(10))[0]}\nexplorer.level_order = ['gpu', 'kernel']\nexplorer"
    notebook = opened(write(source, READ))
    notebook.run_all()
    view = View(notebook.output(0))
    view.bar("gpu", "GPU 1").click()
    expect(view.bars("kernel").first).to_be_visible()
    expect(view.root).not_to_contain_text("needs a running Jupyter kernel")
    notebook.run_until(1, "[('gpu', 1)]")
    shoot()


def test_dark_theme(notebook, view, shoot):
    colour = "element => getComputedStyle(element).color"
    light = view.root.evaluate(colour)
    try:
        notebook.theme("JupyterLab Dark")
        expect(view.root).to_have_attribute("data-theme", "dark")
        shoot()
        assert brightness(view.root.evaluate(colour)) > 150 > brightness(light)
    finally:
        notebook.theme("JupyterLab Light")  # Lab remembers it for the other tests


def brightness(colour: str) -> float:
    """Return the mean of red, green and blue of ``rgb(r, g, b)`` or ``rgba(r, g, b, a)``."""
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3

"""The first example notebook as a user runs it: the magic, the headline, the live explorer.

Its screenshot is the picture of the README: copy ``screenshots/explorer.png`` to
``example_notebooks`` when the look has changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from browser.conftest import SCREENSHOTS
from browser.view import View
from playwright.sync_api import expect

EXAMPLE = Path(__file__).parents[2] / "example_notebooks" / "01_profile_a_training_cell.ipynb"
MAGIC = "%%chopper_profile -o before"


def test_profile_a_training_cell(lab, opened, page, shoot):
    page.set_viewport_size({"width": 1400, "height": 1160})
    notebook = opened(Path(shutil.copy(EXAMPLE, lab.folder)))
    notebook.wait_for_kernel()
    recorded = notebook.index_of(MAGIC)
    for index in notebook.code_cells():
        if index <= recorded:
            notebook.run_cell(index)
    output = notebook.output(recorded)
    view = View(output)
    assert view.mode() == "live"
    expect(output).to_contain_text("median of 5 iterations")
    expect(view.bar("phase", "backward")).to_be_visible()
    picture(notebook, recorded)
    view.bar("phase", "backward").click()
    view.expect_path("All", "backward")
    shoot()


def picture(notebook, recorded: int) -> None:
    """Write what the README shows: the recorded cell and what it answered, nothing else open."""
    notebook.command("application:toggle-left-area")
    notebook.page.wait_for_timeout(1000)  # the explorer is drawn again for the wider page
    cell = notebook.cell(recorded)
    cell.evaluate("element => element.scrollIntoView({block: 'start'})")
    notebook.page.wait_for_timeout(500)
    notebook.page.screenshot(path=SCREENSHOTS / "explorer.png")

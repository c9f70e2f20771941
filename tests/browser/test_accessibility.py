"""axe-core finds nothing serious in the explorer: both themes, whole run and drilled down."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import traces
from browser.view import View
from builders import llama_trace

import chopper_jupyter as cj

AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"
RUN = """async () => {
  const found = await axe.run('.chopper-explorer', { resultTypes: ['violations'] });
  return found.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.length} x ${nodes[0].html}`);
}"""


def findings(page) -> list[str]:
    page.add_script_tag(path=AXE)
    return page.evaluate(RUN)


@pytest.fixture(params=["light", "dark"])
def theme(request):
    return request.param


def compared(theme):
    """Compare two traces."""
    before, after = llama_trace(gpus=2, layers=4), llama_trace(gpus=2, layers=3, seed=1)
    return cj.Explorer(after, compare_to=before, theme=theme)


def counted(theme):
    """Explore a run with counters, sensors and findings."""
    return cj.Explorer(traces.simulated(), theme=theme)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm ci in js")
@pytest.mark.parametrize("made", [compared, counted])
def test_no_serious_finding(made, page, tmp_path, theme):
    page.goto(made(theme).save(tmp_path / "explorer.html").as_uri())
    view = View(page)
    assert view.root.get_attribute("data-theme") == theme
    assert findings(page) == []
    view.root.get_by_test_id("quality").click()
    view.root.get_by_test_id("columns").locator("summary").click()
    for summary in view.root.locator(".cj-meanings summary, .cj-side summary").all():
        summary.click()
    view.root.locator("[data-colour=family]").click()
    lanes = view.root.get_by_test_id("timeline")
    lanes.focus()
    page.keyboard.press("n")
    view.root.get_by_test_id("kernel").wait_for()
    assert findings(page) == []
    view.bar("phase", "backward").click()
    assert findings(page) == []

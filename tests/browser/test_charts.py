"""Figures in a real browser, without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import charted_runs
import nbformat
import pytest

from chopper_jupyter import charts

GALLERY = Path(__file__).parents[2] / "example_notebooks" / "06_figures.ipynb"
PATIENCE_MS = 120_000
"""A page of twenty figures takes a second to draw, on a busy machine a minute."""

HEAD = re.compile(r"https://cdnjs\.cloudflare\.com/ajax/libs/(?:require\.js|mathjax)/")
"""What nbconvert's own page frame asks for; without a network it goes on without."""


@pytest.fixture
def offline(browser):
    """Return a function that opens a file with the network blocked; nothing may go wrong."""
    page = browser.new_page()
    wrong: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))

    def listen(message):
        if message.type in ("error", "warning") and not HEAD.match(message.location["url"]):
            wrong.append(message.text)

    def block(route):
        asked.append(route.request.url)
        route.abort()

    page.on("console", listen)
    page.route(re.compile(r"^https?://"), block)

    def open_(path: Path):
        page.goto(path.as_uri(), wait_until="commit")  # drawing is waited for by who looks at it
        return page

    yield open_
    page.close()
    assert wrong == []
    assert [url for url in asked if not HEAD.match(url)] == []


def expect_figures(page, count: int) -> None:
    """Wait until every figure has been drawn: its table is folded then."""
    page.wait_for_function(
        "count => document.querySelectorAll('figure').length === count"
        " && document.querySelectorAll('figure details[open]').length === 0",
        arg=count,
        timeout=PATIENCE_MS,
    )
    page.wait_for_function(
        "[...document.querySelectorAll('figure > div')].every(d => d.offsetHeight > 100)"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("name", ["light", "dark"])
def test_all_draw_with_the_network_blocked(name, tmp_path, offline):
    charts.use_theme(name)
    try:
        made = charted_runs.every(charted_runs.runs())
    finally:
        charts.use_theme("light")
    parts = [chart.to_html(with_bokeh=i == 0) for i, chart in enumerate(made)]
    page_file = tmp_path / "charts.html"
    page_file.write_text(f'<meta charset="utf-8"><title>charts</title>{"".join(parts)}')
    page = offline(page_file)
    for width in (1400, 700):
        page.set_viewport_size({"width": width, "height": 900})
        expect_figures(page, len(made))


def test_the_gallery_as_a_page_needs_no_network(tmp_path, offline):
    command = ["nbconvert", "--to=html", f"--output-dir={tmp_path}", str(GALLERY)]
    subprocess.run([sys.executable, "-m", "jupyter", *command], check=True, capture_output=True)
    drawn = sum(
        "<figure" in output.get("data", {}).get("text/html", "")
        for cell in nbformat.read(GALLERY, as_version=4).cells
        for output in cell.get("outputs", ())
    )
    assert drawn >= charted_runs.count()
    page = offline(tmp_path / "06_figures.html")
    expect_figures(page, drawn)
    assert page.locator("figure canvas").count() >= drawn
    page.locator("[data-testid=icicle-node]").first.wait_for()

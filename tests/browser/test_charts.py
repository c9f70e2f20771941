"""Figures in a real browser, without a network."""

from __future__ import annotations

import re

import charted_runs
import pytest

from chopper_jupyter import charts


@pytest.mark.parametrize("name", ["light", "dark"])
def test_all_draw_with_the_network_blocked(name, tmp_path, browser):
    charts.use_theme(name)
    try:
        made = charted_runs.every(charted_runs.runs())
    finally:
        charts.use_theme("light")
    parts = [chart.to_html(with_bokeh=i == 0) for i, chart in enumerate(made)]
    page_file = tmp_path / "charts.html"
    page_file.write_text(f'<meta charset="utf-8"><title>charts</title>{"".join(parts)}')
    page = browser.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.route(
        re.compile(r"^https?://"), lambda route: (wrong.append(route.request.url), route.abort())
    )
    page.goto(page_file.as_uri())
    page.wait_for_function(
        f"document.querySelectorAll('figure details[open]').length === 0 && "
        f"document.querySelectorAll('figure > div').length >= {len(made)}"
    )
    assert page.evaluate(
        "[...document.querySelectorAll('figure')].every(f => f.offsetHeight > 150)"
    )
    assert wrong == []
    page.screenshot(path=tmp_path / "charts.png", full_page=True)
    page.close()

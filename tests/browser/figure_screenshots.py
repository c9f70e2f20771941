"""Pictures of every figure for a person to look at: two widths, both themes.

Run ``python tests/browser/figure_screenshots.py FOLDER``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import charted_runs
from playwright.sync_api import sync_playwright

from chopper_jupyter import charts

WIDTHS = (700, 1400)
PAGES = {"light": "#ffffff", "dark": "#16191e"}
DRAWN = "document.querySelectorAll('figure details[open]').length === 0"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as temporary:
        executable = os.environ.get("CHOPPER_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for theme, page_colour in PAGES.items():
            charts.use_theme(theme)
            for number, chart in enumerate(charted_runs.every(charted_runs.simulated())):
                style = f"color-scheme: {theme}; background: {page_colour}"
                file = Path(temporary, "figure.html")
                body = chart.to_html(with_bokeh=True)
                file.write_text(f'<meta charset="utf-8"><body style="{style}">{body}')
                for width in WIDTHS:
                    page = browser.new_page(viewport={"width": width, "height": 400})
                    page.goto(file.as_uri())
                    page.wait_for_function(DRAWN)
                    page.wait_for_timeout(300)
                    picture = folder / f"{number:02}-{width}-{theme}.png"
                    page.screenshot(path=picture, full_page=True)
                    page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

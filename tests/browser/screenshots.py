"""Pictures of the explorer for a person to look at: every trace and state, both themes.

Run ``python tests/browser/screenshots.py FOLDER [NAME ...]``. Names are those of ``TRACES``; a
real trace is left out where its file is not there. ``--widths`` sets the widths, in pixels.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser import traces
from builders import llama_trace
from playwright.sync_api import sync_playwright

import chopper_jupyter as cj

WIDTHS = (700, 1400)
THEMES = ("light", "dark")


def compared():
    """Compare two runs of which one lost a layer, an op, and time."""
    before, after = llama_trace(gpus=2, layers=8), llama_trace(gpus=2, layers=6, seed=1)
    return cj.Explorer(after, compare_to=before)


def explorer_of(trace):
    return None if trace is None else cj.Explorer(trace)


TRACES = {
    "simulated": lambda: cj.Explorer(traces.simulated()),
    "compared": compared,
    "cpu": lambda: explorer_of(traces.real("own_cpu", "fsdp2_patch_rank0.json.gz")),
    "megatron": lambda: explorer_of(traces.real("megatron_tp8")),
    "ddp": lambda: explorer_of(traces.real("ddp_resnet18_2rank")),
    "small": lambda: cj.Explorer(llama_trace(gpus=2, layers=4)),
    "llama": lambda: cj.Explorer(llama_trace(gpus=8, layers=32)),
}


def open_everything(page) -> None:
    """Open what opens, drill into the longest bars, and choose a kernel of the timeline."""
    for name in ("quality", "columns"):
        page.get_by_test_id(name).first.click()
    page.keyboard.press("Escape")
    for _ in range(2):
        bars = page.locator("[data-testid=icicle-node]:not([data-level=''])")
        if bars.count():
            bars.first.click()
    summary = page.locator(".cj-meanings summary, .cj-side summary").first
    if summary.count():
        summary.click()
    page.get_by_test_id("timeline").focus()
    page.keyboard.press("n")
    page.wait_for_timeout(300)


def shoot(browser, file: Path, folder: Path, widths) -> None:
    for width in widths:
        for theme in THEMES:
            page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme)
            page.on("pageerror", lambda error: print("error:", error))  # noqa: T201
            page.goto(file.as_uri())
            page.locator("[data-testid=icicle-node], .cj-error").first.wait_for()
            page.wait_for_timeout(300)
            stem = f"{file.stem}-{width}-{theme}"
            page.screenshot(path=folder / f"{stem}.png", full_page=True)
            open_everything(page)
            page.screenshot(path=folder / f"{stem}-opened.png", full_page=True)
            page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[*TRACES, []], default=[])
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as temporary:
        executable = os.environ.get("CHOPPER_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name in options.names or TRACES:
            explorer = TRACES[name]()
            if explorer is not None:
                file = explorer.save(Path(temporary, f"{name}.html"))
                shoot(browser, file, options.folder, options.widths)
        browser.close()


if __name__ == "__main__":
    main()

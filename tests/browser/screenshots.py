"""Pictures of the explorer for a person to look at: every trace, two widths, both themes.

Run ``python tests/browser/screenshots.py FOLDER [NAME ...]``. Names are those of ``TRACES``; a
real trace is left out where its file is not there.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from builders import llama_trace
from playwright.sync_api import sync_playwright

import chopper_jupyter as cj

WIDTHS = (500, 700, 1400, 1600)
THEMES = ("light", "dark")


def real(*parts: str):
    folder = os.environ.get("CHOPPER_REAL_DATA")
    path = Path(folder, "traces", *parts) if folder else None
    return cj.read_trace(path) if path and path.exists() else None


def compared():
    """Compare two runs of which one lost a layer, an op, and time."""
    before, after = llama_trace(gpus=2, layers=8), llama_trace(gpus=2, layers=6, seed=1)
    return cj.Explorer(after, compare_to=before)


def explorer_of(trace):
    return None if trace is None else cj.Explorer(trace)


TRACES = {
    "small": lambda: cj.Explorer(llama_trace(gpus=2, layers=4)),
    "llama": lambda: cj.Explorer(llama_trace(gpus=8, layers=32)),
    "compared": compared,
    "cpu": lambda: explorer_of(real("own_cpu", "fsdp2_patch_rank0.json.gz")),
    "megatron": lambda: explorer_of(real("megatron_tp8")),
    "ddp": lambda: explorer_of(real("ddp_resnet18_2rank")),
}


def shoot(browser, file: Path, folder: Path) -> None:
    for width in WIDTHS:
        for theme in THEMES:
            page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme)
            page.on("pageerror", lambda error: print("error:", error))  # noqa: T201
            page.goto(file.as_uri())
            page.locator("[data-testid=icicle-node], .cj-error").first.wait_for()
            page.wait_for_timeout(300)
            page.screenshot(path=folder / f"{file.stem}-{width}-{theme}.png", full_page=True)
            page.close()


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as temporary:
        executable = os.environ.get("CHOPPER_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name in names or TRACES:
            explorer = TRACES[name]()
            if explorer is not None:
                shoot(browser, explorer.save(Path(temporary, f"{name}.html")), folder)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

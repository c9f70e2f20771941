"""The browser, with all but this machine blocked, and one JupyterLab for all tests."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser.lab import Lab, OpenNotebook
from builders import llama_trace
from playwright.sync_api import expect, sync_playwright

SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
HERE = re.compile(r"(?:file|data|blob):|(?:https?|wss?)://(?:127\.0\.0\.1|localhost)[:/]")
NBCONVERT = re.compile(r"https://cdnjs\.cloudflare\.com/ajax/libs/(?:require\.js|mathjax)/")
"""What nbconvert's own page frame asks for; a page must do without, and ours does."""

PATIENCE_MS = 30_000
"""A busy machine is slow, not wrong; nothing waits longer than it has to."""

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("browser")


def chromium() -> str:
    named = os.environ.get("CHOPPER_CHROMIUM")
    for name in filter(None, (named, "chromium", "chromium-browser", "google-chrome")):
        found = shutil.which(name)
        if found:
            return found
    message = "no Chromium: install it, or name one in CHOPPER_CHROMIUM"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def browser():
    """Start one browser; its cache spares every test but the first the loading of JupyterLab."""
    path = chromium()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        context = started.new_context(viewport={"width": 1280, "height": 1000})
        context.set_default_timeout(PATIENCE_MS)
        yield context
        started.close()


@contextmanager
def watched(browser):
    """Open a page; fail if our output asked for anything outside this machine."""
    made = browser.new_page()
    asked: list[str] = []
    made.on("request", lambda request: asked.append(request.url))
    yield made
    made.close()
    outside = [url for url in asked if not HERE.match(url) and not NBCONVERT.match(url)]
    assert outside == []


@pytest.fixture
def page(browser):
    with watched(browser) as made:
        yield made


@pytest.fixture
def shoot(page, request):
    """Return a function that writes a screenshot for a person to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)

    def write(name: str = "", **options) -> None:
        stem = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")
        page.screenshot(path=SCREENSHOTS / f"{stem}{name and '-'}{name}.png", **options)

    return write


@pytest.fixture(scope="session")
def lab(tmp_path_factory, browser):
    """Start JupyterLab in a folder that holds saved traces, ``trace`` and ``large``."""
    started = Lab(tmp_path_factory.mktemp("lab"))
    try:
        llama_trace(gpus=2, layers=4).save(started.folder / "trace")
        llama_trace(gpus=8, layers=32, iterations=8).save(started.folder / "large")
        started.wait()
        yield started
    finally:
        started.stop()


@pytest.fixture
def opened(page, lab):
    """Return a function that opens a notebook; its Jupyter kernel ends with the test."""
    notebooks = []

    def open_(path: Path) -> OpenNotebook:
        notebooks.append(OpenNotebook(page, lab, path))
        return notebooks[-1]

    yield open_
    if page.url.startswith(lab.url):
        notebooks[-1].forget_kernels()


@pytest.fixture
def write(lab, request):
    """Return a function that writes a notebook of code cells, named after the test."""
    stem = re.sub(r"\W+", "_", request.node.name)
    return lambda *cells: lab.write(f"{stem}.ipynb", *cells)

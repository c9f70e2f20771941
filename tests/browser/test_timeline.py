"""The timeline, the breakdown and the comparison as a user sees them, live and static."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest
from browser.view import View
from builders import llama_trace
from playwright.sync_api import expect

import chopper_jupyter as cj
from chopper_jupyter.core.trace import Trace

SHOW = "import chopper_jupyter as cj\nexplorer = cj.Explorer(cj.Trace.open('trace'))\nexplorer"


def sampled(trace):
    """Add samples of power to a trace."""
    rows = [
        {
            "source": "nvml",
            "gpu": gpu,
            "time_ns": 1_000_000 * i,
            "metric": "power_w",
            "value": 400.0 + i % 9,
        }
        for gpu in (0, 1)
        for i in range(100)
    ]
    telemetry = Trace.from_tables({"telemetry": pa.Table.from_pylist(rows)}).telemetry
    return replace(trace, telemetry=telemetry)


@pytest.fixture
def still(page, tmp_path):
    """Return a function that opens an explorer as a page without Python."""

    def open_(explorer) -> View:
        page.goto(explorer.save(tmp_path / "explorer.html").as_uri())
        return View(page)

    return open_


def window_of(view):
    return view.root.get_by_test_id("timeline-window")


def painted(view) -> int:
    """Return how many different colours the timeline has."""
    return view.root.locator(".cj-lanes canvas").evaluate(
        """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        }"""
    )


def test_zoom_pan_and_keys_without_python(page, still, shoot):
    view = still(cj.Explorer(sampled(llama_trace(gpus=2, layers=4))))
    lanes = view.root.get_by_test_id("timeline")
    expect(window_of(view)).to_contain_text("iteration")
    assert painted(view) > 5
    lanes.focus()
    before = window_of(view).inner_text()
    page.keyboard.press("+")
    expect(window_of(view)).not_to_have_text(before)
    page.keyboard.press("9")
    expect(window_of(view)).to_contain_text("iterations 0 to 4")
    page.keyboard.press("0")
    lanes.hover()
    page.mouse.wheel(0, -300)
    expect(window_of(view)).to_contain_text("iteration")
    zoomed = window_of(view).inner_text()
    view.root.get_by_role("button", name="Show the whole run").click()
    expect(window_of(view)).not_to_have_text(zoomed)
    view.root.get_by_test_id("minimap").focus()
    page.keyboard.press("ArrowUp")
    expect(window_of(view)).to_contain_text("shown")
    shoot(full_page=True)


def test_the_wheel_scrolls_the_page_until_the_timeline_has_the_focus(page, still):
    page.set_viewport_size({"width": 1280, "height": 400})
    view = still(cj.Explorer(llama_trace(gpus=2, layers=4)))
    lanes = view.root.get_by_test_id("timeline")
    lanes.scroll_into_view_if_needed()
    before, at = window_of(view).inner_text(), page.evaluate("scrollY")
    lanes.hover()
    page.mouse.wheel(0, -120)
    page.wait_for_function("at => scrollY < at", arg=at)
    assert window_of(view).inner_text() == before


def test_a_kernel_tells_where_it_came_from_without_python(page, still):
    view = still(cj.Explorer(llama_trace(gpus=2, layers=2, iterations=1)))
    lanes = view.root.get_by_test_id("timeline")
    lanes.focus()
    page.keyboard.press("n")
    kernel = view.root.get_by_test_id("kernel")
    expect(kernel).to_contain_text("Phase")
    kernel.get_by_role("button", name="After").click()
    expect(kernel.get_by_role("button", name="Before")).to_be_visible()
    lanes.focus()
    page.keyboard.press("Enter")
    expect(view.crumb.locator("[aria-current]")).not_to_have_text("All")
    page.keyboard.press("Escape")
    expect(kernel).to_be_hidden()


def test_the_breakdown_follows_the_selection(still):
    view = still(cj.Explorer(llama_trace(gpus=2, layers=4)))
    wall = view.root.locator("[data-testid=breakdown] [data-part=wall] .num").first
    whole = wall.inner_text()
    view.bar("phase", "backward").click()
    expect(wall).not_to_have_text(whole)
    expect(view.root.get_by_test_id("breakdown")).to_contain_text("backward")


def test_the_size_of_the_bars_can_be_exclusive_time(still):
    view = still(cj.Explorer(llama_trace(gpus=2, layers=4)))
    top = view.icicle.get_by_test_id("icicle-node").first
    before = top.get_attribute("aria-label")
    view.root.get_by_test_id("size").select_option("busy_ns")
    expect(view.icicle.get_by_test_id("icicle-node").first).not_to_have_attribute(
        "aria-label", before
    )


def test_a_comparison_shows_changes_and_what_is_unmatched(still, shoot):
    before, after = llama_trace(gpus=2, layers=4), llama_trace(gpus=2, layers=3, seed=1)
    view = still(cj.Explorer(after, compare_to=before))
    change = view.rows.first.locator("[data-metric=change]")
    expect(change).to_have_text(re.compile("\u22122[45]\\.[0-9]"))
    unmatched = view.root.get_by_test_id("unmatched")
    expect(unmatched).to_contain_text("Only here: nothing")
    expect(unmatched).to_contain_text("Only in llama3-8b-fsdp2: 14 parts")
    shoot(full_page=True)


def test_a_live_timeline_asks_python(write, opened, shoot):
    notebook = opened(write(SHOW))
    notebook.run_all()
    view = View(notebook.output(0))
    page = notebook.page
    lanes = view.root.get_by_test_id("timeline")
    lanes.focus()
    for _ in range(8):
        page.keyboard.press("+")
    page.keyboard.press("n")
    kernel = view.root.get_by_test_id("kernel")
    expect(kernel).to_contain_text("Stream")  # only Python knows it
    shoot()


def test_filters_restrict_a_live_view(write, opened):
    notebook = opened(write(SHOW, "explorer.filters = {'phase': 'forward'}"))
    notebook.run_all()
    view = View(notebook.output(0))
    expect(view.bars("phase")).to_have_count(1)
    notebook.run_cell(1)
    expect(view.bar("phase", "forward")).to_be_visible()

"""A walk through all views of an explorer, each link taken by mouse and by keyboard.

Nothing here knows what was recorded: names are read off the page.
"""

from __future__ import annotations

import re

from playwright.sync_api import expect

ALL = "All"


class Walk:
    """An explorer on a page, whatever it shows."""

    def __init__(self, view, page):
        self.view, self.page, self.root = view, page, view.root

    def whole(self) -> None:
        """Go back to the whole run."""
        first = self.view.crumb.locator("button").first
        if first.count():
            first.click()
        self.view.expect_path(ALL)

    def current(self):
        return self.view.crumb.locator("[aria-current]")

    def depth(self) -> int:
        return len(self.view.path())

    def expect_depth(self, depth: int) -> None:
        expect(self.view.crumb.locator("button, [aria-current]")).to_have_count(depth)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def unharmed(self) -> None:
        expect(self.root.get_by_test_id("error")).to_be_hidden()
        expect(self.root.locator(".cj-status.failed")).to_have_count(0)


def icicle(walk: Walk) -> None:
    """A bar leads into its part, which every view then speaks of; keys lead there and back."""
    bar = walk.view.icicle.locator("[data-testid=icicle-node]:not([data-level=''])").first
    name = bar.get_attribute("data-label")
    bar.click()
    expect(walk.current()).to_have_text(name)
    expect(walk.root.get_by_test_id("breakdown").locator("header")).to_contain_text(name)
    expect(walk.view.icicle.locator("[data-level='']")).to_have_attribute("data-label", name)
    walk.whole()
    walk.view.icicle.locator("[tabindex='0']").focus()
    walk.press("ArrowDown", "Enter")
    walk.expect_depth(2)
    walk.press("Escape")
    walk.view.expect_path(ALL)


def table(walk: Walk) -> None:
    """Rows lead into their part; they are sorted, searched, and their columns chosen."""
    rows = walk.view.rows
    name = rows.first.get_attribute("data-label")
    rows.first.locator("th").click()
    expect(walk.current()).to_have_text(name)
    walk.whole()
    rows.first.focus()
    walk.press("ArrowDown", "ArrowUp", "Enter")
    expect(walk.current()).to_have_text(name)
    walk.press("Escape")
    walk.view.expect_path(ALL)
    by_name = walk.root.locator("th [data-sort=name]")
    by_name.focus()
    walk.press("Enter")
    expect(walk.root.locator("th[aria-sort] [data-sort=name]")).to_have_count(1)
    walk.root.locator("th [data-sort=time]").click()
    search = walk.root.get_by_test_id("search")
    search.fill("no such name")
    expect(rows).to_have_count(0)
    search.fill(name)
    expect(rows.first).to_have_attribute("data-label", name)
    search.fill("")
    columns = walk.root.get_by_test_id("columns")
    columns.locator("summary").click()
    box = columns.get_by_label("Share", exact=True)
    before = walk.root.locator("td[data-metric=share]").count()
    box.focus()
    walk.press("Space")
    expect(walk.root.locator("td[data-metric=share]")).to_have_count(0 if before else rows.count())
    box.click()
    columns.locator("summary").click()


def looks(walk: Walk) -> None:
    """Colour, size and order of the levels can be chosen."""
    for button in walk.root.locator("[data-colour]").all():
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        walk.unharmed()
    walk.root.locator("[data-colour=family]").focus()
    walk.press("Enter")
    size = walk.root.get_by_test_id("size")
    for value in size.locator("option").evaluate_all("all => all.map(one => one.value)"):
        size.select_option(value)
        walk.unharmed()
    size.select_option("time_ns")
    chips = walk.root.get_by_test_id("level-chip")
    order = chips.evaluate_all("all => all.map(one => one.dataset.level)")
    chips.first.focus()
    walk.press("ArrowRight")
    expect(chips.nth(1)).to_have_attribute("data-level", order[0])
    walk.press("ArrowLeft")
    expect(chips.first).to_have_attribute("data-level", order[0])
    expect(walk.view.icicle.get_by_test_id("icicle-node").first).to_be_visible()


def variation(walk: Walk) -> None:
    """A cell of the heat map selects its GPU and iteration, and lets go of them."""
    cells = walk.root.locator("[data-testid=heatmap] [data-gpu][data-iteration]")
    if cells.count() < 2:
        expect(walk.root.get_by_test_id("heatmap-note")).not_to_be_empty()
        return
    cells.first.click()
    expect(cells.first).to_have_attribute("aria-selected", "true")
    assert walk.depth() > 1
    cells.first.click()
    walk.view.expect_path(ALL)
    walk.root.locator("[data-testid=heatmap] [tabindex='0']").focus()
    walk.press("ArrowRight", "Enter")
    expect(walk.root.locator("[data-testid=heatmap] [aria-selected=true]")).not_to_have_count(0)
    walk.press("Escape")
    walk.whole()


def findings(walk: Walk) -> None:
    """A finding selects its evidence; choosing it again lets go of it."""
    for finding in walk.root.get_by_test_id("finding").all():
        finding.click()
        expect(finding).to_have_attribute("aria-pressed", "true")
        finding.focus()
        walk.press("Enter")
        walk.view.expect_path(ALL)


def timeline(walk: Walk) -> None:
    """The timeline zooms and moves by wheel, buttons, drag and keys; GPUs come and go."""
    lanes, shown = (walk.root.get_by_test_id(n) for n in ("timeline", "timeline-window"))
    walk.root.get_by_role("button", name="Show the whole run").click()
    lanes.scroll_into_view_if_needed()
    lanes.focus()
    whole = shown.inner_text()
    walk.press("+", "+", "ArrowRight")
    expect(shown).not_to_have_text(whole)
    walk.press("9")
    expect(shown).to_have_text(whole)
    box = lanes.bounding_box()
    walk.page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 2)
    walk.page.mouse.wheel(0, -400)
    expect(shown).not_to_have_text(whole)
    walk.page.mouse.down()
    walk.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2, steps=3)
    walk.page.mouse.up()
    walk.root.get_by_role("button", name="Show the whole run").click()
    walk.root.get_by_test_id("minimap").focus()
    walk.press("ArrowUp")
    expect(shown).not_to_have_text(whole)
    toggles = walk.root.locator("[data-gpu-toggle]:not([aria-disabled=true])")
    if walk.root.locator("[data-gpu-toggle][aria-pressed=false]:not([aria-disabled=true])").count():
        # A finding may have left the timeline with one GPU only, and one stays: take another.
        off = toggles.and_(walk.root.locator("[aria-pressed=false]")).first
        other = walk.root.locator(f"[data-gpu-toggle='{off.get_attribute('data-gpu-toggle')}']")
        other.click()
        expect(other).to_have_attribute("aria-pressed", "true")
        other.focus()
        walk.press("Enter")
        expect(other).to_have_attribute("aria-pressed", "false")


def kernel(walk: Walk) -> None:
    """Keys go from kernel to kernel; Enter selects the op; what is beside it is a click away."""
    panel = walk.root.get_by_test_id("kernel")
    walk.root.get_by_test_id("timeline").focus()
    walk.press("n")
    expect(panel).to_contain_text("Time")
    panel.get_by_role("button", name=re.compile("^After")).click()
    expect(panel.get_by_role("button", name=re.compile("^Before"))).to_be_visible()
    walk.root.get_by_test_id("timeline").focus()
    walk.press("p")
    expect(panel).to_be_visible()
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()
    walk.whole()


def overheads(walk: Walk) -> None:
    """With counters, the way from theoretical to actual time follows the selection."""
    panel = walk.root.get_by_test_id("overheads")
    if not panel.count():
        cpu = "CPU" in walk.root.locator(".cj-facts").inner_text()
        expect(walk.root.get_by_test_id("missing-counters")).to_have_count(0 if cpu else 1)
        return
    actual = panel.locator("[data-overhead=actual] .num").first
    whole = actual.inner_text()
    walk.view.bars("phase").first.click()
    expect(actual).not_to_have_text(whole)
    walk.whole()
    expect(actual).to_have_text(whole)
    panel.locator("summary").focus()
    walk.press("Enter")
    expect(panel.locator("dl")).to_be_visible()
    walk.press("Enter")


VIEWS = (icicle, table, looks, variation, findings, timeline, kernel, overheads)


def all_of(view, page) -> None:
    walk = Walk(view, page)
    for visit in VIEWS:
        visit(walk)
        walk.unharmed()

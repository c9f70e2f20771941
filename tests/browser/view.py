"""The explorer on a page, as a user sees it: bars, path, table."""

from __future__ import annotations

from playwright.sync_api import expect


class View:
    """The one visible explorer inside ``scope``, a page or a part of it; waits until it is drawn.

    A live explorer has a static twin beside it, which must not be seen.
    """

    def __init__(self, scope):
        self.root = scope.locator(".chopper-explorer").filter(visible=True)
        expect(self.root).to_have_count(1)
        self.icicle = self.root.get_by_test_id("icicle")
        self.crumb = self.root.get_by_test_id("breadcrumb")
        self.rows = self.root.get_by_test_id("table-row")
        expect(self.icicle).to_be_visible()
        expect(self.icicle.get_by_test_id("icicle-node").first).to_be_visible()

    def mode(self) -> str:
        return self.root.get_attribute("data-mode")

    def bars(self, level: str):
        return self.icicle.locator(f"[data-testid=icicle-node][data-level={level}]")

    def bar(self, level: str, label: str):
        return self.icicle.locator(
            f'[data-testid=icicle-node][data-level={level}][data-label="{label}"]'
        )

    def path(self) -> list[str]:
        """Return the steps of the path, outermost first."""
        return self.crumb.locator("button, [aria-current]").all_inner_texts()

    def expect_path(self, *steps: str) -> None:
        expect(self.crumb.locator("button, [aria-current]")).to_have_text(list(steps))
        expect(self.rows.first).to_be_visible()

    def drill_by_mouse(self) -> None:
        """Go from the run into one op, and back."""
        self.expect_path("All")
        self.bar("phase", "backward").click()
        self.expect_path("All", "backward")
        self.bar("op", "mlp.gate_proj").click()
        self.expect_path("All", "backward", "mlp.gate_proj")
        self.crumb.get_by_role("button", name="backward").click()
        self.expect_path("All", "backward")

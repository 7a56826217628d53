"""What every page must be: accessible as axe-core sees it, and no wider than the screen."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

SETTLED_MS = 400
PATIENCE_MS = 60_000


def settle(page: Any) -> None:
    """Wait until a page has shown what it asks for; some go on asking each second."""
    page.wait_for_load_state("load")
    # Not wait_for_function: it needs eval, which the pages forbid.
    expect(page.locator("main .loading:visible")).to_have_count(0, timeout=PATIENCE_MS)
    expect(page.locator("#box-state[data-kind=wait]")).to_have_count(0, timeout=PATIENCE_MS)
    page.wait_for_timeout(SETTLED_MS)


def open_all(page: Any) -> None:
    """Unfold everything; what then asks for something is waited for."""
    page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
    page.wait_for_timeout(SETTLED_MS)
    settle(page)


def violations(page: Any) -> list[str]:
    """Return what axe-core finds, a line a finding, with the elements."""
    options = {"resultTypes": ["violations"], "preload": False}
    found = Axe().run(getattr(page, "page", page), options=options).response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: "
        + "; ".join(node["html"][:200] for node in each["nodes"][:3])
        for each in found
    ]


def too_wide(page: Any) -> list[str]:
    """Return what reaches over the right edge, if the page scrolls sideways."""
    found: list[str] = page.evaluate(
        """() => {
            const edge = document.documentElement.clientWidth;
            if (document.documentElement.scrollWidth <= edge) return [];
            const over = [...document.querySelectorAll('body *')].filter(
                (each) => each.getBoundingClientRect().right > edge + 1);
            const inner = (each) => !over.some((other) => other !== each && each.contains(other));
            return over.filter(inner).slice(0, 5).map((each) => each.outerHTML.slice(0, 200));
        }"""
    )
    return found

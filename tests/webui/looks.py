"""What every page must be: accessible as axe-core sees it, and no wider than the screen."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

SETTLED_MS = 400


def settle(page: Any) -> None:
    """Wait until a page has shown what it asks for; some go on asking each second."""
    page.wait_for_load_state("load")
    page.wait_for_function("document.querySelectorAll('main .loading').length === 0")
    page.wait_for_function(
        "!document.getElementById('box-state')"
        " || document.getElementById('box-state').dataset.kind !== 'wait'"
    )
    page.wait_for_timeout(SETTLED_MS)


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

"""Checks of every page: accessible by axe-core, no wider than the screen, large enough for
fingers, and without layout shifts while it loads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

SHOTS = os.environ.get("SHOTS", "")
"""Folder for screenshots of the checked pages."""
PATIENCE_MS = 60_000
LATENCY_MS = 200
MOST_SHIFT = 0.05


def settle(page: Any) -> None:
    """Wait until a page has shown what it asks for; some go on asking each second."""
    page.wait_for_load_state("load")
    # Not wait_for_function: it needs eval, which the pages forbid.
    expect(page.locator("main .loading:visible")).to_have_count(0, timeout=PATIENCE_MS)
    expect(page.locator("#box-state[data-kind=wait]")).to_have_count(0, timeout=PATIENCE_MS)
    still(page)


def still(page: Any) -> None:
    """Wait until nothing moves and nothing is added for a few frames."""
    page.evaluate(
        """() => new Promise((done) => {
            const end = performance.now() + 5000;
            const moves = (each) => each.playState === 'running'
                && each.effect?.getComputedTiming().endTime !== Infinity;
            const seen = () => [document.getAnimations().some(moves), innerWidth,
                document.documentElement.scrollHeight, document.all.length].join();
            const look = (before, alike) => requestAnimationFrame(() => {
                const now = seen();
                const same = now === before && now.startsWith('false') ? alike + 1 : 0;
                if (same === 6 || performance.now() > end) done(); else look(now, same);
            });
            look('', 0);
        })"""
    )


def until(page: Any, seen: Callable[[], object]) -> None:
    """Wait until a page has done what a test hears of, such as asked for something."""
    end_s = time.monotonic() + PATIENCE_MS / 1000
    while not seen():
        assert time.monotonic() < end_s, "the page does not do it"
        page.wait_for_timeout(20)


def open_all(page: Any) -> None:
    """Unfold everything, and wait for the requests that this causes."""
    page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
    settle(page)


def violations(page: Any) -> list[str]:
    """Return what axe-core finds, a line a finding, with the elements."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    # Only what is needed comes back: the rest is much, and takes as long as the search.
    found: list[str] = page.evaluate(
        """async () => {
            const options = { resultTypes: ['violations'], preload: false, selectors: false };
            const { violations } = await axe.run(document, options);
            const html = (each) => each.nodes.slice(0, 3).map((node) => node.html.slice(0, 200));
            return violations.map((each) =>
                `${each.id} (${each.impact}): ${each.help}: ${html(each).join('; ')}`);
        }"""
    )
    return found


def clean(page: Any, name: str = "") -> None:
    """Fail unless a page is accessible and fits; SHOTS=folder keeps a picture by its name."""
    if SHOTS and name:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)
    assert violations(page) == [], name
    assert too_wide(page) == [], name


def clean_narrow_and_dark(page: Any, name: str = "") -> None:
    """Fail unless the page is clean narrow and dark, too; then make it wide and light again."""
    before = page.viewport_size
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    still(page)
    clean(page, name)
    page.set_viewport_size(before)
    page.emulate_media(color_scheme="light")


def too_wide(page: Any) -> list[str]:
    """Return the elements beyond an edge, if the page keeps scrolling sideways.

    A busy machine needs time to redraw a page that has become narrower.
    """
    for _ in range(10):
        if not (found := _over_an_edge(page)):
            return []
        page.wait_for_timeout(200)
    return found


def _over_an_edge(page: Any) -> list[str]:
    found: list[str] = page.evaluate(
        """() => {
            const edge = document.documentElement.clientWidth;
            if (document.documentElement.scrollWidth <= edge) return [];
            const over = [...document.querySelectorAll('body *')].filter((each) => {
                const { left, right } = each.getBoundingClientRect();
                return right > edge + 1 || left < -1;
            });
            const inner = (each) => !over.some((other) => other !== each && each.contains(other));
            return over.filter(inner).slice(0, 5).map((each) => each.outerHTML.slice(0, 200));
        }"""
    )
    return found


def far_away(page: Any) -> None:
    """Let each answer take its time, so that a page is seen before its figures come."""
    devtools = page.context.new_cdp_session(getattr(page, "page", page))
    devtools.send("Network.enable")
    line = {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
    devtools.send("Network.emulateNetworkConditions", {**line, "latency": LATENCY_MS})


def jumps(page: Any) -> list[str]:
    """Return what has moved since the page was opened, if the sum is more than may be."""
    moved: list[dict[str, Any]] = page.evaluate(
        """() => new Promise((resolve) => {
            const name = (node) => node?.cloneNode().outerHTML?.slice(0, 120) ?? node?.nodeName;
            const heard = (list) => list.getEntries().filter((each) => !each.hadRecentInput).map(
                ({ value, sources }) => ({ value, what: sources.map((each) => name(each.node)) }));
            const found = [];
            new PerformanceObserver((list) => found.push(...heard(list)))
                .observe({ type: 'layout-shift', buffered: true });
            setTimeout(() => resolve(found), 50);
        })"""
    )
    shift = sum(each["value"] for each in moved)
    if shift < MOST_SHIFT:
        return []
    return [f"{shift:.3f}: {each['value']:.3f} {each['what']}" for each in moved]


def too_small(page: Any) -> list[str]:
    """Return the targets smaller than 24 px, or than 44 px on touch screens.

    A link or a term in a sentence is as high as its line. Targets in a table's grid or a drawing
    may be 24 px, because there is another way to the same action.
    """
    found: list[str] = page.evaluate(
        """() => {
            const fingers = matchMedia('(pointer: coarse), (max-width: 52rem)').matches;
            const small = (each) => {
                const area = each.matches('[type=checkbox], [type=radio]') ? 'label' : '*';
                const { width, height } = (each.closest(area) ?? each).getBoundingClientRect();
                const parent = each.parentElement;
                const inside = each.matches('.term') || getComputedStyle(each).display === 'inline';
                if (inside && parent.textContent.trim() !== each.textContent.trim()) return false;
                const least = fingers && !inside && !each.matches('td, svg') ? 44 : 24;
                return width > 0 && Math.min(width, height) + 0.5 < least;
            };
            const aims = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
            return [...document.querySelectorAll(aims)]
                .filter((each) => each.checkVisibility({ visibilityProperty: true }))
                .filter((each) => !each.closest('.skip, .visually-hidden'))
                .filter((each) => !each.matches('[role=group], [role=tabpanel], pre'))
                .filter(small)
                .slice(0, 5)
                .map((each) => each.outerHTML.slice(0, 200));
        }"""
    )
    return found


def from_right_to_left(page: Any) -> None:
    """Turn a page around, as it is in a language that is written from right to left."""
    page.evaluate("document.documentElement.dir = 'rtl'")

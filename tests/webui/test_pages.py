"""Every page, light and dark, wide or on a phone: clean, accessible, not wider than the screen,
large enough for fingers, and nothing jumps while it loads.

The test discovers pages the way the navigation does. It finds subpages, such as those of the
settings, by their links.
"""

from __future__ import annotations

import pytest
from naproxy_webui.http.page import Page
from naproxy_webui.pages import discover
from playwright.sync_api import expect

from tests.webui.conftest import OpenPage, Scheme, WatchedPage
from tests.webui.looks import (
    clean,
    far_away,
    from_right_to_left,
    jumps,
    open_all,
    settle,
    still,
    too_small,
    too_wide,
    violations,
)

_NOT_HERE = {"/login", "/claim", "/offline"}
PAGES = sorted({page.path for page in discover() if isinstance(page, Page)} - _NOT_HERE)
# The stage is set up: its first run is over, and its steps are found from here.
PAGES[PAGES.index("/setup")] = "/setup/again"
MOST_BELOW = 20
FEW_BELOW = {"/help": 3}
"""Of pages that are all made in one way."""


def look_at(page: WatchedPage, path: str, width: int, narrower: int) -> list[str]:
    """Look at a page that comes from far away, then at the same on a narrower screen."""
    size = page.viewport_size
    page.set_viewport_size({**size, "width": width})
    page.goto(path)
    settle(page)
    found = [f"jumps: {each}" for each in jumps(page)]
    open_all(page)
    found += violations(page)
    for each in (width, narrower):
        page.set_viewport_size({**size, "width": each})
        still(page)
        found += [f"at {each} too wide: {what}" for what in too_wide(page)]
        found += [f"at {each} too small: {what}" for what in too_small(page)]
    from_right_to_left(page)
    found += [f"from right to left too wide: {what}" for what in too_wide(page)]
    return [f"{path}: {each}" for each in found]


def look_at_all(page: WatchedPage, path: str, width: int, narrower: int) -> list[str]:
    """Look at a page and its subpages."""
    far_away(page)
    found = look_at(page, path, width, narrower)
    links = page.eval_on_selector_all("main a[href]", "all => all.map((a) => a.pathname)")
    below = sorted({link for link in links if path != "/" and link.startswith(f"{path}/")})
    for link in below[: FEW_BELOW.get(path, MOST_BELOW)]:
        found += look_at(page, link, width, narrower)
    return found


@pytest.mark.long
@pytest.mark.parametrize("path", PAGES)
def test_page(open_page: OpenPage, path: str) -> None:
    found = look_at_all(open_page(), path, 1280, 375)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("path", PAGES)
def test_page_in_german_on_a_dark_phone(open_page: OpenPage, path: str) -> None:
    page = open_page(size="narrow", scheme="dark", language="de")
    far_away(page)
    found = look_at(page, path, 375, 320)
    assert page.locator("html").get_attribute("lang") == "de"
    assert found == [], "\n".join(found)


@pytest.mark.long
@pytest.mark.parametrize("path", PAGES)
def test_subpages_are_clean_in_german_on_a_dark_phone(open_page: OpenPage, path: str) -> None:
    found = look_at_all(open_page(size="narrow", scheme="dark", language="de"), path, 375, 360)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long), "dark"])
def test_sign_in(open_page: OpenPage, scheme: Scheme) -> None:
    page = open_page(user=None, scheme=scheme, size="phone")
    assert look_at(page, "/login", 390, 360) == []


def test_the_switch_makes_it_dark_and_is_remembered(open_page: OpenPage) -> None:
    page = open_page("/", scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert page.get_by_role("button", name="Dark").get_attribute("aria-pressed") == "true"


def test_the_menu_of_a_phone_opens_and_closes_by_keyboard(open_page: OpenPage) -> None:
    page = open_page("/", size="phone")
    more = page.locator(".more > summary")
    more.focus()
    page.keyboard.press("Enter")
    assert page.locator(".more .nav").is_visible()
    clean(page)
    page.keyboard.press("Escape")
    assert not page.locator(".more .nav").is_visible()
    assert more.evaluate("each => each === document.activeElement")


def test_a_words_meaning_opens_and_closes_by_keyboard_and_by_touch(open_page: OpenPage) -> None:
    page = open_page("/savings", size="phone")
    settle(page)
    word = page.locator("button.term").first
    means = page.locator(f"#{word.get_attribute('popovertarget')}")
    word.focus()
    page.keyboard.press("Enter")
    expect(means).to_be_visible()
    clean(page)
    page.keyboard.press("Escape")
    expect(means).not_to_be_visible()
    assert word.evaluate("each => each === document.activeElement")
    word.tap()
    expect(means).to_be_visible()
    page.touchscreen.tap(5, 5)
    expect(means).not_to_be_visible()


def test_the_skip_link_leads_to_the_content(open_page: OpenPage) -> None:
    page = open_page("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_right_to_left_page_is_mirrored_except_its_charts(
    open_page: OpenPage,
) -> None:
    page = open_page("/history")
    settle(page)
    at = "each => each.getBoundingClientRect().x"

    def under_the_chart() -> list[float]:
        chart = page.locator("#power .chart-area").evaluate(at)
        return [page.locator(each).evaluate(at) - chart for each in (".strip", ".brush")]

    before = under_the_chart()
    assert page.locator(".side").evaluate(at) < page.locator(".body").evaluate(at)
    from_right_to_left(page)
    assert page.locator(".side").evaluate(at) > page.locator(".body").evaluate(at)
    assert under_the_chart() == before
    page.locator("#tab-wakes").focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.id") == "tab-decisions"

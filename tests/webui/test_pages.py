"""Every page, light and dark, wide or on a phone: clean, accessible, not wider than the screen.

Pages find themselves into this test as they find themselves into the navigation. What hangs
below one, such as the settings, is found by its links.
"""

from __future__ import annotations

import pytest
from naproxy_webui.pages import discover

from tests.webui.conftest import OpenPage, Scheme, Size, WatchedPage
from tests.webui.looks import settle, too_wide, violations

_NOT_HERE = ("/api/", "/metrics", "/login", "/claim")
PAGES = sorted({page.path for page, _ in discover() if not page.path.startswith(_NOT_HERE)})
# The stage is set up: its first run is over, and its steps are found from here.
PAGES[PAGES.index("/setup")] = "/setup/again"
MOST_BELOW = 20


def look_at(page: WatchedPage, path: str) -> list[str]:
    page.goto(path)
    settle(page)
    found = [f"{path}: {each}" for each in violations(page)]
    return found + [f"{path}: too wide: {each}" for each in too_wide(page)]


def look_at_all(page: WatchedPage, path: str) -> list[str]:
    """Look at a page and what hangs below it."""
    found = look_at(page, path)
    links = page.eval_on_selector_all("main a[href]", "all => all.map((a) => a.pathname)")
    below = sorted({link for link in links if path != "/" and link.startswith(f"{path}/")})
    for link in below[:MOST_BELOW]:
        found += look_at(page, link)
    return found


@pytest.mark.parametrize(("scheme", "size"), [("light", "desktop"), ("dark", "phone")])
@pytest.mark.parametrize("path", PAGES)
def test_page(open_page: OpenPage, path: str, scheme: Scheme, size: Size) -> None:
    page = open_page(scheme=scheme, size=size)
    found = look_at_all(page, path)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("path", PAGES)
def test_page_in_german_on_a_narrow_phone(open_page: OpenPage, path: str) -> None:
    page = open_page(size="narrow", language="de")
    found = look_at_all(page, path)
    assert page.locator("html").get_attribute("lang") == "de"
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sign_in(open_page: OpenPage, scheme: Scheme) -> None:
    page = open_page(user=None, scheme=scheme, size="phone")
    assert look_at(page, "/login") == []


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
    assert violations(page) == []
    page.keyboard.press("Escape")
    assert not page.locator(".more .nav").is_visible()
    assert more.evaluate("each => each === document.activeElement")


def test_the_skip_link_leads_to_the_content(open_page: OpenPage) -> None:
    page = open_page("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

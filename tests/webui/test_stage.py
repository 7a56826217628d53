"""The stage itself: what is shown moves, and a page that is not clean is noticed."""

import pytest

from tests.webui.conftest import OpenPage, WatchedPage
from tests.webui.stage import Stage


def test_the_first_page_is_shown_to_who_logged_in(page: WatchedPage) -> None:
    page.goto("/")
    assert page.locator("main h1, main h2").first.is_visible()
    assert "/login" not in page.url


def test_who_is_not_logged_in_is_asked_to(open_page: OpenPage) -> None:
    stranger = open_page("/", user=None)
    assert "/login" in stranger.url


def test_what_is_now_moves(page: WatchedPage, stage: Stage) -> None:
    page.goto("/")

    def now() -> str:
        return str(page.evaluate("fetch('/api/now').then(answer => answer.text())"))

    before = now()
    page.wait_for_function(
        "before => fetch('/api/now').then(a => a.text()).then(t => t != before)", arg=before
    )


def test_an_error_on_the_console_is_noticed(page: WatchedPage) -> None:
    page.goto("/")
    page.evaluate("console.error('what a test provokes')")
    with pytest.raises(AssertionError, match="what a test provokes"):
        page.watch.check()
    page.watch.allow("what a test provokes")


def test_a_request_to_another_host_is_noticed(page: WatchedPage) -> None:
    page.goto("/")
    page.evaluate("fetch('http://192.0.2.99/').catch(() => {})")
    with pytest.raises(AssertionError, match=r"192\.0\.2\.99"):
        page.watch.check()
    page.watch.allow(r"192\.0\.2\.99|Content Security Policy")

"""A page that is not clean is noticed."""

import pytest

from tests.webui.conftest import WatchedPage


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

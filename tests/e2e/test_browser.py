"""A person's page load, in a real browser."""

import re
import time
from collections.abc import Iterator

import pytest

from tests.e2e.browser import Browser
from tests.e2e.conftest import settle_asleep
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import ROOT

NOTICE = "Tell us what you think: <survey@office.example>"
CONFIG = {"box": {"notice": NOTICE}}
FIXED = {"naproxy.config.document.Server": {"wake_expect_s": 2.0}}
WAKE_S = 2.0


def url_of(name: str) -> str:
    """A page that is not in the cache yet."""
    return f"http://{HOST}/pages/007.html?name=a%20b&x=%22%3E%3Cscript%3E&{name}"


@pytest.fixture
def browser(shared: Office) -> Iterator[Browser]:
    with Browser(shared.client, {HOST: ADDRESS}) as browser:
        yield browser


@pytest.fixture
def waking_slowly(asleep: Office) -> Office:
    asleep.server.board.configure(wake_s=WAKE_S)
    return asleep


class Visit:
    """A browser's views of a page whose server sleeps, until the page is loaded."""

    def __init__(self, office: Office, browser: Browser) -> None:
        self.url = f"{url_of('visit')}#part"
        browser("Log.enable")
        browser("Runtime.enable")
        browser.open(self.url)
        self.waiting = browser.wait_for_document(503)["url"]
        self.text = wait_for(
            lambda: said if "Waking" in (said := self._text(browser)) else "", "the page"
        )
        wait_for(lambda: office.server.board.state == "on", "the server to wake")
        up_s = time.monotonic()
        browser.wait_for_document(200, timeout_s=30)
        self.back_s = time.monotonic() - up_s
        wait_for(lambda: browser.evaluate("document.title") == "Page 7", "what was asked for")
        self.shown = browser.evaluate("location.href")
        self.events = browser.events

    @staticmethod
    def _text(browser: Browser) -> str:
        return str(browser.evaluate("document.body.innerText"))


@pytest.fixture(scope="module")
def visit(shared: Office) -> Visit:
    settle_asleep(shared)
    shared.server.board.configure(wake_s=WAKE_S)
    with Browser(shared.client, {HOST: ADDRESS}) as browser:
        return Visit(shared, browser)


def test_the_waiting_page_comes_back_by_itself_to_the_very_url(visit: Visit) -> None:
    assert f"{visit.waiting}#part" == visit.shown == visit.url


def test_the_waiting_page_comes_back_soon_after_the_server_is_up(visit: Visit) -> None:
    assert visit.back_s < 5


def test_the_waiting_page_shows_the_offices_notice_as_text(visit: Visit) -> None:
    assert NOTICE in visit.text


def test_the_page_makes_no_mistake_the_browser_complains_of(visit: Visit) -> None:
    logged = [e["params"]["entry"] for e in visit.events if e["method"] == "Log.entryAdded"]
    # The 503 itself is logged as an error by every browser.
    assert [entry["text"] for entry in logged if "503" not in entry["text"]] == []
    assert not [e for e in visit.events if e["method"] == "Runtime.exceptionThrown"]


def test_it_comes_back_without_javascript_too(waking_slowly: Office, browser: Browser) -> None:
    browser("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url_of("plain"))
    browser.wait_for_document(503)
    answer = browser.wait_for_document(200, timeout_s=40)
    assert answer["url"] == url_of("plain")


def test_a_page_can_say_that_it_is_shown_while_the_server_is_asleep(
    office: Office, browser: Browser
) -> None:
    found = re.search(r"```html\n(.*?)```", (ROOT / "docs/caching.md").read_text(), re.DOTALL)
    assert found
    page = office.server.directory / "site/note.html"
    page.write_text(f"<!doctype html><title>Note</title>{found[1]}")
    shown = "document.getElementById('as-of')?.checkVisibility()"
    browser.open(f"http://{HOST}/note.html")
    browser.wait_for_document(200)
    assert not browser.evaluate(shown)
    office.box.sleep()
    browser.open(f"http://{HOST}/note.html")
    wait_for(lambda: browser.evaluate(shown), "the note")
    assert office.server.board.state == "off"

"""A person's page load, in a real browser."""

import re
from collections.abc import Iterator

import pytest

from tests.e2e.browser import Browser
from tests.e2e.clients import PERSON, ask
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import ROOT, wait_for

PATH = "/pages/007.html?name=a%20b&x=%22%3E%3Cscript%3E"
CONFIG = {"box": {"notice": "Tell us what you think: <survey@office.example>"}}


@pytest.fixture
def browser(shared: Office) -> Iterator[Browser]:
    with Browser(shared.client, {HOST: ADDRESS}) as browser:
        yield browser


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A page that is not in the cache yet."""
    return f"http://{HOST}{PATH}&{request.node.name}"


@pytest.fixture
def waking_slowly(asleep: Office) -> Office:
    asleep.server.board.configure(wake_s=5.0)
    return asleep


def test_the_waiting_page_comes_back_by_itself_to_the_very_url(
    waking_slowly: Office, browser: Browser, url: str
) -> None:
    browser.open(f"{url}#part")
    assert browser.wait_for_document(503)["url"] == url
    wait_for(lambda: "Waking" in str(browser.evaluate("document.body.innerText")), "the page")
    browser.wait_for_document(200, timeout_s=30)
    wait_for(lambda: browser.evaluate("document.title") == "Page 7", "the page that was asked for")
    assert browser.evaluate("location.href") == f"{url}#part"


def test_it_comes_back_without_javascript_too(
    waking_slowly: Office, browser: Browser, url: str
) -> None:
    browser("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url)
    browser.wait_for_document(503)
    answer = browser.wait_for_document(200, timeout_s=40)
    assert answer["url"] == url


def test_the_waiting_page_comes_back_soon_after_the_server_is_up(
    waking_slowly: Office, browser: Browser, url: str
) -> None:
    browser.open(url)
    browser.wait_for_document(503)
    wait_for(lambda: waking_slowly.server.board.state == "on", "the server to wake")
    browser.wait_for_document(200, timeout_s=5)


def test_the_waiting_page_shows_the_offices_notice_as_text(
    waking_slowly: Office, browser: Browser, url: str
) -> None:
    browser.open(url)
    browser.wait_for_document(503)
    wait_for(
        lambda: "<survey@office.example>" in str(browser.evaluate("document.body.innerText")),
        "the notice",
    )


def test_the_page_makes_no_mistake_the_browser_complains_of(
    waking_slowly: Office, browser: Browser, url: str
) -> None:
    browser("Log.enable")
    browser("Runtime.enable")
    browser.open(url)
    browser.wait_for_document(503)
    browser.wait_for_document(200, timeout_s=30)
    logged = [e["params"]["entry"] for e in browser.events if e["method"] == "Log.entryAdded"]
    # The 503 itself is logged as an error by every browser.
    assert [entry["text"] for entry in logged if "503" not in entry["text"]] == []
    assert not [e for e in browser.events if e["method"] == "Runtime.exceptionThrown"]


def test_a_page_load_by_hand_says_when_to_come_back(waking_slowly: Office) -> None:
    answer = ask(waking_slowly.client, "/?by-hand", headers=PERSON)
    assert (answer.status, answer.headers["x-naproxy"]) == (503, "waiting_page")
    assert int(answer.headers["retry-after"]) >= 1
    assert int(answer.headers["refresh"]) >= 1  # no URL in it
    assert answer.headers["cache-control"] == "no-store"


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

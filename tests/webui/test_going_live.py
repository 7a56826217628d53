"""An office whose visitors still go directly to the server: nobody is left without an answer.

The server is the office's nginx, the visitors are curl. For them DNS is a file with an address.
"""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright, expect

from tests.e2e.clients import ask, fresh
from tests.simulator.office import Settings
from tests.simulator.office.box import ADDRESS as BOX
from tests.simulator.office.box import HOST, toml
from tests.simulator.office.server import ADDRESS as SERVER
from tests.webui.conftest import WatchedPage, watched
from tests.webui.first_run import URL, NewBox, browser_of, claim, new_box
from tests.webui.looks import clean, settle
from tests.webui.visitors import Visitors

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an office needs root")

QUICK = Settings(sleep_s=0.5, wake_s=0.8)
IDLE_S = 2.0
PROOF = "/setup/again/proof?server=web"
LIVE = "/setup/again/live?server=web"
LONG_MS = 120_000


@pytest.fixture(scope="module")
def made() -> Iterator[NewBox]:
    with new_box(QUICK) as started:
        config = started.box.default_config(server={"armed": False})
        config["server"][0]["policy"] = {"name": "timeout", "idle_s": IDLE_S}
        started.box.config_file.write_text(toml(config))
        started.box.api("POST", "/v1/config/reload", {})
        started.box.await_state("awake")
        yield started


@pytest.fixture(scope="module")
def chromium(playwright: Playwright, made: NewBox) -> Iterator[Browser]:
    with browser_of(playwright, made) as launched:
        yield launched


@pytest.fixture(scope="module")
def page(chromium: Browser, made: NewBox) -> Iterator[WatchedPage]:
    """Somebody who is logged in as the administrator."""
    with watched(chromium, URL) as page:
        # This box has no TLS, which the header is for. Nobody has checked the server yet.
        page.watch.allow("Cross-Origin-Opener-Policy header has been ignored|status of 404")
        # The website, as the box has it.
        page.watch.allow(f"asked another host: http://{BOX}/")
        claim(page, made)
        page.wait_for_url(f"{URL}/")
        yield page


@pytest.fixture(scope="module")
def visitors(made: NewBox) -> Visitors:
    return Visitors(made.office, "visitors", HOST, SERVER)


def slept(made: NewBox) -> int:
    """How often the server's mainboard was off."""
    told = made.office.server.board.report()["transitions"]
    return sum(each["state"] == "off" for each in told)


def sees(page: WatchedPage, words: str) -> None:
    expect(page.locator("main")).to_contain_text(words, timeout=LONG_MS)


# One story: each test goes on where the one before it ended.


def test_before_the_test_the_page_says_what_direct_visitors_will_experience(
    page: WatchedPage,
) -> None:
    page.goto(PROOF)
    direct = page.locator("#direct")
    expect(direct).to_contain_text("No visitor has come through the box yet")
    # As docs/commissioning.md has it: 15, 15, 75, 75 and 45 s.
    expect(direct).to_contain_text("5 times, for 75 s at most and 4 min in all")
    page.locator("details", has=page.locator("#plan")).locator("summary").click()
    page.locator("#cycles").fill("2")
    page.locator("#pause_s").fill("1")
    expect(direct).to_contain_text("2 times, for 1 s at most and 2 s in all")
    clean(page)


def test_after_the_test_direct_visitors_are_answered_and_the_page_says_what_it_waits_for(
    page: WatchedPage, made: NewBox, visitors: Visitors
) -> None:
    # Nobody visits during the test: the owner has read what it would mean for them.
    page.locator("#begin").click()
    expect(page.locator("#result")).to_contain_text("woke up 2 of 2 times", timeout=LONG_MS)
    result = page.locator("#result")
    expect(result).to_contain_text(f"waits for the first visitor who reaches {HOST} through it")
    expect(result).not_to_contain_text("may put it to sleep by itself")
    assert made.box.status()["armed"] is False
    before = slept(made)
    with visitors:
        # The box sees none of them: its rule would have put the server to sleep long ago.
        visitors.await_more(int(10 * IDLE_S))
        page.goto("/")
        sees(page, f"waits for the first visitor who reaches {HOST} through it")
        visitors.await_more(int(10 * IDLE_S))
    assert visitors.unanswered() == []
    assert slept(made) == before


def test_a_request_to_the_boxs_address_does_not_count_as_visitor(
    page: WatchedPage, made: NewBox
) -> None:
    page.goto(LIVE)
    sees(page, f"waits for the first visitor who reaches {HOST} through it")
    clean(page)
    with page.context.expect_page() as opened:
        page.locator("#try").click()
    assert "office" in opened.value.content().lower()
    opened.value.close()
    live = made.box.status()["live"]
    assert (live["last_s"], live["waits"]["code"]) == (None, "server.no_visitor_yet")


def test_nobody_is_left_unanswered_while_the_name_is_led_to_the_box(
    page: WatchedPage, made: NewBox, visitors: Visitors
) -> None:
    with visitors:
        visitors.await_more(5)
        visitors.lead(BOX)
        sees(page, "The first visitor came through the box")
        expect(page.locator("#confirm")).to_be_hidden()
        visitors.await_more(5)
    assert visitors.unanswered() == []
    assert {address for _, address, _ in visitors.visits()} == {SERVER, BOX}
    assert made.box.status()["armed"] is True


def test_the_server_then_sleeps_and_wakes_for_visitors_who_are_all_answered(
    page: WatchedPage, made: NewBox, visitors: Visitors
) -> None:
    made.box.await_state("asleep", 120)
    page.goto("/")
    expect(page.locator("main")).not_to_contain_text("waits for the first visitor")
    with visitors:
        visitors.await_more(5)
    assert visitors.unanswered() == []
    assert made.box.wakes()[0]["outcome"] == "up"


@pytest.mark.long
def test_one_click_in_the_history_stops_a_noisy_waker(page: WatchedPage, made: NewBox) -> None:
    noisy = {"User-Agent": "OfficeFeeder/1.0"}
    client, board = made.office.client, made.office.server.board
    for _ in range(2):
        made.box.sleep()
        assert ask(client, fresh("/feed.xml"), headers=noisy).status != 503
    made.box.sleep()
    page.goto("/history?tab=wakes")
    settle(page)
    row = page.locator("#wakers .line", has_text="/feed.xml")
    row.locator("summary").click()
    row.get_by_role("button").click()
    page.get_by_text("would have prevented 2 of ").wait_for()
    page.locator("dialog").get_by_role("button", name="Do not wake").click()
    page.locator("#rules li", has_text="/feed.xml").wait_for()
    packets = board.report()["counts"]["magic"]
    answer = ask(client, fresh("/feed.xml"), headers=noisy)
    assert (answer.status, answer.headers["x-naproxy"]) == (503, "refused")
    assert answer.headers["retry-after"] == "3600"
    assert (board.state, board.report()["counts"]["magic"]) == ("off", packets)
    assert ask(client, fresh("/else"), headers=noisy).status != 503
    assert board.state == "on"

"""The guide with the agent, without a shell on the box: a real browser, TLS and curl."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.webui.conftest import WatchedPage, watched
from tests.webui.looks import clean_narrow_and_dark, open_all, settle

sys.path.append(str(Path(__file__).parents[2] / "package/naproxy/tests"))
sys.path.append(str(Path(__file__).parents[2] / "webui/tests"))

from agent_front import PASSWORD, Front, call, paste
from box import Box

LONG_MS = 120_000


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    (tmp_path / "box").mkdir()
    made = Box(tmp_path / "box").start()
    yield made
    made.close()


@pytest.fixture
def front(tmp_path: Path, box: Box) -> Iterator[Front]:
    (tmp_path / "front").mkdir()
    made = Front(tmp_path / "front", box)
    yield made
    made.close()


@pytest.fixture
def page(browser: Browser, front: Front) -> Iterator[WatchedPage]:
    """The administrator's, of a box that nobody has claimed yet."""
    with watched(browser, front.url, ignore_https_errors=True) as page:
        page.set_default_timeout(LONG_MS)
        # The box's own certificate lets no service worker run, and a new box has no sums yet.
        page.watch.allow(
            "An SSL certificate error occurred when fetching the script|503 .*/api/now/overview"
        )
        yield page


def claim(page: Any, front: Front) -> None:
    page.goto("/claim")
    for name, value in {
        "code": front.webui.claim_code(),
        "name": "anna",
        "password": PASSWORD,
        "password_again": PASSWORD,
    }.items():
        page.locator(f"#{name}").fill(value)
    page.locator("form button[type=submit]").click()
    page.wait_for_url(lambda url: "/claim" not in url)


@pytest.mark.long
def test_a_server_that_is_slow_to_show_its_key_makes_no_second_code(
    page: WatchedPage, front: Front
) -> None:
    claim(page, front)
    held: list[Any] = []
    made: list[str] = []

    def hold_the_first(route: Any) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/setup/host-key*", hold_the_first)
    page.on("request", lambda asked: made.append(asked.method + asked.url.rpartition("/")[2]))
    page.goto("/setup/again/sleep?server=web")
    expect(page.locator("#pin .loading")).to_be_visible()
    page.locator("#more > summary").click()
    page.locator("#reach").select_option("agent")
    expect(page.locator("#agent-script")).to_be_visible()
    held[0].continue_()
    expect(page.locator("#pin .loading")).to_have_count(0)
    settle(page)
    assert made.count("POSTagent") == 1


def test_the_server_fetches_agent_and_key_and_the_page_goes_on_by_itself(
    page: WatchedPage, front: Front, box: Box, tmp_path: Path
) -> None:
    claim(page, front)
    page.goto("/setup/again/sleep?server=web")
    page.locator("#more > summary").click()
    page.locator("#reach").select_option("agent")
    text = page.locator("#agent-script").inner_text()
    open_all(page)
    clean_narrow_and_dark(page)
    done = paste(tmp_path / "server", f"{text}\n")
    assert done.returncode == 0, done.stderr
    expect(page.locator("#agent-state")).to_contain_text(
        "The server has fetched its key", timeout=LONG_MS
    )
    # No agent runs on this server: the check says so, without anybody having asked for it.
    expect(page.locator("#findings")).to_contain_text("agent", timeout=LONG_MS)
    expect(page.locator("#agent-script")).to_have_count(0)
    key = (tmp_path / "server/etc/naproxy-agent/key").read_text()
    sleep = call(box, "GET", "/v1/config")["server"][0]["sleep"]
    assert (sleep["driver"], Path(sleep["key_file"]).read_text()) == ("agent", key)
    assert key.strip() not in page.content()

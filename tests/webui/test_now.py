"""The page Now in a browser: live, its buttons work, and data from visitors is never markup."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from naproxy.config import document as config
from playwright.sync_api import Browser, Error, Route, expect

from tests.patience import wait_for
from tests.simulator.office.box import toml
from tests.webui.conftest import FEW_DAYS, OpenPage, Pages, WatchedPage
from tests.webui.looks import clean
from tests.webui.stage import Stage

HOSTILE = "<img src=x onerror='window.hurt=1'>\"&amp;{name}</script>"
LONG_MS = 30_000

OpenNow = Callable[..., WatchedPage]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A stage without visitors: only a test's actions cause events."""
    with Stage(days=FEW_DAYS, visitors=False) as started:
        yield started


@pytest.fixture(scope="module")
def pages(browser: Browser, stage: Stage) -> Pages:
    return Pages(browser, stage)


@pytest.fixture
def now(open_page: OpenPage, stage: Stage) -> Iterator[OpenNow]:
    """`now(change)`: the page, with answers of the API changed."""

    def make(change: Callable[[Any], Any] | None = None, **options: Any) -> WatchedPage:
        page = open_page(**options)
        if change:
            page.route("**/api/now?*", changed(change))
        page.goto("/")
        return page

    yield make
    stage.api("POST", "/v1/servers/web/mode", {"mode": "auto"})


def changed(change: Callable[[Any], Any]) -> Callable[[Route], None]:
    def answer(route: Route) -> None:
        # The page asks each second: one question is under way when it is closed.
        with contextlib.suppress(Error):
            real = route.fetch()
            route.fulfill(response=real, body=json.dumps(change(real.json())))

    return answer


def card(page: WatchedPage, name: str = "web") -> Any:
    return page.locator(f"[data-server='{name}']")


def picture(page: WatchedPage) -> str:
    return str(page.evaluate("document.querySelector('canvas').toDataURL()"))


def test_it_says_what_the_server_does(now: OpenNow, stage: Stage) -> None:
    stage.api("POST", "/v1/servers/web/mode", {"mode": "awake"})
    stage.wait("awake")
    page = now()
    expect(card(page).locator(".badge").first).to_have_text("Awake")
    expect(card(page)).to_contain_text("measured by “simulated”")


def test_there_is_something_before_the_first_answer(now: OpenNow, stage: Stage) -> None:
    page = now()
    page.route("**/api/now?*", lambda route: route.abort())
    page.watch.allow("ERR_FAILED")
    page.reload()
    expect(card(page).locator("h2")).to_have_text("web")


def test_the_chart_moves(now: OpenNow) -> None:
    page = now()
    page.wait_for_selector("canvas")
    before = picture(page)
    wait_for(lambda: picture(page) != before, "the chart to move")


@pytest.mark.long
def test_the_chart_has_its_seconds_as_a_table(now: OpenNow) -> None:
    page = now()
    page.wait_for_selector("canvas")
    page.get_by_text("Show as a table").click()
    row = page.locator(".chart tbody tr").first
    expect(row.locator("td").nth(1)).to_have_text(re.compile(r"^\d+\.\d\sW$"))


def test_wake_now_wakes_it(now: OpenNow, stage: Stage) -> None:
    with stage.asleep():
        page = now()
        expect(card(page).locator(".badge").first).to_have_text("Asleep")
        page.get_by_role("button", name="Wake now").click()
        expect(card(page).get_by_role("progressbar")).to_be_visible()
        expect(card(page).locator(".badge").first).to_have_text("Awake", timeout=LONG_MS)
        expect(card(page).locator(".server-woken")).to_contain_text("by hand")


def test_kept_awake_for_an_hour_and_let_go_again(now: OpenNow, stage: Stage) -> None:
    page = now()
    page.get_by_role("button", name="Keep awake until").click()
    clean(page)
    page.get_by_text("For an hour").click()
    page.get_by_role("button", name="Keep awake", exact=True).click()
    expect(card(page)).to_contain_text("Kept awake until")
    said = stage.api("GET", "/v1/status")["servers"][0]
    assert abs(said["mode_until_s"] - time.time() - 3600) < 120
    page.get_by_role("button", name="Let Naproxy decide again").click()
    expect(card(page).get_by_text("Kept awake until")).to_be_hidden()
    assert stage.api("GET", "/v1/status")["servers"][0]["mode"] == "auto"


@pytest.mark.long
def test_kept_awake_until_a_time_of_the_offices_clocks_but_not_one_that_is_over(
    now: OpenNow, stage: Stage
) -> None:
    page = now(timezone_id="Asia/Tokyo")
    page.get_by_role("button", name="Keep awake until").click()
    page.get_by_text("Until a time I choose").click()
    page.get_by_label("Day and time").fill("2020-01-01T12:00")
    page.get_by_role("button", name="Keep awake", exact=True).click()
    expect(page.get_by_text("Please choose a time in the future.")).to_be_visible()
    assert stage.api("GET", "/v1/status")["servers"][0]["mode"] == "auto"
    page.get_by_label("Day and time").fill("2030-07-01T12:00")
    page.get_by_role("button", name="Keep awake", exact=True).click()
    expect(card(page)).to_contain_text("Kept awake until")
    # Noon in Zurich in summer is 10:00 UTC, wherever the browser is.
    assert stage.api("GET", "/v1/status")["servers"][0]["mode_until_s"] == 1909130400


def test_without_the_controller_that_is_said_until_it_is_back(now: OpenNow, stage: Stage) -> None:
    page = now()
    expect(card(page)).to_be_visible()
    assert stage.controller
    stage.controller.terminate()
    stage.controller.wait(10)
    banner = page.locator("#banners")
    try:
        expect(banner).to_contain_text("does not answer")
        expect(page.locator("#stale")).to_contain_text("not live")
        expect(page.get_by_role("button", name="Wake now")).to_be_disabled()
        clean(page)
    finally:
        stage.start_controller()
    expect(banner).to_be_empty(timeout=LONG_MS)
    expect(page.locator("#stale")).to_be_hidden()


def test_without_a_server_it_leads_to_the_setup(now: OpenNow) -> None:
    page = now(lambda said: {**said, "servers": []})
    expect(page.get_by_role("link", name="Set up the first server")).to_have_attribute(
        "href", "/setup/again/server?new=1"
    )


@pytest.mark.long
@pytest.mark.usefixtures("as_it_was")
def test_two_servers_have_a_card_each(now: OpenNow, stage: Stage) -> None:
    second = stage.configuration()
    second["server"].append(
        {"id": "mail", "address": "127.0.0.2", "mac": "02:00:00:00:00:99", "port": 9, "hosts": []}
    )
    text = toml(second)
    config.parse(text)
    stage.api("PUT", "/v1/config", text.encode())
    page = now()
    expect(card(page)).to_be_visible()
    expect(card(page, "mail")).to_contain_text("no meter")


@pytest.mark.long
def test_three_servers_fit_a_phone_and_each_row_says_what_is_wrong(now: OpenNow) -> None:
    def three(said: Any) -> Any:
        (web,) = said["servers"]
        calm, wrong = {**web, "id": "mail"}, {**web, "id": "files", "alert": "not up after 5 calls"}
        return {**said, "servers": [web, calm, wrong]}

    page = now(three, viewport={"width": 375, "height": 812})
    page.locator("summary", has_text="web").press("Enter")
    expect(card(page).get_by_role("button", name="Keep awake until")).to_be_hidden()
    expect(card(page, "mail").locator(".server-wrong")).to_be_hidden()
    expect(card(page, "files").locator("summary")).to_contain_text("not up after 5 calls")
    assert page.evaluate("document.documentElement.scrollHeight") < 1600
    clean(page)


@pytest.mark.long
def test_a_task_has_a_link_and_its_dismissal_can_be_undone(now: OpenNow) -> None:
    page = now()
    todo = page.locator("#todo")
    line = todo.get_by_role("link", name="Download a backup of the box.")
    expect(line).to_have_attribute("href", "/settings/backup")
    todo.get_by_role("button", name="Does not apply: Download a backup").click()
    expect(line).to_be_hidden()
    page.get_by_role("button", name="Undo").click()
    expect(line).to_be_visible()


def test_the_sentence_has_the_state_and_the_savings(now: OpenNow, stage: Stage) -> None:
    page = now()
    sums = page.request.get(f"{stage.url}/api/now/overview").json()
    # The made past has a few hours. At night they save less than a cent, and the page says so.
    worth = sums["net_j"] if sums["money"] is None else sums["money"]
    none = sums["kind"] == "none" or abs(worth) < 0.005
    saved = "No savings to show yet" if none else r".*(saved|savings|used).*month"
    expect(page.locator("#sentence")).to_have_text(re.compile(rf"^\w.* since .*\. {saved}"))


@pytest.mark.long
def test_the_live_log_has_what_happens_and_a_filter(now: OpenNow, stage: Stage) -> None:
    stage.api("POST", "/v1/servers/web/mode", {"mode": "awake"})
    stage.wait("awake")
    page = now()
    page.locator("#log > summary").press("Enter")
    log = page.locator(".now-log")
    expect(log.locator("li", has_text="Awake").first).to_be_visible()
    expect(log.locator("li", has_text="looks after web").first).to_be_visible()
    page.get_by_text("System", exact=True).click()
    expect(log.locator("li", has_text="looks after web").first).to_be_hidden()
    page.get_by_label("Only lines with").fill("nothing like this")
    expect(page.get_by_text("No line fits.")).to_be_visible()


@pytest.mark.long
def test_one_that_did_not_wake_may_sleep_again_when_somebody_looked(now: OpenNow) -> None:
    def tripped(said: Any) -> Any:
        said["servers"][0] |= {"armed": False, "tripped": True, "alert": "not up after 5 calls"}
        return said

    page = now(tripped)
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(f"{sent.method} {sent.url}"))
    page.get_by_role("button", name="Let it sleep again").click()
    page.get_by_role("dialog").get_by_role("button", name="Let it sleep again").click()
    expect(page.get_by_role("status").get_by_text("may sleep by itself again")).to_be_visible()
    assert any(each.endswith("/api/servers/web/arm") and "POST" in each for each in asked)


@pytest.mark.long
@pytest.mark.usefixtures("as_it_was")
def test_one_that_sleeps_by_itself_is_left_to_do_so_when_somebody_agrees(
    now: OpenNow, stage: Stage
) -> None:
    def asleep(said: Any) -> Any:
        said["servers"][0]["sleeps_itself"] = "It seems to put itself to sleep."
        return said

    page = now(asleep)
    expect(card(page).locator("dl.facts").first).to_contain_text("seems to put itself to sleep")
    page.get_by_role("button", name="Leave it to the server").click()
    page.get_by_role("dialog").get_by_role("button", name="Leave it to the server").click()
    decides = page.get_by_role("status").get_by_text("decides itself when to sleep")
    expect(decides).to_be_visible()
    assert stage.api("GET", "/v1/config")["server"][0]["sleep"]["driver"] == "itself"


def hostile(said: Any) -> Any:
    """Every text that may come from elsewhere is markup."""
    server = said["servers"][0]
    server["id"] = HOSTILE
    server["why"] = server["decision"] = server["inhibitors"] = [HOSTILE]
    server["state"] = "awake"
    server["alert"] = server["sleeps_itself"] = server["past"] = HOSTILE
    server["serves"], server["around"] = [HOSTILE], 4141
    server["appointments"] = [{"t_s": said["now_s"], "name": HOSTILE}]
    event = {"t_s": said["now_s"], "end_s": said["now_s"], "name": HOSTILE}
    server["calendar"] = {"events": [event], "problem": HOSTILE}
    server["power"] = {**server["power"], "meter": HOSTILE, "problem": HOSTILE}
    server["woken"] = {
        **dict.fromkeys(("who", "path", "agent", "reason", "method"), HOSTILE),
        **{"class": "person", "t_s": said["now_s"], "waited_s": 1.0, "outcome": "up"},
    }
    return {**said, "history_error": HOSTILE}


def test_hostile_values_are_shown_as_text(now: OpenNow) -> None:
    page = now(hostile)
    expect(page.locator("h2").get_by_text(HOSTILE)).to_be_visible()
    expect(page.locator("dd").get_by_text(HOSTILE).last).to_be_visible()
    expect(page.locator("#banners")).to_contain_text(HOSTILE)
    expect(page.locator("main")).to_contain_text(re.compile("4.?141"))
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img").count() == 0


def test_the_home_page_is_few_requests_and_small(now: OpenNow) -> None:
    page = now()
    sent: dict[str, int] = {}
    page.on("response", lambda got: sent.update({got.url: len(gzip.compress(got.body(), 6))}))
    page.reload(wait_until="load")
    page.wait_for_selector("canvas")
    loaded = {url: size for url, size in sent.items() if "/api/now" not in url}
    # Ten, and three for the parts of the page in js/pages/now/: they are preloaded, so they
    # cost no further round trip.
    assert len(loaded) < 13, loaded
    assert sum(loaded.values()) < 150_000, loaded

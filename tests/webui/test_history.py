"""The history in a real browser: gaps, states by keyboard, hostile texts, rules, downloads."""

from __future__ import annotations

import csv
import json
import re
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from naproxy.history.tables import key
from playwright.sync_api import Browser, expect

from tests.patience import wait_for
from tests.simulator.past.cached import USUAL_DAYS
from tests.webui.conftest import OpenPage, Pages, WatchedPage
from tests.webui.looks import clean, jumps, open_all, settle, too_small
from tests.webui.stage import Stage
from tests.webui.story import Story

EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
GAP_MINUTES = 40
TABS = ("timeline", "wakes", "decisions")
ZURICH = ZoneInfo("Europe/Zurich")


def chart(page: Any) -> list[list[dict[str, Any]]]:
    """Return what Chart.js draws of power: the points of each line."""
    points: list[list[dict[str, Any]]] = page.evaluate(
        "Chart.getChart(document.querySelector('#power canvas')).data.datasets.map((d) => d.data)"
    )
    return points


def yesterday() -> str:
    """Return the office's day before this one."""
    return (datetime.now(ZURICH) - timedelta(days=1)).date().isoformat()


def show(page: Any, address: str = "/history") -> None:
    page.goto(address)
    settle(page)
    if "tab=" not in address:
        # It comes when the chart is drawn, and with it what can be dragged.
        page.locator("#power .strip").first.wait_for()


def shown(page: Any) -> dict[str, str]:
    """Return what the address asks for."""
    return {name: value[0] for name, value in parse_qs(urlsplit(page.url).query).items()}


def middle(page: Any, selector: str, share: float) -> tuple[float, float]:
    """Return a place in an element, `share` of its width from the left."""
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    assert box
    return box["x"] + share * box["width"], box["y"] + box["height"] / 2


# The shown range


def test_back_and_forward_lead_through_the_days(page: WatchedPage) -> None:
    show(page, "/history?view=week")
    title = page.locator("#range-title")
    now = title.text_content()
    assert page.locator("#forward").is_disabled()
    page.get_by_role("button", name="Back").click()
    expect(title).not_to_have_text(now)
    before = title.text_content()
    page.go_back()
    expect(title).to_have_text(now)
    page.go_forward()
    expect(title).to_have_text(before)


def test_power_and_states_share_one_axis(page: WatchedPage) -> None:
    show(page, "/history?view=day&day=" + yesterday())
    area = page.evaluate(
        """() => {
            const drawn = document.querySelector('#power canvas');
            const canvas = drawn.getBoundingClientRect();
            const { left, right } = Chart.getChart(drawn).chartArea;
            const strip = document.querySelector('.strip').getBoundingClientRect();
            return [canvas.left + left - strip.left, canvas.left + right - strip.right];
        }"""
    )
    assert max(map(abs, area)) <= 1.5


@pytest.mark.long
def test_states_are_read_by_keyboard_with_reason_cause_and_power(
    page: WatchedPage,
) -> None:
    show(page, "/history?view=day&day=" + yesterday())
    strip = page.locator(".strip")
    strip.focus()
    page.keyboard.press("Home")
    seen = set()
    for _ in range(60):
        seen.add(page.locator(".band-words").inner_text().replace("\xa0", " "))
        page.keyboard.press("ArrowRight")
    assert any(re.search(r"Asleep\s.*, [1-9]\.?\d? W\)", words) for words in seen), seen
    assert any("Caused by" in words for words in seen)
    assert sum("Why: " in words for words in seen) > 3
    before = strip.get_attribute("viewBox")
    page.set_viewport_size({"width": 1100, "height": 900})
    expect(strip).not_to_have_attribute("viewBox", before or "")  # it was redrawn
    chosen = strip.get_attribute("aria-activedescendant")
    expect(page.locator(f"#{chosen}")).to_have_attribute("aria-selected", "true")


@pytest.mark.long
def test_every_change_has_its_line(page: WatchedPage) -> None:
    show(page, f"/history?tab=decisions&view=day&day={yesterday()}")
    rows = page.locator("#changes .line")
    rows.first.wait_for()
    told = page.evaluate(
        "fetch('/api/history/range?view=day&day=' + document.getElementById('day').value)"
        ".then((r) => r.json())"
    )
    changes = page.evaluate(
        "([from_s, to_s]) => fetch(`/api/history/states?server=web&from_s=${from_s}&to_s=${to_s}`)"
        ".then((r) => r.json()).then((s) => s.changes)",
        [told["from_s"], told["to_s"]],
    )
    older = page.locator("#changes").get_by_role("button", name="Show older")
    while older.is_visible():
        before = rows.count()
        older.click()
        expect(rows.nth(before)).to_be_attached()
    assert abs(rows.count() - changes) <= 1


@pytest.mark.long
def test_the_history_is_clean_with_everything_open(open_page: OpenPage) -> None:
    page = open_page(size="phone", scheme="dark")
    for tab in TABS:
        show(page, f"/history?view=week&tab={tab}")
        open_all(page)
        clean(page)


@pytest.mark.long
def test_a_viewer_is_not_offered_rules(viewer: WatchedPage) -> None:
    show(viewer, "/history?view=month&tab=wakes")
    viewer.locator("#ledger .line").first.wait_for()
    viewer.locator("#ledger summary").first.click()
    viewer.locator("#ledger .line-body").first.wait_for()
    assert viewer.get_by_role("button", name="Do not wake").count() == 0


# The tabs


def test_only_the_tab_that_is_shown_is_asked_for(page: WatchedPage) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    show(page, "/history?view=week&tab=wakes")
    page.locator("#ledger .line").first.wait_for()
    others = {f"/api/history/{name}" for name in ("power", "states", "energy", "decisions")}
    assert not others & set(asked)
    page.get_by_role("tab", name="Wakes").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("#decisions .line").first.wait_for()
    assert page.get_by_role("tab", name="Decisions").get_attribute("aria-selected") == "true"
    assert shown(page) == {"view": "week", "tab": "decisions"}
    page.go_back()
    expect(page.locator("#ledger .line").first).to_be_visible()
    expect(page.locator("#decisions")).to_be_hidden()


@pytest.mark.long
def test_lines_are_one_stop_of_the_tab_key(page: WatchedPage) -> None:
    show(page, "/history?view=week&tab=decisions")
    page.locator("#decisions .line").first.wait_for()
    page.get_by_role("tab", name="Decisions").focus()
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.localName") == "summary":
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    second = page.locator("#decisions .line").nth(1)
    expect(second.locator(".line-body")).to_be_visible()
    expect(second.locator("summary")).to_be_focused()


@pytest.mark.long
def test_wakers_are_listed_by_each_kind(page: WatchedPage) -> None:
    show(page, "/history?tab=wakes&view=month")
    for name, sample in (
        ("IP address", r"\d\.\d"),
        ("Program", "requests| on "),
        ("Kind", "People"),
        ("Page", "/"),
    ):
        page.locator("#wakers-title ~ .segmented").get_by_text(name).click()
        expect(page.locator("#wakers .line").first).to_contain_text(re.compile(sample))
    page.locator("#wakers-title ~ .segmented").get_by_text("Hour").click()
    expect(page.locator("#hours canvas")).to_be_visible()
    assert shown(page)["by"] == "hour"
    page.locator("#hours summary").click()
    expect(page.locator("#hours tbody tr")).to_have_count(24)


# Looking closer


def test_dragging_looks_closer_and_there_is_a_way_back(page: WatchedPage) -> None:
    show(page, "/history?view=week")
    title = page.locator("#range-title").text_content()
    page.mouse.move(*middle(page, "#power .chart-area", 0.4))
    page.mouse.down()
    page.mouse.move(*middle(page, "#power .chart-area", 0.5), steps=4)
    expect(page.locator(".zoom-window").first).to_be_visible()
    page.mouse.up()
    expect(page.locator("#range-title")).not_to_have_text(title or "")
    assert {"view", "day", "from", "to"} <= set(shown(page))
    hours = page.evaluate(
        "() => { const q = new URLSearchParams(location.search);"
        " return (Date.parse(q.get('to')) - Date.parse(q.get('from'))) / 36e5; }"
    )
    assert 10 < hours < 30
    page.reload()
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#range-title")).to_have_text(title or "")
    assert "from" not in shown(page)


@pytest.mark.long
def test_the_wheel_looks_closer_with_ctrl_only(page: WatchedPage) -> None:
    show(page, "/history?view=week")
    page.mouse.move(*middle(page, "#power .chart-area", 0.5))
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, 120)
    wait_for(lambda: page.evaluate("scrollY") > before, "the page to scroll")
    assert "from" not in shown(page)
    page.mouse.move(*middle(page, "#power .chart-area", 0.5))
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_url("**from=**")


@pytest.mark.long
def test_two_fingers_look_closer(phone: WatchedPage) -> None:
    show(phone, "/history?view=week")
    x, y = middle(phone, "#power .chart-area", 0.6)
    devtools = phone.context.new_cdp_session(phone.page)

    def touch(kind: str, *places: float) -> None:
        points = [{"x": place, "y": y, "id": number} for number, place in enumerate(places)]
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", x - 20, x + 20)
    for apart in (30, 40, 60):
        touch("touchMove", x - apart, x + apart)
    touch("touchEnd")
    phone.wait_for_url("**from=**")


@pytest.mark.long
def test_the_brush_is_moved_by_keyboard(page: WatchedPage) -> None:
    show(page, "/history?view=week")
    end = page.get_by_role("slider", name="To")
    end.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.wait_for_url("**from=**")
    assert end.evaluate("each => each === document.activeElement")
    expect(page.get_by_role("button", name="Show all")).to_be_enabled()
    page.locator(".strip").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Show all")).to_be_disabled()


@pytest.mark.long
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_nothing_jumps_and_everything_can_be_hit(open_page: OpenPage, size: Any) -> None:
    page = open_page(size=size)
    for tab in TABS:
        show(page, f"/history?view=week&tab={tab}")
        assert jumps(page) == []
        assert too_small(page) == []


# With a history of its own


@pytest.fixture(scope="module")
def quiet_stage() -> Iterator[Stage]:
    """Nobody comes but those whom a test sends."""
    with Stage(days=USUAL_DAYS, visitors=False, quick=True) as started:
        yield started


@pytest.fixture(scope="module")
def quiet_pages(browser: Browser, quiet_stage: Stage) -> Pages:
    return Pages(browser, quiet_stage)


@pytest.fixture
def quiet_page(quiet_pages: Pages) -> Iterator[WatchedPage]:
    yield quiet_pages.open()
    quiet_pages.end()


def come(stage: Stage, **wake_request: str) -> None:
    """Have somebody wake the sleeping server."""
    fields = {
        "server": "web",
        "reason": "page",
        "method": "GET",
        "class": "api",
        "client": "192.0.2.9",
    }
    lines = "".join(f"{name}={value}\n" for name, value in {**fields, **wake_request}.items())
    with stage.asleep(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(f"naproxy-wake 1\n{lines}".encode(), str(stage.run_dir / "wake.sock"))
        stage.wait("awake")


def test_unmeasured_time_is_not_drawn(quiet_page: WatchedPage, quiet_stage: Stage) -> None:
    page = quiet_page
    noon = datetime.fromisoformat(f"{yesterday()}T12:00").replace(tzinfo=ZURICH)
    first = int(noon.timestamp() // 60)
    gap_s = (60 * first, 60 * (first + GAP_MINUTES))
    with closing(sqlite3.connect(quiet_stage.data_dir / "history.db", timeout=30)) as db, db:
        for table in ("seconds", "minutes"):
            db.execute(
                f"DELETE FROM {table} WHERE key >= ? AND key < ?",
                (key(first, 0), key(first + GAP_MINUTES, 0)),
            )
    show(page, "/history?view=day&day=" + yesterday())
    [line, *_] = chart(page)
    inside = [p for p in line if gap_s[0] <= p["x"] < gap_s[1]]
    assert any(p["y"] is None for p in inside)
    assert all(p["y"] is None for p in inside)
    assert sum(p["y"] is not None for p in line) > 20
    assert not page.evaluate(
        "Chart.getChart(document.querySelector('#power canvas')).data.datasets[0].spanGaps"
    )


def test_data_from_the_network_is_shown_as_text(
    quiet_page: WatchedPage, quiet_stage: Stage
) -> None:
    page = quiet_page
    for _ in range(2):
        come(quiet_stage, agent=EVIL[:110], path=f"/{EVIL}", host=EVIL[:60], client=EVIL[:60])
    show(page)
    page.locator(".strip").focus()
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
    page.get_by_role("tab", name="Decisions").click()
    page.locator("#changes summary").first.wait_for()
    open_all(page)
    expect(page.locator("#changes")).to_contain_text("<img src=x")
    page.get_by_role("tab", name="Wakes").click()
    ledger = page.locator("#ledger")
    ledger.locator("summary").first.wait_for()
    assert EVIL[:40] in ledger.inner_text()
    for kind in ("IP address", "Program", "Page"):
        page.locator("#wakers-title ~ .segmented").get_by_text(kind).click()
        expect(page.locator("#wakers")).to_contain_text("<img src=x")
    row = ledger.locator(".line", has_text="<img").first
    row.locator("summary").click()
    row.get_by_role("button").click()
    page.locator("dialog .preview p").nth(1).wait_for()
    assert page.locator("main img, dialog img, main script").count() == 0
    assert "owned" not in page.title()


@pytest.mark.long
def test_the_ledger_is_searched(quiet_page: WatchedPage, quiet_stage: Stage) -> None:
    page = quiet_page
    come(quiet_stage, path="/needle.txt", agent="Probe/1")
    show(page, "/history?tab=wakes")
    page.get_by_label("Page, program or address").fill("NEEDLE")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#ledger .line")).to_have_count(1)
    assert "/needle.txt" in page.locator("#ledger").inner_text()
    page.reload()
    expect(page.locator("#ledger .line")).to_have_count(1)
    expect(page.get_by_label("Page, program or address")).to_have_value("NEEDLE")
    for form in ("csv", "json"):
        with page.expect_download() as started:
            page.locator(f"[data-what=wakes][data-format={form}]").click()
        text = started.value.path().read_text()
        rows = (
            json.loads(text)["rows"] if form == "json" else list(csv.DictReader(text.splitlines()))
        )
        assert [row["path"] for row in rows] == ["/needle.txt"]
    page.get_by_label("Page, program or address").fill("nothing like it")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("No wake matches this search.").wait_for()


def test_a_rule_is_undone_with_one_click(quiet_page: WatchedPage, quiet_stage: Stage) -> None:
    page = quiet_page
    come(quiet_stage, path="/often.xml", agent="Feeder/2")
    with Story(page, "find who woke it last night and stop that") as story:
        story.to("History")
        story.click(page.get_by_role("tab", name="Wakes"))
        row = page.locator("#ledger .line", has_text="/often.xml")
        story.click(row.locator("summary"))
        story.click(row.get_by_role("button"))
        page.get_by_text("would have prevented").wait_for()
        with story.aside():
            clean(page)
        story.click(page.locator("dialog").get_by_role("button", name="Do not wake"))
        page.locator("#rules li", has_text="/often.xml").wait_for()
    assert quiet_stage.api("GET", "/v1/config")["rule"][0]["text"] == "/often.xml"
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("There are no rules.").wait_for()
    assert quiet_stage.api("GET", "/v1/config")["rule"] == []

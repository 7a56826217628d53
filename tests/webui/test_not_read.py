"""A part that could not be read says so in its place, and shows no old content as current."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.webui.conftest import OpenPage, WatchedPage
from tests.webui.looks import settle

LONG_MS = 60_000
MINUTES_S = 180


def lose(page: WatchedPage, path: str) -> None:
    """The network loses what is asked for there, until `page.unroute_all()`."""
    page.watch.allow("ERR_FAILED")
    page.route(path, lambda route: route.abort())


@pytest.fixture
def history(page: WatchedPage) -> WatchedPage:
    page.goto("/history?view=week")
    settle(page)
    expect(page.locator("#power canvas")).to_be_visible()
    return page


@pytest.mark.long
def test_power_that_was_not_read_is_not_that_of_the_week_before(history: WatchedPage) -> None:
    page = history
    lose(page, "**/api/history/power*")
    page.get_by_role("button", name="Back").click()
    card = page.locator("section", has=page.locator("#power"))
    expect(card.get_by_role("alert")).to_contain_text("The box does not answer")
    expect(page.locator("#power canvas")).to_be_hidden()
    expect(page.locator("#energy canvas")).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="Forward").click()
    expect(page.locator("#power canvas")).to_be_visible()
    expect(card.get_by_role("alert")).to_have_count(0)


def test_a_lost_answer_does_not_lead_to_another_week(history: WatchedPage) -> None:
    page = history
    title = page.locator("#range-title")
    page.get_by_role("button", name="Back").click()
    expect(page.locator("#forward")).to_be_enabled()
    before = title.text_content()
    lose(page, "**/api/history/range*")
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("alert")).to_contain_text("The box does not answer")
    expect(title).to_have_text(before)
    assert "view=week" in page.url
    page.unroute_all()
    page.get_by_role("button", name="Forward").click()
    expect(title).not_to_have_text(before)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_range_that_was_never_read_can_be_asked_for_again(page: WatchedPage) -> None:
    lose(page, "**/api/history/range*")
    page.goto("/history")
    expect(page.get_by_role("alert")).to_contain_text("The box does not answer")
    page.locator("#back").click()
    page.unroute_all()
    page.locator("[data-view=week]").click()
    expect(page.locator("#power canvas")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_changes_that_were_not_read_are_asked_for_again(history: WatchedPage) -> None:
    page = history
    lose(page, "**/api/history/transitions*")
    page.get_by_role("tab", name="Decisions").click()
    card = page.locator("section", has=page.locator("#changes"))
    expect(card.get_by_role("alert")).to_contain_text("The box does not answer")
    page.unroute_all()
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_role("tab", name="Decisions").click()
    expect(card.locator("summary").first).to_be_visible()
    expect(card.get_by_role("alert")).to_have_count(0)


@pytest.mark.long
def test_a_week_of_traffic_that_was_not_read_is_not_the_month_before(page: WatchedPage) -> None:
    page.goto("/traffic")
    settle(page)
    cells = page.locator("#week td")
    expect(cells.first).to_be_visible()
    lose(page, "**/api/traffic/week*")
    page.get_by_role("button", name="7 days").click()
    expect(page.locator("#trouble")).to_contain_text("The box does not answer")
    expect(cells.first).to_be_hidden()
    expect(page.locator("#days canvas")).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="30 days").click()
    expect(cells.first).to_be_visible()
    expect(page.locator("#trouble")).to_be_empty()


@pytest.mark.long
def test_a_search_for_meters_that_breaks_off_does_not_go_on_for_ever(page: WatchedPage) -> None:
    page.goto("/setup/again/meter")
    searching = page.locator("#searching")
    expect(searching).to_be_hidden(timeout=LONG_MS)
    lose(page, "**/api/setup/scan")
    for _ in range(2):
        page.locator("#search").click()
        expect(page.locator(".toast")).to_contain_text("The box does not answer")
        expect(searching).to_be_hidden()


@pytest.mark.long
def test_a_box_that_does_not_come_back_is_not_said_to_be_there(open_page: OpenPage) -> None:
    page = open_page("/settings/system", own=True)
    settle(page)
    page.clock.install()
    lose(page, "**/api/box/about")
    page.route("**/api/box/restart", lambda route: route.fulfill(status=202, json={}))
    page.locator("[data-restart]").first.click()
    page.locator("dialog button[value=yes]").click()
    for _ in range(MINUTES_S // 10):
        page.clock.run_for(10_000)
        if page.locator(".toast").count():
            break
    expect(page.locator(".toast")).to_contain_text("has not answered for a minute")


@pytest.mark.long
def test_a_server_in_between_that_answers_for_the_box_is_said_beside_the_file(
    page: WatchedPage, tmp_path: Path
) -> None:
    page.watch.allow("502")
    page.goto("/settings/backup")
    (tmp_path / "backup.tar.gz").write_bytes(b"whatever")
    page.route("**/api/box/restore/part*", lambda route: route.fulfill(status=502, body="<html>"))
    page.locator("#restore-file").set_input_files(tmp_path / "backup.tar.gz")
    page.locator("form[data-restore] button[type=submit]").click()
    expect(page.locator("form[data-restore] [role=alert]")).to_contain_text("status 502")

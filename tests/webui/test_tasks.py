"""Six of ten tasks of an administrator, from the page Now on; `make bench-tasks` tells all of them.

Four more are told where their machines are: in test_history, test_https, test_settings and
test_update.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, expect

from tests.webui.conftest import OpenPage, Pages, WatchedPage, log_in
from tests.webui.settings import config, saved, server
from tests.webui.stage import Stage
from tests.webui.story import Story

pytestmark = pytest.mark.usefixtures("as_it_was")

PASSPHRASE = "a sentence that only I say"


def save(page: WatchedPage, story: Story) -> None:
    story.click(page.locator("[data-save-bar] button[type=submit]"))
    saved(page)


def test_it_is_kept_awake_for_a_backup_on_fridays(page: WatchedPage, stage: Stage) -> None:
    with Story(page, "keep it awake for a backup on Fridays") as story:
        story.to("Settings", "Schedule")
        card = page.locator('[data-week="server.web.awake.hours"]')
        for day in range(4):
            story.click(card.locator(".days label").nth(day))
        story.fill(card.locator('[data-week-time="from"]'), "20:00")
        story.fill(card.locator('[data-week-time="to"]'), "22:30")
        story.click(card.get_by_role("button", name="Add"))
        save(page, story)
    assert server(stage)["awake"]["hours"] == ["fri 20:00-22:30"]


@pytest.fixture
def old_page(browser: Browser) -> Iterator[WatchedPage]:
    """One with something of the month before, also on the 31st."""
    days = datetime.now(ZoneInfo("Europe/Zurich")).day + 1
    with Stage(days=days, visitors=False) as stage:
        pages = Pages(browser, stage)
        yield pages.open()
        pages.end()


@pytest.mark.long
def test_last_months_savings_are_found(old_page: WatchedPage) -> None:
    page = old_page
    with Story(page, "see what last month saved") as story:
        story.to("Savings")
        story.press("Month")
        expect(page.locator("#range-title")).not_to_have_text("…")
        this = page.locator("#range-title").text_content()
        story.press("Earlier")
        expect(page.locator("#range-title")).not_to_have_text(this or "")
        expect(page.locator("#stats")).to_contain_text("kWh")


@pytest.mark.long
def test_a_meter_is_replaced(page: WatchedPage, stage: Stage) -> None:
    with Story(page, "replace the meter") as story:
        story.to("Settings", "Meters")
        card = page.locator('[data-member="meter.simulated"]')
        story.choose(card.locator("select[data-choose]"), "shelly")
        part = card.locator('[data-choice="shelly"]')
        story.fill(part.locator('[data-key="id"]'), "plug")
        story.fill(part.locator('[data-key="host"]'), "192.0.2.30")
        save(page, story)
    [meter] = config(stage)["meter"]
    assert (meter["id"], meter["driver"], meter["host"]) == ("plug", "shelly", "192.0.2.30")


@pytest.mark.long
def test_a_second_server_is_added(page: WatchedPage, stage: Stage) -> None:
    with Story(page, "add a second server") as story:
        story.to("Settings", "Server")
        form = page.locator('form[data-add="server"]')
        for name, text in (("id", "shop"), ("address", "192.0.2.9"), ("mac", "02-00-00-00-00-09")):
            story.fill(form.locator(f'[data-key="{name}"]'), text)
        story.click(form.get_by_role("button", name="Add a server"))
        expect(page.locator("main")).to_contain_text("shop")
    assert [each["id"] for each in config(stage)["server"]] == ["web", "shop"]


@pytest.mark.long
def test_the_box_is_handed_over_to_a_colleague(page: WatchedPage, open_page: OpenPage) -> None:
    with Story(page, "hand over to a colleague") as story:
        story.to("Settings", "Users and passwords")
        story.press("Add somebody")
        story.fill(page.locator("#user-name"), "Carla")
        story.fill(page.locator("#user-password"), PASSPHRASE)
        story.click(page.locator("#user-dialog input[value=admin]"))
        story.click(page.locator("#user-dialog [type=submit]"))
        expect(page.locator("#users")).to_contain_text("Carla")
    other = open_page(user=None)
    log_in(other.page, "carla", PASSPHRASE)
    other.goto("/account")
    expect(other.locator(".lead").first).to_contain_text("administrator")


def test_why_it_did_not_sleep_is_found(page: WatchedPage) -> None:
    with Story(page, "find why it did not sleep") as story:
        story.to("History")
        story.press("Back")  # to the day before: today may have begun just now
        story.click(page.get_by_role("tab", name="Decisions"))
        row = page.locator("#decisions .line", has_text="Stays awake:").first
        story.click(row.locator("summary"))
        expect(row.locator(".line-body")).to_contain_text("Stays awakeReason")

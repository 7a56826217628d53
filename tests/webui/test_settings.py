"""/settings in a real browser: changes are accepted or refused with words, and then undone."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.webui.conftest import OpenPage, WatchedPage
from tests.webui.looks import clean, open_all
from tests.webui.people import PASSWORD
from tests.webui.settings import (
    allow_refusals,
    beside,
    config,
    field,
    patch,
    put,
    said,
    save,
    saved,
    server,
)
from tests.webui.stage import Stage
from tests.webui.story import Story

pytestmark = pytest.mark.usefixtures("as_it_was")
BACKUP_PASSWORD = "a sentence for the backup"


def test_a_value_is_refused_beside_its_field_then_accepted_and_in_force(
    page: WatchedPage, stage: Stage
) -> None:
    allow_refusals(page)
    page.goto("/settings/sleep")
    share = field(page, "server.web.promise.fraction")
    share.fill("200")
    expect(page.locator("[data-save-count]")).to_have_text("1 change is not saved yet")
    save(page)
    expect(share).to_have_attribute("aria-invalid", "true")
    expect(beside(page, share)).to_have_text(re.compile(r"must be 0 to 100\s%\s\(given: 200\s%\)"))
    assert share.evaluate("each => each === document.activeElement")
    clean(page)
    share.fill("2,5")
    save(page)
    saved(page)
    expect(page.locator("[data-save-bar]")).to_be_hidden()
    assert server(stage)["promise"]["fraction"] == 0.025
    page.reload()
    expect(field(page, "server.web.promise.fraction")).to_have_value("2.5")


def test_the_meaning_of_a_promise_is_shown_as_it_is_typed(page: WatchedPage) -> None:
    page.goto("/settings/sleep")
    page.locator('input[value="teacher"]').check()
    share = field(page, "server.web.promise.fraction")
    share.fill("1")
    expect(said(page, "promise")).to_contain_text("At most 1 visitor in 100 waits longer than 1 s")
    share.fill("5")
    expect(said(page, "promise")).to_contain_text("1 visitor in 20")
    share.fill("0")
    expect(said(page, "promise")).to_contain_text("Nobody may wait")
    page.locator('input[value="timeout"]').check()
    expect(said(page, "promise")).to_contain_text("does not keep this")
    page.evaluate("window.onbeforeunload = null")
    page.locator("[data-discard]").click()
    expect(page.locator("[data-save-bar]")).to_be_hidden()


def test_leaving_with_unsaved_changes_asks_first(page: WatchedPage) -> None:
    page.goto("/settings/office")
    asked: list[str] = []

    def agree(dialog: Any) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", agree)
    field(page, "office.name").fill("Something else")
    page.locator(".settings-nav a", has_text="Cache").click()
    page.wait_for_url("**/settings/cache")
    assert asked == ["beforeunload"]


@pytest.mark.long
def test_hours_that_were_typed_and_not_added_are_saved(page: WatchedPage, stage: Stage) -> None:
    page.goto("/settings/schedule")
    card = page.locator('[data-week$=".hours"]')
    card.get_by_label("From").fill("02:10")
    expect(page.locator("[data-save-count]")).to_have_text("1 change is not saved yet")
    card.get_by_label("to", exact=True).fill("02:10")
    save(page)
    expect(card.locator(".error")).to_contain_text("two different times")
    card.get_by_label("to", exact=True).fill("03:40")
    save(page)
    saved(page)
    assert server(stage)["awake"]["hours"] == ["mon-fri 02:10-03:40"]
    expect(page.locator("[data-save-bar]")).to_be_hidden()


def test_a_change_that_the_controller_took_long_for_is_found_to_be_saved(
    page: WatchedPage, stage: Stage
) -> None:
    """The web interface gives up after 10 s; the controller that hung does it all the same."""
    page.goto("/settings/office")
    unsure = {"error": "no answer", "where": None}

    def hang(route: Any) -> None:
        if route.request.method != "PATCH":
            route.continue_()
            return
        route.fetch()
        route.fulfill(status=504, json=unsure)

    page.watch.allow("504")
    page.route("**/api/settings", hang)
    field(page, "office.name").fill("Slow office")
    save(page)
    expect(page.locator(".toast")).to_contain_text("looks whether your changes were saved")
    saved(page)
    assert config(stage)["office"]["name"] == "Slow office"
    expect(page.locator("[data-save-bar]")).to_be_hidden()


def test_a_session_that_ends_while_somebody_types_loses_nothing(
    page: WatchedPage, stage: Stage
) -> None:
    page.goto("/settings/office")
    page.watch.allow("401")
    field(page, "office.name").fill("Typed for long")
    page.context.clear_cookies()
    save(page)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Sign in").click()
    saved(page)
    assert config(stage)["office"]["name"] == "Typed for long"


def test_another_policy_is_chosen_with_its_own_settings(page: WatchedPage, stage: Stage) -> None:
    page.goto("/settings/sleep")
    page.locator('input[value="timeout"]').check()
    part = page.locator('[data-alternative="server.web.policy"] [data-choice="timeout"]')
    part.locator("summary").click()
    part.locator('[data-key="idle_s"]').fill("120")
    save(page)
    saved(page)
    assert server(stage)["policy"]["name"] == "timeout"
    assert server(stage)["policy"]["idle_s"] == 120


@pytest.mark.long
def test_hours_are_drawn_with_the_keyboard_and_said_in_words(
    page: WatchedPage, stage: Stage
) -> None:
    page.goto("/settings/schedule")
    card = page.locator('[data-week="server.web.awake.hours"]')
    card.locator('td[data-day="0"][data-hour="0"]').focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowRight")
    expect(said(page, "hours")).to_have_text("The server stays awake Mon 08:00 to 10:00.")
    page.keyboard.press("Space")
    expect(said(page, "hours")).to_have_text("The server stays awake Mon 08:00 to 09:00.")
    cell = card.locator('td[data-day="0"][data-hour="8"]')
    expect(cell).to_have_attribute("aria-label", "Monday 08:00 to 09:00: yes")
    save(page)
    saved(page)
    assert server(stage)["awake"]["hours"] == ["mon 08:00-09:00"]


@pytest.mark.long
def test_hours_are_proposed_and_put_in_when_somebody_wants_them(
    page: WatchedPage, stage: Stage
) -> None:
    days = [[[480, 1080]]] * 5 + [[], []]
    answer = {"days": days, "weeks": 4}
    page.route("**/api/settings/hours?*", lambda route: route.fulfill(json=answer))
    page.goto("/settings/schedule")
    card = page.locator('[data-week="server.web.awake.hours"]')
    card.get_by_role("button", name="Propose from the last 4 weeks").click()
    expect(card.get_by_role("status")).to_have_text(
        "People came nearly every week: Mon to Fri 08:00 to 18:00."
    )
    expect(said(page, "hours")).not_to_contain_text("08:00")
    card.get_by_role("button", name="Put in").click()
    expect(said(page, "hours")).to_have_text("The server stays awake Mon to Fri 08:00 to 18:00.")
    expect(card.get_by_role("button", name="Put in")).to_be_hidden()
    assert server(stage)["awake"]["hours"] == []


@pytest.mark.long
def test_a_calendar_is_set_and_its_address_is_not_shown(page: WatchedPage, stage: Stage) -> None:
    allow_refusals(page)
    page.goto("/settings/schedule")
    address = field(page, "server.web.awake.calendar")
    address.fill("ftp://calendar.example/a.ics")
    save(page)
    expect(beside(page, address)).to_contain_text("begins with http:// or https://")
    address.fill("http://127.0.0.1:9/office.ics")
    save(page)
    saved(page)
    assert "server.web.awake.calendar" in config(stage)["secrets"]
    page.reload()
    given = page.locator(".field", has=field(page, "server.web.awake.calendar"))
    expect(given).to_contain_text("A calendar is set")
    expect(field(page, "server.web.awake.calendar")).to_have_value("")
    given.get_by_label("Use no calendar").check()
    save(page)
    saved(page)
    assert "server.web.awake.calendar" not in config(stage)["secrets"]


@pytest.mark.long
def test_hours_are_added_exactly_and_text_and_grid_are_one(page: WatchedPage, stage: Stage) -> None:
    allow_refusals(page)
    page.goto("/settings/schedule")
    card = page.locator('[data-week="server.web.awake.hours"]')
    card.locator('[data-week-time="from"]').fill("07:30")
    card.get_by_role("button", name="Add").click()
    words = "The server stays awake Mon to Fri 07:30 to 18:00."
    expect(said(page, "hours")).to_have_text(words)
    expect(card.locator('td[data-day="4"][data-hour="7"]')).to_have_attribute("data-part", "part")
    card.locator("summary").click()
    text = field(page, "server.web.awake.hours")
    expect(text).to_have_value("mon-fri 07:30-18:00")
    text.fill("mon-fri 07:30-18:00\nsometimes")
    expect(said(page, "hours")).to_contain_text("The box does not understand this line: sometimes")
    save(page)
    expect(beside(page, text)).to_contain_text('must look like "mon-fri 07:30-18:00"')
    text.fill("sat 22:00-02:00\n2026-12-24 08:00-12:00")
    expect(card.locator('td[data-day="6"][data-hour="1"]')).to_have_attribute("data-part", "on")
    save(page)
    saved(page)
    expected = ["sat 22:00-02:00", "2026-12-24 08:00-12:00"]
    assert server(stage)["awake"]["hours"] == expected


@pytest.mark.long
def test_the_waiting_page_shows_the_words_as_they_are_typed(page: WatchedPage) -> None:
    page.goto("/settings/waiting-page")
    inside = page.frame_locator("iframe.preview")
    expect(inside.locator("h1")).to_have_text("Waking the server for you")
    words = '<img src=x onerror="alert(1)"> Call 123 & wait'
    field(page, "box.notice").fill(words)
    expect(inside.locator(".notice")).to_have_text(words)
    assert inside.locator("img").count() == 0
    page.locator("#preview-language").select_option("de")
    expect(inside.locator("html")).to_have_attribute("lang", "de")
    expect(inside.locator(".notice")).to_have_text(words)
    save(page)
    saved(page)


def test_a_rule_is_refused_made_and_taken_away(page: WatchedPage, stage: Stage) -> None:
    allow_refusals(page)
    page.goto("/settings/rules")
    field(page, "rule.+.kind").select_option("address")
    field(page, "rule.+.treat_as").select_option("monitor")
    field(page, "rule.+.text").fill("here")
    page.locator("form[data-add] button[type=submit]").click()
    expect(beside(page, field(page, "rule.+.text"))).to_contain_text(
        "must be an address or a network"
    )
    field(page, "rule.+.kind").select_option("agent")
    hostile = "<script>alert(1)</script>"
    field(page, "rule.+.text").fill(hostile)
    page.locator("form[data-add] button[type=submit]").click()
    row = page.locator("[data-rules] tbody tr")
    expect(row).to_contain_text(hostile)
    assert config(stage)["rule"][0]["text"] == hostile
    row.get_by_role("button").click()
    page.locator("dialog button[value=yes]").click()
    expect(page.locator(".toast", has_text="Removed")).to_be_visible()
    assert config(stage)["rule"] == []


@pytest.mark.long
def test_a_meter_is_added_with_its_own_settings_and_its_kind_changed(
    page: WatchedPage, stage: Stage
) -> None:
    allow_refusals(page)
    page.goto("/settings/meters")
    form = page.locator("form[data-add]")
    form.locator("select[data-choose]").select_option("shelly")
    part = form.locator('[data-choice="shelly"]')
    part.locator('[data-key="id"]').fill("plug")
    form.locator("button[type=submit]").click()
    expect(part.locator('[aria-invalid="true"]')).to_have_attribute("data-key", "host")
    part.locator('[data-key="host"]').fill("192.0.2.30")
    form.locator("button[type=submit]").click()
    expect(page.locator("#m-plug")).to_be_visible()
    card = page.locator('[data-member="meter.plug"]')
    card.locator("select[data-choose]").select_option("simulated")
    card.locator('[data-choice="simulated"] [data-key="id"]').fill("plug")
    save(page)
    saved(page)
    assert [meter["driver"] for meter in config(stage)["meter"] if meter["id"] == "plug"] == [
        "simulated"
    ]
    assert "host" not in stage.config_file.read_text().split('id = "plug"')[1]


def test_another_way_to_wake_is_added_changed_and_removed(page: WatchedPage, stage: Stage) -> None:
    page.goto("/settings/server")
    first = server(stage)["wake"]
    ways = page.locator('[data-member^="server.web.wake."]')
    expect(ways).to_have_count(1)
    expect(ways.locator("[data-remove]")).to_have_count(0)
    page.locator("[data-add-way]").click()
    expect(ways).to_have_count(2)
    expect(ways.nth(1).locator("h3")).to_have_text("Way 2")
    ways.nth(1).locator("[data-choose]").select_option("gpio")
    ways.nth(1).locator('[data-choice="gpio"] [data-key="line"]').fill("17")
    save(page)
    saved(page)
    assert [each["driver"] for each in server(stage)["wake"]] == ["udp", "gpio"]
    assert server(stage)["wake"][1]["line"] == 17
    ways.nth(1).locator("[data-remove]").click()
    page.locator("dialog button[value=yes]").click()
    expect(ways).to_have_count(1)
    assert server(stage)["wake"] == first


def test_a_password_of_a_meter_is_kept_in_a_file_replaced_and_removed(
    page: WatchedPage, stage: Stage
) -> None:
    allow_refusals(page)
    folder = stage.config_file.with_name("secrets")

    def kept() -> list[str]:
        return [each.read_text() for each in folder.glob("*")]

    page.goto("/settings/meters")
    add = page.locator('form[data-add="meter"]')
    add.locator("select[data-choose]").select_option("shelly")
    for name, value in (("id", "plug"), ("host", "192.0.2.9")):
        add.locator(f'[data-where="meter.+.{name}"]:enabled').fill(value)
    add.locator('fieldset[data-choice="shelly"] > details > summary').click()
    new = add.locator('[data-where="meter.+.password_file"]:enabled').first
    new.fill("x" * 300)
    add.locator("button[type=submit]").click()
    expect(new).to_have_attribute("aria-invalid", "true")
    expect(add.locator(".error")).to_contain_text("one line of at most 256 bytes")
    before = kept()
    new.fill("hush & hush")
    add.locator("button[type=submit]").click()
    plug = page.locator('[data-member="meter.plug"]')
    expect(plug).to_be_visible()
    assert set(kept()) - set(before) == {"hush & hush\n"}
    plug.locator('fieldset[data-choice="shelly"] > details > summary').click()
    password = field(page, "meter.plug.password_file")
    hint = plug.locator("[data-since]")
    expect(hint).to_contain_text("Set on ")
    expect(password).to_have_value("")
    assert "hush" not in page.content()
    password.fill("another")
    save(page)
    saved(page)
    assert "another\n" in kept()
    plug.locator('fieldset[data-choice="shelly"] > details > summary').click()
    plug.locator('input[data-forget="meter.plug.password_file"]').check()
    save(page)
    expect(page.locator("[data-forget]")).to_have_count(0)
    assert config(stage)["meter"][-1]["password_file"] == ""


@pytest.mark.long
def test_a_meter_at_another_host_asks_for_its_password_again(
    page: WatchedPage, stage: Stage
) -> None:
    allow_refusals(page)
    at = {"id": "rack", "of": "box", "driver": "shelly", "host": "192.0.2.9"}
    value = {**at, "password_file": {"secret": "hush"}}
    patch(stage, {"op": "add", "where": "meter", "value": value})
    page.goto("/settings/meters")
    field(page, "meter.rack.host").fill("192.0.2.66")
    save(page)
    password = field(page, "meter.rack.password_file")
    expect(password).to_have_attribute("aria-invalid", "true")
    expect(page.locator('[data-member="meter.rack"] .error')).to_contain_text("given again")
    password.fill("another")
    save(page)
    saved(page)
    assert config(stage)["meter"][-1]["host"] == "192.0.2.66"
    patch(stage, {"op": "remove", "where": "meter.rack"})


@pytest.mark.long
def test_only_a_key_that_is_sent_to_nobody_may_be_named_as_a_file(page: WatchedPage) -> None:
    page.goto("/settings/server")
    sleep = page.locator('[data-alternative="server.web.sleep"]')
    for driver in ("agent", "ipmi"):
        sleep.locator("select[data-choose]").select_option(driver)
        open_all(page)
        named = sleep.locator(f'[data-choice="{driver}"]').get_by_text("the name of a file")
        expect(named).to_be_visible(visible=driver == "agent")


def test_a_concurrent_change_is_not_overwritten(open_page: OpenPage, stage: Stage) -> None:
    one, other = open_page("/settings/office"), open_page("/settings/office")
    allow_refusals(other)
    field(one, "office.name").fill("One")
    save(one)
    saved(one)
    field(other, "office.name").fill("Other")
    save(other)
    expect(other.locator(".toast")).to_contain_text("changed meanwhile")
    assert config(stage)["office"]["name"] == "One"
    other.locator(".toast button", has_text="Look again").click()
    expect(field(other, "office.name")).to_have_value("One")


@pytest.mark.long
def test_a_night_rate_is_entered_refused_where_two_overlap_and_in_force(
    page: WatchedPage, stage: Stage
) -> None:
    allow_refusals(page)
    page.goto("/settings/office")
    form = page.locator("form[data-add=tariff]")
    form.get_by_label("From this day on").fill("2026-01-01")
    form.get_by_label("Price", exact=True).fill("0,32")
    hours = form.locator(".week-add")
    hours.get_by_label("at", exact=True).fill("0,24")
    hours.get_by_role("button", name="Add these hours").click()
    expect(form.locator(".bands li")).to_have_text("every day 22:00 to 06:00: €0.24")
    hours.get_by_label("from").fill("05:00")
    hours.get_by_label("to", exact=True).fill("07:00")
    hours.get_by_label("at", exact=True).fill("0.4")
    form.get_by_role("button", name="Add a price").click()
    expect(form.locator(".error")).to_contain_text("two prices hold at the same time")
    form.get_by_role("button", name="Remove: every day 05:00 to 07:00").click()
    form.get_by_role("button", name="Add a price").click()
    expect(page.get_by_role("heading", name="From 2026-01-01")).to_be_visible()
    night = {"since": "2026-01-01", "price_per_kwh": 0.32, "bands": ["mon-sun 22:00-06:00 0.24"]}
    assert config(stage)["tariff"] == [night]
    expect(said(page, "price")).to_contain_text("all year costs")
    field(page, "tariff.1.price_per_kwh").fill("-1")
    save(page)
    expect(page.locator("[data-member='tariff.1'] .error")).to_contain_text("must be 0 to 100000")


@pytest.mark.long
def test_a_part_of_the_website_is_refused_a_rule_that_says_nothing_then_has_one(
    page: WatchedPage, stage: Stage
) -> None:
    allow_refusals(page)
    page.goto("/settings/cache")
    field(page, "cache_rule.+.path").fill("/news/")
    page.locator("form[data-add] button[type=submit]").click()
    expect(page.locator("form[data-add] .error")).to_contain_text("says nothing")
    field(page, "cache_rule.+.asleep").select_option("yes")
    page.locator("form[data-add] button[type=submit]").click()
    expect(page.locator("table td", has_text="everything")).to_be_visible()
    page.locator("details", has=page.locator("form[data-add]")).locator("summary").click()
    field(page, "cache_rule.+.path").fill("/images/")
    field(page, "cache_rule.+.keep_s").fill("86400")
    page.locator("form[data-add] button[type=submit]").click()
    expect(page.locator("[data-duration]")).to_have_text(re.compile("1.d"))
    news, images = config(stage)["cache_rule"]
    assert (news["path"], news["keep_s"], news["asleep"]) == ("/news/", -1, "yes")
    assert (images["path"], images["keep_s"], images["browser_s"]) == ("/images/", 86400, -1)


def test_a_backup_is_made_and_restored(page: WatchedPage, stage: Stage, tmp_path: Path) -> None:
    page.watch.allow(r"status of (503|502|422)")
    page.goto("/settings/backup")
    with page.expect_download() as began:
        page.locator("form[data-make] button[type=submit]").click()
        expect(page.locator("#backup-password")).to_have_attribute("aria-invalid", "true")
        page.locator("#backup-password").fill(BACKUP_PASSWORD)
        page.locator("form[data-make] button[type=submit]").click()
    file = tmp_path / "backup.enc"
    began.value.save_as(file)
    assert re.fullmatch(r"naproxy-backup-.*\.tar\.gz\.enc", began.value.suggested_filename)
    assert b"Example office" not in file.read_bytes()
    before = config(stage)
    after = stage.config_file.read_text().replace("Example office", "Changed since")
    stage.api("PUT", "/v1/config", after.encode())
    with Story(page, "restore the box from a backup") as story:
        story.to("Settings", "Backup")
        story.take(page.locator("#restore-file"), file)
        story.click(page.locator("form[data-restore] button[type=submit]"))
        story.fill(page.locator("#restore-password"), BACKUP_PASSWORD)
        story.click(page.locator("form[data-restore] button[type=submit]"))
        found = page.locator("[data-restore-found]")
        expect(found).to_contain_text("web")
        expect(found.locator('[name="restore-secrets"]')).to_be_enabled()
        with story.aside():
            clean(page)
        story.click(found.get_by_role("button", name="Restore now"))
        story.click(page.locator("dialog button[value=yes]"))
        restored = page.locator(".toast", has_text="The backup is restored")
        expect(restored).to_be_visible(timeout=60_000)
    assert config(stage)["office"] == before["office"]


def test_hostile_lines_of_the_log_are_text_and_are_filtered(
    page: WatchedPage, stage: Stage
) -> None:
    line = "<img src=x onerror=alert(1)>"
    with stage.asleep():
        data = (
            "naproxy-wake 1\nserver=web\nreason=page\nmethod=GET\nclass=person\n"
            f"client=192.0.2.9\nagent=x\nhost=h\npath=/{line}\n"
        )
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(data.encode(), str(stage.run_dir / "wake.sock"))
        stage.wait("awake")
    page.goto("/settings/system")
    page.locator("#log-contains").fill("onerror")
    page.locator("[data-log-form] button").click()
    expect(page.locator("[data-log-lines]")).to_contain_text(line)
    expect(page.locator("[data-log-lines] *")).to_have_count(0)
    page.locator("#log-contains").fill("nothing says this")
    page.locator("[data-log-form] button").click()
    expect(page.locator("[data-log-lines]")).to_have_text("")


def test_a_viewer_can_change_nothing(viewer: WatchedPage) -> None:
    viewer.goto("/settings/sleep")
    expect(viewer.locator(".notice")).to_contain_text("You may look, but not change")
    expect(viewer.locator('[data-where="server.web.promise.fraction"]')).to_be_disabled()
    viewer.goto("/settings/system")
    expect(viewer.locator("[data-restart]").first).to_be_disabled()


@pytest.mark.long
def test_any_setting_is_found_by_its_name(page: WatchedPage) -> None:
    page.goto("/settings/all")
    page.locator("#find").fill("proxy_w")
    expect(field(page, "box.proxy_w")).to_be_visible()
    expect(page.locator('[data-where="office.name"]')).to_be_hidden()


class _Elsewhere(BaseHTTPRequestHandler):
    """A server that accepts notifications, and has the CO2 of electricity."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/good" else 403)
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200 if self.headers["auth-token"] == "hush" else 401)
        self.end_headers()
        self.wfile.write(b'{"data": [{"co2": "118.4"}]}')

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def elsewhere() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.long
def test_a_test_notification_says_what_became_of_it(page: WatchedPage, elsewhere: str) -> None:
    page.goto("/settings/notifications")
    expect(page.locator("#notify-told")).to_have_text(
        "Nobody is told yet: fill in one of the ways above and save."
    )
    for path, words in (("good", "Webhook: sent"), ("bad", "HTTP status 403")):
        way = page.locator("#way-webhook")
        if way.get_attribute("open") is None:
            way.locator("summary").click()
        field(page, "notify.webhook").fill(f"http://{elsewhere}/{path}")
        save(page)
        # The page reloads then, and shows no secret.
        expect(field(page, "notify.webhook")).to_have_value("")
        saved(page)
        page.locator("#notify-test").click()
        expect(page.locator("#notify-results")).to_contain_text(words)
    clean(page)


@pytest.mark.long
def test_a_token_that_would_go_unencrypted_is_warned_of(page: WatchedPage) -> None:
    page.goto("/settings/notifications")
    warning = page.locator("[data-consequence=in_clear]")
    page.locator("#way-webhook summary").click()
    field(page, "notify.webhook").fill("http://192.0.2.9/hook")
    expect(warning).to_be_hidden()
    field(page, "notify.webhook_token").fill("hush")
    expect(warning).to_contain_text("Webhook: the token is sent in clear")
    field(page, "notify.webhook").fill("https://192.0.2.9/hook")
    expect(warning).to_be_hidden()
    field(page, "notify.webhook").fill("http://192.0.2.9/hook")
    save(page)
    expect(field(page, "notify.webhook")).to_have_value("")
    expect(warning).to_contain_text("Webhook: the token is sent in clear")


@pytest.mark.long
def test_a_test_of_the_co2_api_shows_its_result_or_failure(
    page: WatchedPage, elsewhere: str
) -> None:
    page.goto("/settings/office")
    page.get_by_text("From an API").click()
    field(page, "office.co2_url").fill(f"http://{elsewhere}/")
    field(page, "office.co2_value").fill("/data/0/co2")
    expect(said(page, "co2_in_clear")).to_be_hidden()
    for key, words in (("hush", "It says 118 g per kWh."), ("wrong", "the status 401")):
        field(page, "office.co2_key_file").fill(key)
        expect(said(page, "co2_in_clear")).to_contain_text("The key is sent unencrypted")
        save(page)
        # The page reloads then, and shows no key.
        expect(field(page, "office.co2_key_file")).to_have_value("")
        saved(page)
        page.get_by_role("button", name="Ask now").click()
        expect(page.locator("[data-co2-try]")).to_contain_text(words)
    clean(page)
    page.goto("/savings?view=all")
    failed = re.compile(f"{re.escape(elsewhere)} has said nothing about CO₂ since .*the status 401")
    expect(page.locator("#how")).to_contain_text(failed)


# Where the office, the box and the browser have three clocks


@pytest.mark.long
def test_decision_page_command_and_log_go_by_the_offices_clock(
    open_page: OpenPage, stage: Stage
) -> None:
    now = datetime.now(ZoneInfo("Europe/Zurich"))
    begins, ends = now - timedelta(hours=2), now + timedelta(hours=2)
    hours = f"mon-sun {begins:%H:%M}-{ends:%H:%M}"  # also over midnight, late in the day
    put(stage, "server.web.awake", hours=[hours])
    until_s = ends.replace(second=0, microsecond=0).timestamp()
    stage.api("POST", "/v1/servers/web/mode", {"mode": "awake", "until_s": until_s})
    try:
        page = open_page("/", timezone_id="Asia/Tokyo")
        clock = f"{ends:%H:%M}"
        expect(page.locator("main")).to_contain_text(re.compile(rf"ffice hours until .*{clock}"))
        expect(page.locator("main")).to_contain_text(re.compile(rf"by hand until .*{clock}"))
        said = stage.command("status", TZ="America/New_York")
        assert re.search(rf"kept awake until .*{clock}", said)
        page.goto("/settings/system")
        page.locator("[data-log-form] button").click()
        lines = page.locator("[data-log-lines]")
        expect(lines).to_contain_text(re.compile(rf"{now:%Y-%m-%d} {now:%H}:"))
    finally:
        stage.api("POST", "/v1/servers/web/mode", {"mode": "auto"})


@pytest.mark.long
def test_a_length_of_time_is_typed_as_people_write_it(page: WatchedPage, stage: Stage) -> None:
    page.goto("/settings/all")
    page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    least = field(page, "server.web.share.awake_s")
    for typed, seconds in (
        ("90 min", 5400),
        ("1:15", 4500),
        ("1 h 30", 5400),
        ("0,5 d", 43200),
        ("2 godziny 5 minut", 7500),
        ("1 día", 86400),
    ):
        least.fill(typed)
        save(page)
        saved(page)
        assert server(stage)["share"]["awake_s"] == seconds, typed
        page.locator(".toast button").first.click()

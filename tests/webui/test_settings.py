"""/settings in a real browser: refused and accepted, in words; what it leaves is put back."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.webui.conftest import OpenPage, WatchedPage
from tests.webui.looks import open_all, too_wide, violations
from tests.webui.stage import Stage


@pytest.fixture(autouse=True)
def as_it_was(stage: Stage) -> Iterator[None]:
    """Put the settings back: others use the stage too."""
    before = stage.config_file.read_bytes()
    yield
    stage.api("PUT", "/v1/config", before)


def config(stage: Stage) -> Any:
    return stage.api("GET", "/v1/config")


def field(page: WatchedPage, where: str) -> Any:
    return page.locator(f'[data-where="{where}"]:enabled').first


def save(page: WatchedPage) -> None:
    page.locator("[data-save-bar] button[type=submit]").click()


def saved(page: WatchedPage) -> None:
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()


def said(page: WatchedPage, name: str) -> Any:
    return page.locator(f'[data-consequence="{name}"]')


def allow_refusals(page: WatchedPage) -> None:
    """A refusal is a status that the browser reports as an error."""
    page.watch.allow(r"status of (4\d\d|502)")


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
    beside = page.locator(".field", has=share).locator(".error")
    expect(beside).to_have_text("Must be 0 to 1.")
    assert share.evaluate("each => each === document.activeElement")
    assert violations(page) == []
    share.fill("2,5")
    save(page)
    saved(page)
    expect(page.locator("[data-save-bar]")).to_be_hidden()
    assert config(stage)["server"][0]["promise"]["fraction"] == 0.025
    page.reload()
    expect(field(page, "server.web.promise.fraction")).to_have_value("2.5")


def test_what_a_promise_means_is_said_as_it_is_typed(page: WatchedPage) -> None:
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


def test_who_leaves_with_something_unsaved_is_asked(page: WatchedPage) -> None:
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


def test_another_policy_is_chosen_with_its_own_settings(page: WatchedPage, stage: Stage) -> None:
    page.goto("/settings/sleep")
    page.locator('input[value="timeout"]').check()
    part = page.locator('[data-alternative="server.web.policy"] [data-choice="timeout"]')
    part.locator("summary").click()
    part.locator('[data-key="idle_s"]').fill("120")
    save(page)
    saved(page)
    assert config(stage)["server"][0]["policy"]["name"] == "timeout"
    assert config(stage)["server"][0]["policy"]["idle_s"] == 120


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
    assert config(stage)["server"][0]["awake"]["hours"] == ["mon 08:00-09:00"]


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
    assert config(stage)["server"][0]["awake"]["hours"] == []


def test_what_the_box_itself_proposes_is_said(page: WatchedPage) -> None:
    page.goto("/settings/schedule")
    card = page.locator('[data-week="server.web.awake.hours"]')
    card.get_by_role("button", name="Propose from the last 4 weeks").click()
    expect(card.get_by_role("status")).to_contain_text(re.compile("came nearly|knows no|come at"))


def test_a_calendar_is_set_and_its_address_is_not_shown(page: WatchedPage, stage: Stage) -> None:
    allow_refusals(page)
    page.goto("/settings/schedule")
    address = field(page, "server.web.awake.calendar")
    address.fill("ftp://calendar.example/a.ics")
    save(page)
    beside = page.locator(".field", has=address).locator(".error")
    expect(beside).to_contain_text("begins with http:// or https://")
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
    beside = page.locator(".field", has=text).locator(".error")
    expect(beside).to_contain_text('Must look like "mon-fri 07:30-18:00"')
    text.fill("sat 22:00-02:00\n2026-12-24 08:00-12:00")
    expect(card.locator('td[data-day="6"][data-hour="1"]')).to_have_attribute("data-part", "on")
    save(page)
    saved(page)
    expected = ["sat 22:00-02:00", "2026-12-24 08:00-12:00"]
    assert config(stage)["server"][0]["awake"]["hours"] == expected


def test_the_waiting_page_shows_the_words_as_they_are_typed(page: WatchedPage) -> None:
    page.goto("/settings/waiting-page")
    inside = page.frame_locator("iframe.preview")
    expect(inside.locator("h1")).to_have_text("Waking the server for you")
    words = '<img src=x onerror="alert(1)"> Call 123 & wait'
    field(page, "box.notice").fill(words)
    expect(inside.locator(".notice")).to_have_text(words)
    assert inside.locator("img").count() == 0
    page.get_by_role("button", name="German").click()
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
    beside = page.locator(".field", has=field(page, "rule.+.text")).locator(".error")
    expect(beside).to_contain_text("Must be an address or a network")
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


def test_a_secret_is_written_never_shown_and_forgotten(page: WatchedPage, stage: Stage) -> None:
    page.goto("/settings/connections")
    field(page, "mqtt.password").fill("hush-hush")
    save(page)
    saved(page)
    assert 'password = "hush-hush"' in stage.config_file.read_text()
    assert "hush-hush" not in page.content()
    expect(field(page, "mqtt.password")).to_have_value("")
    page.locator("[data-forget]").check()
    save(page)
    expect(page.locator("[data-forget]")).to_have_count(0)
    assert "hush-hush" not in stage.config_file.read_text()


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(
    open_page: OpenPage, stage: Stage
) -> None:
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


def test_a_part_of_the_website_is_kept_for_a_time_of_its_own(
    page: WatchedPage, stage: Stage
) -> None:
    page.goto("/settings/cache")
    field(page, "cache_rule.+.path").fill("/images/")
    field(page, "cache_rule.+.keep_s").fill("86400")
    page.locator("form[data-add] button[type=submit]").click()
    expect(page.locator("[data-duration]")).to_have_text(re.compile("1.d"))
    [rule] = config(stage)["cache_rule"]
    assert (rule["path"], rule["keep_s"], rule["browser_s"]) == ("/images/", 86400, -1)


def test_a_page_may_be_used_while_the_server_sleeps(page: WatchedPage, stage: Stage) -> None:
    allow_refusals(page)
    page.goto("/settings/cache")
    field(page, "cache_rule.+.path").fill("/news/")
    page.locator("form[data-add] button[type=submit]").click()
    expect(page.locator("form[data-add] .error")).to_contain_text("Says nothing")
    field(page, "cache_rule.+.asleep").select_option("yes")
    page.locator("form[data-add] button[type=submit]").click()
    expect(page.locator("table td", has_text="everything")).to_be_visible()
    [rule] = config(stage)["cache_rule"]
    assert (rule["path"], rule["keep_s"], rule["asleep"]) == ("/news/", -1, "yes")


def test_a_backup_is_made_and_restored(page: WatchedPage, stage: Stage, tmp_path: Path) -> None:
    page.watch.allow(r"status of (503|502)")
    page.goto("/settings/backup")
    with page.expect_download() as began:
        page.locator("form[data-make] button[type=submit]").click()
    file = tmp_path / "backup.tar.gz"
    began.value.save_as(file)
    assert began.value.suggested_filename.startswith("naproxy-backup-")
    before = config(stage)
    after = stage.config_file.read_text().replace("Example office", "Changed since")
    stage.api("PUT", "/v1/config", after.encode())
    page.locator("#restore-file").set_input_files(file)
    page.locator("form[data-restore] button[type=submit]").click()
    found = page.locator("[data-restore-found]")
    expect(found).to_contain_text("web")
    expect(found.locator('[name="restore-secrets"]')).to_be_disabled()
    assert violations(page) == []
    found.get_by_role("button", name="Restore now").click()
    page.locator("dialog button[value=yes]").click()
    expect(page.locator(".toast", has_text="The backup is restored")).to_be_visible(timeout=60_000)
    assert config(stage)["office"] == before["office"]


def test_what_is_no_backup_is_refused_beside_the_file(page: WatchedPage, tmp_path: Path) -> None:
    allow_refusals(page)
    page.goto("/settings/backup")
    (tmp_path / "photo.gz").write_bytes(b"not a backup")
    page.locator("#restore-file").set_input_files(tmp_path / "photo.gz")
    page.locator("form[data-restore] button[type=submit]").click()
    beside = page.locator(".field", has=page.locator("#restore-file")).locator(".error")
    expect(beside).to_have_text("Is not a complete backup: not a gzip file.")


def test_diagnostics_are_made(page: WatchedPage, tmp_path: Path) -> None:
    page.goto("/settings/system")
    with page.expect_download() as began:
        page.locator('form[data-make="diagnostics"] button').click()
    began.value.save_as(tmp_path / "d.tar.gz")
    assert (tmp_path / "d.tar.gz").read_bytes()[:2] == b"\x1f\x8b"


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


def test_who_may_look_only_can_change_nothing(viewer: WatchedPage) -> None:
    viewer.goto("/settings/sleep")
    expect(viewer.locator(".notice")).to_contain_text("You may look, but not change")
    expect(viewer.locator('[data-where="server.web.promise.fraction"]')).to_be_disabled()
    viewer.goto("/settings/system")
    expect(viewer.locator("[data-restart]").first).to_be_disabled()


def test_any_setting_is_found_by_its_name(page: WatchedPage) -> None:
    page.goto("/settings/all")
    page.locator("#find").fill("heartbeat")
    expect(field(page, "box.heartbeat_s")).to_be_visible()
    expect(page.locator('[data-where="office.name"]')).to_be_hidden()


@pytest.mark.parametrize("name", ["sleep", "schedule", "server", "meters", "all"])
def test_what_is_folded_away_is_accessible_too(open_page: OpenPage, name: str) -> None:
    for size in ("desktop", "phone"):
        page = open_page(f"/settings/{name}", size=size, language="de")
        open_all(page)
        assert violations(page) == []
        assert too_wide(page) == []

"""Signing in, claiming and one's own account, in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from free_port import free_port
from playwright.sync_api import Browser, expect

from tests.patience import wait_for
from tests.webui.conftest import OpenPage, Size, WatchedPage, log_in, watched
from tests.webui.looks import clean, settle
from tests.webui.people import PASSWORD, USER
from tests.webui.stage import Stage

ANOTHER = "a sentence for the test"
PHONE = {"width": 390, "height": 800}


@pytest.fixture
def unclaimed(tmp_path: Path) -> Iterator[str]:
    """The address of a web interface that nobody has claimed."""
    url = f"http://127.0.0.1:{free_port()}"

    def answers() -> bool:
        try:
            urllib.request.urlopen(f"{url}/api/health", timeout=5).close()
        except OSError:
            return False
        return True

    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from naproxy_webui.main import main; main()"),
            *("--listen", url.removeprefix("http://"), "--socket", tmp_path / "none.sock"),
            *("--state-dir", tmp_path / "state", "--run-dir", tmp_path / "run"),
            *("--data-dir", tmp_path / "data"),
        ]
    )
    try:
        wait_for(answers, "the web interface")
        yield url
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long), "dark"])
def test_the_claim_is_clean_and_accessible_also_when_it_refuses(
    browser: Browser, unclaimed: str, scheme: str
) -> None:
    with watched(browser, unclaimed, color_scheme=scheme, viewport=PHONE) as page:
        page.watch.allow("status of 4")
        page.goto("/")
        assert page.url.endswith("/claim")
        clean(page)
        page.locator("#code").fill("wrong")
        page.locator("#name").fill("anna")
        for field in ("#password", "#password_again"):
            page.locator(field).fill(ANOTHER)
        page.get_by_role("button").last.click()
        expect(page.locator("#code")).to_have_attribute("aria-invalid", "true")
        expect(page.locator("#code")).to_be_focused()
        clean(page)


def test_a_wrong_password_is_said_and_the_name_stays(open_page: OpenPage) -> None:
    page = open_page("/login", user=None)
    page.watch.allow("403")
    page.locator("#name").fill("nobody")
    page.locator("#password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The name or password is wrong")
    expect(page.locator("#name")).to_have_value("nobody")
    expect(page.locator("#password")).to_be_focused()
    clean(page)


@pytest.fixture
def account(page: WatchedPage) -> WatchedPage:
    page.goto("/account")
    settle(page)
    return page


def test_a_token_is_shown_once_and_works_until_it_is_deleted(
    account: WatchedPage, stage: Stage
) -> None:
    account.get_by_role("button", name="Make a token").click()
    account.get_by_label("Purpose").fill("a test")
    account.locator("#token-dialog [type=submit]").click()
    secret = account.locator("#token-secret").input_value()
    account.get_by_role("button", name="I have it").click()
    assert secret not in account.content()
    asked = urllib.request.Request(
        f"{stage.url}/metrics", headers={"Authorization": f"Bearer {secret}"}
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert b"naproxy_server_state" in answer.read()
    account.get_by_role("button", name="Delete the token a test").click()
    account.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(account.locator("#tokens")).to_contain_text("You have no token")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(asked, timeout=20)


def test_somebody_is_added_after_a_refusal_that_is_forgotten_and_removed(
    account: WatchedPage, open_page: OpenPage
) -> None:
    account.watch.allow("422")
    account.get_by_role("button", name="Add somebody").first.click()
    account.locator("#user-name").fill("Berta")
    account.locator("#user-password").fill("short")
    account.locator("#user-dialog [type=submit]").click()
    expect(account.locator("#user-password")).to_have_attribute("aria-invalid", "true")
    account.keyboard.press("Escape")
    account.get_by_role("button", name="Add somebody").first.click()
    expect(account.locator("#user-name")).to_have_value("")
    expect(account.locator("#user-dialog [aria-invalid=true]")).to_have_count(0)
    expect(account.locator("#user-dialog .error", has_text=re.compile("."))).to_have_count(0)
    account.locator("#user-name").fill("Berta")
    account.locator("#user-password").fill(ANOTHER)
    account.locator("#user-dialog [type=submit]").click()
    expect(account.locator("#users")).to_contain_text("Berta")
    other = open_page(user=None)
    log_in(other.page, "berta", ANOTHER)
    other.goto("/account")
    expect(other.locator(".lead").first).to_contain_text("may look, not change")
    expect(other.locator("#users")).to_have_count(0)
    account.get_by_role("button", name="Remove Berta").click()
    account.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(account.locator("#users")).not_to_contain_text("Berta")
    other.goto("/account")
    assert "/login" in other.url


def test_a_password_that_is_not_the_present_one_is_said_beside_its_field(
    account: WatchedPage,
) -> None:
    account.watch.allow("422")
    account.locator("#current").fill("not this")
    for field in ("#password", "#again"):
        account.locator(field).fill(ANOTHER)
    account.get_by_role("button", name="Change password").click()
    expect(account.locator("#current")).to_have_attribute("aria-invalid", "true")
    account.locator("#again").fill("something else")
    account.get_by_role("button", name="Change password").click()
    expect(account.locator("#again")).to_have_attribute("aria-invalid", "true")
    clean(account)


def test_a_phone_is_added_and_asked_for_until_it_is_turned_off(
    account: WatchedPage, open_page: OpenPage
) -> None:
    name = "Carla"

    account.get_by_role("button", name="Add somebody").first.click()
    account.locator("#user-name").fill(name)
    account.locator("#user-password").fill(ANOTHER)
    account.locator("#user-dialog [type=submit]").click()
    expect(account.locator("#users")).to_contain_text(name)
    opened = open_page(user=None)
    page = opened.page
    opened.watch.allow("403|422")
    log_in(page, name, ANOTHER)
    page.goto("/account")
    page.get_by_role("button", name="Turn on two-factor login").click()
    page.locator("#second-password").fill(ANOTHER)
    page.locator("#second-dialog [type=submit]").click()
    expect(page.locator("#second-link")).to_have_attribute("href", re.compile("^otpauth://totp/"))
    clean(opened)
    secret = page.locator("#second-secret").inner_text()
    page.locator("#second-code").fill("000000")
    page.locator("#second-code-dialog [type=submit]").click()
    expect(page.locator("#second-code")).to_have_attribute("aria-invalid", "true")
    made = subprocess.run(
        ["oathtool", "--totp", "--base32", "-"],
        input=secret,
        capture_output=True,
        text=True,
        check=True,
    )
    used = made.stdout.strip()
    page.locator("#second-code").fill(used)
    page.locator("#second-code-dialog [type=submit]").click()
    recovery = page.locator("#recovery-codes").inner_text().split()
    assert len(recovery) == 10
    page.get_by_role("button", name="I have it").click()
    expect(page.locator("#second")).to_contain_text("10 recovery codes are left")
    clean(opened)
    page.context.clear_cookies()
    page.goto("/login")
    page.locator("#name").fill(name)
    page.locator("#password").fill(ANOTHER)
    page.keyboard.press("Enter")
    page.locator("#code").fill(used)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("used already")
    clean(opened)
    page.locator("#code").fill(recovery[0])
    page.keyboard.press("Enter")
    expect(page.locator("#code")).to_be_hidden()
    page.goto("/account")
    expect(page.locator("#second")).to_contain_text("9 recovery codes are left")
    account.reload()
    account.get_by_role("button", name=f"Turn off two-factor login for {name}").click()
    account.get_by_role("dialog").get_by_role("button", name="Turn off").click()
    button = account.get_by_role("button", name=f"Turn off two-factor login for {name}")
    expect(button).to_have_count(0)
    account.get_by_role("button", name=f"Remove {name}").click()
    account.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(account.locator("#users")).not_to_contain_text(name)


@pytest.mark.parametrize("size", [pytest.param("desktop", marks=pytest.mark.long), "phone"])
def test_a_session_ends_from_another_browser(open_page: OpenPage, size: Size) -> None:
    pages = [open_page(user=None, size=size) for _ in range(2)]
    for each in pages:
        log_in(each.page, USER, PASSWORD)
    pages[0].goto("/account")
    settle(pages[0])
    rows = pages[0].locator("#sessions tbody tr")
    before = rows.count()
    # The session that was used last, except this browser's own.
    rows.get_by_role("button", name=re.compile("End the session")).first.click()
    expect(rows).to_have_count(before - 1)
    # It keeps polling, gets a 401 without a login, and opens the login page.
    pages[1].watch.allow("401")
    pages[1].wait_for_url(re.compile("/login"))

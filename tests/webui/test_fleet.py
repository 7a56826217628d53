"""Settings, Other systems: the server that has many boxes updated."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.webui.conftest import WatchedPage
from tests.webui.settings import beside, config, put, save, saved
from tests.webui.stage import Stage

pytestmark = pytest.mark.usefixtures("as_it_was")

PATH = "/settings/connections"
NEEDED = "Token: is needed where there is a fleet server."
TOKEN = "0123456789abcdef-hush"


def key(page: WatchedPage, name: str) -> Any:
    return page.locator(f'[data-where="fleet.{name}"]')


def test_a_fleets_server_is_set_with_the_keyboard_and_its_token_never_shown(
    page: WatchedPage, stage: Stage
) -> None:
    page.goto(PATH)
    key(page, "url").focus()
    page.keyboard.type("https://fleet.example.org:8443")
    page.keyboard.press("Tab")
    expect(key(page, "token")).to_be_focused()
    page.keyboard.type(TOKEN)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(key(page, "restart")).to_be_visible()
    key(page, "restart").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    saved(page)
    said = config(stage)["fleet"]
    assert (said["url"], said["restart"]) == ("https://fleet.example.org:8443", True)
    assert f'token = "{TOKEN}"' in stage.config_file.read_text()
    assert TOKEN not in page.content()
    card = page.locator("section", has=key(page, "url")).last
    expect(card).to_contain_text("A token is set. It is never shown.")
    expect(key(page, "token")).to_have_value("")


@pytest.mark.long
def test_a_token_cannot_be_forgotten_while_there_is_a_server(
    page: WatchedPage, stage: Stage
) -> None:
    page.watch.allow("status of 422")
    page.goto(PATH)
    key(page, "url").fill("https://fleet.example.org")
    key(page, "token").fill(TOKEN)
    key(page, "token").press("Enter")
    forget = page.get_by_label("Forget the token")
    forget.check()
    save(page)
    expect(beside(page, key(page, "token"))).to_have_text(NEEDED)
    key(page, "url").fill("")
    save(page)
    expect(forget).to_have_count(0)
    assert TOKEN not in stage.config_file.read_text()


def test_somebody_who_may_look_only_sees_the_server_and_no_token(
    viewer: WatchedPage, stage: Stage
) -> None:
    put(stage, "fleet", url="https://fleet.example.org", token=TOKEN)
    viewer.goto(PATH)
    expect(key(viewer, "url")).to_have_value("https://fleet.example.org")
    expect(key(viewer, "url")).to_be_disabled()
    expect(key(viewer, "token")).to_be_disabled()
    assert TOKEN not in viewer.content()

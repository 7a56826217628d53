"""Settings, Other systems: the server that has many boxes updated."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.webui.conftest import LANGUAGES, OpenPage, WatchedPage
from tests.webui.looks import open_all, too_wide, violations
from tests.webui.stage import Stage

pytestmark = pytest.mark.usefixtures("as_it_was")

PATH = "/settings/connections"
TOKEN = "0123456789abcdef-hush"


def fleet(stage: Stage) -> Any:
    return stage.api("GET", "/v1/config")["fleet"]


def field(page: WatchedPage, key: str) -> Any:
    return page.locator(f'[data-where="fleet.{key}"]')


def beside(page: WatchedPage, key: str) -> Any:
    return page.locator(".field", has=field(page, key)).locator(".error")


def test_a_fleets_server_is_set_with_the_keyboard_and_its_token_never_shown(
    page: WatchedPage, stage: Stage
) -> None:
    page.goto(PATH)
    field(page, "url").focus()
    page.keyboard.type("https://fleet.example.org:8443")
    page.keyboard.press("Tab")
    expect(field(page, "token")).to_be_focused()
    page.keyboard.type(TOKEN)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(field(page, "restart")).to_be_visible()
    field(page, "restart").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()
    said = fleet(stage)
    assert (said["url"], said["restart"]) == ("https://fleet.example.org:8443", True)
    assert f'token = "{TOKEN}"' in stage.config_file.read_text()
    assert TOKEN not in page.content()
    card = page.locator("section", has=field(page, "url")).last
    expect(card).to_contain_text("A token is set. It is never shown.")
    expect(field(page, "token")).to_have_value("")


@pytest.mark.parametrize(
    ("key", "typed", "words"),
    [
        ("url", "http://fleet.example.org", "must look like https://HOST or https://HOST:PORT"),
        (
            "url",
            "https://user@fleet.example.org/x",
            "must look like https://HOST or https://HOST:PORT",
        ),
        ("token", "two words", "must be letters, digits and punctuation, without spaces and \\"),
        ("token", "x" * 257, "must be at most 256 bytes long"),
        ("name", "büro", "must be letters, digits and punctuation, without spaces and \\"),
        ("tenant", "x" * 65, "must be 1 to 64 bytes long"),
    ],
)
def test_what_cannot_be_is_refused_beside_its_field(
    page: WatchedPage, stage: Stage, key: str, typed: str, words: str
) -> None:
    page.watch.allow("status of 422")
    before = stage.config_file.read_bytes()
    page.goto(PATH)
    page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
    field(page, key).fill(typed)
    page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = false)")
    page.locator("[data-save-bar] button[type=submit]").click()
    expect(beside(page, key)).to_contain_text(words)
    expect(field(page, key)).to_be_focused()
    expect(field(page, key)).to_have_attribute("aria-invalid", "true")
    assert stage.config_file.read_bytes() == before


def test_a_server_without_a_token_is_refused_beside_the_token(
    page: WatchedPage, stage: Stage
) -> None:
    page.watch.allow("status of 422")
    page.goto(PATH)
    field(page, "url").fill("https://fleet.example.org")
    field(page, "url").press("Enter")
    expect(beside(page, "token")).to_have_text("Token: is needed where there is a fleet server.")
    expect(field(page, "token")).to_be_focused()
    assert fleet(stage)["url"] == ""
    assert violations(page) == []


def test_a_token_cannot_be_forgotten_while_there_is_a_server(
    page: WatchedPage, stage: Stage
) -> None:
    page.watch.allow("status of 422")
    page.goto(PATH)
    field(page, "url").fill("https://fleet.example.org")
    field(page, "token").fill(TOKEN)
    field(page, "token").press("Enter")
    forget = page.get_by_label("Forget the token")
    forget.check()
    page.locator("[data-save-bar] button[type=submit]").click()
    expect(beside(page, "token")).to_have_text("Token: is needed where there is a fleet server.")
    field(page, "url").fill("")
    page.locator("[data-save-bar] button[type=submit]").click()
    expect(forget).to_have_count(0)
    assert TOKEN not in stage.config_file.read_text()


def test_somebody_who_may_look_only_sees_the_server_and_no_token(
    viewer: WatchedPage, stage: Stage
) -> None:
    config = stage.api("GET", "/v1/config")
    values = {"url": "https://fleet.example.org", "token": TOKEN}
    changes = [
        {"op": "set", "where": f"fleet.{key}", "value": each} for key, each in values.items()
    ]
    stage.api("PATCH", "/v1/config", {"changes": changes, "version": config["version"]})
    viewer.goto(PATH)
    expect(field(viewer, "url")).to_have_value("https://fleet.example.org")
    expect(field(viewer, "url")).to_be_disabled()
    expect(field(viewer, "token")).to_be_disabled()
    assert TOKEN not in viewer.content()


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_fits_a_narrow_screen(open_page: OpenPage, language: str) -> None:
    for scheme in ("light", "dark"):
        page = open_page(PATH, language=language, size="narrow", scheme=scheme)
        open_all(page)
        assert violations(page) == []
        assert too_wide(page) == []

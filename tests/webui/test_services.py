"""What else a server does, with a choice for each: in the settings, the guide, the page Now."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.patience import PATIENCE_S
from tests.webui.conftest import OpenPage, WatchedPage
from tests.webui.looks import clean, open_all
from tests.webui.settings import field, save, saved, server
from tests.webui.stage import Stage

SETTINGS = "/settings/sleep?server=web#services"
GUIDE = "/setup/again/sleep?server=web"
PORTS = "53/udp/named 445/tcp/smbd 3306/tcp/mariadbd 5353/udp/avahi-daemon 5000/tcp/a_long_program_"


def told(stage: Stage, listens: str) -> None:
    """Have the controller check, with the script's output from the server."""
    path = "/v1/servers/web/doctor"
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        with contextlib.suppress(Exception):  # it was done just now
            stage.api("POST", path, {"facts": f"naproxy-facts 1\nlistens={listens}\n"})
            break
        time.sleep(0.2)
    while stage.api("GET", path)["state"] == "running" and time.monotonic() < end_s:
        time.sleep(0.2)
    assert stage.api("GET", path)["state"] == "done"


@pytest.fixture(autouse=True)
def serving(stage: Stage, as_it_was: None) -> Iterator[None]:
    """The server does all this; afterwards nothing more."""
    told(stage, PORTS)
    yield
    told(stage, "")


def chosen(stage: Stage) -> Any:
    return server(stage)["awake"]["services"]


def service(page: WatchedPage, key: str) -> Any:
    return page.locator(f'[data-service="{key}"]')


def test_the_office_chooses_and_is_warned_no_more(page: WatchedPage, stage: Stage) -> None:
    page.goto("/")
    warned = page.get_by_role("paragraph").filter(has_text="Answers for names (DNS)")
    expect(warned).to_be_visible()
    page.get_by_role("link", name="Choose", exact=True).click()
    expect(page.get_by_label("Answers for names (DNS)")).to_be_visible()
    assert "53/udp · named" in service(page, "dns").inner_text()
    page.get_by_label("Answers for names (DNS)").select_option("never")
    saved(page)
    expect(service(page, "dns")).not_to_contain_text("do not let it sleep")
    assert chosen(stage) == ["dns never"]
    stage.api("POST", "/v1/servers/web/wake", {})
    page.goto("/")
    expect(page.get_by_text("it answers for names (DNS)")).to_be_visible()
    expect(page.get_by_text("others need at any time")).to_have_count(0)


def test_all_that_is_recommended_is_taken_at_once(page: WatchedPage, stage: Stage) -> None:
    page.goto(GUIDE)
    page.get_by_role("button", name="Take what is recommended").click()
    saved(page)
    expect(page.get_by_role("button", name="Take what is recommended")).to_have_count(0)
    assert chosen(stage) == ["dns never", "smb used", "database used", "5000/tcp used"]


@pytest.mark.long
def test_settings_that_were_open_beside_it_can_be_saved_after_a_choice(
    page: WatchedPage, stage: Stage
) -> None:
    page.goto(SETTINGS)
    page.get_by_label("Shares folders (SMB, Windows)").select_option("ignore")
    saved(page)
    field(page, "server.web.promise.fraction").fill("2")
    save(page)
    expect(page.locator("[data-save-bar]")).to_be_hidden()
    assert chosen(stage) == ["smb ignore"]
    assert server(stage)["promise"]["fraction"] == 0.02


@pytest.mark.long
@pytest.mark.parametrize("size", ["desktop", "narrow"])
def test_it_is_read_by_everybody_and_fits(open_page: OpenPage, size: Any) -> None:
    page = open_page(size=size)
    for path in (SETTINGS, GUIDE):
        page.goto(path)
        expect(service(page, "dns")).to_be_visible()
        open_all(page)
        clean(page)

"""The choice of visitors who may wait, in a browser: cards of a new or watching box, or a log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from history_box import Box, ask
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from playwright.sync_api import Browser, expect

from tests.webui.conftest import OpenPage, WatchedPage, cookies_of, watched
from tests.webui.looks import clean_narrow_and_dark
from tests.webui.settings import field, put, save, saved
from tests.webui.stage import Stage

GUIDE = "/setup/again/waiting?server=web"
SETTINGS = "/settings/sleep"
CARDS = ("hardly", "few", "first")


class New(Stage):
    """A box whose server has never been put to sleep, and never will be: it is not armed."""

    def __init__(self) -> None:
        super().__init__(visitors=False)

    def fill(self) -> None:
        """It has no past."""
        self.data_dir.mkdir()

    def configuration(self) -> dict[str, Any]:
        """Return the configuration, with a rule that keeps the promise."""
        made = super().configuration()
        made["server"][0] |= {"armed": False, "policy": {"name": "teacher"}}
        return made


class Watching(New):
    """The same after some days of visits, all of which the server answered awake."""

    def __init__(self, watched_days: float = 3) -> None:
        super().__init__()
        self._watched_days = watched_days

    def fill(self) -> None:
        """Write the visits: a page that needs the server, and files from the cache."""
        super().fill()
        past = Box(self.data_dir)
        past.stop()
        past.wall_s = time.time() - self._watched_days * 86400
        past.start()
        past.history.watch(["web"])
        chosen = Random(4)
        while past.wall_s < time.time() - 600:
            visitor = chosen.randrange(5)
            ask(past, visitor, Outcome.FETCH, flags=page_h.E_NEEDED)
            for _ in range(9):
                ask(past, visitor, Outcome.HIT)
            for _ in range(chosen.choice([10, 30, 60])):
                past.pass_s(past.history.next_s)
                past.history.tick()
        past.stop()


@pytest.fixture(scope="module")
def new() -> Iterator[Stage]:
    with New() as started:
        yield started


@pytest.fixture
def page(browser: Browser, new: Stage) -> Iterator[WatchedPage]:
    """An administrator's page of the new box."""
    with watched(browser, new.url, storage_state=cookies_of(browser, new.url)) as made:
        yield made


def card(page: WatchedPage, name: str) -> Any:
    return page.locator(f'[data-card="{name}"]')


def with_figures(page: WatchedPage) -> None:
    for name in CARDS:
        expect(card(page, name)).to_contain_text(re.compile(r"sleeps [\d.]+ hours a day"))


def promise(stage: Stage) -> Any:
    return stage.api("GET", "/v1/config")["server"][0]["promise"]


def test_a_new_boxs_guide_shows_an_example_and_a_choice_is_a_promise(
    page: WatchedPage, new: Stage
) -> None:
    page.goto(GUIDE)
    with_figures(page)
    expect(page.locator("#cards")).to_contain_text("An example, not your website")
    expect(page.locator("#cards")).to_contain_text("has not been measured yet")
    clean_narrow_and_dark(page, "waiting-example")
    card(page, "first").locator("input").check()
    page.locator('button[type="submit"]').click()
    page.wait_for_url("**/setup/again")
    assert promise(new) == {"fraction": 0.10, "delta_s": 1.0}


def test_a_choice_that_loses_money_says_so_before_it_is_saved(
    page: WatchedPage, new: Stage
) -> None:
    before = new.config_file.read_bytes()
    page.goto("/settings/system")
    field(page, "box.proxy_w").fill("60")
    save(page)
    saved(page)
    page.goto(SETTINGS)
    with_figures(page)
    for name in CARDS:
        expect(card(page, name).locator("[data-loss]")).to_contain_text("This does not pay")
    clean_narrow_and_dark(page, "waiting-loss")
    new.api("PUT", "/v1/config", before)


def test_a_box_that_only_watches_shows_its_own_visitors(browser: Browser) -> None:
    with (
        Watching() as stage,
        watched(browser, stage.url, storage_state=cookies_of(browser, stage.url)) as page,
    ):
        page.goto(SETTINGS)
        with_figures(page)
        seen = page.locator("[data-waiting]")
        expect(seen).to_contain_text(re.compile(r"the box's own records: .* in [23]\.?\d? d"))
        expect(seen).not_to_contain_text("example")
        # A card fills in both fields of the promise; a custom share matches no card.
        card(page, "hardly").locator("input").check()
        expect(field(page, "server.web.promise.fraction")).to_have_value("1")
        save(page)
        saved(page)
        assert promise(stage) == {"fraction": 0.01, "delta_s": 1.0}
        field(page, "server.web.promise.fraction").fill("7")
        expect(seen.locator("input:checked")).to_have_count(0)
        page.evaluate("window.onbeforeunload = null")


@pytest.mark.usefixtures("as_it_was")
def test_the_page_now_says_when_the_box_uses_more_than_it_saves(open_page: OpenPage) -> None:
    page = open_page("/")
    expect(page.locator("#sums")).to_contain_text("days")
    expect(page.locator("#pays")).to_be_empty()
    page.goto("/settings/system")
    field(page, "box.proxy_w").fill("500")
    save(page)
    saved(page)
    page.goto("/")
    expect(page.locator("#pays")).to_contain_text("This does not pay")
    page.get_by_role("link", name="Choose who may wait").click()
    page.wait_for_url("**/settings/sleep")


def test_a_better_choice_is_proposed_after_two_weeks_and_can_be_undone(browser: Browser) -> None:
    with (
        Watching(watched_days=16) as stage,
        watched(browser, stage.url, storage_state=cookies_of(browser, stage.url)) as page,
    ):
        put(stage, "server.web.promise", fraction=0.01)
        page.goto("/")
        proposed = page.locator("#proposals")
        expect(proposed).to_contain_text("proposes another choice")
        clean_narrow_and_dark(page, "waiting-proposed")
        proposed.get_by_role("button", name="Choose it").click()
        expect(proposed).to_contain_text("as the box proposed")
        assert promise(stage)["fraction"] > 0.01
        page.goto(SETTINGS)
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("[data-proposal]")).to_be_hidden()
        assert promise(stage)["fraction"] == 0.01


def test_a_log_that_was_estimated_gives_the_figures(page: WatchedPage, tmp_path: Path) -> None:
    log = tmp_path / "office.log"
    times = (datetime.fromtimestamp(1_700_438_400 + t, UTC) for t in range(0, 4 * 86400, 1800))
    log.write_text(
        "".join(
            f'192.0.2.1 - - [{when:%d/%b/%Y:%H:%M:%S +0000}] "GET /{n} HTTP/1.1" 200 100 "-"'
            ' "Mozilla/5.0"\n'
            for n, when in enumerate(times)
        )
    )
    page.goto(GUIDE)
    with_figures(page)
    page.get_by_role("link", name="Estimate from a log").click()
    expect(page.locator("#drop")).to_have_attribute("aria-disabled", "false")
    page.set_input_files("#estimate-files", str(log))
    expect(page.locator("#result")).to_contain_text("Result for office")
    page.goto(GUIDE)
    with_figures(page)
    expect(page.locator("#cards")).to_contain_text("Figures from the log office: 192 requests")
    clean_narrow_and_dark(page, "waiting-log")

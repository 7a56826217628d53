"""The proof's page after a proof: what it measured is taken over; a plan that cannot be is refused.

That a server is proved while one watches is in test_first_run.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.webui.conftest import LANGUAGES, OpenPage, WatchedPage
from tests.webui.looks import too_wide, violations
from tests.webui.stage import Stage

PATH = "/setup/again/proof?server=web"
USE = "Use these figures"
TABS = 30


@pytest.fixture(autouse=True)
def as_it_was(stage: Stage) -> Iterator[None]:
    """Put the settings back: others use the stage too."""
    before = stage.config_file.read_bytes()
    yield
    stage.api("PUT", "/v1/config", before)


def reckoned(stage: Stage) -> Any:
    """Return the powers that the rule for sleeping reckons with."""
    return stage.api("GET", "/v1/servers/web/power")["in_force"]


def measured(stage: Stage) -> Any:
    """Return those that the past's commissioning measured."""
    found = stage.api("GET", "/v1/servers/web/power")["measured"]
    assert found
    return found


def set_powers(stage: Stage, **powers: float) -> None:
    config = stage.api("GET", "/v1/config")
    changes = [
        {"op": "set", "where": f"server.web.power.{key}", "value": value}
        for key, value in powers.items()
    ]
    stage.api("PATCH", "/v1/config", {"changes": changes, "version": config["version"]})


def tab_to(page: WatchedPage, wanted: Any) -> None:
    """Go to an element as somebody without a mouse does."""
    for _ in range(TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    pytest.fail("the Tab key does not lead there")


def test_what_was_measured_is_taken_over_with_the_keyboard(page: WatchedPage, stage: Stage) -> None:
    before, found = reckoned(stage), measured(stage)
    assert before != found
    page.goto(PATH)
    use = page.get_by_role("button", name=USE, exact=True)
    expect(page.locator("#result")).to_contain_text(f"{before['on_w']:.1f}\u00a0W awake")
    tab_to(page, use)
    page.keyboard.press("Enter")
    used = page.get_by_text("The box uses the measured figures.")
    expect(used).to_be_focused()
    expect(use).to_have_count(0)
    assert reckoned(stage) == found
    page.reload()
    expect(used).to_be_visible()
    expect(use).to_have_count(0)


def test_powers_that_somebody_set_are_named_before_they_are_replaced(
    page: WatchedPage, stage: Stage
) -> None:
    set_powers(stage, on_w=60, off_w=3)
    page.goto(PATH)
    use = page.get_by_role("button", name=USE)
    expect(use).to_have_text(f"{USE} instead")
    expect(use).to_have_accessible_description(
        "So far it uses the figures from the settings: 60.0\u00a0W awake, 3.0\u00a0W asleep."
    )
    use.click()
    expect(page.get_by_text("The box uses the measured figures.")).to_be_visible()
    assert reckoned(stage) == measured(stage)


def test_powers_that_somebody_set_meanwhile_are_not_replaced_unseen(
    page: WatchedPage, stage: Stage
) -> None:
    page.watch.allow("status of 409")
    page.goto(PATH)
    use = page.get_by_role("button", name=USE, exact=True)
    use.wait_for()
    set_powers(stage, on_w=60, off_w=3)
    use.click()
    expect(page.locator(".toast")).to_contain_text(
        "The settings have other figures for this server"
    )
    instead = page.get_by_role("button", name=f"{USE} instead")
    expect(instead).to_be_focused()
    expect(page.locator("#result")).to_contain_text("60.0\u00a0W awake")
    assert reckoned(stage)["on_w"] == 60


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("cycles", "51", "Darf höchstens 50 sein."),
        ("cycles", "viele", "Muss eine ganze Zahl sein."),
        ("pause_s", "0,5", "Muss mindestens 1 sein."),
    ],
)
def test_a_plan_that_cannot_be_is_refused_beside_its_field(
    open_page: OpenPage, stage: Stage, field: str, typed: str, words: str
) -> None:
    page = open_page(language="de", size="narrow")
    page.watch.allow("status of 400")
    before = stage.api("GET", "/v1/servers/web/commission")
    page.goto(PATH)
    page.locator("#result .button.small").click()
    page.locator("#before summary").click()
    place = page.locator(f"#{field}")
    place.fill(typed)
    page.locator("#before summary").click()
    page.locator("#begin").click()
    expect(place).to_be_focused()
    expect(place).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field", has=place).locator(".error")).to_have_text(words)
    assert violations(page) == []
    assert too_wide(page) == []
    assert stage.api("GET", "/v1/servers/web/commission") == before


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_fits_a_narrow_screen(open_page: OpenPage, stage: Stage, language: str) -> None:
    set_powers(stage, on_w=1060.5, off_w=103.5)
    for scheme in ("light", "dark"):
        page = open_page(PATH, language=language, size="narrow", scheme=scheme)
        expect(page.locator("#result")).to_contain_text("104\u00a0W")
        assert violations(page) == []
        assert too_wide(page) == []
    page.locator("#power button").click()
    expect(page.locator("#used")).to_be_focused()
    assert violations(page) == []

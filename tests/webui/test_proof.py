"""The proof's page after a proof: measured powers are accepted; an impossible plan is refused.

test_first_run.py watches a proof while it runs.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.webui.conftest import OpenPage, WatchedPage
from tests.webui.looks import clean
from tests.webui.settings import beside, put
from tests.webui.stage import Stage

PATH = "/setup/again/proof?server=web"
USE = "Use these figures"
TABS = 30

pytestmark = pytest.mark.usefixtures("as_it_was")


def reckoned(stage: Stage) -> Any:
    """Return the powers that the sleep rule uses."""
    return stage.api("GET", "/v1/servers/web/power")["in_force"]


def measured(stage: Stage) -> Any:
    """Return those that the past's commissioning measured."""
    found = stage.api("GET", "/v1/servers/web/power")["measured"]
    assert found
    return found


def tab_to(page: WatchedPage, wanted: Any) -> None:
    """Go to an element as somebody without a mouse does."""
    for _ in range(TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    pytest.fail("the Tab key does not lead there")


def test_measured_powers_are_accepted_with_the_keyboard(page: WatchedPage, stage: Stage) -> None:
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
    put(stage, "server.web.power", on_w=60, off_w=3)
    page.goto(PATH)
    use = page.get_by_role("button", name=USE)
    expect(use).to_have_text(f"{USE} instead")
    expect(use).to_have_accessible_description(
        "So far it uses the figures from the settings: 60.0\u00a0W awake, 3.0\u00a0W asleep."
    )
    use.click()
    expect(page.get_by_text("The box uses the measured figures.")).to_be_visible()
    assert reckoned(stage) == measured(stage)


@pytest.mark.long
def test_powers_that_somebody_set_meanwhile_are_not_replaced_unseen(
    page: WatchedPage, stage: Stage
) -> None:
    page.watch.allow("status of 409")
    page.goto(PATH)
    use = page.get_by_role("button", name=USE, exact=True)
    use.wait_for()
    put(stage, "server.web.power", on_w=60, off_w=3)
    use.click()
    expect(page.locator(".toast")).to_contain_text(
        "The settings have other figures for this server"
    )
    instead = page.get_by_role("button", name=f"{USE} instead")
    expect(instead).to_be_focused()
    expect(page.locator("#result")).to_contain_text("60.0\u00a0W awake")
    assert reckoned(stage)["on_w"] == 60


@pytest.mark.long
def test_a_plan_that_cannot_be_is_refused_beside_its_field(
    open_page: OpenPage, stage: Stage
) -> None:
    page = open_page(language="de", size="narrow")
    page.watch.allow("status of 400")
    before = stage.api("GET", "/v1/servers/web/commission")
    page.goto(PATH)
    page.locator("#result .button.small").click()
    for field, typed, words in (
        ("cycles", "51", "Darf höchstens 50 sein."),
        ("cycles", "viele", "Muss eine ganze Zahl sein."),
        ("pause_s", "0,5", "Muss mindestens 1 sein."),
    ):
        page.locator("#before details").evaluate("each => { each.open = true; }")
        place = page.locator(f"#{field}")
        usual = place.input_value()
        place.fill(typed)
        page.locator("#before details").evaluate("each => { each.open = false; }")
        page.locator("#begin").click()
        expect(beside(page, place)).to_have_text(words)
        expect(place).to_be_focused()
        expect(place).to_have_attribute("aria-invalid", "true")
        place.fill(usual)
    assert stage.api("GET", "/v1/servers/web/commission") == before


def stages(**took_s: float) -> list[dict[str, Any]]:
    return [{"stage": name, "took_s": each} for name, each in took_s.items()]


def told(page: WatchedPage, **wake: Any) -> None:
    """Have the API tell other stages of a wake than the past's."""

    def answer(route: Route) -> None:
        said = route.fetch().json()
        said["wake"] |= wake
        route.fulfill(json=said)

    page.route("**/api/setup/proof*", answer)


def test_the_stages_of_a_wake_are_shown(page: WatchedPage, stage: Stage) -> None:
    wake = stage.api("GET", "/v1/servers/web/commission")["wake"]
    assert wake["stages"]
    assert wake["last"]
    page.goto(PATH)
    bars = page.locator("#anatomy figure")
    expect(bars).to_have_count(2)
    expect(bars.nth(0).locator("li")).to_have_count(len(wake["stages"]))
    expect(bars.nth(0)).to_contain_text("until the proper answer")
    expect(bars.nth(1)).to_contain_text("The last wake")
    clean(page, "proof-stages")


def test_the_stages_before_and_now_are_compared_and_commands_can_be_copied(
    page: WatchedPage,
) -> None:
    told(
        page,
        before=stages(network=3.0, answer=1.0),
        stages=stages(network=1.5, answer=0.5),
        last=None,
        advice=[{"stage": "network", "words": "Give it a fixed address.", "commands": ["a", "b"]}],
    )
    page.goto(PATH)
    before, now = (page.locator("#anatomy figure").nth(each) for each in (0, 1))
    expect(before).to_contain_text("The test before4.00")
    expect(now).to_contain_text("This test, typically2.00")

    def width(bar: Locator) -> float:
        parts = bar.locator(".share-bar > span").all()
        return sum(box["width"] for part in parts if (box := part.bounding_box()))

    assert width(now) == pytest.approx(width(before) / 2, rel=0.02), "bars can be compared"
    page.get_by_text("Give it a fixed address.").click()
    expect(page.locator("#anatomy pre")).to_have_text("a\nb")
    expect(page.locator("#anatomy").get_by_role("button", name="Copy")).to_be_visible()
    clean(page, "proof-advice")


def test_a_server_whose_wakes_were_not_seen_has_no_stages(page: WatchedPage) -> None:
    told(page, before=[], stages=[], last=None, advice=[])
    page.goto(PATH)
    expect(page.locator("#result")).to_contain_text("woke")
    expect(page.locator("#anatomy")).to_have_count(0)

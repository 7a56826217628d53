"""Savings in a browser: the savings, the comparison, and an office without a price."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.webui.conftest import OpenPage, WatchedPage
from tests.webui.looks import clean, settle

LONG_MS = 120_000


def open_savings(page: WatchedPage, query: str = "?view=all") -> None:
    """Open the page, and wait for the possible savings."""
    page.goto(f"/savings{query}")
    expect(page.locator("#more-found")).to_be_visible(timeout=LONG_MS)


def cell(page: WatchedPage, name: str, column: int) -> str:
    """Return a figure of the comparison: column 1 is the actual case, 2 the other one."""
    row = page.locator("#if-found tr", has_text=name)
    return str(row.locator("td").nth(column).inner_text())


def work_out(page: WatchedPage) -> None:
    page.locator("#if-found table").evaluate_all("all => all.forEach((each) => each.remove())")
    page.locator("#if-form button.primary").click()
    expect(page.locator("#if-found table")).to_be_visible(timeout=LONG_MS)


def test_it_says_what_was_saved_and_how_sure_that_is(page: WatchedPage) -> None:
    open_savings(page)
    expect(page.locator("#stats .stat")).to_have_count(4)
    expect(page.locator("#stats")).to_contain_text("kWh")
    expect(page.locator("#stats")).to_contain_text("€")
    expect(page.locator("#how")).to_contain_text("The meter “simulated” measured 9")
    expect(page.locator("#how")).to_contain_text("the measured mean")
    expect(page.locator("#paid")).to_contain_text(
        re.compile(r"[\d,]+ of people.s [\d,]+ requests waited, the longest \d")
    )
    expect(page.locator("#reached")).to_contain_text(re.compile(r"the box saved \d+% of the most"))
    costs = page.locator("#compared tbody tr")
    expect(costs.nth(0)).to_contain_text(re.compile(r"Always on.*kWh.*€.*kg"))
    expect(page.locator("#compared")).to_contain_text("Best idle timeout in hindsight")
    expect(costs.last).to_contain_text("Idealised")


@pytest.mark.long
def test_another_rule_and_another_server_change_the_numbers(page: WatchedPage) -> None:
    open_savings(page)
    page.get_by_label("Rule", exact=True).select_option("timeout-30s")
    page.get_by_label("It wakes up within").fill("30")
    work_out(page)
    waiting = "Requests that wait"
    assert cell(page, waiting, 1) != cell(page, waiting, 2)
    expect(page.locator("#if-found")).to_contain_text("Asleep after 30 s")
    expect(page.locator("#if-found .notice")).to_contain_text("would break the promise")
    page.get_by_role("button", name="As it is now").click()
    expect(page.get_by_label("It wakes up within")).not_to_have_value("30")


@pytest.mark.long
def test_an_invalid_number_is_reported_beside_its_field(page: WatchedPage) -> None:
    open_savings(page)
    page.get_by_label("Awake it draws").fill("plenty")
    page.locator("#if-form button.primary").click()
    expect(page.locator(".field", has_text="Awake it draws").locator(".error")).to_contain_text(
        "enter a number"
    )
    page.get_by_label("Awake it draws").fill("1")
    page.watch.allow("400")
    page.locator("#if-form button.primary").click()
    expect(page.locator(".field", has_text="Asleep it draws").locator(".error")).to_contain_text(
        "less than awake"
    )


@pytest.fixture
def no_price(page: WatchedPage) -> Iterator[None]:
    """The office has told neither price nor CO2."""
    _price(page, "0", "0")
    yield
    _price(page, "0.31", "380")


def _price(page: WatchedPage, price: str, co2: str) -> None:
    """Set them on the page: the interface notices other changes only seconds later."""
    page.goto("/settings/office")
    for key, value in (("price_per_kwh", price), ("co2_g_per_kwh", co2)):
        page.locator(f'[data-where="office.{key}"]').fill(value)
    page.locator("[data-save-bar] button[type=submit]").click()
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()


@pytest.mark.long
@pytest.mark.usefixtures("no_price")
def test_without_a_price_there_is_energy_only_and_where_to_enter_it(page: WatchedPage) -> None:
    open_savings(page)
    expect(page.locator("#stats .stat")).to_have_count(2)
    expect(page.locator("#stats")).to_contain_text("kWh")
    expect(page.locator("#stats")).not_to_contain_text("€")
    link = page.get_by_role("link", name="Enter the price")
    assert link.get_attribute("href") == "/settings/office"
    work_out(page)
    expect(page.locator("#if-found")).not_to_contain_text("€")
    clean(page)


@pytest.mark.long
def test_a_viewer_can_change_nothing(viewer: WatchedPage, page: WatchedPage) -> None:
    open_savings(page)  # which works it out
    open_savings(viewer)
    expect(viewer.locator("#if-form")).to_be_hidden()
    expect(viewer.locator("#more-act button")).to_have_count(0)


@pytest.mark.long
def test_the_figures_are_a_file_to_keep(page: WatchedPage, tmp_path: Path) -> None:
    open_savings(page)
    page.locator("#exact > summary").click()
    with page.expect_download() as got:
        page.locator("#download").click()
    file = tmp_path / "savings.json"
    got.value.save_as(file)
    said: dict[str, Any] = json.loads(file.read_text())
    assert got.value.suggested_filename.startswith("naproxy-savings-all-")
    assert said["assumed"]["values"]["on_w"]["source"] == "measured"
    assert {row["policy"] for row in said["hindsight"]["rows"]} > {"teacher", "bound-reactive"}


@pytest.mark.long
def test_going_back_in_time_and_by_the_browser(page: WatchedPage) -> None:
    page.goto("/savings?view=week")
    settle(page)
    title = page.locator("#range-title")
    expect(title).not_to_have_text("…")
    now = title.inner_text()
    page.get_by_role("button", name="Earlier").click()
    expect(title).not_to_have_text(now)
    page.go_back()
    expect(title).to_have_text(now)
    page.get_by_role("button", name="Day", exact=True).click()
    expect(page.get_by_role("button", name="Day", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(page.locator("#energy .legend")).to_be_visible()


@pytest.mark.long
def test_a_far_picture_is_drawn_when_one_comes_near_in_the_colours_of_then(
    open_page: OpenPage,
) -> None:
    page = open_page("/savings", size="phone", scheme="light")
    page.wait_for_selector("#waits canvas", state="attached")
    settle(page)
    palette = """[...Array(8).keys()].map((n) =>
        getComputedStyle(document.documentElement).getPropertyValue(`--c${n + 1}`).trim())"""
    chart = "Chart.getChart(document.querySelector('#waits canvas'))"
    light = page.evaluate(palette)
    assert page.evaluate(f"{chart} === undefined")
    page.evaluate("document.querySelector('[data-theme-switch]').click()")
    page.locator("#waits").scroll_into_view_if_needed()
    expect(page.locator("#waits canvas")).to_have_attribute("style", re.compile("display"))
    drawn = page.evaluate(f"{chart}.data.datasets[0].borderColor")
    assert drawn in page.evaluate(palette)
    assert drawn not in light

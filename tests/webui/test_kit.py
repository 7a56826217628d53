"""The kit's functions in a browser, in the stage's time zone, Europe/Zurich."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.webui.conftest import Pages, WatchedPage, watched
from tests.webui.looks import clean
from tests.webui.people import USER
from tests.webui.stage import Stage

SUMMER_ENDS_S = 1792886400.0
"""2026-10-25 00:00 UTC, 02:00 in Zurich: at 03:00 there it is 02:00 again."""
HOUR_S = 3600
VALUES = "../pages/settings/values"


@pytest.fixture(scope="module")
def kit(browser: Browser, stage: Stage, pages: Pages) -> Iterator[Any]:
    """`kit("format", "clock(0)")` returns the result of a function in a module of the kit."""
    options = {"storage_state": pages.login(USER), "timezone_id": "Asia/Tokyo"}
    with watched(browser, stage.url, **options) as page:
        page.goto("/account")
        shell = page.locator("script[src$='kit/shell.js']").get_attribute("src")

        def call(module: str, expression: str) -> Any:
            address, name = shell.replace("shell.js", f"{module}.js"), expression.partition("(")[0]
            return page.evaluate(f"import('{address}').then(({{ {name} }}) => {expression})")

        yield call


def test_times_are_those_of_the_offices_clocks(kit: Any) -> None:
    assert kit("format", f"clock({SUMMER_ENDS_S - HOUR_S})") == "01:00"
    assert kit("format", f"clock({SUMMER_ENDS_S + 2 * HOUR_S})") == "03:00"


def test_times_that_clocks_show_twice_have_their_zone(kit: Any) -> None:
    for hours, expected in ((-1, "01:00"), (0, "02:00 CEST"), (1, "02:00 CET"), (2, "03:00")):
        assert kit("format", f"clock({SUMMER_ENDS_S + hours * HOUR_S})") == expected
    assert kit("format", f"moment({SUMMER_ENDS_S})") == "2026-10-25T02:00+02:00"
    assert kit("format", f"moment({SUMMER_ENDS_S + HOUR_S})") == "2026-10-25T02:00+01:00"
    assert kit("format", f"moment({SUMMER_ENDS_S + 2 * HOUR_S})") == "2026-10-25T03:00"


def test_a_range_has_the_name_of_its_month_or_its_last_day(kit: Any) -> None:
    for begin, end, expected in (
        ("2026-10-01", "2026-11-01", "October 2026"),
        ("2026-01-01", "2027-01-01", "2026"),
        ("2026-10-25", "2026-10-26", "Sun 25 Oct 2026"),
        ("2026-10-01", "2026-10-06", "Thu 1 Oct 2026 to Mon 5 Oct 2026"),
        ("2026-10-01", "2026-12-01", "Thu 1 Oct 2026 to Mon 30 Nov 2026"),
    ):
        ends = [kit("format", f"fromInput('{day}T00:00')") for day in (begin, end)]
        assert kit("format", f"span({ends[0]}, {ends[1]})").replace(",", "") == expected


def test_ticks_of_a_year_are_the_first_days_of_months(kit: Any) -> None:
    year = [kit("format", f"fromInput('{year}-01-01T00:00')") for year in (2026, 2027, 2033)]
    for to_s, most in ((year[1], 13), (year[1], 7), (year[1], 4), (year[2], 9), (year[2], 3)):
        found = kit("plot", f"timeTicks({year[0]}, {to_s}, {most})")["times"]
        assert 1 <= len(found) <= most, (to_s, most, found)
        for t_s in found:
            assert kit("format", f"toInput({t_s})").endswith("-01T00:00"), (most, t_s)


def test_a_name_in_several_lines_of_a_picture_is_one_in_its_table(kit: Any) -> None:
    words = kit(
        "bars",
        """barChart(document.body.appendChild(document.createElement("figure")), {
            labels: [["Two", "lines"]], series: [{ name: "a", values: [1], colour: "c1" }],
        }).then((plot) => new Promise((done) => {
            plot.details.addEventListener("toggle", () => {
                done(plot.details.querySelector("td").textContent);
                plot.figure.remove();
                plot.destroy();
            });
            plot.details.open = true;
        }))""",
    )
    assert words == "Two lines"


def test_the_day_that_clocks_change_has_25_hours(kit: Any) -> None:
    noon_s = SUMMER_ENDS_S + 12 * HOUR_S
    begins_s = kit("format", f"midnight({noon_s})")
    assert kit("format", f"midnight({noon_s}, 1)") - begins_s == 25 * HOUR_S


def test_ticks_stay_round_over_the_change_of_clocks(kit: Any) -> None:
    found = kit(
        "plot", f"timeTicks({SUMMER_ENDS_S - 12 * HOUR_S}, {SUMMER_ENDS_S + 24 * HOUR_S}, 8)"
    )
    clocks = [kit("format", f"clock({t_s})") for t_s in found["times"]]
    assert found["step_s"] == 6 * HOUR_S
    assert set(clocks) <= {"00:00", "06:00", "12:00", "18:00"}
    assert len(clocks) >= 6


def test_there_are_never_more_ticks_than_there_is_room(kit: Any) -> None:
    for days in (0.0001, 0.01, 1, 8, 40, 400, 4000):
        found = kit("plot", f"timeTicks({SUMMER_ENDS_S}, {SUMMER_ENDS_S + days * 86400}, 10)")
        assert 1 <= len(found["times"]) <= 12, days
        assert found["times"] == sorted(set(found["times"])), days


def test_a_typed_time_is_the_offices_and_comes_back(kit: Any) -> None:
    assert kit("format", "fromInput('2026-07-01T12:00')") == 1782900000
    assert kit("format", "toInput(1782900000)") == "2026-07-01T12:00"


def test_figures_in_words_and_numbers_as_people_type_them(kit: Any) -> None:
    for module, call, expected in (
        ("format", "watts(43.26)", "43.3\u00a0W"),
        ("format", "watts(0)", "0.0\u00a0W"),
        ("format", "watts(null)", "\u2013"),
        ("format", "energy(3600)", "1.00\u00a0Wh"),
        ("format", "energy(3.6e6)", "1.00\u00a0kWh"),
        ("format", "duration(63)", "63\u00a0s"),
        ("format", "duration(4500)", "1\u00a0h 15\u00a0min"),
        ("format", "duration(273600)", "3\u00a0d 4\u00a0h"),
        ("format", "share(0.046)", "4.6%"),
        ("format", "money(1.5)", "€1.50"),
        ("format", "money(-0.004)", "€0.00"),
        ("format", "money(-0.006)", "-€0.01"),
        ("format", "energy(-9)", "0.00\u00a0Wh"),
        ("format", "share(-0.0001)", "0%"),
        ("form", "decimal('0,29')", 0.29),
        ("form", "decimal('0.29')", 0.29),
        ("form", "decimal('1 000')", 1000),
        ("form", "decimal('-3,5')", -3.5),
        ("form", "decimal('abc')", "abc"),
        ("form", "decimal('eth0')", "eth0"),
        ("form", "decimal('0,31 €')", 0.31),
        ("form", "decimal('€0.31')", 0.31),
        ("form", "decimal('CHF 0.31')", 0.31),
        ("form", "decimal('0.31 EUR/kWh')", 0.31),
        ("form", "decimal('31 ct/kWh')", 0.31),
        ("form", "decimal('31,5 Cent pro kWh')", 0.315),
        ("form", "decimal('1.000,50')", 1000.5),
        ("form", "decimal('1,000.50 $')", 1000.5),
        ("form", 'decimal("1\'000")', 1000),
        ("form", "measured('380 g', 'grams')", 380),
        (VALUES, "dates('24.12.2026')", "2026-12-24"),
        (VALUES, "dates('24. 12. 2026 - 1.1.2027')", "2026-12-24..2027-01-01"),
        (VALUES, "dates('24/12/2026')", "2026-12-24"),
        (VALUES, "dates('24 Dec 2026 to 2 January 2027')", "2026-12-24..2027-01-02"),
        (VALUES, "dates('2026-12-24..2026-12-26')", "2026-12-24..2026-12-26"),
        (VALUES, "dates('when we like')", "when we like"),
        (VALUES, "shortName('Web Server 1')", "web-server-1"),
        (VALUES, "shortName('Büro_Café')", "buero-cafe"),
        ("form", "decimal('')", ""),
    ):
        assert kit(module, call) == expected, call


def test_a_gap_is_not_joined(kit: Any) -> None:
    joined = kit("plot", "withGaps([[0, 1], [1, 2], [5, 3]], 1)")
    assert joined == [[0, 1], [1, 2], [2, None], [5, 3]]


def test_a_refusal_is_beside_its_field_and_the_rest_above(page: WatchedPage) -> None:
    page.goto("/account")
    shell = page.locator("script[src$='kit/shell.js']").get_attribute("src")
    page.evaluate(
        """async (kit) => {
            const { showErrors } = await import(`${kit}form.js`);
            const { ApiError } = await import(`${kit}core.js`);
            const { h } = await import(`${kit}core.js`);
            const form = h("form.form", { id: "tried" }, h("div.field",
                h("label", { for: "price" }, "Price"),
                h("input.input", { id: "price", name: "price_per_kwh" })));
            document.getElementById("main").append(form);
            showErrors(form, new ApiError(422, { error: "first", problems: [
                { where: "office.price_per_kwh", error: "must be <b>0</b> or more" },
                { where: "box.data_dir", error: "is not there" }] }));
        }""",
        shell.replace("shell.js", ""),
    )
    field = page.locator("#tried #price")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(page.locator("#tried .field .error")).to_have_text("Must be <b>0</b> or more.")
    expect(page.locator("#tried [role=alert]")).to_have_text("box.data_dir: is not there")
    clean(page)

"""On paper: black on white, whole charts, and nothing that is pressed."""

from __future__ import annotations

import pytest

from tests.patience import wait_for
from tests.webui.conftest import OpenPage
from tests.webui.looks import settle, still, too_wide

A4_WIDTH = 680
"""Pixels of CSS between margins of 15 mm."""


@pytest.mark.long
@pytest.mark.parametrize("path", ["/savings", "/history?view=week"])
def test_a_dark_page_is_printed_black_on_white_without_navigation(
    open_page: OpenPage, path: str
) -> None:
    page = open_page(path, scheme="dark")
    settle(page)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": A4_WIDTH, "height": 960})
    still(page)

    look = "[document.body, document.querySelector('main .card')].map((each) => "
    colours = page.evaluate(look + "getComputedStyle(each).backgroundColor)")
    assert colours == ["rgb(255, 255, 255)"] * 2
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    pressed = ".side, .top, .foot, .segmented, .tabs, .button, main form"
    assert page.locator(pressed).locator("visible=true").count() == 0
    assert too_wide(page) == []
    # Once redrawn, a chart's picture is as wide as its place: nothing is cut off.
    page.locator("canvas").first.wait_for()
    over = "(all) => all.filter((each) => each.clientWidth > each.parentElement.clientWidth)"
    wait_for(lambda: page.eval_on_selector_all("canvas", f"{over}.length") == 0, "charts to fit")
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    # Also the charts that were never scrolled into view.
    assert page.eval_on_selector_all("canvas", "(all) => all.every((c) => Chart.getChart(c))")


def test_a_week_of_history_prints_small_with_the_strip_under_its_power(
    open_page: OpenPage,
) -> None:
    page = open_page("/history?view=week")
    settle(page)
    page.locator("#power .strip").first.wait_for()
    still(page)
    page.emulate_media(media="print")
    assert len(page.pdf(prefer_css_page_size=True)) < 1_000_000
    page.set_viewport_size({"width": A4_WIDTH, "height": 960})
    still(page)
    # The chart is redrawn for paper, or its picture shrinks: the strip follows both.
    ends = page.evaluate(
        """() => {
            const drawn = document.querySelector('#power canvas');
            const { left } = drawn.getBoundingClientRect();
            const chart = Chart.getChart(drawn);
            const scale = drawn.getBoundingClientRect().width / chart.width;
            const strip = document.querySelector('#power .strip').getBoundingClientRect();
            const { chartArea: area } = chart;
            return [left + scale * area.left - strip.left, left + scale * area.right - strip.right];
        }"""
    )
    assert max(map(abs, ends)) <= 2, ends

"""The box's network in the browser: IPv6 and a VLAN are chosen, refused, tried and kept."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.webui.conftest import FEW_DAYS, Pages, WatchedPage
from tests.webui.looks import clean_narrow_and_dark
from tests.webui.stage import Stage


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="module")
def stage(system: Path) -> Iterator[Stage]:
    """A box whose whole machine is Naproxy's; its helper only keeps what it is told."""
    ours = [*("--platform=naproxy", "--helper=/bin/true", f"--system-dir={system}")]
    with Stage(days=FEW_DAYS, visitors=False, arguments=ours) as started:
        yield started


@pytest.fixture(scope="module")
def pages(browser: Browser, stage: Stage) -> Pages:
    return Pages(browser, stage)


def test_a_fixed_address_of_ipv6_and_a_vlan_are_tried_and_kept(
    page: WatchedPage, system: Path
) -> None:
    page.goto("/settings/network")
    address = page.get_by_label("IPv6 address with prefix length")
    expect(address).to_be_hidden()
    page.get_by_label("Fixed IPv6 address").check()
    address.fill("fe80::5/64")
    page.get_by_label("VLAN").fill("4095")
    page.watch.allow("422")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("4094", exact=False).last).to_be_visible()
    page.get_by_label("VLAN").fill("7")
    page.get_by_role("button", name="Try it").click()
    page.get_by_text("Is good on one cable only").wait_for()
    clean_narrow_and_dark(page, "network")
    address.fill("fd00::5/64")
    page.get_by_role("button", name="Try it").click()
    page.get_by_role("button", name="Keep them").click()
    kept = system / "network.conf"
    page.get_by_role("button", name="Keep them").wait_for(state="detached")
    assert kept.read_text() == (
        "method=dhcp\naddress=\ngateway=\n"
        "ipv6=static\naddress6=fd00::5/64\ngateway6=\nvlan=7\ndns=\n"
    )
    expect(page.get_by_label("VLAN")).to_have_value("7")


@pytest.mark.long
def test_the_clock_of_a_box_in_a_zone_unknown_to_the_browser_shows_utc(
    page: WatchedPage,
) -> None:
    def elsewhere(route: Route) -> None:
        answer = route.fetch()
        body = re.sub(r'(data-(?:time-)?zone=")[^"]*', r"\1posix/Etc/UTC", answer.text())
        route.fulfill(response=answer, body=body)

    page.route("**/settings/network", elsewhere)
    page.goto("/settings/network")
    clock = page.locator("[data-clock]")
    expect(clock).to_have_text(re.compile(r"20\d\d.*\d\d:\d\d"))
    shown = clock.get_attribute("data-clock")
    utc = datetime.fromtimestamp(float(str(shown)), UTC)
    expect(clock).to_contain_text(f"{utc:%H:%M}")

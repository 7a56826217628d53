"""The box's network in the browser: IPv6 and a VLAN are chosen, refused, tried and kept."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.webui.conftest import PATIENCE_MS, SIZES, Watch, WatchedPage, log_in
from tests.webui.looks import SETTLED_MS, too_wide, violations
from tests.webui.stage import Stage

SHOTS = os.environ.get("SHOTS", "")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Stage]:
    """A box whose whole machine is Naproxy's; its helper only keeps what it is told."""
    ours = [*("--platform=naproxy", "--helper=/bin/true", f"--system-dir={tmp_path}")]
    with Stage(days=0.1, visitors=False, arguments=ours) as stage:
        yield stage


def test_a_fixed_address_of_ipv6_and_a_vlan_are_tried_and_kept(
    browser: Browser, box: Stage, tmp_path: Path
) -> None:
    context = browser.new_context(base_url=box.url, **SIZES["desktop"], reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    watch = Watch(box.url)
    page = WatchedPage(context.new_page(), watch)
    log_in(page.page)
    watch.context(context)
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
    for size, scheme in (("narrow", "dark"), ("desktop", "light")):
        page.set_viewport_size(SIZES[size]["viewport"])
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(SETTLED_MS)
        if SHOTS:
            shot = Path(SHOTS) / f"network-{size}-{scheme}.png"
            page.screenshot(path=shot, full_page=True)
        assert violations(page) == [], f"{size} {scheme}"
        assert too_wide(page) == [], size
    address.fill("fd00::5/64")
    page.get_by_role("button", name="Try it").click()
    page.get_by_role("button", name="Keep them").click()
    kept = tmp_path / "network.conf"
    page.get_by_role("button", name="Keep them").wait_for(state="detached")
    assert kept.read_text() == (
        "method=dhcp\naddress=\ngateway=\n"
        "ipv6=static\naddress6=fd00::5/64\ngateway6=\nvlan=7\ndns=\n"
    )
    expect(page.get_by_label("VLAN")).to_have_value("7")
    context.close()
    watch.check()


def test_the_clock_of_a_box_in_a_zone_unknown_to_the_browser_shows_utc(
    browser: Browser, box: Stage
) -> None:
    def elsewhere(route: Route) -> None:
        answer = route.fetch()
        body = re.sub(r'(data-(?:time-)?zone=")[^"]*', r"\1posix/Etc/UTC", answer.text())
        route.fulfill(response=answer, body=body)

    context = browser.new_context(base_url=box.url, **SIZES["desktop"])
    context.set_default_timeout(PATIENCE_MS)
    watch = Watch(box.url)
    page = WatchedPage(context.new_page(), watch)
    log_in(page.page)
    watch.context(context)
    page.route("**/settings/network", elsewhere)
    page.goto("/settings/network")
    clock = page.locator("[data-clock]")
    expect(clock).to_have_text(re.compile(r"20\d\d.*\d\d:\d\d"))
    shown = clock.get_attribute("data-clock")
    utc = datetime.fromtimestamp(float(str(shown)), UTC)
    expect(clock).to_contain_text(f"{utc:%H:%M}")
    context.close()
    watch.check()

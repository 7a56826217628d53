"""The web interface as an app: the browser's page while the box does not answer."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from playwright.sync_api import Browser, expect

from tests.simulator.office.namespace import ROOT
from tests.webui.conftest import OpenPage, watched
from tests.webui.looks import clean, too_small

sys.path.append(str(ROOT / "webui/tests"))

from server import Lighttpd, WebUi

OFFICE = ZoneInfo("Europe/Zurich")


def test_offline_it_says_since_when_and_shows_no_figures(open_page: OpenPage) -> None:
    page = open_page(size="phone", service_workers="allow", timezone_id="Asia/Tokyo")
    page.watch.allow("ERR_INTERNET_DISCONNECTED|ERR_FAILED|fetch")
    page.goto("/savings")
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    before = datetime.now(OFFICE)
    page.goto("/")
    page.context.set_offline(True)

    expect(page.locator("#box-state")).to_contain_text("Offline since")
    page.goto("/savings")
    since = page.locator("#since")
    expect(since).to_contain_text("Offline since")
    told = since.inner_text().removeprefix("Offline since ").rstrip(".")
    first = before.replace(second=0, microsecond=0)
    minutes = int((datetime.now(OFFICE) - first).total_seconds() // 60)
    assert told in {f"{first + timedelta(minutes=n):%H:%M}" for n in range(minutes + 1)}
    assert page.locator(".stat, .server, .chart").count() == 0
    assert page.url.endswith("/savings")
    clean(page)
    assert too_small(page) == []

    page.context.set_offline(False)
    expect(page.locator("#stats .stat-value").first).to_contain_text("Wh")


def test_with_a_certificate_that_is_not_trusted_it_does_without(
    browser: Browser, tmp_path: Path
) -> None:
    webui = WebUi(tmp_path, unix=True)
    front = Lighttpd(webui)
    try:
        url = f"https://127.0.0.1:{front.port}"
        with watched(browser, url, ignore_https_errors=True) as page:
            # The browser says so where developers look; the page goes on.
            refused = "An SSL certificate error occurred when fetching the script"
            page.watch.allow(refused)
            with page.expect_console_message(lambda said: refused in said.text):
                page.goto("/claim")
            workers = "navigator.serviceWorker.getRegistrations().then((all) => all.length)"
            assert page.evaluate(workers) == 0
    finally:
        front.close()
        webui.close()

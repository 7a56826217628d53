"""The cache in a real browser: the look at the website in the guide, and the settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.webui.conftest import WatchedPage
from tests.webui.looks import clean
from tests.webui.settings import config, field, save, saved, server
from tests.webui.stage import Stage

pytestmark = pytest.mark.usefixtures("as_it_was")


@pytest.fixture
def awake(stage: Stage) -> Iterator[None]:
    """The server stays awake meanwhile."""
    with stage.awake():
        yield


@pytest.mark.usefixtures("awake")
def test_the_guide_looks_at_the_website_and_writes_what_is_chosen(
    page: WatchedPage, stage: Stage
) -> None:
    page.goto("/settings/cache")
    page.get_by_role("link", name="Look at the website", exact=True).click()
    page.wait_for_url("**/setup/again/cache?server=web")
    seen = page.locator("#seen")
    expect(seen).to_contain_text("looked at 5 pages and 2 files, of 7 addresses")
    expect(seen).to_contain_text("made with WordPress")
    expect(seen).to_contain_text("1 of 5 pages may not be kept")
    expect(seen).to_contain_text("woocommerce_cart_hash")
    expect(page.locator("[data-share=default]")).to_contain_text("could answer 14%")
    expect(page.locator("[data-share=frozen]")).to_contain_text("could answer 29%")
    expect(page.locator("[data-text=pages_share]")).to_contain_text("71%")
    expect(page.locator("input[value=frozen]")).to_be_checked()
    expect(page.locator("#pages")).to_be_checked()
    expect(page.locator("#parts")).to_be_hidden()
    clean(page, "guide-cache")
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/again")
    cache = server(stage)["cache"]
    assert (cache["mode"], cache["pages"]) == ("frozen", "verified")
    assert config(stage).get("cache_rule", []) == []


@pytest.mark.usefixtures("awake")
def test_the_guide_lets_parts_be_allowed_where_no_pages_are_checked(
    page: WatchedPage, stage: Stage
) -> None:
    page.goto("/setup/again/cache?server=web")
    expect(page.locator("#pages")).to_be_checked()
    page.locator("#pages").uncheck()
    expect(page.locator("[data-text=allowed]")).to_contain_text("71%")
    expect(page.locator("input[name=paths]:checked")).to_have_count(0)
    clean(page, "guide-cache-parts")
    page.locator("input[value='/news/']").check()
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/again")
    rules = config(stage)["cache_rule"]
    assert server(stage)["cache"]["pages"] == "rules"
    assert [(rule["path"], rule["asleep"], rule["server"]) for rule in rules] == [
        ("/news/", "yes", "web")
    ]


def test_a_server_that_sleeps_is_not_woken_to_be_looked_at(page: WatchedPage, stage: Stage) -> None:
    with stage.asleep():
        page.watch.allow(r"status of 4(09|29)")
        page.goto("/setup/again/cache?server=web")
        expect(page.locator("#seen")).to_contain_text("not awake")
        assert stage.state() == "asleep"


@pytest.mark.long
def test_each_mode_has_what_it_needs_and_is_saved(page: WatchedPage, stage: Stage) -> None:
    page.goto("/settings/cache")
    at = "server.web.cache"
    expect(page.locator("input[value=frozen]")).to_be_checked()
    page.locator("input[value=default]").check()
    expect(page.locator(f'[data-where="{at}.warm"]')).to_be_hidden()
    page.locator("input[value=aggressive]").check()
    said = page.locator("[data-consequence=cache]")
    expect(said).to_contain_text("up to 1 h")
    field(page, f"{at}.cookies").fill("cookie_consent\nlang*")
    field(page, f"{at}.warm").uncheck()
    field(page, f"{at}.pages").select_option("verified")
    clean(page, "settings-cache")
    save(page)
    saved(page)
    cache = server(stage)["cache"]
    assert cache == {
        **{"mode": "aggressive", "cookies": ["cookie_consent", "lang*"]},
        **{"warm": False, "pages": "verified"},
    }


@pytest.mark.long
def test_a_part_of_the_cache_is_emptied(page: WatchedPage) -> None:
    asked: list[Any] = []

    def take(route: Route) -> None:
        asked.append((route.request.url.rpartition("/api/")[2], route.request.post_data_json))
        route.fulfill(json={})

    page.route("**/api/**/cache/empty", take)
    page.goto("/settings/cache")
    form = page.locator("form[data-empty-cache]")
    for what, typed in (("path", "/news/"), ("tag", "post:7"), ("server", ""), ("all", "")):
        form.locator(f"input[value={what}]").check()
        if typed:
            form.locator(f"input[name={what}]").fill(typed)
        form.locator("button[type=submit]").click()
        with page.expect_response("**/cache/empty"):
            page.locator("dialog button", has_text="Empty the cache").click()
        expect(page.locator(".toast").last).to_be_visible()
    assert asked == [
        ("settings/cache/empty", {"server": "web", "path": "/news/"}),
        ("settings/cache/empty", {"tag": "post:7"}),
        ("settings/cache/empty", {"server": "web"}),
        ("box/cache/empty", {}),
    ]

"""HTTPS in a real browser: a certificate is sent, judged, replaced and removed, in words."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from naproxy.shm import page as shm
from playwright.sync_api import Browser, Route, expect

from tests.patience import wait_for
from tests.simulator.past.front import HOST
from tests.webui.conftest import FEW_DAYS, SCREENS, OpenPage, Pages, WatchedPage
from tests.webui.looks import clean, open_all, settle
from tests.webui.settings import beside, patch, put, save
from tests.webui.stage import Stage
from tests.webui.story import Story

sys.path.append(str(Path(__file__).parents[2] / "package/naproxy/tests"))

from certificates import Authority, Issued, encrypted
from pebble import Pebble, Port80, hook, needs_pebble, pebble

PATH = "/settings/https"
GUIDE = "/setup/again/https?server=web"
NEXT = re.compile(r"(try|again by itself|Versuch|von selbst wieder): .*\d\d:\d\d\.")
FIELDS = ("pem", "key", "password")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One with a folder of its own for certificates; nobody comes."""
    edge = tmp_path_factory.mktemp("edge")
    acme_hook = hook(edge, edge / "commands")
    arguments = [f"--edge-dir={edge}", "--edge-user=daemon", f"--acme-hook={acme_hook}"]
    with Stage(days=FEW_DAYS, visitors=False, arguments=arguments) as started:
        yield started


@pytest.fixture(scope="module")
def pebbles(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pebble]:
    with pebble(tmp_path_factory.mktemp("pebble")) as made:
        made.uacme(stage.directory / "bin")
        yield made


@pytest.fixture
def issuer(stage: Stage, pebbles: Pebble, as_it_was: None) -> Pebble:
    """An issuer that the box knows; the box serves HTTPS."""
    change(stage, mode="box")
    put(stage, "https", acme_directory=pebbles.directory)
    return pebbles


@pytest.fixture
def elsewhere(stage: Stage, issuer: Pebble) -> str:
    """The website's name, which resolves to no server.

    The other tests use another name: in one of a hundred cases Pebble reuses an authorization of a
    name, regardless of PEBBLE_AUTHZREUSE.
    """
    name = "elsewhere.example"
    put(stage, "server.web", hosts=[name])
    return name


@pytest.fixture
def port_80(stage: Stage, issuer: Pebble) -> Iterator[None]:
    """The names lead to the box, whose port 80 answers."""
    with Port80(issuer.http_port, lambda: shm.Page(stage.run_dir).layout) as port:
        yield
        port.shutdown()


@pytest.fixture(scope="module")
def pages(browser: Browser, stage: Stage) -> Pages:
    return Pages(browser, stage)


@pytest.fixture(autouse=True)
def as_it_was(stage: Stage) -> Iterator[None]:
    """Put the settings back, without certificates."""
    before = stage.config_file.read_bytes()
    yield
    for each in stage.api("GET", "/v1/certificates")["certificates"]:
        stage.api("DELETE", f"/v1/certificates/{each['id']}?force=true")
    stage.api("PUT", "/v1/config", before)


def change(stage: Stage, **values: Any) -> None:
    put(stage, "server.web.https", **values)


def send(stage: Stage, authority: Authority, issued: Issued, name: str = "main") -> None:
    sent = {"pem": authority.chain(issued).decode(), "key": issued.key.decode()}
    stage.api("PUT", f"/v1/certificates/{name}", sent)


@pytest.fixture
def full(stage: Stage, authority: Authority) -> Stage:
    """Two certificates, one that ends soon, and one with much to say."""
    change(stage, mode="box")
    send(stage, authority, authority.issue(HOST, days=6))
    many = [HOST, *(f"name-{n}.of-a-rather-long-domain.example" for n in range(12))]
    send(stage, authority, authority.issue(*many, days=20, itself=True), "b" * 31)
    return stage


def choose(page: WatchedPage, name: str, *files: tuple[str, bytes]) -> None:
    page.locator("input[name=way][value=upload]").check()
    given = [{"name": n, "mimeType": "", "buffer": data} for n, data in files]
    page.locator(f"[name={name}]").set_input_files(given)


def ids(stage: Stage) -> list[str]:
    return [each["id"] for each in stage.api("GET", "/v1/certificates")["certificates"]]


def good(page: WatchedPage) -> None:
    settle(page)
    open_all(page)
    clean(page)


@pytest.mark.long
def test_a_certificate_in_two_files_is_checked_then_used(
    open_page: OpenPage, stage: Stage, authority: Authority
) -> None:
    page = open_page(PATH)
    issued = authority.issue(HOST)
    page.locator("fieldset[data-key=mode] input[value=box]").check()
    save(page)
    expect(page.locator(".notice", has_text=f"no certificate for {HOST}")).to_be_visible()
    choose(page, "pem", ("site.crt", issued.pem), ("chain.crt", authority.below.pem))
    choose(page, "key", ("site.key", issued.key))
    page.locator("[data-certificate-form] [data-check]").click()
    expect(page.locator("[data-found]")).to_contain_text("The box can use this certificate")
    expect(page.locator("[data-found]")).to_contain_text(HOST)
    assert ids(stage) == []
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("[data-certificate]")).to_contain_text(HOST)
    expect(page.locator(".notice", has_text="no certificate for")).to_have_count(0)
    assert page.locator("[name=password]").input_value() == ""
    assert issued.key.decode().splitlines()[1] not in page.content()


def test_the_card_says_by_itself_what_a_change_led_to(
    open_page: OpenPage, stage: Stage, authority: Authority
) -> None:
    change(stage, mode="box")
    page = open_page(own=True)
    page.clock.install()
    page.goto(PATH)
    card = page.locator("[data-https] .notice")
    expect(card).to_contain_text(f"no certificate for {HOST}")
    send(stage, authority, authority.issue(HOST))
    page.clock.run_for(2000)
    expect(card).not_to_contain_text("no certificate for")


@pytest.mark.long
def test_an_error_is_shown_beside_its_field(
    open_page: OpenPage, stage: Stage, authority: Authority
) -> None:
    page = open_page(PATH)
    page.watch.allow(r"status of 422")
    issued = authority.issue(HOST)
    beside = {name: page.locator(".field", has=page.locator(f"[name={name}]")) for name in FIELDS}
    use = page.get_by_role("button", name="Use it")
    page.locator("input[name=way][value=upload]").check()
    use.click()
    expect(beside["pem"]).to_contain_text("Choose the file")
    choose(page, "pem", ("site.pem", b"0" * (256 * 1024 + 1)))
    use.click()
    expect(beside["pem"]).to_contain_text("too large")
    choose(page, "pem", ("site.pem", authority.chain(issued)))
    choose(page, "key", ("other.key", authority.issue("x.example").key))
    use.click()
    expect(beside["key"]).to_contain_text("does not belong to the certificate")
    choose(page, "key", ("site.key", encrypted(issued, "hush")))
    use.click()
    expect(beside["password"]).to_contain_text("protected by a password")
    expect(page.locator("[name=password]")).to_be_focused()
    good(page)
    choose(page, "key")
    choose(page, "pem", ("office.pfx", b"0nonsense"))
    use.click()
    expect(beside["pem"]).to_contain_text("PKCS #12")
    assert ids(stage) == []


@pytest.mark.long
def test_a_file_with_all_and_a_password_takes_the_place_of_the_old_one(
    open_page: OpenPage, stage: Stage, authority: Authority
) -> None:
    send(stage, authority, authority.issue(HOST, days=6))
    page = open_page(PATH)
    expect(page.locator(".badge[data-kind=bad]")).to_contain_text("5 days left")
    page.get_by_role("button", name=f"Replace the certificate for {HOST}").click()
    expect(page.locator("#send-title")).to_have_text(f"New certificate for {HOST}")
    packed = authority.pkcs12(authority.issue(HOST, days=90), "hush")
    choose(page, "pem", ("office.pfx", packed))
    page.locator("[name=password]").fill("hush")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("[data-certificate]")).to_contain_text("89 days left")
    assert ids(stage) == ["main"]


@pytest.mark.long
def test_a_second_one_for_the_same_names_is_asked_about(
    open_page: OpenPage, stage: Stage, authority: Authority
) -> None:
    send(stage, authority, authority.issue(HOST))
    page = open_page(PATH)
    issued = authority.issue(HOST)
    choose(page, "pem", ("all.pem", authority.chain(issued) + issued.key))
    page.get_by_role("button", name="Use it").click()
    asked = page.locator("dialog")
    expect(asked).to_contain_text("already a certificate")
    asked.get_by_role("button", name="Cancel").click()
    expect(asked).to_have_count(0)
    page.get_by_role("button", name="Use it").click()
    page.locator("dialog").get_by_role("button", name="Replace it").click()
    expect(page.locator(".toast", has_text="in use")).to_be_visible()
    assert ids(stage) == ["main"]


@pytest.mark.long
def test_one_that_visitors_need_is_removed_after_two_questions(
    open_page: OpenPage, stage: Stage, authority: Authority
) -> None:
    send(stage, authority, authority.issue(HOST))
    change(stage, mode="box", redirect=True)
    page = open_page(PATH)
    page.watch.allow(r"status of 409")
    page.get_by_role("button", name=f"Remove the certificate for {HOST}").click()
    expect(page.locator("dialog")).to_contain_text("in use for web")
    page.locator("dialog button[value=yes]").click()
    expect(page.locator("dialog", has_text="must use HTTPS")).to_be_visible()
    assert ids(stage) == ["main"]
    page.locator("dialog button[value=yes]").click()
    expect(page.locator("[data-certificate]")).to_have_count(0)
    assert ids(stage) == []


@pytest.mark.long
def test_options_of_the_boxs_https_are_reset_without_it(open_page: OpenPage, stage: Stage) -> None:
    change(stage, mode="box", redirect=True, hsts_s=3600)
    page = open_page(PATH)
    page.locator("fieldset[data-key=mode] input[value=unused]").check()
    expect(page.locator("[data-with-box]")).to_be_hidden()
    save(page)
    expect(page.locator(".notice", has_text="nobody uses HTTPS here")).to_be_visible()
    said = stage.api("GET", "/v1/config")["server"][0]["https"]
    assert (said["mode"], said["redirect"], said["hsts_s"]) == ("unused", False, 0)


@pytest.mark.long
@pytest.mark.parametrize(("language", "size"), SCREENS)
def test_the_page_with_all_there_can_be_is_accessible_and_fits(
    open_page: OpenPage, full: Stage, language: str, size: str
) -> None:
    assert len(ids(full)) == 2
    scheme = "dark" if size == "narrow" else "light"
    page = open_page(PATH, language=language, size=size, scheme=scheme)
    assert page.locator("html").get_attribute("lang") == language
    good(page)


@pytest.mark.parametrize(("language", "size"), SCREENS)
def test_the_step_of_the_guide_proposes_what_the_look_found(
    open_page: OpenPage, stage: Stage, authority: Authority, language: str, size: str
) -> None:
    scheme = "dark" if size == "narrow" else "light"
    page = open_page(language=language, size=size, scheme=scheme)
    found = {
        "known": True,
        "answers": True,
        "leads": None,
        "names": ["shop.office.example", "*.a-rather-long-name-of-a-website.example"],
    }
    page.route("**/api/setup/https/look", lambda route: route.fulfill(json=found))
    page.goto(GUIDE)
    expect(page.locator("input[name=mode][value=box]")).to_be_checked()
    expect(page.locator("#names input")).to_have_count(2)
    good(page)
    page.locator("#names input").last.uncheck()
    issued = authority.issue(HOST, "shop.office.example")
    choose(page, "pem", ("all.pem", authority.chain(issued) + issued.key))
    page.locator("button[form=form]").click()
    page.wait_for_url("**/setup/again")
    [server] = stage.api("GET", "/v1/config")["server"]
    assert (server["https"]["mode"], server["hosts"]) == ("box", [HOST, "shop.office.example"])
    [kept] = stage.api("GET", "/v1/certificates")["certificates"]
    assert kept["in_use_by"] == ["web"]


@pytest.mark.long
@pytest.mark.parametrize("chosen", ["through", "keep", None])
def test_the_step_of_the_guide_leaves_what_nobody_changes(
    open_page: OpenPage, stage: Stage, chosen: str | None
) -> None:
    own = {"id": "main", "source": "server", "server": "web"}
    found: dict[str, Any] = {"known": True, "answers": True, "leads": None, "names": []}
    page = open_page()
    if chosen == "through":
        change(stage, mode="through")
        page.route("**/api/setup/https/look", lambda route: route.fulfill(json=found))
    elif chosen == "keep":
        change(stage, mode="box")
        patch(stage, {"op": "add", "where": "certificate", "value": own})
    else:
        page.route("**/api/setup/https/look", lambda route: None)
    before = stage.config_file.read_bytes()
    page.goto(GUIDE)
    if chosen:
        expect(page.locator(f"input[value={chosen}]:checked")).to_be_visible()
    if chosen == "through":
        expect(page.locator("#seen")).to_contain_text("passes it on unopened")
    page.locator("button[form=form]").click()
    page.wait_for_url("**/setup/again")
    assert stage.config_file.read_bytes() == before


# Certificates that the box gets by itself


def with_issuer(test: Any) -> Any:
    for mark in needs_pebble:
        test = mark(test)
    return test


def configured(stage: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stage.api("GET", "/v1/config")["certificate"]
    return found


def issue_form(page: WatchedPage) -> Any:
    form = page.locator("[data-issue-form]")
    form.locator("[name=acme_email]").fill("office@office.example")
    form.locator("[name=acme_terms]").check()
    return form


@pytest.mark.long
@with_issuer
def test_a_trial_of_a_name_that_leads_elsewhere_says_what_to_do(
    open_page: OpenPage, stage: Stage, elsewhere: str
) -> None:
    page = open_page(PATH)
    form = issue_form(page)
    form.locator("[data-check]").click()
    said = form.locator("[data-tried] .notice[data-kind=bad]")
    expect(said).to_contain_text("port 80 of the router to the box?")
    expect(said).to_contain_text(elsewhere)
    expect(said).to_contain_text("Nothing has changed")
    assert ids(stage) == []


@with_issuer
def test_one_is_issued_shown_with_its_renewal_and_renewed_at_once(
    open_page: OpenPage, stage: Stage, port_80: None
) -> None:
    page = open_page(PATH)
    form = issue_form(page)
    form.get_by_role("button", name="Get it").click()
    row = page.locator("[data-certificate=issued]")
    expect(row).to_contain_text(HOST)
    expect(row).to_contain_text("The box has it issued. Next renewal: ")
    expect(page.locator("[data-certificate-form]")).to_be_hidden()
    [own] = configured(stage)
    assert (own["id"], own["source"], own["names"]) == ("issued", "acme", [])
    [first] = stage.api("GET", "/v1/certificates")["certificates"]
    with Story(page, "renew a certificate") as story:
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        # Also while the box has not said yet whether one is under way.
        page.route("**/issued/renew", hold, times=1)
        with page.expect_request("**/issued/renew"):
            story.to("Settings", "HTTPS")
        with page.expect_navigation():
            story.press(f"Renew the certificate for {HOST}")
            held[0].continue_()
    [second] = stage.api("GET", "/v1/certificates")["certificates"]
    assert second["fingerprint"] != first["fingerprint"]


@pytest.mark.long
@with_issuer
@pytest.mark.parametrize(("language", "size"), SCREENS)
def test_one_that_does_not_come_says_why_and_when_the_next_try_is(
    open_page: OpenPage, elsewhere: str, language: str, size: str
) -> None:
    page = open_page(PATH, language=language, size=size)
    form = issue_form(page)
    form.locator(".primary").click()
    said = form.locator("[data-tried] .notice[data-kind=bad]")
    expect(said).to_contain_text("Port 80" if language == "de" else "port 80")
    expect(said).to_contain_text(NEXT)
    page.reload()
    row = page.locator("[data-certificate=issued]")
    expect(row.locator(".notice")).to_contain_text(elsewhere)
    expect(row.locator("[data-next]")).to_contain_text(NEXT)
    good(page)


@pytest.mark.long
def test_a_missing_value_is_shown_beside_its_field_and_changes_nothing(
    open_page: OpenPage, stage: Stage
) -> None:
    names = [HOST, "*.office.example", "b\u00fcro.example"]
    put(stage, "server.web", hosts=names)
    change(stage, mode="box")
    before = stage.config_file.read_bytes()
    page = open_page(PATH)
    page.watch.allow(r"status of (422|400)")
    form = page.locator("[data-issue-form]")
    get_it = form.get_by_role("button", name="Get it")
    get_it.click()
    expect(form.locator(".field", has=page.locator("[name=acme_terms]"))).to_contain_text(
        "agree to"
    )
    form.locator("[name=acme_terms]").check()
    boxes = form.locator("[name=site]")
    expect(boxes.nth(1)).to_be_disabled()
    for n in (0, 2):
        boxes.nth(n).uncheck()
    get_it.click()
    expect(form.locator("fieldset")).to_contain_text("Choose at least one name")
    form.locator("summary").click()
    form.locator("[name=hook]").fill("../evil")
    expect(boxes.nth(1)).to_be_checked()
    form.locator("[data-check]").click()
    expect(beside(page, page.locator("[name=hook]"))).not_to_be_empty()
    form.locator("[name=hook]").fill("dns")
    form.locator("[name=acme_email]").fill("--nobody")
    get_it.click()
    expect(beside(page, page.locator("[name=acme_email]"))).not_to_be_empty()
    assert (stage.config_file.read_bytes(), ids(stage)) == (before, [])


@pytest.mark.long
def test_nothing_is_issued_for_a_website_that_the_box_does_not_serve(
    open_page: OpenPage,
) -> None:
    form = issue_form(open_page(PATH))
    expect(form).to_contain_text("choose \u201cThe box serves it\u201d")
    expect(form.locator("button[type=submit]:disabled")).to_have_count(2)


@pytest.mark.long
def test_the_server_s_way_says_what_to_paste_and_looks(open_page: OpenPage, stage: Stage) -> None:
    own = {"id": "main", "source": "server", "server": "web"}
    key = str(stage.directory / "ssh/certificate")
    patch(stage, {"op": "add", "where": "certificate", "value": {**own, "key_file": key}})
    page = open_page(PATH)
    form = page.locator("[data-fetch-form]")
    expect(form).to_be_visible()
    page.watch.allow(r"status of 422")
    form.get_by_role("button", name="Show what to paste").click()
    expect(form).to_contain_text("the folder\u2019s whole path")
    form.locator("[name=folder]").fill("/etc/letsencrypt/live/www.office.example")
    form.get_by_role("button", name="Show what to paste").click()
    expect(form.locator("pre")).to_contain_text("/usr/local/bin/naproxy-certificate-main")
    expect(form.locator("pre")).to_contain_text("/etc/letsencrypt/live/www.office.example")
    good(page)
    form.get_by_role("button", name="Look now").click()
    expect(form.locator("[data-paste] .notice[data-kind=bad]")).to_be_visible()
    assert [each["id"] for each in configured(stage)] == ["main"]


@pytest.mark.long
def test_one_from_the_server_is_configured_when_what_to_paste_is_asked_for(
    open_page: OpenPage, stage: Stage
) -> None:
    page = open_page(PATH)
    page.watch.allow(r"status of 409")
    refused: dict[str, Any] = {"error": "refused", "code": "x", "params": {}, "where": None}
    # Root's key would be made in this machine's own /etc.
    page.route("**/key", lambda route: route.fulfill(status=409, json=refused))
    page.locator("input[name=way][value=server]").check()
    form = page.locator("[data-fetch-form]")
    form.locator("[name=folder]").fill("/etc/ssl/own")
    for _ in range(2):
        form.get_by_role("button", name="Show what to paste").click()
        expect(form).to_contain_text("refused")
    [own] = configured(stage)
    assert (own["id"], own["source"], own["server"]) == ("from-web", "server", "web")


@pytest.mark.long
@with_issuer
@pytest.mark.parametrize(("language", "size"), SCREENS)
def test_the_step_of_the_guide_has_one_issued(
    open_page: OpenPage, stage: Stage, port_80: None, language: str, size: str
) -> None:
    change(stage, mode="none")
    page = open_page(GUIDE, language=language, size=size)
    page.locator("input[name=mode][value=box]").check()
    form = page.locator("#form")
    form.locator("[name=acme_terms]").check()
    page.locator("#try").click()
    expect(form.locator("[data-tried] .notice[data-kind=good]")).to_contain_text(HOST)
    assert (configured(stage), ids(stage)) == ([], [])
    page.locator("button[form=form]").click()
    page.wait_for_url("**/setup/again")
    [own] = configured(stage)
    assert (own["id"], own["source"]) == ("issued", "acme")
    assert stage.api("GET", "/v1/config")["server"][0]["https"]["mode"] == "box"

    def shown() -> bool:
        page.goto(PATH)
        return bool(page.locator("[data-certificate=issued] .badge").count())

    wait_for(shown, "the certificate on the page", 120)
    expect(page.locator("[data-certificate=issued]")).to_contain_text(HOST)

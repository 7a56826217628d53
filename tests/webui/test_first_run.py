"""The first run of a new box, in a browser: from the claim code to the first sleep by itself."""

import os
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright, expect

from tests.e2e.clients import ask
from tests.simulator.office import Settings
from tests.simulator.office.box import ADDRESS as BOX
from tests.simulator.office.server import ADDRESS as SERVER
from tests.simulator.office.server import MAC
from tests.webui.conftest import WatchedPage, watched
from tests.webui.first_run import STRANGER, URL, NewBox, browser_of, claim, new_box
from tests.webui.looks import clean_narrow_and_dark
from tests.webui.visitors import Visitors

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an office needs root")

NAME = "www.office.example"
QUICK = Settings(sleep_s=0.5, wake_s=0.8)
LONG_MS = 120_000


@pytest.fixture(scope="module")
def made() -> Iterator[NewBox]:
    with new_box(QUICK) as started:
        yield started


@pytest.fixture(scope="module")
def visitors(made: NewBox) -> Iterator[Visitors]:
    """Visitors who come all the time, until the server is to sleep: to the server at first."""
    with Visitors(made.office, "visitors", NAME, SERVER, fresh=False) as coming:
        yield coming


@pytest.fixture(scope="module")
def chromium(playwright: Playwright, made: NewBox) -> Iterator[Browser]:
    with browser_of(playwright, made) as launched:
        yield launched


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[WatchedPage]:
    with watched(chromium, URL) as opened:
        opened.watch.allow("status of 4(04|09|22|29)|ERR_INTERNET_DISCONNECTED")
        # This box has no TLS, which the header is for.
        opened.watch.allow("Cross-Origin-Opener-Policy header has been ignored")
        yield opened


# One story: each test goes on where the one before it ended.


def test_a_visitor_is_told_that_the_box_is_not_set_up_and_where_that_is_done(made: NewBox) -> None:
    answer = ask(made.office.client, "/", headers={"Accept": "text/html"})
    assert answer.status == 503
    assert b"not set up yet" in answer.body
    assert b"https://192.0.2.1:8443" in answer.body


def test_the_claim_code_leads_to_the_guide(page: WatchedPage, made: NewBox) -> None:
    claim(page, made)
    page.wait_for_url("**/setup/welcome")
    clean_narrow_and_dark(page, "1-welcome")
    page.locator("#forward").click()
    page.wait_for_url("**/setup/office")


def test_the_office_is_written_and_nothing_is_invented(page: WatchedPage, made: NewBox) -> None:
    clean_narrow_and_dark(page, "2-office")
    page.locator("#name").fill("Gärtnerei Muster")
    page.locator("#time_zone").fill("Europe/Nowhere")
    page.locator("[form=form]").click()
    expect(page.locator("#time_zone")).to_have_attribute("aria-invalid", "true")
    clean_narrow_and_dark(page, "2-office-wrong")
    page.locator("#time_zone").fill("Europe/Zurich")
    page.locator("#price_per_kwh").fill("0,29")
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/server")
    office = made.settings()["office"]
    assert (office["name"], office["time_zone"]) == ("Gärtnerei Muster", "Europe/Zurich")
    assert (office["price_per_kwh"], office["co2_g_per_kwh"]) == (0.29, 0)


def test_the_server_is_found_by_itself(page: WatchedPage, made: NewBox) -> None:
    choice = page.locator("#hosts .choice", has_text=SERVER)
    choice.wait_for(timeout=LONG_MS)
    expect(choice).to_contain_text(MAC)
    expect(choice).to_contain_text("nginx")
    clean_narrow_and_dark(page, "3-server")
    assert "Shelly" not in page.locator("#hosts").inner_text()


def test_a_found_machines_description_is_shown_as_text(page: WatchedPage) -> None:
    stranger = page.locator(".choice", has_text=STRANGER)
    expect(stranger).to_contain_text("“<img src=x onerror=alert(1)>")
    assert page.locator("#setup img, #setup .choice script").count() == 0


def test_a_typed_address_that_cannot_be_it_is_said_in_words(page: WatchedPage) -> None:
    page.locator("#typed > summary").click()
    for address, words in (("192.0.2.1", "box's own"), ("192.0.2.77", "Nothing answers")):
        page.locator("#address").fill(address)
        page.locator("#look button").click()
        expect(page.locator("#look")).to_contain_text(words, timeout=LONG_MS)
    clean_narrow_and_dark(page, "3-server-typed")


def test_the_guide_goes_on_once_the_controller_answers_again(
    page: WatchedPage, made: NewBox
) -> None:
    made.box.kill_controller()
    # The page Now, which nobody answers meanwhile.
    page.watch.allow("status of 503")
    page.goto("/")
    expect(page.locator("main")).to_contain_text("does not answer")
    made.start_controller()
    page.wait_for_url("**/setup/server")


def test_the_chosen_machine_becomes_the_server(page: WatchedPage, made: NewBox) -> None:
    page.locator("#hosts .choice", has_text=SERVER).click(timeout=LONG_MS)
    page.locator("#forward").click()
    page.wait_for_url("**/setup/names")
    [server] = made.settings()["server"]
    assert (server["address"], server["mac"]) == (SERVER, MAC)
    made.box.await_state("awake")


def test_host_names_are_extracted_from_pasted_text(page: WatchedPage, made: NewBox) -> None:
    page.locator("#hosts").fill("https://www.office.example/start\nbad name<b>")
    page.locator("[form=form]").click()
    expect(page.locator("#form")).to_contain_text("cannot be the name of a website")
    clean_narrow_and_dark(page, "4-names")
    page.locator("#hosts").fill("https://www.office.example/start")
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/https")
    assert made.settings()["server"][0]["hosts"] == ["www.office.example"]


def test_the_box_looks_whether_the_server_uses_https_and_proposes(
    page: WatchedPage, made: NewBox
) -> None:
    expect(page.locator("#seen")).to_contain_text("does not use HTTPS", timeout=LONG_MS)
    expect(page.locator("input[value=unused]")).to_be_checked()
    clean_narrow_and_dark(page, "4-https")
    page.locator("input[value=box]").check()
    page.locator("[form=form]").click()
    expect(page.locator("#certificate")).to_contain_text("who agree to its terms")
    clean_narrow_and_dark(page, "4-https-issued")
    page.locator("input[value=upload]").check()
    page.locator("[form=form]").click()
    expect(page.locator("#certificate")).to_contain_text("Choose the file")
    clean_narrow_and_dark(page, "4-https-certificate")
    page.locator("input[value=unused]").check()
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/cache")
    # Nobody has to be believed: the box sees it if that changes.
    assert made.settings()["server"][0]["https"]["mode"] == "none"


def test_the_box_looks_at_the_website_and_proposes_a_cache(page: WatchedPage, made: NewBox) -> None:
    expect(page.locator("#seen")).to_contain_text("The box has looked at", timeout=LONG_MS)
    expect(page.locator("input[value=frozen]")).to_be_checked()
    expect(page.locator("#pages")).to_be_visible()
    clean_narrow_and_dark(page, "4-cache")
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/sleep")
    assert made.settings()["server"][0]["cache"]["mode"] == "frozen"


def test_following_the_guide_gives_the_box_access(page: WatchedPage, made: NewBox) -> None:
    expect(page.locator("#key-script")).to_contain_text("useradd", timeout=LONG_MS)
    clean_narrow_and_dark(page, "5-sleep")
    page.locator("#check").click()
    expect(page.locator("#findings")).to_contain_text("does not let the box in", timeout=LONG_MS)
    clean_narrow_and_dark(page, "5-sleep-not-yet")
    page.locator("#more > summary").click()
    page.locator("#user").fill("root")
    page.locator("#user").blur()
    expect(page.locator("#key-script")).to_have_count(0, timeout=LONG_MS)
    made.paste_on_server(page.locator("#key-line").inner_text())
    expect(page.locator("#fingerprint")).to_have_text(made.fingerprint_on_server(), timeout=LONG_MS)
    page.locator("#same").click()
    expect(page.locator("#pin")).to_contain_text("knows your server")
    page.locator("#check").click()
    expect(page.locator("#findings")).to_contain_text("All is well", timeout=LONG_MS)
    page.locator("#inside > summary").click()
    expect(page.locator("#facts-script code")).to_contain_text("NAPROXY", timeout=LONG_MS)
    page.locator("#facts").fill("something else")
    page.locator("#facts-form button").click()
    expect(page.locator("#findings")).to_contain_text("not what the script", timeout=LONG_MS)
    page.locator("#check").click()
    expect(page.locator("#findings")).to_contain_text("All is well", timeout=LONG_MS)
    clean_narrow_and_dark(page, "5-sleep-well")
    page.locator("#forward").click()
    page.wait_for_url("**/setup/meter")


def test_a_plug_in_the_network_is_found_and_reads(page: WatchedPage, made: NewBox) -> None:
    plug = page.locator("#meters .choice", has_text="PlusPlugS")
    plug.wait_for(timeout=LONG_MS)
    expect(plug).to_contain_text("W now")
    page.locator("#board").select_option(label="A machine that is on anyway: 0 W extra")
    clean_narrow_and_dark(page, "6-meter")
    page.locator("[form=form]").click()
    expect(page.locator("#form")).to_contain_text("Choose one")
    plug.click()
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/live")
    assert made.settings()["box"]["proxy_w"] == 0
    [meter] = made.settings()["meter"]
    assert (meter["driver"], meter["host"], meter["kind"]) == (
        "shelly",
        "192.0.2.10",
        "switch",
    )


def test_visitors_are_led_through_the_box_and_the_guide_sees_the_first(
    page: WatchedPage, made: NewBox, visitors: Visitors
) -> None:
    visitors.await_more(1)
    waits = f"waits for the first visitor who reaches {NAME} through it"
    expect(page.locator("#seen")).to_contain_text(waits)
    page.locator("summary", has_text="FRITZ!Box").click()
    rules = page.locator("details", has=page.locator("summary", has_text="FRITZ!Box"))
    expect(rules.locator("tbody tr").first).to_contain_text(BOX)
    expect(rules).to_contain_text(f"delete the sharing for the server ({SERVER})")
    # Without HTTPS on the box nobody is to lead port 443 to it.
    expect(rules.locator("thead th")).to_have_text(["Field", "Port 80"])
    clean_narrow_and_dark(page, "7-live")
    page.locator("#forward").click()
    page.wait_for_url("**/setup/proof")
    expect(page.locator("#direct")).to_contain_text("No visitor has come through the box yet")
    clean_narrow_and_dark(page, "8-proof-warns")
    page.locator("#direct a").click()
    visitors.lead(BOX)
    expect(page.locator("#seen")).to_contain_text("The first visitor came", timeout=LONG_MS)
    # This server counts nobody: the box says so, and claims nothing.
    expect(page.locator("#seen")).to_contain_text("cannot know whether other visitors")
    clean_narrow_and_dark(page, "7-live-seen")
    page.locator("#forward").click()
    page.wait_for_url("**/setup/proof")


def test_the_server_is_proved_to_wake_while_one_watches(
    page: WatchedPage, made: NewBox, visitors: Visitors
) -> None:
    expect(page.locator("#direct")).to_be_empty()
    clean_narrow_and_dark(page, "8-proof")
    page.locator("details", has=page.locator("#plan")).locator("summary").click()
    page.locator("#cycles").fill("4")
    page.locator("#pause_s").fill("1")
    page.locator("#begin").click()
    expect(page.locator("#phase")).to_contain_text("Time 2 of 4", timeout=LONG_MS)
    clean_narrow_and_dark(page, "8-proof-live")
    page.context.set_offline(True)
    expect(page.locator("#lost")).to_contain_text("not live")
    page.context.set_offline(False)
    expect(page.locator("#lost")).to_be_empty()
    page.reload()
    expect(page.locator("#setup")).to_contain_text("Time 1: asleep after", timeout=LONG_MS)
    expect(page.locator("#result")).to_contain_text("woke up 4 of 4 times", timeout=LONG_MS)
    clean_narrow_and_dark(page, "8-proof-done")
    assert made.box.status()["armed"] is True
    slept = [t for t in made.office.server.board.report()["transitions"] if t["state"] == "off"]
    assert len(slept) >= 4
    assert visitors.unanswered() == []
    page.locator("#forward").click()
    page.wait_for_url("**/setup/waiting")


def test_the_waiting_step_shows_the_measured_wake(page: WatchedPage, made: NewBox) -> None:
    cards = page.locator("#cards")
    expect(cards).to_contain_text(re.compile(r"The server wakes in [\d.]+\ss\."))
    expect(cards).to_contain_text("An example, not your website", timeout=LONG_MS)
    clean_narrow_and_dark(page, "9-waiting")
    page.locator('[data-card="few"] input').check()
    page.locator('button[type="submit"]').click()
    page.wait_for_url("**/setup/done")
    assert made.box.api("GET", "/v1/config")["server"][0]["promise"]["fraction"] == 0.05


def test_then_it_is_done_and_the_guide_is_gone(page: WatchedPage) -> None:
    expect(page.locator("#summary")).to_contain_text("The first visitor came through the box")
    expect(page.locator("#summary")).to_contain_text("shown that it wakes")
    expect(page.locator("#left")).to_be_hidden()
    clean_narrow_and_dark(page, "10-done")
    page.locator("#forward").click()
    page.wait_for_url(f"{URL}/")
    for path in ("/setup", "/setup/welcome", "/setup/server", "/setup/done"):
        answer = page.goto(path)
        assert answer
        assert answer.status == 404, path


def test_single_steps_can_be_done_again(page: WatchedPage, made: NewBox) -> None:
    page.goto("/setup/again")
    clean_narrow_and_dark(page, "11-again")
    page.locator("a", has_text="names").click()
    page.locator("#hosts").fill("www.office.example shop.office.example")
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/again")
    assert made.settings()["server"][0]["hosts"] == ["www.office.example", "shop.office.example"]


def test_and_the_server_falls_asleep_by_itself_and_wakes_for_a_visitor(
    made: NewBox, visitors: Visitors
) -> None:
    visitors.await_more(5)
    config = made.settings()
    [server] = config["server"]
    # The rule of a new box waits ten minutes before it has learnt anything.
    rule = {"name": "timeout", "idle_s": 5.0}
    change = {"op": "set", "where": f"server.{server['id']}.policy", "value": rule}
    made.box.api("PATCH", "/v1/config", {"changes": [change], "version": config["version"]})
    made.box.await_state("asleep", 120)
    assert made.office.server.board.state == "off"
    answer = ask(made.office.client, "/robots.txt", timeout_s=60)
    assert answer.status == 200
    assert made.box.wakes()[0]["outcome"] == "up"
    assert visitors.unanswered() == []

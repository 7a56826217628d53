"""The container from its claim code on: guide, sleep, wake, HTTPS, an update, its end; in order."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.container.box import Container, make_base, make_image
from tests.e2e.clients import ASSET, ask, fresh
from tests.patience import wait_for
from tests.simulator.office import Office, Settings, pki
from tests.simulator.office.box import ADDRESS as BOX
from tests.simulator.office.box import HOST
from tests.simulator.office.namespace import ROOT
from tests.simulator.office.server import ADDRESS as SERVER
from tests.simulator.office.server import MAC
from tests.webui.conftest import WatchedPage, log_in, watched
from tests.webui.first_run import PASSWORD, browser_of, claim
from tests.webui.visitors import Visitors

URL = f"https://{BOX}:8443"
OLD, NEW = "0.0.1", "0.0.2"
QUICK = Settings(sleep_s=0.5, wake_s=0.8)
LONG_MS = 120_000
OURS = ("chores", "controller", "edge", "lighttpd", "syslogd", "through", "varnish", "webui")
RIGHTS = {
    *("net_raw", "net_bind_service"),
    *("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setpcap", "setuid"),
    "sys_chroot",
}


@pytest.fixture(scope="module")
def images() -> tuple[str, str]:
    """An older and a newer version."""
    make_base()
    return make_image(OLD), make_image(NEW)


@pytest.fixture(scope="module")
def made(images: tuple[str, str]) -> Iterator[Container]:
    keep = ROOT / "build/container/log"
    with Office(keep=keep, board=QUICK) as office, Container(office, images[0]) as made:
        yield made


@pytest.fixture(scope="module")
def visitors(made: Container) -> Iterator[Visitors]:
    with Visitors(made.office, "visitors", HOST, SERVER, fresh=False) as coming:
        yield coming


@pytest.fixture(scope="module")
def issued(made: Container) -> pki.Issued:
    return pki.issue(made.office.authority, HOST)


@pytest.fixture(scope="module")
def chromium(made: Container) -> Iterator[Browser]:
    with sync_playwright() as playwright, browser_of(playwright, made) as launched:
        yield launched


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[WatchedPage]:
    with watched(chromium, URL, ignore_https_errors=True) as opened:
        opened.watch.allow("status of 4(04|09|22|29)")
        # Only the box vouches for its certificate.
        opened.watch.allow("SSL certificate error occurred when fetching the script")
        yield opened


def services(made: Container) -> dict[str, str]:
    """Return the state of each service: `run` or `down`."""
    lines = made.sh("sv status /run/service/*", check=False).splitlines()
    found = (re.match(r"(\w+): /run/service/(\w+):", line) for line in lines)
    return {each[2]: each[1] for each in found if each}


def by_https(made: Container, path: str, headers: dict[str, str] | None = None) -> int:
    """Ask as a visitor who trusts the office's authority; returns the status."""
    trust = pki.context(made.office.authority)
    return ask(made.office.client, path, https=trust, headers=headers, timeout_s=60).status


def test_every_service_runs_and_the_container_is_healthy(made: Container) -> None:
    running = dict.fromkeys(OURS, "run")
    # `mqtt` is for boxes whose settings name a broker.
    wait_for(lambda: services(made) == running, "every service", 60)
    wait_for(made.healthcheck, "the health check", 60)


def test_it_has_raw_packets_low_ports_and_what_users_of_its_own_need(made: Container) -> None:
    status = made.sh("cat /proc/1/status")
    found = re.search(r"^CapBnd:\s*(\w+)$", status, re.M)
    assert found
    said = made.box.run(["capsh", f"--decode={found[1]}"]).stdout
    assert set(said.strip().partition("=")[2].split(",")) == {f"cap_{each}" for each in RIGHTS}
    assert re.search(r"^NoNewPrivs:\s*1$", status, re.M)


@pytest.mark.parametrize(
    "attempt",
    [
        "ip link set lo down",  # the host's network: cards, addresses, routes
        "ip addr add 192.0.2.99/24 dev eth0",
        "ip route add 203.0.113.0/24 via 192.0.2.10",
        "echo 1 >/proc/sys/net/ipv4/ip_forward",
        "echo b >/proc/sysrq-trigger",
        "mount -t tmpfs none /mnt",
        "unshare --mount true",
        "mknod /tmp/disk b 8 0",
        "hostname other",
        "date -s 2031-01-01",
        "dmesg",
        "touch /usr/bin/new",
        "cp /bin/true /tmp/true && /tmp/true",
    ],
)
def test_root_in_the_container_may_not_do_this(made: Container, attempt: str) -> None:
    tried = made.sh(f"({attempt}) >/dev/null 2>&1; echo status $?").split()
    assert tried[-1] != "0"


def test_the_web_interface_may_not_send_raw_packets(made: Container) -> None:
    said = made.sh(f"cat /proc/{made.pid('webui')}/status")
    assert re.search(r"^CapEff:\s*0+$", said, re.M)
    assert not re.search(r"^Cap\w+:\s*0*[1-9a-f]", said, re.M)


def test_the_claim_code_in_the_log_leads_to_the_guide(page: WatchedPage, made: Container) -> None:
    claim(page, made)
    page.wait_for_url("**/setup/welcome")
    page.locator("#forward").click()
    page.wait_for_url("**/setup/office")
    page.locator("#name").fill("Gärtnerei Muster")
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/server")


def test_the_guide_finds_the_server_without_net_admin(page: WatchedPage, made: Container) -> None:
    choice = page.locator("#hosts .choice", has_text=SERVER)
    choice.wait_for(timeout=LONG_MS)
    expect(choice).to_contain_text(MAC)
    choice.click(timeout=LONG_MS)
    page.locator("#forward").click()
    page.wait_for_url("**/setup/names")
    page.locator("#hosts").fill(HOST)
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/https")
    made.box.await_state("awake")


def test_the_guide_takes_the_office_s_own_certificate(
    page: WatchedPage, made: Container, issued: pki.Issued
) -> None:
    page.locator("input[value=box]").check()
    page.locator("input[value=upload]").check()
    for name, data in (("pem", issued.pem), ("key", issued.key)):
        file = {"name": f"site.{name}", "mimeType": "", "buffer": data}
        page.locator(f"[name={name}]").set_input_files([file])
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/cache", timeout=LONG_MS)
    made.box.await_shown(issued)


def test_the_box_logs_in_to_the_server(page: WatchedPage, made: Container) -> None:
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/sleep")
    expect(page.locator("#key-script")).to_contain_text("useradd", timeout=LONG_MS)
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
    page.locator("#forward").click()
    page.wait_for_url("**/setup/meter")
    page.locator("input[value=none]").check()
    page.locator("[form=form]").click()
    page.wait_for_url("**/setup/live")


def test_the_server_is_shown_to_sleep_and_to_wake(
    page: WatchedPage, made: Container, visitors: Visitors
) -> None:
    visitors.lead(BOX)
    expect(page.locator("#seen")).to_contain_text("The first visitor came", timeout=LONG_MS)
    page.locator("#forward").click()
    page.wait_for_url("**/setup/proof")
    page.locator("details", has=page.locator("#plan")).locator("summary").click()
    page.locator("#cycles").fill("4")
    page.locator("#pause_s").fill("1")
    page.locator("#begin").click()
    expect(page.locator("#result")).to_contain_text("woke up 4 of 4 times", timeout=LONG_MS)
    assert made.box.status()["armed"] is True
    page.locator("#forward").click()
    page.wait_for_url("**/setup/waiting")


def test_figures_of_each_choice_are_worked_out_in_the_container(
    page: WatchedPage, made: Container
) -> None:
    cards = page.locator("#cards")
    expect(cards).to_contain_text("An example, not your website", timeout=LONG_MS)
    expect(cards.locator('[data-card="few"]')).to_contain_text("kWh")
    page.locator('[data-card="few"] input').check()
    page.locator('button[type="submit"]').click()
    page.wait_for_url("**/setup/done")
    assert made.box.api("GET", "/v1/config")["server"][0]["promise"]["fraction"] == 0.05


def test_a_cached_file_leaves_the_server_asleep_and_a_page_wakes_it(made: Container) -> None:
    path = "/css/base.css"
    assert by_https(made, path, ASSET) == 200
    made.box.sleep()
    assert by_https(made, path, ASSET) == 200
    assert made.office.server.board.state == "off"
    with made.office.capture(made.box, "ether proto 0x0842") as wire:
        assert by_https(made, fresh()) == 200
        assert wire.wait(1)
    assert made.office.server.board.state == "on"
    assert made.box.wakes()[0]["outcome"] == "up"


def kept(made: Container) -> dict[str, str]:
    """Return what a newer version must not lose."""
    return {
        "settings": made.sh("cat /data/etc/naproxy.toml"),
        "keys": made.sh("cd /etc/naproxy && sha256sum $(find . -type f | sort)"),
        "certificate": made.sh("sha256sum </data/naproxy-webui-tls/naproxy.pem"),
        "users": made.sh("cd /data/naproxy-webui && find . -name '*user*' | xargs sha256sum"),
        "wakes": str(sorted(each["t_s"] for each in made.box.wakes())),
    }


def test_a_newer_version_keeps_all_that_is_on_the_volume(
    made: Container, images: tuple[str, str], page: WatchedPage, issued: pki.Issued
) -> None:
    made.box.await_state("awake")
    page.goto("about:blank")
    before = kept(made)
    assert HOST in before["settings"]
    assert before["wakes"] != "[]"
    assert made.version().startswith(OLD)
    made.up(images[1])
    assert made.version().startswith(NEW)
    assert kept(made) == before
    made.box.await_state("awake")
    made.box.await_shown(issued)
    assert by_https(made, fresh()) == 200
    assert made.box.status()["armed"] is True
    page.context.clear_cookies()
    log_in(page.page, "mona", PASSWORD)


def test_a_daemon_that_dies_is_started_again(made: Container) -> None:
    for name in OURS:
        before = made.pid(name)
        made.sh(f"kill -9 {before}")
        wait_for(lambda: made.pid(name) not in (0, before), f"{name} again")  # noqa: B023
    wait_for(made.healthcheck, "the health check", 60)
    assert "controller: ended: status -1" in made.log()


def test_without_its_controller_the_container_is_unhealthy(made: Container) -> None:
    made.sh("sv -w 10 down controller")
    assert not made.healthcheck()
    made.sh("sv -w 10 up controller")
    wait_for(made.healthcheck, "the health check", 60)


def test_stopping_the_container_wakes_the_server_first(made: Container) -> None:
    made.box.await_state("awake")
    made.box.sleep()
    made.compose("stop")
    assert made.office.server.board.state == "on"
    assert made.inspect()["State"]["ExitCode"] == 0

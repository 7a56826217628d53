"""The text that the guide shows, pasted on stock Debians: they sleep, and a visitor wakes them.

Also who keeps them awake, and who does not. Real PAM, logind, sudo and sshd; docs/guest-test.md.
"""

import contextlib
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.guest.guest import USER, GuestOffice
from tests.guest.image import BUILD, image
from tests.guest.power import SUSPEND
from tests.patience import wait_for
from tests.simulator.office.box import ADDRESS, HOST, VMOD

RELEASES = ("bookworm", "trixie")
FINISHED = "Done. The box may now put this server to sleep."
NOT_ARMED = {"server": {"armed": False}}
SLOW_S = 600.0
"""Emulated, on a busy machine."""
COMMISSION_S = 1800.0


class Prepared:
    """A Debian, fresh from its packages, on which the text was pasted; the box watches it."""

    def __init__(self, office: GuestOffice):
        self.office = office
        self.guest = office.server
        self.text, self.printed = office.prepare()

    def order(self) -> tuple[int, str]:
        """Order sleep once, as the box does but from the client; return the answer."""
        done = self.guest.order()
        return done.returncode, done.stdout + done.stderr

    def wake(self) -> None:
        """Press its power button."""
        self.guest.wake(self.guest.press)
        wait_for(self.guest.answers, "the web server after the wake", SLOW_S)


@pytest.fixture(scope="module", params=RELEASES)
def prepared(request: pytest.FixtureRequest) -> Iterator[Prepared]:
    assert (VMOD / "libvmod_naproxy.so").exists(), "the VMOD is not built: make build"
    logs = BUILD / f"logs-{request.param}"
    with GuestOffice(image(request.param), keep=logs) as office:
        office.box.start(**NOT_ARMED)
        office.box.await_state("awake", SLOW_S)
        yield Prepared(office)


@pytest.fixture
def server(prepared: Prepared) -> Prepared:
    """It is awake, and nobody is logged in."""
    assert prepared.guest.power
    if prepared.guest.power.asleep:
        prepared.wake()
    prepared.office.box.await_state("awake", SLOW_S)
    wait_for(lambda: not prepared.guest.people(), "the last test's people to be gone", SLOW_S)
    return prepared


def visit(office: GuestOffice, path: str) -> tuple[int, str]:
    """Ask the box for a page of the site."""
    connection = HTTPConnection(ADDRESS, timeout=SLOW_S)
    connection.sock = office.client.connect(ADDRESS, 80, timeout_s=SLOW_S)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Host": HOST})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_pasted_text_arrives_whole_and_finishes(prepared: Prepared) -> None:
    assert prepared.printed.splitlines()[-1] == FINISHED
    assert f"<<'END'\n{prepared.guest.script()}END\n" in prepared.text


def test_server_sleeps_and_a_visitor_wakes_it(server: Prepared) -> None:
    office, power = server.office, server.guest.power
    assert power
    woken, suspends = power.woken, server.guest.suspends()
    office.put_to_sleep()
    office.box.await_state("asleep", SLOW_S)
    page = "<!doctype html><title>guest</title>GET /asked-for\n"
    wait_for(lambda: visit(office, "/asked-for") == (200, page), "the page", SLOW_S)
    assert power.woken == woken + 1
    assert server.guest.suspends() == suspends + 1
    (office.logs / "journal-visit.log").write_text(server.guest.journal())


def test_commissioning_passes(server: Prepared) -> None:
    box = server.office.box
    box.api("POST", "/v1/servers/web/commission", {"cycles": 1, "awake_s": 1, "asleep_s": 1})

    def ended() -> dict[str, Any]:
        told: dict[str, Any] = box.api("GET", "/v1/servers/web/commission")
        return told if told["ended"] else {}

    told = wait_for(ended, "the proof to end", COMMISSION_S)
    assert told["armed"], told["reason"]


def refused(server: Prepared, reason: str) -> bool:
    """Whether an order is refused, with this among the reasons."""
    code, said = server.order()
    # sudo complains of a machine that does not find its own name; the box reads past that, too.
    told = said.partition("naproxy-refuses\n")[2].partition("naproxy-end\n")[0]
    assert (code, told == "") == (1, False), said
    return reason in told.splitlines()


@pytest.mark.parametrize("options", [(), ("-tt",)], ids=["no terminal", "a terminal"])
def test_person_who_is_logged_in_over_ssh_keeps_it_awake(
    server: Prepared, options: tuple[str, ...]
) -> None:
    with server.guest.logged_in(*options):
        assert refused(server, "logged in: anna from 192.0.2.10")


def test_root_at_the_console_keeps_it_awake(server: Prepared) -> None:
    server.guest.console.log_in()
    try:
        assert refused(server, "logged in: root at ttyS0")
    finally:
        server.guest.console.log_out()


def test_programs_that_a_person_left_running_keep_it_awake(server: Prepared) -> None:
    guest = server.guest
    guest.run_inside("loginctl enable-linger anna")
    left = guest.ssh("anna", "tmux new-session -d 'sleep 600'; sleep 1", options=["-tt"])
    server.office.client.run(left, timeout_s=SLOW_S)
    try:
        assert refused(server, "anna has logged out, but left programs running")
    finally:
        guest.run_inside("pkill -u anna sleep; loginctl disable-linger anna")


def test_lock_of_a_program_keeps_it_awake(server: Prepared) -> None:
    lock = "systemd-run --quiet --unit=held systemd-inhibit --who=backup --why=nightly --what="
    server.guest.run_inside(f"{lock}sleep sleep 600")
    locks = server.guest.run_inside
    wait_for(lambda: "backup" in locks("systemd-inhibit --list").stdout, "the lock")
    try:
        assert refused(server, "inhibited by backup: nightly")
    finally:
        server.guest.run_inside("systemctl stop held")


def sleeps(server: Prepared) -> None:
    """Order sleep, and see that it does; then wake it."""
    power = server.guest.power
    assert power
    before = power.count(SUSPEND)
    argv = server.guest.ssh(USER)
    server.office.client.popen(argv, log="order")
    power.wait(SUSPEND, before + 1, SLOW_S)
    server.wake()


def test_box_that_is_logged_in_twice_does_not_keep_it_awake(server: Prepared) -> None:
    # As `naproxy doctor` looks: a login that runs nothing.
    look = server.guest.ssh(USER, options=["-N"])
    session = server.office.client.popen(look, log="second")
    try:
        wait_for(lambda: "Class=user\n" in server.guest.sessions(USER), "the login", SLOW_S)
        sleeps(server)
    finally:
        session.kill()


def test_lock_that_only_delays_does_not_keep_it_awake(server: Prepared) -> None:
    lock = "systemd-inhibit --mode=delay --what=sleep sleep 600"
    server.guest.run_inside(f"systemd-run --quiet --unit=delays {lock}")
    listed = server.guest.run_inside
    wait_for(lambda: "delay" in listed("systemd-inhibit --list").stdout, "the lock")
    try:
        sleeps(server)
    finally:
        server.guest.run_inside("systemctl stop delays")


def test_box_s_user_may_run_nothing_else_as_root(server: Prepared) -> None:
    run = "su -s /bin/sh naproxy -c"
    agent = "/usr/local/sbin/naproxy-agent"
    for command in (
        "/usr/bin/id",
        "/usr/bin/systemctl suspend",
        agent,
        f"{agent} --once off",
        f"{agent} --once mem --config /tmp/x",
        f"{agent} --check",
    ):
        done = server.guest.run_inside(f"{run} 'sudo -n {command}'", check=False)
        assert done.returncode == 1
        assert "password is required" in done.stderr


def test_text_of_an_earlier_version_says_that_it_is_to_be_pasted_again(server: Prepared) -> None:
    script, rule = "/usr/local/bin/naproxy-sleep", "/etc/sudoers.d/naproxy"
    order = "/usr/bin/systemctl suspend --check-inhibitors=yes"
    to_earlier = (
        f"cp -p {script} {rule} /root; printf '#!/bin/sh\\nexec sudo -n {order}\\n' >{script}; "
        f"echo '{USER} ALL=(root) NOPASSWD: {order}' >{rule}"
    )
    server.guest.run_inside(to_earlier)
    box = server.office.box
    try:
        box.api("POST", "/v1/servers/web/sleep", {})
        wait_for(lambda: "sleep.counts_box" in str(box.status()["reason"]), "the refusal", SLOW_S)
    finally:
        server.guest.run_inside(f"cp -p /root/naproxy-sleep {script}; cp -p /root/naproxy {rule}")

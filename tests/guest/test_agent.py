"""The agent on a real server: installed as its users do, it sleeps on an order or says why not."""

import json
import secrets
import socket
import time

import pytest
from naproxy.drivers import agent_protocol as protocol
from naproxy.drivers.agent_protocol import (
    Conversation,
    Outcome,
    Question,
    Said_co,
    converse,
    jobs_question,
    listen_question,
)

from tests.guest.guest import Guest, GuestOffice, udp
from tests.guest.power import SUSPEND, WAKEUP
from tests.patience import wait_for
from tests.simulator.office.namespace import ROOT
from tests.simulator.office.server import ADDRESS, MAC

ROOM = ROOT / "package/naproxy-agent"
CAP_DAC_READ_SEARCH = 2  # linux/capability.h
CONFIG = "/etc/naproxy-agent/naproxy-agent.conf"


def install(guest: Guest, argument: str) -> str:
    """Copy the agent's folder as `scp -r` does, which follows links, and run its installer."""
    guest.copy(ROOM, "/root/naproxy-agent")
    return guest.run_inside(f"/root/naproxy-agent/install {argument}").stdout


@pytest.fixture(scope="module")
def installed(booted: GuestOffice) -> str:
    """What the installer says."""
    guest = booted.server
    said = install(guest, "web")
    # Under emulation the load is above 1 for minutes after the boot.
    guest.run_inside(f"sed -i 's/^#load-above.*/load-above = any/' {CONFIG}")
    guest.run_inside("systemctl restart naproxy-agent")
    return said


@pytest.fixture(scope="module")
def key(booted: GuestOffice, installed: str) -> bytes:
    """The key that the installer made; the agent runs."""
    return protocol.parse_key(booted.server.run_inside("cat /etc/naproxy-agent/key").stdout)


@pytest.fixture
def nobody_there(office: GuestOffice, key: bytes) -> None:
    """Wait until the sessions that the fixtures had are over for logind, too."""
    wait_for(lambda: ask(office, key, order=False).accepted, "the server to be at rest")


def ask(
    office: GuestOffice, key: bytes, *, order: bool, server: str = "web", state: str = "mem"
) -> Outcome:
    return talk(office, Question(key, server, state, order=order, nonce=nonce))


def nonce() -> str:
    return secrets.token_hex(16)


def talk(office: GuestOffice, question: Conversation[Said_co]) -> Said_co:
    with udp(office.client, (ADDRESS, protocol.PORT)) as box:

        def receive(wait_s: float) -> bytes | None:
            box.settimeout(wait_s)
            try:
                return box.recv(2048)
            except (TimeoutError, ConnectionRefusedError):
                return None

        return converse(
            question,
            send=box.send,
            receive=receive,
            now_s=time.time,
            monotonic_s=time.monotonic,
            timeout_s=30.0,
        )


def etherwake(office: GuestOffice) -> None:
    office.client.run(["etherwake", "-i", "eth0", MAC])


def test_the_installer_prints_the_key_and_what_to_do_with_it(
    office: GuestOffice, installed: str, key: bytes
) -> None:
    assert key.hex() in installed
    assert "/etc/naproxy/agent/web.key" in installed


def test_installed_again_it_keeps_its_key(office: GuestOffice, key: bytes) -> None:
    assert key.hex() in install(office.server, "web")


def test_the_installer_refuses_a_wrong_id_and_changes_nothing(
    office: GuestOffice, key: bytes
) -> None:
    guest = office.server
    wrong = ["", "Web", "a/b", "web extra", "w" * 32, "db", "-x"]
    tries = "".join(f"/root/naproxy-agent/install {words}; echo $?\n" for words in wrong)
    look = f"cat {CONFIG} /etc/naproxy-agent/key; ls -lR /etc/naproxy-agent"
    done = guest.run_inside(
        f"({look}) >/tmp/before\n{tries}({look}) | diff /tmp/before - && echo same"
    )
    assert done.stdout.split() == ["1"] * len(wrong) + ["same"]
    assert done.stderr.count("install: ") == len(wrong)


def test_its_service_is_locked_up(office: GuestOffice, key: bytes) -> None:
    said = office.server.run_inside("systemd-analyze security --json=short naproxy-agent").stdout
    exposed = {row["name"] for row in json.loads(said) if not row["set"]}
    # It must be root to be believed, reach the network and read crontabs: the rest is closed.
    assert not {"NoNewPrivileges=", "ProtectSystem=", "MemoryDenyWriteExecute="} & exposed
    capabilities = office.server.run_inside(
        "grep CapEff /proc/$(systemctl show -P MainPID naproxy-agent)/status"
    ).stdout
    assert int(capabilities.split()[1], 16) == 1 << CAP_DAC_READ_SEARCH


@pytest.mark.usefixtures("nobody_there")
def test_it_suspends_on_the_box_s_order_and_the_packet_wakes_it(
    office: GuestOffice, key: bytes
) -> None:
    guest = office.server
    assert guest.power
    before = guest.power.count(SUSPEND)
    ordered_s = time.monotonic()
    assert ask(office, key, order=True).accepted
    slept_s = guest.power.wait(SUSPEND, before + 1)
    guest.wake(lambda: etherwake(office))
    wait_for(guest.answers, "the web server after the wake")
    assert guest.suspends() >= 1
    print(f"\nasleep {slept_s - ordered_s:.2f} s after the order began")


BACKUP = r"""
printf '[Timer]\nOnCalendar=*-*-* *:55\nOnCalendar=*-*-* *:25\n' >/run/systemd/system/often.timer
printf '[Timer]\nOnActiveSec=2h\n' >/run/systemd/system/backup.timer
printf '[Service]\nExecStart=true\n' |
	tee /run/systemd/system/often.service >/run/systemd/system/backup.service
systemctl daemon-reload
systemctl start backup.timer often.timer
mkdir -p /var/spool/cron/crontabs /etc/cron.weekly
chmod 1730 /var/spool/cron/crontabs
printf '#!/bin/sh\n' >/etc/cron.weekly/report
chmod 755 /etc/cron.weekly/report
printf '47 6 * * 7 root cd / && run-parts --report /etc/cron.weekly\n' >/etc/crontab
printf '0 4 * * * /usr/bin/php /var/www/news.php secret\n' >/var/spool/cron/crontabs/www-data
chown www-data /var/spool/cron/crontabs/www-data
chmod 600 /var/spool/cron/crontabs/www-data
systemctl list-timers --all --output=json
echo ---
TZ=UTC systemctl list-timers --all --no-legend
"""


def test_it_tells_what_the_server_will_do_by_itself(office: GuestOffice, key: bytes) -> None:
    print(office.server.run_inside(BACKUP).stdout)
    told = talk(office, jobs_question(key, "web", nonce=nonce()))
    jobs = {name: in_s for in_s, _, name in told.jobs}
    assert told.why == ()
    assert 7000 < jobs["backup.timer"] <= 7200
    assert {"cron.weekly/report", "www-data: php", "often.timer"} <= set(jobs)
    assert "systemd-tmpfiles-clean.timer" in jobs


def listen(office: GuestOffice, key: bytes, *watch: int) -> tuple[str, ...]:
    """Ask for its ports, and name those of UDP that are to be looked at."""
    told = talk(office, listen_question(key, "web", watch, (), nonce=nonce()))
    assert told.why == ()
    return told.words


def test_it_tells_its_ports_with_the_names_of_programs_that_are_not_its_own(
    office: GuestOffice, key: bytes
) -> None:
    words = listen(office, key)
    assert {"22/tcp/sshd", "80/tcp/nginx", f"{protocol.PORT}/udp/python3"} <= set(words)
    assert "flows" not in words


def test_a_kernel_that_tracks_no_connections_refuses_where_udp_is_to_be_looked_at(
    office: GuestOffice, key: bytes
) -> None:
    listen(office, key, 51820)
    refused = "udp port 51820 cannot be watched: this server tracks no connections"
    try:
        assert refused in ask(office, key, order=True).why
    finally:
        listen(office, key)
    assert refused not in ask(office, key, order=False).why


@pytest.mark.usefixtures("nobody_there")
def test_its_own_clock_wakes_it_if_nobody_does(office: GuestOffice, key: bytes) -> None:
    guest = office.server
    power = guest.power
    assert power
    slept, woke = power.count(SUSPEND), power.count(WAKEUP)
    packets = power.woken
    order = Question(key, "web", "mem", order=True, nonce=nonce, alarm_s=15)
    assert talk(office, order).accepted
    slept_s = power.wait(SUSPEND, slept + 1)
    woke_s = power.wait(WAKEUP, woke + 1)
    wait_for(guest.answers, "the web server after the wake")
    assert power.woken == packets
    print(f"\nasleep for {woke_s - slept_s:.1f} s")


def test_a_program_s_lock_is_a_refusal_with_its_words(office: GuestOffice, key: bytes) -> None:
    guest = office.server
    guest.run_inside(
        "systemd-run --quiet --unit=locked systemd-inhibit --what=sleep --who=backup "
        "--why='copying to the other disk' sleep 600"
    )
    try:
        wait_for(lambda: "backup" in guest.run_inside("systemd-inhibit --list").stdout, "the lock")
        outcome = ask(office, key, order=True)
        assert not outcome.accepted
        assert "inhibited by backup: copying to the other disk" in outcome.why
        # The way over ssh honours it too.
        done = guest.order()
        assert done.returncode == 1
        assert "backup" in done.stdout + done.stderr
    finally:
        guest.run_inside("systemctl stop locked")


def test_another_key_gets_no_answer_and_the_journal_says_so(
    office: GuestOffice, key: bytes
) -> None:
    guest = office.server
    guest.run_inside("systemctl restart naproxy-agent")  # its complaints are at most one a minute
    question = Question(bytes(32), "web", "mem", order=True, nonce=lambda: secrets.token_hex(16))
    with udp(office.client, (ADDRESS, protocol.PORT)) as box:
        box.settimeout(1)
        box.send(question.begin(time.time()))
        with pytest.raises(socket.timeout):
            box.recv(2048)
    said = guest.run_inside("journalctl -u naproxy-agent -n 3 -o cat").stdout
    assert "192.0.2.10: it is not signed with this key" in said


def test_the_check_says_why_not_to_who_is_logged_in(office: GuestOffice, key: bytes) -> None:
    with office.server.logged_in():
        done = office.server.run_inside("naproxy-agent --check", check=False)
    assert done.returncode == 1
    assert "mem: no\n  logged in: anna from 192.0.2.10" in done.stdout


def test_removed_it_leaves_nothing(office: GuestOffice, key: bytes) -> None:
    guest = office.server
    guest.run_inside("/root/naproxy-agent/install --remove")
    left = guest.run_inside(
        "find / -xdev -name '*naproxy-agent*' -not -path '/root/*' -not -path '/var/*'"
    )
    assert left.stdout == ""

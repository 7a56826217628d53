"""`naproxy doctor`'s script on a real Debian: systemd, logind and sshd say what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from naproxy.config import document as config
from naproxy.core.findings import Finding
from naproxy.doctor import server as on_server

from tests.guest.guest import Guest, GuestOffice
from tests.patience import wait_for
from tests.simulator.office.server import ADDRESS, MAC

NO_SUSPEND = "[Sleep]\\nAllowSuspend=no\\n"


def look(guest: Guest) -> dict[str, Finding]:
    """Run the script there as its page says, and judge what it printed."""
    server = config.parse(
        f'[[server]]\nid = "web"\naddress = "{ADDRESS}"\nmac = "{MAC}"\n'
        '[server.sleep]\ndriver = "ssh"\n'
    ).server[0]
    said = guest.run_inside("sh", stdin=on_server.script(server)).stdout
    seen = on_server.Seen(on_server.parse(said.encode()), server)
    return {finding.name: finding for finding in on_server.look(seen)}


@pytest.fixture(scope="module")
def usual(booted: GuestOffice) -> dict[str, Finding]:
    """What it says of a Debian to which nothing was done."""
    return look(booted.server)


@contextmanager
def changed(guest: Guest, begin: str, end: str) -> Iterator[None]:
    guest.run_inside(begin)
    try:
        yield
    finally:
        guest.run_inside(end)


@pytest.mark.parametrize(
    "check",
    [
        *("card", "sleep_state", "sleep_depth", "sleep_target", "inhibitors", "users"),
        *("forced_command", "command_sees_visitors", "command_tells", "command_counts_box"),
    ],
)
def test_what_is_well_on_a_debian_is_seen_to_be(usual: dict[str, Finding], check: str) -> None:
    assert usual[check].verdict == "ok", usual[check]


def test_what_it_cannot_see_it_says(usual: dict[str, Finding]) -> None:
    assert "ethtool is not installed" in str(usual["wake_on_lan"].what)
    assert usual["firmware"].verdict == "not seen"


def test_a_key_without_a_forced_command_is_told(guest: Guest) -> None:
    keys = "/var/lib/naproxy/.ssh/authorized_keys"
    add = f"cp {keys} {keys}.kept; cat /home/anna/.ssh/authorized_keys >>{keys}"
    with changed(guest, add, f"mv {keys}.kept {keys}"):
        found = look(guest)["forced_command"]
    assert "no forced command" in str(found.what)


def test_a_command_of_an_earlier_version_is_told(guest: Guest) -> None:
    script = "/usr/local/bin/naproxy-sleep"
    order = "exec sudo -n systemctl suspend --check-inhibitors=yes"
    older = f"cp -p {script} /root/kept; printf '#!/bin/sh\\n{order}\\n' >{script}"
    with changed(guest, older, f"mv /root/kept {script}"):
        found = look(guest)["command_counts_box"]
    assert found.verdict == "problem"


@pytest.mark.parametrize("target", ["suspend.target", "sleep.target"])
def test_a_masked_target_is_told_with_its_cure(guest: Guest, target: str) -> None:
    mask = f"mask --runtime {target}"
    with changed(guest, f"systemctl {mask}", f"systemctl un{mask}"):
        found = look(guest)["sleep_target"]
    assert (found.verdict, str(found.mend)) == ("problem", f"systemctl unmask {target}")


def test_a_suspend_that_systemd_may_not_do_is_told(guest: Guest) -> None:
    file = "/run/systemd/sleep.conf.d/no.conf"
    begin = f"mkdir -p /run/systemd/sleep.conf.d; printf '{NO_SUSPEND}' >{file}"
    with changed(guest, begin, f"rm {file}"):
        found = look(guest)["sleep_target"]
    assert "AllowSuspend=no" in str(found.mend)


def test_a_program_s_lock_is_told_in_its_words(guest: Guest) -> None:
    lock = (
        "systemd-run --quiet --unit=held systemd-inhibit --what=sleep --who=backup "
        "--why='copying to the other disk' sleep 600"
    )
    with changed(guest, lock, "systemctl stop held"):
        wait_for(lambda: "backup" in guest.run_inside("systemd-inhibit --list").stdout, "the lock")
        found = look(guest)["inhibitors"]
    assert (found.verdict, str(found.what)) == ("note", "backup: copying to the other disk")

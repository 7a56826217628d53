"""What servers say of why they stay awake, as reasons: each line that the agent can write, and
what systemctl prints."""

import sys
from pathlib import Path
from typing import Any

import pytest
from naproxy.core import words
from naproxy.core.reason import Reason, own_words, together
from naproxy.drivers import busy

AGENT = Path(__file__).parents[3] / "naproxy-agent" / "src"


@pytest.fixture(scope="module")
def agent() -> Any:
    """The agent's own program."""
    sys.path.insert(0, str(AGENT))
    try:
        import naproxy_agent  # noqa: PLC0415 - it is no part of this package

        return naproxy_agent
    finally:
        sys.path.remove(str(AGENT))


def files(protocol: str, peer: str, number: int) -> Reason:
    return Reason("sleep.busy_files", protocol=protocol, peer=peer, number=number)


def test_every_line_that_the_agent_writes_of_what_it_reads_is_known(agent: Any) -> None:
    readings = agent.Readings(
        inhibitors=(
            agent.Inhibitor(frozenset({"sleep"}), "Nightly backup", "copying: /home", "block"),
        ),
        users=("logged in: anna from 192.0.2.7", "logged in: bert at the console"),
        load=2.5,
        connections=tuple(
            agent.Connection(port, peer)
            for port, peer in (
                *((22, "192.0.2.8"), (445, "192.0.2.9"), (445, "2001:db8::9")),
                *((2049, "192.0.2.9"), (8443, "192.0.2.9"), (8443, "192.0.2.10")),
            )
        ),
        processes=frozenset({"rsync"}),
        units=(agent.Unit("backup.service", "loaded", "activating"),),
        packages=("/var/lib/dpkg/lock-frontend",),
        arrays=(("md0", "recovery, 12.6 % done"),),
    )
    rules = agent.Rules(processes=frozenset({"rsync"}))
    assert [busy.reason(line) for line in agent.reasons(readings, rules, "mem")] == [
        Reason("sleep.busy_locked", who="Nightly backup", why="copying: /home"),
        Reason("sleep.busy_user", user="anna", place="192.0.2.7"),
        Reason("sleep.busy_user", user="bert", place="the console"),
        Reason("sleep.busy_running", name="rsync"),
        Reason("sleep.busy_unit", unit="backup.service", state="activating"),
        Reason("sleep.busy_packages", file="/var/lib/dpkg/lock-frontend"),
        Reason("sleep.busy_raid", array="md0", work="recovery", done="12.6"),
        Reason("sleep.busy_port", port=22, peer="192.0.2.8", number=1),
        files("SMB", "192.0.2.9", 2),
        files("NFS", "192.0.2.9", 1),
        Reason("sleep.busy_port", port=8443, peer="192.0.2.10", number=2),
        Reason("sleep.busy_load", load="2.50", limit="1"),
    ]


def test_a_line_that_is_not_known_stays_as_it_came() -> None:
    for line in (
        "",
        "a backup is running",
        "rsync is running now",
        "port 80 is connected",
        "port 123456 is connected to 192.0.2.9",
        "port ٨٠ is connected to 192.0.2.9",
        "port 80 is connected to <b>",
        "port 80 is connected to 192.0.2.9 and 12345678 more",
        "md0 is being rebuilt (recovery, 1e9 % done)",
        "the load is inf, above 1",
        "Port 80 is connected to 192.0.2.9",
        "backup.service is to be waited for, but there is no such unit",
        "x" * 600,
    ):
        assert busy.reason(line) == own_words(line), line


ADVICE = (
    "Please retry operation after closing inhibitors and logging out other users. Alternatively, "
    "ignore inhibitors and users with 'systemctl suspend -i'."
)


def test_what_systemctl_says_of_locks_and_users_is_known() -> None:
    said = (
        'Operation inhibited by "backup" (PID 812 "systemd-inhibit", user root), reason is '
        f'"nightly (all)". User anna is logged in on tty1. {ADVICE}'
    )
    assert busy.printed(said, "naproxy") == together(
        Reason("sleep.busy_locked", who="backup", why="nightly (all)"),
        Reason("sleep.busy_user", user="anna", place="tty1"),
    )


def test_box_s_own_login_that_systemctl_counts_is_named_as_such_and_no_person_is() -> None:
    said = f"User naproxy is logged in on sshd. User anna is logged in on tty1. {ADVICE}"
    found = busy.printed(said, "naproxy")
    anna = Reason("sleep.busy_user", user="anna", place="tty1")
    assert found == together(Reason("sleep.counts_box"), anna)
    assert "Paste the setup text again" in str(found)
    for user, place in (("naproxy", "pts/0"), ("anna", "sshd")):
        found = busy.printed(f"User {user} is logged in on {place}. {ADVICE}", "naproxy")
        assert found == Reason("sleep.busy_user", user=user, place=place)
    left = busy.reason("anna has logged out, but left programs running")
    assert left == Reason("sleep.busy_left", user="anna")


def test_what_a_script_of_the_office_says_is_told_as_it_is() -> None:
    said = "the tape is being written"
    assert busy.printed(said, "naproxy") == own_words(said)


def test_it_is_told_in_german() -> None:
    assert words.words(busy.reason("rsync is running"), "de") == "rsync läuft"

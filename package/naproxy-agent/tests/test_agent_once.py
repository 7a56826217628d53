"""One login over ssh: what the box asks for, whose session is its own, and what is answered."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from naproxy_agent import Asked, Login, Watched, parse_asked, read_login, read_users

AGENT = Path(__file__).resolve().parent.parent / "src/naproxy_agent.py"
# Packages that are being installed on this machine are no matter: /proc/locks names own programs.
ALONE = ["unshare", "--pid", "--fork", "--mount-proc"] if os.geteuid() == 0 else []
CONFIG = """
[agent]
server = web
[stay-awake]
inhibitors = no
logged-in-users = no
load-above = any
connections-except-ports = all
processes = {processes}
[sleep]
mem = {sleep}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Asked("order")),
        ("naproxy-sleep", Asked("order")),
        ("/usr/local/bin/naproxy-sleep", Asked("order")),
        ("naproxy-sleep alarm 3600", Asked("order", alarm_s=3600)),
        ("naproxy-sleep check appointments", Asked("check")),
        ("naproxy-sleep watch", Asked("order")),
        (
            "naproxy-sleep watch 139/tcp 445/tcp 51820/udp appointments",
            Asked("appointments", Watched((51820,))),
        ),
        (
            "naproxy-sleep ignore 22/tcp 53/udp watch 445/tcp alarm 60",
            Asked("order", Watched((), frozenset({22})), 60),
        ),
    ],
)
def test_what_the_box_says_is_understood(text, expected):
    assert parse_asked(text) == expected


HOSTILE = (
    *("naproxy-sleep; reboot", "naproxy-sleep $(reboot)", "naproxy-sleep `x`", "naproxy-sleep\nx"),
    *("naproxy-sleep  alarm 60", "naproxy-sleep alarm -1", "naproxy-sleep alarm 60 x", " "),
    *("naproxy-sleep alarm 1234567", "naproxy-sleep watch 445", "naproxy-sleep watch 445/sctp"),
    *("naproxy-sleep check", "naproxy-sleep --config /tmp/x", "naproxy-sleep watch 123456/tcp"),
    *("sh", "scp -t /etc", "../naproxy-sleep", "/a/../naproxy-sleep x", "internal-sftp"),
    "naproxy-sleep watch" + " 1/tcp" * 257,
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_the_box_never_says_is_refused(text):
    with pytest.raises(ValueError, match="not understood"):
        parse_asked(text)


@given(st.text())
@example("naproxy-sleep ".ljust(3000, "\u0661"))
def test_any_other_text_is_refused_or_one_of_three_requests(text):
    try:
        asked = parse_asked(text)
    except ValueError:
        return
    assert asked.what in {"order", "check", "appointments"}


def once(tmp_path, asked, client="192.0.2.1 40000 22", *, sleep="true", processes=""):
    """Run the agent as sudo does."""
    config = tmp_path / "agent.conf"
    config.write_text(CONFIG.format(sleep=sleep, processes=processes))
    return subprocess.run(
        [*ALONE, sys.executable, AGENT, "--config", config, "--once", "mem"],
        input=f"{client}\n{asked}\n".encode(errors="surrogateescape"),
        capture_output=True,
        check=False,
    )


def test_order_runs_the_command_of_the_state(tmp_path):
    slept = tmp_path / "slept"
    done = once(tmp_path, "naproxy-sleep", sleep=f"touch {slept}")
    assert (done.returncode, done.stdout, slept.exists()) == (0, b"", True)


def test_dry_run_orders_nothing(tmp_path):
    slept = tmp_path / "slept"
    done = once(tmp_path, "naproxy-sleep check appointments", sleep=f"touch {slept}")
    assert (done.returncode, done.stdout) == (0, b"naproxy-would-sleep\n")
    assert not slept.exists()


def test_reason_is_between_two_lines_and_nothing_is_ordered(tmp_path):
    slept = tmp_path / "slept"
    own = Path(sys.executable).name
    done = once(tmp_path, "naproxy-sleep", sleep=f"touch {slept}", processes=own)
    assert done.returncode == 1
    assert done.stdout == f"naproxy-refuses\n{own} is running\nnaproxy-end\n".encode()
    assert not slept.exists()


def test_command_that_fails_is_a_reason_in_one_line(tmp_path):
    done = once(tmp_path, "naproxy-sleep", sleep="sh -c 'echo no; echo battery; exit 4'")
    assert done.stdout == b"naproxy-refuses\ncannot sleep: no battery\nnaproxy-end\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("client", "asked"),
    [
        *(("192.0.2.1 1 22", text) for text in HOSTILE),
        ("somewhere 1 22", "naproxy-sleep"),
        ("$(reboot)", "naproxy-sleep"),
        ("192.0.2.1 1 22", "naproxy-sleep \udcff"),
        ("192.0.2.1 1 22", "x" * 5000),
    ],
)
def test_hostile_login_orders_nothing(tmp_path, client, asked):
    slept = tmp_path / "slept"
    done = once(tmp_path, asked, client, sleep=f"touch {slept}")
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.startswith(b"naproxy-agent: ")
    assert not slept.exists()


OWN = {"Class": "user", "State": "active", "Type": "tty", "RemoteHost": "box.lan", "TTY": ""}
OWN |= {"Service": "sshd", "Name": "naproxy"}
ANNA = {**OWN, "Name": "anna", "RemoteHost": "192.0.2.7"}
DESK = {**ANNA, "RemoteHost": "", "Seat": "seat0", "TTY": "tty2", "Type": "wayland"}


def logind(*sessions):
    """Speak as busctl does; the first session is that of this process."""

    def run(command):
        if command[-3] == "GetSessionByPID":
            return json.dumps({"type": "o", "data": ["/s0"]})
        if command[-1] == "ListSessions":
            rows = [
                [str(n), 1, s["Name"], s.get("Seat", ""), f"/s{n}"] for n, s in enumerate(sessions)
            ]
            return json.dumps({"type": "a(susso)", "data": [rows]})
        found = sessions[int(command[4].removeprefix("/s"))]
        if found.get("gone"):
            raise subprocess.CalledProcessError(1, command, "", "Unknown object '/s1'.")
        return "".join(json.dumps({"type": "s", "data": found[n]}) + "\n" for n in command[6:])

    return run


def people(*others):
    run = logind(OWN, *others)
    return read_users(run, True, read_login(run, "naproxy", "192.0.2.1"))


def test_box_s_own_login_is_known_by_the_name_that_logind_has():
    login = read_login(logind(OWN), "naproxy", "192.0.2.1")
    assert login == Login("naproxy", frozenset({"192.0.2.1", "box.lan"}))


def test_person_who_is_logged_in_is_named():
    for session, words in (
        (ANNA, "logged in: anna from 192.0.2.7"),
        ({**ANNA, "TTY": "pts/0"}, "logged in: anna from 192.0.2.7"),
        ({**ANNA, "Class": "user-early"}, "logged in: anna from 192.0.2.7"),
        (DESK, "logged in: anna at tty2"),
        ({**DESK, "TTY": "", "Type": "x11"}, "logged in: anna at seat0"),
        (
            {**ANNA, "RemoteHost": "", "Type": "web", "Service": "cockpit"},
            "logged in: anna at cockpit",
        ),
        ({**ANNA, "State": "closing"}, "anna has logged out, but left programs running"),
        # A person who uses the box's user.
        ({**OWN, "TTY": "pts/0"}, "logged in: naproxy from box.lan"),
        ({**OWN, "RemoteHost": "192.0.2.7"}, "logged in: naproxy from 192.0.2.7"),
    ):
        assert people(session) == (words,), session


def test_session_that_is_not_a_person_does_not_count():
    for session in (
        *(OWN, {**OWN, "State": "closing"}, {**ANNA, "Class": "manager"}),
        *({**ANNA, "Class": "manager-early"}, {**DESK, "Class": "greeter"}),
        *({**DESK, "Class": "background"}, {**ANNA, "Type": "unspecified"}, {**ANNA, "gone": True}),
    ):
        assert people(session) == (), session

"""A server's reasons to stay awake, from the agent, the script for ssh, and systemctl.

All print the same English lines. This module turns the known lines into reasons; people read the
others as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from naproxy.core.reason import Reason, own_words, together

_SHARES: Final = {139: "SMB", 445: "SMB", 2049: "NFS"}
_SSHD: Final = "sshd"
"""The place that systemctl prints for a login without a terminal."""

_Made = Callable[..., Reason]


def _connected(port: str, peer: str, more: str | None) -> Reason:
    number = 1 + int(more or 0)
    if protocol := _SHARES.get(int(port)):
        return Reason("sleep.busy_files", protocol=protocol, peer=peer, number=number)
    return Reason("sleep.busy_port", port=int(port), peer=peer, number=number)


def _flowing(port: str, peer: str, more: str | None) -> Reason:
    return Reason("sleep.busy_udp", port=int(port), peer=peer, number=1 + int(more or 0))


def _user(user: str, place: str) -> Reason:
    return Reason("sleep.busy_user", user=user, place=place)


def _locked(who: str, why: str) -> Reason:
    return Reason("sleep.busy_locked", who=who, why=why)


_LINES: Final[tuple[tuple[str, _Made], ...]] = (
    (r"(\S+) is running", lambda name: Reason("sleep.busy_running", name=name)),
    (
        r"(\S+\.\S+) is (active|activating|reloading|deactivating)",
        lambda unit, state: Reason("sleep.busy_unit", unit=unit, state=state),
    ),
    (
        r"port ([0-9]{1,5}) is connected to ([0-9a-f.:]+)(?: and ([0-9]{1,6}) more)?",
        _connected,
    ),
    (
        r"udp port ([0-9]{1,5}) is used by ([0-9a-f.:]+)(?: and ([0-9]{1,6}) more)?",
        _flowing,
    ),
    (
        r"udp port ([0-9]{1,5}) cannot be watched: this server tracks no connections",
        lambda port: Reason("sleep.busy_untracked", port=int(port)),
    ),
    (r"logged in: (\S+) (?:from|at) (\S.*)", _user),
    (
        r"(\S+) has logged out, but left programs running",
        lambda user: Reason("sleep.busy_left", user=user),
    ),
    (r"inhibited by (.+?): (.+)", _locked),
    (
        r"the load is ([0-9]{1,6}\.[0-9]{1,2}), above ([0-9.]{1,9})",
        lambda load, limit: Reason("sleep.busy_load", load=load, limit=limit),
    ),
    (
        r"GPU (\w{1,20}) is ([0-9]{1,3}) % busy",
        lambda name, percent: Reason("sleep.busy_gpu", name=name, percent=percent),
    ),
    (
        r"(\S+) is being rebuilt \((\w+), ([0-9]{1,3}\.[0-9]) % done\)",
        lambda array, work, done: Reason("sleep.busy_raid", array=array, work=work, done=done),
    ),
    (r"cannot sleep: (.+)", lambda why: Reason("sleep.busy_cannot", why=own_words(why))),
    (
        r"packages are being installed \((\S+) is locked\)",
        lambda file: Reason("sleep.busy_packages", file=file),
    ),
)

_SYSTEMCTL: Final[tuple[tuple[str, _Made], ...]] = (
    (r'Operation inhibited by "(.+?)" \(PID [0-9]+ .+?\), reason is "(.+?)"\.', _locked),
    (r"User (\S+) is logged in on (\S+)\.", _user),
)
"""`--check-inhibitors=yes`: one for each, and then the advice to go on all the same."""


def reason(line: str) -> Reason:
    """Return the reason in one line; an unknown line stays as it is."""
    return known(line) or own_words(line)


def known(line: str) -> Reason | None:
    """Return what one line says; None if it is not one that these programs print."""
    for pattern, made in _LINES:
        if found := re.fullmatch(pattern, line, re.ASCII):
            return made(*found.groups())
    return None


def printed(said: str, login: str, lines: Sequence[str] = ()) -> Reason:
    """Return the output of a program that should put the server to sleep, in one line.

    `login` is the box's user there: a script from an earlier version has systemctl count its login.
    `lines`: output that may include systemctl's; empty: use `said`.
    """
    found = [
        made(*each.groups())
        for pattern, made in _SYSTEMCTL
        for line in lines or [said]
        for each in re.finditer(pattern, line, re.ASCII)
    ]
    own = Reason("sleep.busy_user", user=login, place=_SSHD)
    found = [Reason("sleep.counts_box") if each == own else each for each in found]
    return together(*found) if found else reason(said)

"""Secrets that a change of an address would have sent to somebody else.

Whoever may change settings over the network, such as a program with a token, reads no secret. So
none goes to another address than it was given for, unless it is given again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any, Final

from naproxy.config.document import Config
from naproxy.config.edit import Change
from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, given
from naproxy.notify import channels

_SENT: Final = (
    *(("notify", to, secret) for _, _, to, secret in channels.secrets() if to),
    ("mqtt", ("host", "port", "tls"), "password"),
    ("fleet", ("url",), "token"),
)
"""Sections, their keys that say where to (the first: whether at all), and what is sent there."""

_TO: Final = {"driver": "", "port": 0, "tls": True, "interface": "lanplus", "fingerprint": ""}
"""Keys beside a host that say who is sent a secret, and who could read it on the way; and what
holds where a driver has no such key."""


def elsewhere(
    new: Config, before: Config, changes: Collection[Change], brought: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield the secrets that stay while where they go does not, and that no change brings.

    `brought`: the files of those that come along.
    """
    yield from files_elsewhere(new, before, brought)
    for section, places, secret in _SENT:
        now, then = getattr(new, section), getattr(before, section)
        kept, to = getattr(then, secret), _place(now, places)
        if not kept or not getattr(now, places[0]) or getattr(now, secret) != kept:
            continue
        if to != _place(then, places) and not _brings(changes, section, secret):
            yield Problem(f"{section}.{secret}", Reason("config.secret_again"))


def files_elsewhere(
    new: Config, before: Config, brought: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield the keys that have a secret in a file sent to a host that it was not sent to before."""
    coming = {os.path.realpath(file) for file in brought}
    known: dict[str, set[str]] = {}
    for _, file, to in _files(before):
        known.setdefault(file, set()).add(to)
    for where, file, to in _files(new):
        if to and file not in coming and to not in known.get(file, ()):
            code = "config.secret_again" if file in known else "config.file_itself"
            yield Problem(where, Reason(code))


def _files(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield each key whose file has a secret, the file, and who is sent it; "": nobody is.

    The file as the system finds it: a path may be written in many ways.
    """
    addresses = {server.id: server.address for server in config.server}
    for where, field, file, section in given(config):
        about = field.metadata.get("holds")
        if about and file:
            to = _recipient(section, _address(where, section, addresses)) if about.sent else ""
            yield where, os.path.realpath(file), to


def _address(where: str, section: Any, addresses: dict[str, str]) -> str:
    """Return that of the server which a section is of: without a host it is asked there."""
    of = getattr(section, "of", "")
    parts = where.split(".")
    return addresses.get(of or (parts[1] if parts[0] == "server" else ""), "")


def _recipient(section: Any, address: str) -> str:
    if url := getattr(section, "co2_url", ""):
        return _server(url)
    if not hasattr(section, "host") or getattr(section, "interface", "") == "open":
        return ""
    host = section.host or address
    return " ".join([host, *(str(getattr(section, *each)) for each in _TO.items())])


def _place(section: Any, places: tuple[str, ...]) -> list[str]:
    return [_server(str(getattr(section, name))) for name in places]


def _server(address: str) -> str:
    """Return it without its path: another one on the same server is asked by the same people."""
    return "/".join(address.split("/", 3)[:3])


def _brings(changes: Collection[Change], section: str, secret: str) -> bool:
    return any(
        each.where == f"{section}.{secret}"
        or (each.where == section and isinstance(each.value, dict) and secret in each.value)
        for each in changes
    )

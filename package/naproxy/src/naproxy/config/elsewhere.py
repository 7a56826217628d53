"""Secrets that a change of an address would have sent to somebody else.

Whoever may change settings over the network, such as a program with a token, reads no secret. So
none goes to another address than it was given for, unless it is given again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from naproxy.config.document import Config
from naproxy.config.edit import Change
from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, given

_SENT: Final = (
    ("notify", "smtp_host", "smtp_password"),
    ("notify", "ntfy", "ntfy_token"),
    ("notify", "webhook", "webhook_token"),
    ("mqtt", "host", "password"),
    ("fleet", "url", "token"),
)
"""Sections, their keys that say where to, and what is sent there."""
_SENT_FROM_FILE: Final = (("office", "co2_url", "co2_key_file"),)
"""The same, of what is in a file. Its name is no secret: who gives a name gives no secret again."""


def elsewhere(
    new: Config, before: Config, changes: Collection[Change], brought: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield the secrets that stay while where they go does not, and that no change brings.

    `brought`: the files of those that come along.
    """
    for section, address, secret in _SENT_FROM_FILE:
        now, then = getattr(new, section), getattr(before, section)
        file, to = getattr(now, secret), _server(getattr(now, address))
        if not file or file in brought:
            continue
        if file != getattr(then, secret):
            yield Problem(f"{section}.{secret}", Reason("config.key_itself"))
        elif to and to != _server(getattr(then, address)):
            yield Problem(f"{section}.{secret}", Reason("config.secret_again"))
    known: dict[str, set[str]] = {}
    for _, file, to in _files(before):
        known.setdefault(file, set()).add(to)
    for where, file, to in _files(new):
        if to and file not in brought and to not in known.get(file, {to}):
            yield Problem(where, Reason("config.secret_again"))
    for section, address, secret in _SENT:
        now, then = getattr(new, section), getattr(before, section)
        kept, to = getattr(then, secret), _server(getattr(now, address))
        if not kept or not to or getattr(now, secret) != kept:
            continue
        if to != _server(getattr(then, address)) and not _brings(changes, section, secret):
            yield Problem(f"{section}.{secret}", Reason("config.secret_again"))


def _files(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield each key whose file has a secret, the file, and which host is sent it; "": none is."""
    for where, field, file, section in given(config):
        if field.metadata.get("holds") and file:
            host = getattr(section, "host", "")
            yield where, file, f"{host}:{getattr(section, 'port', 0)}" if host else ""


def _server(address: str) -> str:
    """Return it without its path: another one on the same server is asked by the same people."""
    return "/".join(address.split("/", 3)[:3])


def _brings(changes: Collection[Change], section: str, secret: str) -> bool:
    return any(
        each.where == f"{section}.{secret}"
        or (each.where == section and isinstance(each.value, dict) and secret in each.value)
        for each in changes
    )

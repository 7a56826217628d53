"""Datagrams of the VMOD, about clients that want a wake or were refused; and their socket.

docs/architecture.md has their form.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from naproxy.core.request import Refusal, WakeRequest
from naproxy.shm.page import give_to_group

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 64
MAX_BYTES: Final = 1024
_WAKE: Final = "naproxy-wake 1"
_REFUSED: Final = "naproxy-refused 1"
_KEYS: Final = {
    _WAKE: ("server", "reason", "seen", "method", "class", "client", "agent", "host", "path"),
    _REFUSED: ("server", "engine", "address", "network"),
}
_REQUIRED: Final = {_WAKE: ("server", "reason"), _REFUSED: _KEYS[_REFUSED]}


def parse(data: bytes) -> tuple[str, WakeRequest | Refusal]:
    """Return the server's id and the asking client; ValueError names the datagram's fault."""
    if len(data) > MAX_BYTES:
        raise ValueError("is too long")
    text = data.decode()  # UnicodeDecodeError is a ValueError
    if any(c != "\n" and (c < " " or c == "\x7f") for c in text):
        raise ValueError("has control characters")
    first, _, rest = text.partition("\n")
    if first not in _KEYS:
        raise ValueError(f"does not start with {' or '.join(map(repr, _KEYS))}")
    values: dict[str, str] = {}
    for line in rest.removesuffix("\n").split("\n"):
        key, equals, value = line.partition("=")
        if not equals or key not in _KEYS[first] or key in values:
            raise ValueError(f"has a bad line: {line[:40]!r}")
        values[key] = value
    missing = [key for key in _REQUIRED[first] if not values.get(key)]
    if missing:
        raise ValueError(f"has no {missing[0]}")
    if first == _REFUSED:
        network = int(values["network"], 16)
        return values["server"], Refusal(values["engine"], values["address"], network)
    server, seen = values.pop("server"), values.pop("seen", "")
    if seen not in ("", "silent"):
        raise ValueError(f"has seen what nobody knows: {seen[:40]!r}")
    return server, WakeRequest(
        who=values.pop("client", ""),
        reason=values.pop("reason"),
        klass=values.pop("class", ""),
        silent=bool(seen),
        **values,
    )


Told = Callable[[str, WakeRequest | Refusal], None]


class WakeSocket:
    """Hears who asks; `bad` counts the datagrams that make no sense."""

    def __init__(self, path: Path, group: str, wake: Told) -> None:
        """`wake` gets the server's id and the client; KeyError if there is no such server."""
        self._path = path
        self._group = group
        self._wake = wake
        self.bad = 0

    def open(self) -> None:
        """Make the socket, for `group` to write to."""
        self._path.unlink(missing_ok=True)
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._sock.bind(str(self._path))
        self._path.chmod(0o660)
        if self._group:
            give_to_group(self._path, self._group)
        asyncio.get_running_loop().add_reader(self._sock, self._hear)

    def close(self) -> None:
        """Hear nothing any more."""
        asyncio.get_running_loop().remove_reader(self._sock)
        self._sock.close()

    def _hear(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                data = self._sock.recv(MAX_BYTES + 1)
            except OSError:
                return
            try:
                self._wake(*parse(data))
            except (ValueError, KeyError) as error:
                self.bad += 1
                if self.bad == 1:
                    _LOG.warning("wake datagram ignored, later ones only counted: %s", error)

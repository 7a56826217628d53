"""The wake datagram: who asks for a server to be woken (docs/architecture.md)."""

from __future__ import annotations

from typing import Final

from naproxy.core.request import Asker

MAX_BYTES: Final = 1024
_FIRST_LINE: Final = "naproxy-wake 1"
_KEYS: Final = ("server", "reason", "method", "class", "client", "agent", "host", "path")
_REQUIRED: Final = ("server", "reason")


def parse(data: bytes) -> tuple[str, Asker]:
    """Return the server's id and who asks; ValueError says what is wrong with the datagram."""
    if len(data) > MAX_BYTES:
        raise ValueError("is too long")
    text = data.decode()  # UnicodeDecodeError is a ValueError
    if any(c != "\n" and (c < " " or c == "\x7f") for c in text):
        raise ValueError("has control characters")
    first, _, rest = text.partition("\n")
    if first != _FIRST_LINE:
        raise ValueError(f"does not start with {_FIRST_LINE!r}")
    values: dict[str, str] = {}
    for line in rest.removesuffix("\n").split("\n"):
        key, equals, value = line.partition("=")
        if not equals or key not in _KEYS or key in values:
            raise ValueError(f"has a bad line: {line[:40]!r}")
        values[key] = value
    missing = [key for key in _REQUIRED if not values.get(key)]
    if missing:
        raise ValueError(f"has no {missing[0]}")
    server = values.pop("server")
    return server, Asker(
        who=values.pop("client", ""),
        reason=values.pop("reason"),
        klass=values.pop("class", ""),
        **values,
    )

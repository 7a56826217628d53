"""Addresses that people and servers name: which are fetched, and under which name kept. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from naproxy.core.reason import WrongError

_LONGEST: Final = 8192
_LONGEST_NAME_BYTES: Final = 255
_KEPT: Final = "/%:;,?@&=+$!*'()~#[]-._"
_NAMELESS: Final = "index.html"


def checked(url: str) -> str:
    """Return an address as it goes over the wire; WrongError says what is wrong with it."""
    if len(url) > _LONGEST:
        raise WrongError("transfer.url_long", url=url[:60], high=_LONGEST)
    if not url.isprintable() or " " in url or "\\" in url:
        raise WrongError("transfer.url_characters", url=url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise WrongError("transfer.url", url=url, said=str(error)) from None
    if parts.scheme not in ("http", "https"):
        raise WrongError("transfer.scheme", url=url)
    if parts.username is not None or parts.password is not None:
        raise WrongError("transfer.url_password", url=url.replace(parts.netloc, "..."))
    if not host:
        raise WrongError("transfer.url_host", url=url)
    try:
        name = f"[{host}]" if ":" in host else host.encode("idna").decode()
    except UnicodeError:
        raise WrongError("transfer.url_host", url=url) from None
    place = name if port is None else f"{name}:{port}"
    path, query = quote(parts.path or "/", safe=_KEPT), quote(parts.query, safe=_KEPT)
    return urlunsplit((parts.scheme, place, path, query, ""))


def file_name(url: str) -> str:
    """Return the name to keep an address under: its last part, never a path to elsewhere."""
    name = unquote(urlsplit(url).path.rpartition("/")[2], errors="replace")
    name = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in name)
    name = name.lstrip(".") or _NAMELESS
    if len(name.encode(errors="replace")) > _LONGEST_NAME_BYTES:
        raise WrongError("transfer.name_long", url=url)
    return name

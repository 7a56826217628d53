"""To a room of Matrix (client-server API v1.11, `PUT /rooms/{roomId}/send`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, fits, option, or_empty
from naproxy.notify.channels import SendBy, is_url

ON: Final = "matrix_server"
TO: Final = ("matrix_server",)
SENT: Final = "matrix_token"
_is_room: Final = fits(r"![!-~]{1,254}", Reason("config.matrix_room"))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Its keys."""

    matrix_server: str = option(
        "Matrix server of the box's user, such as https://matrix.example.org; empty: none",
        "",
        high=500,
        check=is_url,
    )
    matrix_room: str = option(
        "Room that is told, by its internal ID; the box's user must be in it",
        "",
        high=255,
        check=or_empty(_is_room),
    )
    matrix_token: str = option("Access token of the box's user", "", high=1000, secret=True)


def conflicts(settings: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys that are each right."""
    for key in ("matrix_room", "matrix_token"):
        if settings.matrix_server and not getattr(settings, key):
            yield Problem(f"notify.{key}", Reason("config.matrix_lacks"))


def send(settings: Mapping[str, Any], letter: Mapping[str, Any], send_by: SendBy) -> None:
    """Send it. The server takes a letter that it has already for the same."""
    text = f"{letter['title']}\n\n{letter['text']}"
    same = hashlib.sha256(f"{letter['t_s']} {text}".encode()).hexdigest()[:32]
    server = settings["matrix_server"].rstrip("/")
    room = quote(settings["matrix_room"], safe="")
    send_by.http(
        f"{server}/_matrix/client/v3/rooms/{room}/send/m.room.message/{same}",
        {"msgtype": "m.text", "body": text},
        token=settings["matrix_token"],
        method="PUT",
    )

"""As JSON to any address."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.schema import option
from naproxy.notify.channels import SendBy, is_url

ON: Final = "webhook"
TO: Final = ("webhook",)
SENT: Final = "webhook_token"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Its keys."""

    webhook: str = option(
        "Address that each notification is posted to as JSON; empty: none",
        "",
        high=500,
        check=is_url,
        secret=True,
    )
    webhook_token: str = option(
        "Token that is sent along, as Authorization: Bearer", "", high=256, secret=True
    )


def send(settings: Mapping[str, Any], letter: Mapping[str, Any], send_by: SendBy) -> None:
    """Post all that is known of it."""
    names = ("event", "t_s", "title", "text", "reason")
    said = {"box": socket.gethostname(), **{name: letter[name] for name in names}}
    send_by.http(settings["webhook"], said, token=settings["webhook_token"])

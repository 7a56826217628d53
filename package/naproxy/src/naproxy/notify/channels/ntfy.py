"""To a topic of an ntfy server (ntfy's documentation, "Publish as JSON")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import fits, option, or_empty
from naproxy.notify.channels import SendBy

ON: Final = "ntfy"
TO: Final = ("ntfy",)
SENT: Final = "ntfy_token"
_URGENT: Final = frozenset({"not_woken", "front_door", "certificate", "disk"})
_is_topic: Final = fits(r"https?://[!-~]{1,400}/[-_A-Za-z0-9]{1,64}", Reason("config.ntfy"))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Its keys."""

    ntfy: str = option(
        "Topic of an ntfy server, such as https://ntfy.example.org/naproxy; empty: none",
        "",
        high=500,
        check=or_empty(_is_topic),
        secret=True,
    )
    ntfy_token: str = option("Access token of the ntfy server", "", high=256, secret=True)


def send(settings: Mapping[str, Any], letter: Mapping[str, Any], send_by: SendBy) -> None:
    """Publish it."""
    base, _, topic = settings["ntfy"].rpartition("/")
    priority = 4 if letter["event"] in _URGENT else 3
    said = {"topic": topic, "title": letter["title"], "message": letter["text"]}
    send_by.http(f"{base}/", {**said, "priority": priority}, token=settings["ntfy_token"])

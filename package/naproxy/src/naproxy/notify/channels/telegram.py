"""To a chat of Telegram, by a bot of the office's (Bot API, `sendMessage`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, fits, option, or_empty
from naproxy.notify.channels import SendBy

ON: Final = "telegram_chat"
TO: Final = ()
"""Always to Telegram itself."""
SENT: Final = "telegram_token"
SERVER: Final = "https://api.telegram.org"
_MOST: Final = 4096
"""Characters of a message."""
_is_chat: Final = fits(r"-?[0-9]{1,20}|@[A-Za-z0-9_]{4,64}", Reason("config.telegram_chat"))
_is_token: Final = fits(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}", Reason("config.telegram_token"))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Its keys."""

    telegram_chat: str = option(
        "Number of the chat that is told, or the @name of a channel; empty: none",
        "",
        high=65,
        check=or_empty(_is_chat),
    )
    telegram_token: str = option(
        "Token of the bot that tells it", "", high=128, check=or_empty(_is_token), secret=True
    )


def conflicts(settings: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys that are each right."""
    if settings.telegram_chat and not settings.telegram_token:
        yield Problem("notify.telegram_token", Reason("config.telegram_token"))


def send(settings: Mapping[str, Any], letter: Mapping[str, Any], send_by: SendBy) -> None:
    """Send it, as plain text."""
    text = f"{letter['title']}\n\n{letter['text']}"[:_MOST]
    said = {"chat_id": settings["telegram_chat"], "text": text}
    send_by.http(f"{SERVER}/bot{settings['telegram_token']}/sendMessage", said)

"""What the configuration says of updates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from naproxy.core.reason import Reason
from naproxy.core.schema import option

_WORD: Final = re.compile(r"[!-\[\]-~]*", re.ASCII)
_HOST_AND_PORT: Final = re.compile(
    r"https://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?/?"
)


def _is_word(text: str) -> Reason | None:
    return None if _WORD.fullmatch(text) else Reason("config.printable")


def _is_https(text: str) -> Reason | None:
    found = _HOST_AND_PORT.fullmatch(text.lower())
    ok = not text or (found and 1 <= int(found["port"] or 443) <= 65535)
    return None if ok else Reason("config.https")


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A hawkBit server that has many boxes updated (docs/update.md)."""

    url: str = option(
        "The hawkBit server, as https://HOST:PORT; empty: none", "", high=253, check=_is_https
    )
    token: str = option(
        "What the box identifies itself with", "", high=256, check=_is_word, secret=True
    )
    token_of: str = option(
        "Whose token that is: this box's own (target), or one for all (gateway)",
        "target",
        choices=("target", "gateway"),
    )
    restart: bool = option("Restart the box as soon as an update is written", False)

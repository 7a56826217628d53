"""Waiting and sent notices: retried for a day, silent in quiet times. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from naproxy.core.reason import Reason

RETRY_S: Final = (60.0, 300.0, 900.0, 3600.0)
"""Waits between tries; the last one again and again."""
GIVE_UP_S: Final = 86400.0
MOST: Final = 100
"""So many notifications are remembered."""

Letter = dict[str, Any]
"""`t_s`, `event`, `title`, `text`, `picture` (PNG in base64, or empty), `reason`, and `to`: by the
name of a channel `{"sent_s", "problem", "tries", "next_s"}`."""


class Outbox:
    """Letters, newest last."""

    def __init__(self, kept: Any = None) -> None:
        """Go on where `kept()` ended, as far as that can be read."""
        self.letters: list[Letter] = []
        for each in kept if isinstance(kept, list) else ():
            if isinstance(each, dict) and each.keys() >= {"t_s", "event", "title", "text", "to"}:
                self.letters.append(each)

    def kept(self) -> list[Letter]:
        """Return what the next run goes on with, as JSON."""
        return self.letters

    def put(self, letter: Mapping[str, Any], channels: tuple[str, ...]) -> None:
        """Take a letter to be sent by these channels."""
        to = {name: {"sent_s": None, "problem": None, "tries": 0, "next_s": 0} for name in channels}
        self.letters.append({**letter, "to": to})
        del self.letters[:-MOST]

    def due(self, now_s: float, channels: tuple[str, ...]) -> Iterator[tuple[Letter, str]]:
        """Yield the notices to send now, with their channels; give up those that are too old."""
        for letter in self.letters:
            for name, state in letter["to"].items():
                waits = state["sent_s"] is None and now_s - letter["t_s"] < GIVE_UP_S
                if waits and state["next_s"] <= now_s and name in channels:
                    yield letter, name

    def sent(self, letter: Letter, channel: str, now_s: float) -> None:
        """Note that it has arrived there."""
        letter["to"][channel] |= {"sent_s": now_s, "problem": None}
        if all(state["sent_s"] is not None for state in letter["to"].values()):
            letter["picture"] = ""

    def failed(self, letter: Letter, channel: str, now_s: float, why: Reason) -> None:
        """Note why not, and when to try again."""
        state = letter["to"][channel]
        wait_s = RETRY_S[min(state["tries"], len(RETRY_S) - 1)]
        state |= {"problem": why.plain(), "tries": state["tries"] + 1, "next_s": now_s + wait_s}

    def told(self) -> list[dict[str, Any]]:
        """Return them for the control API, newest first."""
        return [
            {
                "t_s": letter["t_s"],
                "event": letter["event"],
                "title": letter["title"],
                "to": [
                    {"channel": name, "sent_s": state["sent_s"], "problem": state["problem"]}
                    for name, state in letter["to"].items()
                ],
            }
            for letter in reversed(self.letters)
        ]

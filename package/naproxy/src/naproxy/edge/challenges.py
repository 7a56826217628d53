"""The box's answers to an issuer that validates a name (HTTP-01: RFC 8555, 8.3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from naproxy.core.reason import WrongError

MOST: Final = 8
FORGOTTEN_S: Final = 600.0

Write = Callable[[Mapping[str, str]], None]
"""Shows Varnish all answers, by their tokens; ValueError for an invalid one."""


class Challenges:
    """The answers, for a while each."""

    def __init__(self, write: Write, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Answer nothing: not what one before us left, either."""
        self._write = write
        self._monotonic = monotonic
        self._answers: dict[str, tuple[str, float]] = {}
        write({})

    def put(self, token: str, answer: str) -> None:
        """Answer from now on; WrongError."""
        self.forget()
        new = {**self._answers, token: (answer, self._monotonic())}
        if len(new) > MOST:
            raise WrongError("https.many_challenges", high=MOST)
        try:
            self._show(new)
        except ValueError:
            raise WrongError("https.no_challenge") from None
        self._answers = new

    def remove(self, token: str) -> None:
        """Answer no more."""
        if self._answers.pop(token, None):
            self._show(self._answers)

    def forget(self) -> None:
        """Answer no more what nobody has taken back."""
        old_s = self._monotonic() - FORGOTTEN_S
        kept = {token: each for token, each in self._answers.items() if each[1] > old_s}
        if kept != self._answers:
            self._answers = kept
            self._show(kept)

    def _show(self, answers: Mapping[str, tuple[str, float]]) -> None:
        self._write({token: answer for token, (answer, _) in answers.items()})

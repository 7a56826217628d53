"""A serial console: what was said, when, and waiting for words."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

HALTED: Final = "Reboot failed -- System halted"
"""Linux' last words on a machine that it does not know how to restart."""
_TAIL: Final = 1500
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|[\x00\x07\r]")
"""Colours and cursor movements of boot loaders, and what a terminal does not show."""


class ConsoleError(Exception):
    """The words did not come; says which, and what came last."""


class Console(threading.Thread):
    """Reads a unix socket, `path`, until it ends; a copy goes to `log` as it came.

    Positions are those of `text`: `mark()` now, then `expect(words, since=mark)`. Each time it says
    HALTED, `halted` is called.
    """

    def __init__(
        self,
        path: Path,
        log: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        halted: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(daemon=True, name="console")
        self.text = ""
        self._log = log
        self._clock = clock
        self._halted = halted
        self._changed = threading.Condition()
        self._ended = False
        self._arrived: list[tuple[int, float]] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))

    def run(self) -> None:
        """Read to the end."""
        with self._log.open("ab", buffering=0) as log:
            while data := self._receive():
                log.write(data)
                self.take(data.decode("ascii", errors="replace"))
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def take(self, said: str) -> None:
        """Add what was said."""
        with self._changed:
            # An escape sequence may come in two pieces: so the rest of it is cleaned with them.
            cut = max(0, len(self.text) - 16)
            halts = self.text.count(HALTED)
            self.text = self.text[:cut] + _ESCAPES.sub("", self.text[cut:] + said)
            self._arrived.append((len(self.text), self._clock()))
            self._changed.notify_all()
            halts = self.text.count(HALTED) - halts
        for _ in range(halts):
            self._halted()

    def mark(self) -> int:
        """Return where `text` ends now."""
        with self._changed:
            return len(self.text)

    def expect(self, pattern: str, timeout_s: float, *, since: int = 0) -> re.Match[str]:
        """Wait for a regular expression in what was said after `since`; ConsoleError if in vain."""
        wanted = re.compile(pattern)
        found: re.Match[str] | None = None

        def there() -> bool:
            nonlocal found
            found = wanted.search(self.text, since)
            return found is not None or self._ended

        with self._changed:
            self._changed.wait_for(there, timeout_s)
        if found is None:
            why = "it ended" if self._ended else f"not within {timeout_s:g} s"
            raise ConsoleError(f"{pattern!r} on the console: {why}; last:\n{self.text[-_TAIL:]}")
        return found

    def when(self, position: int) -> float:
        """Return the clock's time when the character there arrived."""
        with self._changed:
            for end, t_s in self._arrived:
                if position < end:
                    return t_s
        raise ValueError(f"nothing was said at {position} yet")

    def send(self, words: str) -> None:
        """Type."""
        self._socket.sendall(words.encode())

    def close(self) -> None:
        """Hang up; `run` ends."""
        self._socket.close()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except OSError:
            return b""

"""What is printed: a line an event and, on a terminal, one line that says how it stands."""

import shutil
import sys
from typing import TextIO

_COLOURS = {
    "asleep": "34",
    "awake": "33",
    "robot": "35",
    "cache": "36",
    "bad": "31;1",
    "quiet": "2",
}


class Screen:
    """Plain text; colour and the standing line only on a terminal."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._tty = out.isatty()
        self._standing = ""

    def say(self, text: str = "") -> None:
        """Print a line as it is."""
        self._erase()
        print(text, file=self._out, flush=True)

    def event(self, after_s: float, watts: float, text: str, kind: str = "") -> None:
        """Print one event: minutes and seconds since the start, watts now, and words."""
        line = f"{clock(after_s)} {watts:6.1f} W  {text}"
        if self._tty and kind in _COLOURS:
            line = f"\x1b[{_COLOURS[kind]}m{line}\x1b[0m"
        self.say(line)

    def standing(self, text: str) -> None:
        """Replace the line at the bottom, on a terminal."""
        if self._tty and text != self._standing:
            self._standing = text
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K\x1b[7m{text[:width]}\x1b[0m", end="", file=self._out, flush=True)

    def _erase(self) -> None:
        if self._standing:
            self._standing = ""
            print("\r\x1b[K", end="", file=self._out)


def clock(seconds: float) -> str:
    """Return minutes and seconds, hours in front where there are any."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:3}:{rest:02}"


def plain(text: str, most: int = 60) -> str:
    """Return text from outside fit for a terminal: printable, and not too long."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= most else clean[: most - 1] + "…"

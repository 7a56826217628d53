"""The text of a file that is refused, to be shown and mended over the network.

It may be no TOML, so no key can be looked up in it: lines that may hold a secret are left out, by
their words. A mark stands for each; where it comes back, so does the line.
"""

from __future__ import annotations

import re
from typing import Final

from naproxy.config.document import Config
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError, Problem, keys

MOST_BYTES: Final = 1 << 16
_MARK: Final = "#~ line {} may hold a secret and is not shown"
_MARKED: Final = re.compile(r"#~ line (\d{1,6}) may hold a secret and is not shown")
_NEXT: Final = re.compile(r"\s*(\[|[A-Za-z0-9_-]+\s*=)")
"""How a line looks that is no rest of the one before."""


def shown(text: bytes) -> str | None:
    """Return the text without lines that may hold a secret; None if that cannot be told."""
    lines = _lines(text)
    if lines is None:
        return None
    hidden = _hidden(lines)
    return "\n".join(_MARK.format(n) if n in hidden else each for n, each in enumerate(lines, 1))


def mended(text: str, before: bytes) -> bytes:
    """Return a text that was shown, with the lines of `before` that were not; ConfigError."""
    lines = _lines(before) or []
    hidden = _hidden(lines)
    found = []
    for each in text.split("\n"):
        if mark := _MARKED.fullmatch(each.strip()):
            number = int(mark[1])
            if number not in hidden:
                raise ConfigError([Problem("", Reason("config.no_such_line", number=number))])
            each = lines[number - 1]  # noqa: PLW2901 - the mark stands for it
        found.append(each)
    return "\n".join(found).encode()


def _lines(text: bytes) -> list[str] | None:
    """A text over several lines may begin or end a secret anywhere: None."""
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    if len(text) > MOST_BYTES or '"""' in decoded or "'''" in decoded:
        return None
    return decoded.split("\n")


def _hidden(lines: list[str]) -> set[int]:
    """Return the numbers of lines with a secret's name or an escape, and of their rests."""
    names = {key.path.rpartition(".")[2] for key in keys(Config) if key.secret}
    hidden, rest = set(), False
    for number, line in enumerate(lines, 1):
        named = "\\" in line or any(name in line.casefold() for name in names)
        rest = named or (rest and not _NEXT.match(line))
        if rest:
            hidden.add(number)
    return hidden

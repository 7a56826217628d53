"""JSON and TOML from outside the process, bounded before they are parsed.

Python's parsers accept more than a small box can take. For a TOML key of n parts, `tomllib` keeps
n * n / 2 names: 14 GB for a key of 120 kB. `int` raises its own ValueError for 4300 digits, and a
number of 400 digits fits no float.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError, Problem

MOST_PARTS: Final = 16
"""Parts of a dotted TOML key. Ours have at most four."""
MOST_WORD: Final = 64
"""Characters of a TOML word outside quotes: a key, a number or a date."""
MOST_DIGITS: Final = 20
"""Digits of a whole number in JSON: enough for 64 bits. A longer one becomes a float."""

_TOKEN: Final = re.compile(
    r"(?P<space>[ \t]+)"
    r"|(?P<dot>\.)"
    r"|(?P<word>[^\s.,=#\"'\[\]{}]+)"
    r'|(?P<long>"""(?:[^"\\]+|\\.|"(?!""))*(?:"{3,5})?'
    r"|'''(?:[^']+|'(?!''))*(?:'{3,5})?)"
    r'|(?P<quoted>"(?:[^"\\\n]+|\\.)*"?'
    r"|'[^'\n]*'?)"
    r"|(?P<rest>#[^\n]*|.)",
    re.DOTALL,
)
"""Every character belongs to one token and nothing after a repetition must follow it, so the
search takes linear time. A string without an end ends with its line or the text: `tomllib` reads
no further either."""


def toml(text: str | bytes) -> dict[str, Any]:
    """Return the tables of TOML; ConfigError says in words what is wrong with it."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _wrong("config.not_utf8", at=error.start) from None
    _bound(decoded)
    try:
        return tomllib.loads(decoded)
    except (ValueError, RecursionError) as error:
        raise _wrong("config.not_toml", detail=str(error)) from None


def _wrong(code: str, /, **params: Any) -> ConfigError:
    return ConfigError([Problem("", Reason(code, **params))])


def _bound(text: str) -> None:
    """Refuse keys of too many parts, and words that are too long; ConfigError."""
    parts, joined = 0, False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "space":
            continue
        if kind == "word" and len(token[0]) > MOST_WORD:
            line = text.count("\n", 0, token.start()) + 1
            raise _wrong("config.long_word", line=line, high=MOST_WORD)
        if kind in ("word", "quoted"):
            parts = parts + 1 if joined else 1
        elif kind != "dot":
            parts = 0
        joined = kind == "dot"
        if parts > MOST_PARTS:
            line = text.count("\n", 0, token.start()) + 1
            raise _wrong("config.many_parts", line=line, high=MOST_PARTS)


def json_value(raw: str | bytes) -> Any:
    """Return the value of JSON; ValueError if it is not JSON, or is too deep or too large."""
    try:
        return json.loads(raw, parse_int=_whole, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("too many brackets within brackets") from None


def _whole(text: str) -> int | float:
    # A longer number is too large for a whole number anywhere here. As a float, which may be
    # infinite, the check of its range or kind refuses it in words.
    return int(text) if len(text) <= MOST_DIGITS else float(text)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")

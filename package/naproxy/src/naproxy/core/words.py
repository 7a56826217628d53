"""Reasons in words: gettext catalogues in `naproxy/locale`, a text for each code and language.

Only the edges use this: the log, the command, the web interface.
"""

from __future__ import annotations

import gettext
import time
from datetime import tzinfo
from functools import cache
from pathlib import Path
from typing import Any, Final

from naproxy.core import office_time
from naproxy.core.log import printable
from naproxy.core.reason import Reason

DEFAULT: Final = "en"
FOLDER: Final = Path(__file__).parents[1] / "locale"
LANGUAGES: Final = (
    DEFAULT,
    *sorted({each.name for each in FOLDER.iterdir() if each.is_dir()} - {DEFAULT}),
)
"""The languages of the box. A missing text falls back to English."""

_MINUTE_S: Final = 60
_HOUR_MIN: Final = 60
_IN_SECONDS_S: Final = 90
_MOMENTS: Final = {"at": "due_at_s", "since": "since_at_s", "until": "until_at_s"}
"""Parameters that were texts before they were epoch seconds, in the history still."""
_MOST: Final = 1e12
"""A larger number, or infinity, cannot be a duration or a power: it is shown unchanged."""


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    """Return the texts of a language; missing ones are English."""
    found = gettext.translation("naproxy", FOLDER, [language], fallback=True)
    if language != DEFAULT:
        found.add_fallback(_catalogue(DEFAULT))
    return found


@cache
def own_names() -> dict[str, str]:
    """Return what each language calls itself, and which of them nobody has reviewed."""
    return {each: words(Reason("core.language"), each) for each in LANGUAGES}


def words(reason: Reason, language: str = DEFAULT, where: tzinfo | None = None) -> str:
    """Return a reason in words; `where`: the office's zone, else the one this process follows.

    A reason that does not fit the catalogue, such as one of another version, is shown unchanged.
    """
    # The text of no code is the catalogue's header.
    text = _catalogue(language).gettext(reason.code) if reason.code else ""
    values = {name: _value(name, value, language, where) for name, value in reason.params.items()}
    for old, now in _MOMENTS.items():
        if old in values:
            values.setdefault(now, values[old])
    try:
        if text not in ("", reason.code):
            return text.format(**values)
    except KeyError:
        pass  # a parameter is missing
    named = (f"{printable(name)}={values[name]}" for name in reason.params)
    return " ".join([printable(reason.code), *named])


def sentences(reason: Reason, language: str = DEFAULT, where: tzinfo | None = None) -> list[str]:
    """Return each part of a reason as a sentence."""
    return [_sentence(words(each, language, where)) for each in reason.parts()]


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def duration(s: float, language: str = DEFAULT) -> str:
    """Return a length of time as the web interface's format.js does."""
    if s < _IN_SECONDS_S:
        digits = 0 if s >= 10 or s == int(s) else 1
        return f"{_decimal(f'{s:.{digits}f}', language)}\N{NO-BREAK SPACE}s"
    minutes = round(s / _MINUTE_S)
    hours, rest = divmod(minutes, _HOUR_MIN)
    if not hours:
        return f"{minutes}\N{NO-BREAK SPACE}min"
    return f"{hours}\N{NO-BREAK SPACE}h" + (f" {rest}\N{NO-BREAK SPACE}min" if rest else "")


def _decimal(text: str, language: str) -> str:
    """Return a number as the language writes it: with a comma in all of ours but English."""
    return text if language in ("", "en") else text.replace(".", ",")


def _value(  # noqa: PLR0911 - one for each kind
    name: str, value: Any, language: str, where: tzinfo | None
) -> str:
    match value:
        case Reason():
            return words(value, language, where).removesuffix(".")
        case [Reason(), *_] if all(isinstance(each, Reason) for each in value):
            return " ".join(_sentence(words(each, language, where)) for each in value)
        case list() | tuple():
            return ", ".join(_value(name, each, language, where) for each in value)
        case int() | float() if name.endswith("_at_s"):
            return office_time.told(value, time.time(), where)
        case int() | float() if name.endswith("_s") and abs(value) < _MOST:
            return duration(value, language)
        case int() | float() if name.endswith("_w") and abs(value) < _MOST:
            return f"{_decimal(f'{value:.1f}', language)}\N{NO-BREAK SPACE}W"
        case float():
            return _decimal(f"{value:g}", language)
    # It may come from a stranger's file: on a terminal it must not move the cursor.
    return printable(str(value))

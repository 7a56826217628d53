"""Reasons in words: gettext catalogues in `naproxy/locale`, a text for each code and language.

The first part of a code names its catalogue. Only the edges use this: the log, the command, the
web interface.
"""

from __future__ import annotations

import gettext
from functools import cache
from pathlib import Path
from typing import Any, Final

from naproxy.core.log import printable
from naproxy.core.reason import Reason

LANGUAGES: Final = ("en", "de")
DEFAULT: Final = LANGUAGES[0]
FOLDER: Final = Path(__file__).parents[1] / "locale"


_MINUTE_S: Final = 60
_HOUR_MIN: Final = 60
_IN_SECONDS_S: Final = 90
_MOST: Final = 1e12
"""A larger number is no length of time and no power, nor is infinity: it is told as it is."""


@cache
def _catalogue(language: str, name: str) -> gettext.NullTranslations:
    if not name.isidentifier():
        return gettext.NullTranslations()
    try:
        with (FOLDER / language / f"{name}.mo").open("rb") as file:
            return gettext.GNUTranslations(file)
    except OSError:  # such as a name that is too long
        return gettext.NullTranslations()


def words(reason: Reason, language: str = DEFAULT) -> str:
    """Return a reason in words.

    What does not fit the catalogue, as from another version, is told as it is.
    """
    text = _catalogue(language, reason.code.partition(".")[0]).gettext(reason.code)
    values = {name: _value(name, value, language) for name, value in reason.params.items()}
    try:
        if text != reason.code:
            return text.format(**values)
    except KeyError:
        pass  # a parameter is missing
    named = (f"{_value('', name, '')}={value}" for name, value in values.items())
    return " ".join([_value("", reason.code, ""), *named])


def sentences(reason: Reason, language: str = DEFAULT) -> list[str]:
    """Return each part of a reason as a sentence."""
    return [_sentence(words(each, language)) for each in reason.parts()]


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def duration(s: float) -> str:
    """Return a length of time as the web interface's format.js does."""
    if s < _IN_SECONDS_S:
        digits = 0 if s >= 10 or s == int(s) else 1
        return f"{s:.{digits}f}\N{NO-BREAK SPACE}s"
    minutes = round(s / _MINUTE_S)
    hours, rest = divmod(minutes, _HOUR_MIN)
    if not hours:
        return f"{minutes}\N{NO-BREAK SPACE}min"
    return f"{hours}\N{NO-BREAK SPACE}h" + (f" {rest}\N{NO-BREAK SPACE}min" if rest else "")


def _value(name: str, value: Any, language: str) -> str:  # noqa: PLR0911 - one for each kind
    match value:
        case Reason():
            return words(value, language).removesuffix(".")
        case [Reason(), *_]:
            return " ".join(_sentence(words(each, language)) for each in value)
        case list() | tuple():
            return ", ".join(_value(name, each, language) for each in value)
        case int() | float() if name.endswith("_s") and abs(value) < _MOST:
            return duration(value)
        case int() | float() if name.endswith("_w") and abs(value) < _MOST:
            return f"{value:.1f}\N{NO-BREAK SPACE}W"
        case float():
            return f"{value:g}"
    # It may come from a stranger's file: on a terminal it must not move the cursor.
    return printable(str(value))

"""Reasons in words: gettext catalogues in `naproxy/locale`, a text for each code and language.

Only the edges use this: the log, the command, the web interface.
"""

from __future__ import annotations

import gettext
from functools import cache
from pathlib import Path
from typing import Any, Final

from naproxy.reason import Reason

LANGUAGES: Final = ("en", "de")
DEFAULT: Final = LANGUAGES[0]
FOLDER: Final = Path(__file__).parent / "locale"


@cache
def _catalogue(language: str) -> gettext.GNUTranslations:
    with (FOLDER / language / "naproxy.mo").open("rb") as file:
        return gettext.GNUTranslations(file)


def words(reason: Reason, language: str = DEFAULT) -> str:
    """Return a reason in words.

    A code that is not known, as of another version, is told as it is, with its parameters.
    """
    text = _catalogue(language).gettext(reason.code)
    values = {name: _value(value) for name, value in reason.params.items()}
    if text == reason.code:
        return " ".join([reason.code, *(f"{name}={value}" for name, value in values.items())])
    return text.format(**values)


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_value, value))
    if isinstance(value, float):
        return f"{value:g}"
    # It may come from a stranger's file: on a terminal it must not move the cursor.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))

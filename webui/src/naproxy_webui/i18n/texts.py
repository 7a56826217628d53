"""The texts: a gettext catalogue for each language.

A text's `msgid` is its key, so whoever betters an English sentence orphans no translation. A text
is a format string: `t("kit.ago", time="12 min")`. For numbers there is a text for each of the
language's plural categories, `KEY.one`, `KEY.other` and in Polish also `KEY.few` and `KEY.many`,
chosen by `count`: `t("now.waits", count=2)`. The sources are
`locale/LANGUAGE/LC_MESSAGES/naproxy_webui.po`; building the package compiles them. A text that a
language lacks is told in English.
"""

from __future__ import annotations

import gettext
import logging
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from flask import current_app, g, has_request_context, request
from naproxy.core.words import DEFAULT, LANGUAGES

FOLDER: Final = Path(__file__).parents[1] / "locale"


class _Listed(gettext.GNUTranslations):
    """All texts can be listed, for the browser."""

    _catalog: dict[str, str]

    def texts(self) -> dict[str, str]:
        return {key: text for key, text in self._catalog.items() if key}


@lru_cache(maxsize=len(LANGUAGES))
def catalogue(language: str) -> dict[str, str]:
    """Return all texts of a language."""
    texts = {} if language == DEFAULT else dict(catalogue(DEFAULT))
    if file := gettext.find("naproxy_webui", FOLDER, [language]):
        with Path(file).open("rb") as compiled:
            texts |= _Listed(compiled).texts()
    return texts


def plural(language: str, count: float) -> str:
    """Return the plural category of a number, by the rules of Unicode's CLDR."""
    if language == "pl" and count != 1 and count == int(count):
        few = count % 10 in (2, 3, 4) and count % 100 not in (12, 13, 14)
        return "few" if few else "many"
    one = 0 <= count < 2 if language == "fr" else count == 1
    return "one" if one else "other"


def text(language: str, key: str, **values: Any) -> str:
    """Return a text in a language; one that is missing is its key, and that is logged."""
    texts = catalogue(language)
    if key not in texts and "count" in values:
        category = f"{key}.{plural(language, values['count'])}"
        key = category if category in texts else f"{key}.other"
    found = texts.get(key)
    if found is None:
        logging.getLogger(__name__).error("there is no text %s", key)
        return key
    return found.format(**values) if values else found


def t(key: str, **values: Any) -> str:
    """Return a text in the language of this request."""
    return text(language(), key, **values)


def has(key: str) -> bool:
    """Return whether there is such a text."""
    return key in catalogue(DEFAULT)


def texts_of(*prefixes: str) -> dict[str, str]:
    """Return the texts whose keys begin so, for the browser."""
    return {key: text for key, text in catalogue(language()).items() if key.startswith(prefixes)}


def language() -> str:
    """Return the language of this request."""
    if not has_request_context():
        return DEFAULT
    if "language" not in g:
        g.language = _choose()
    chosen: str = g.language
    return chosen


def _choose() -> str:
    """Return the language that the user chose, else the office's.

    Without login only the browser's preference counts.
    """
    user = g.get("user")
    if user and user.language in LANGUAGES:
        return str(user.language)
    offices: str = current_app.extensions["naproxy_office_language"]()
    if user and offices in LANGUAGES:
        return offices
    for tag, _ in request.accept_languages:
        if (preferred := tag.lower().partition("-")[0]) in LANGUAGES:
            return preferred
    return offices if offices in LANGUAGES else DEFAULT

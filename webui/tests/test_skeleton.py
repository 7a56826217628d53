"""The application as a whole: pages are found, texts are complete, errors are clear."""

from __future__ import annotations

import re
import string
from pathlib import Path

from babel.messages.pofile import read_po
from flask.testing import FlaskClient
from naproxy.core.words import LANGUAGES
from naproxy_webui import pages
from naproxy_webui.http.page import Page
from naproxy_webui.i18n import texts
from naproxy_webui.pages import discover

MAINTAINED = ("en", "de")
HELP = "settings.help."
"""Of other languages: the controller says the help of its keys in English."""


def test_health_says_whether_the_controller_answers(client: FlaskClient, box: object) -> None:
    assert client.get("/api/health").json == {"ok": True, "controller": True}


def test_health_without_a_controller(client: FlaskClient) -> None:
    assert client.get("/api/health").json == {"ok": True, "controller": False}


def source(language: str) -> dict[str, str]:
    with (texts.FOLDER / language / "LC_MESSAGES/naproxy_webui.po").open("rb") as file:
        return {each.id: each.string for each in read_po(file, abort_invalid=True) if each.id}


def test_every_text_is_compiled() -> None:
    for language in LANGUAGES:
        assert texts.catalogue(language).items() >= source(language).items(), language


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def plurals(language: str) -> set[str]:
    return {texts.plural(language, count) for count in (0, 1, 2, 5, 1.5)}


def test_a_translation_has_no_text_and_no_field_that_the_english_lacks() -> None:
    english = source("en")
    numbered = {key.removesuffix(".one") for key in english if key.endswith(".one")}
    for language in LANGUAGES:
        translated = {k: text for k, text in source(language).items() if not k.startswith(HELP)}
        more = {f"{key}.{each}" for key in numbered for each in plurals(language)}
        assert translated.keys() <= english.keys() | more, language
        assert language not in MAINTAINED or translated.keys() == english.keys() | more, language
        for key, text in translated.items():
            most = re.sub(r"\.(one|few|many)$", ".other", key)
            most = most if most in english else key
            least = key if key in english else most
            assert fields(english[least]) <= fields(text) <= fields(english[most]), key


def test_a_number_has_the_plural_of_its_language() -> None:
    def of(language: str) -> list[str]:
        return [texts.plural(language, count) for count in (0, 1, 1.5, 2, 5, 12, 22, 112)]

    assert of("en") == ["other", "one", *["other"] * 6]
    assert of("fr") == ["one", "one", "one", *["other"] * 5]
    assert of("pl") == ["many", "one", "other", "few", "many", "many", "few", "many"]


def test_a_text_that_a_language_lacks_is_told_in_english() -> None:
    assert texts.text("xx", "kit.sign_out") == texts.text("en", "kit.sign_out")


def test_every_page_can_be_loaded() -> None:
    files = {
        f"{pages.__name__}.{file.parent.name}.{file.stem}"
        for file in Path(pages.__path__[0]).glob("*/*.py")
        if "\nblueprint = " in file.read_text()
    }
    assert {blueprint.import_name for blueprint in discover()} == files


def test_every_page_in_the_navigation_has_a_name() -> None:
    for page in discover():
        if isinstance(page, Page) and page.place is not None:
            assert texts.has(f"nav.{page.name}"), page.name


ASKED = re.compile(r"""\bt\(\s*["']([a-z0-9_]+(?:\.[a-z0-9_]+)+)["']\s*[,)]""")
SOURCES = sorted(
    path
    for path in texts.FOLDER.parent.rglob("*")
    if path.suffix in (".py", ".html", ".js")
    and "vendor" not in path.parts
    and not path.is_relative_to(texts.FOLDER.parent / "help")
)


def test_every_requested_text_exists() -> None:
    missing = [
        (path.name, key)
        for path in SOURCES
        for key in ASKED.findall(path.read_text())
        if not (texts.has(key) or texts.has(f"{key}.other"))
    ]
    assert missing == []


MADE = re.compile(r"""["'`]([a-z]+\.(?:[a-z0-9_.-]|\$?\{[^{}]*\})+)(["'`])""")
"""A key, perhaps with a hole in it, or a part of one that something is put behind."""

HOLE = "[a-z0-9_.-]+"


def patterns(source: str) -> set[str]:
    """Return patterns of the keys that a source may use; a key that begins with a hole has none."""
    source = re.sub(r"""["'] ~ [\w.]+ ~ ["']""", "{}", source)
    found = set()
    for key, _ in MADE.findall(source):
        parts = re.split(r"\$?\{[^{}]*\}", key)
        made = HOLE.join(map(re.escape, parts)) + (HOLE if key[-1] in "._" else "")
        if made == re.escape(key) or len("".join(parts).partition(".")[2].strip("._")) > 1:
            found.add(made)
    return found


def test_every_text_is_used() -> None:
    """Names of pages are."""
    sources = [path.read_text() for path in SOURCES]
    used = re.compile("|".join(set().union(*map(patterns, sources))))
    left = [
        key
        for key in texts.catalogue("en")
        if not (used.fullmatch(key) or used.fullmatch(re.sub(r"\.(one|other)$", "", key)))
        and not key.startswith("nav.")
    ]
    assert left == []


def test_a_missing_path_is_reported_as_json_or_as_a_page(client: FlaskClient) -> None:
    answer, page = client.get("/api/nothing"), client.get("/nothing")
    assert (answer.status_code, page.status_code) == (404, 404)
    assert answer.json["error"]
    assert "<h1>" in page.text

"""The pages: policy, size, and the generator's errors."""

import base64
import gzip
import hashlib
import re
import shutil
from pathlib import Path

import generate
import pytest
from babel.messages.pofile import read_po, write_po
from conftest import ROOT, Box

PAGES = ROOT / "varnish-vcl/pages"


@pytest.fixture
def waiting(box: Box) -> tuple[dict[str, str], bytes]:
    box.set("state=asleep")
    status, headers, body = box.get("/", Accept_Language="de")
    assert status == 503
    return headers, body


def policy(headers: dict[str, str]) -> dict[str, str]:
    return dict(re.findall(r"([\w-]+) ([^;]+)", headers["content-security-policy"]))


@pytest.mark.parametrize("element", ["style", "script"])
def test_the_policy_s_hash_is_that_of_the_element_sent(
    waiting: tuple[dict[str, str], bytes], element: str
) -> None:
    headers, body = waiting
    source = re.findall(rf"<{element}>(.*?)</{element}>".encode(), body, re.DOTALL)
    assert len(source) == 1
    digest = base64.b64encode(hashlib.sha256(source[0]).digest()).decode()
    assert policy(headers)[f"{element}-src"] == f"'sha256-{digest}'"


def test_the_policy_allows_nothing_by_default(waiting: tuple[dict[str, str], bytes]) -> None:
    assert policy(waiting[0])["default-src"] == "'none'"
    assert "unsafe" not in waiting[0]["content-security-policy"]


def test_nothing_in_the_page_needs_inline_styles_or_handlers(
    waiting: tuple[dict[str, str], bytes],
) -> None:
    assert not re.search(rb"<[^>]* (style|on\w+)=", waiting[1])


def test_the_waiting_page_is_under_4_kb_compressed(waiting: tuple[dict[str, str], bytes]) -> None:
    assert len(gzip.compress(waiting[1], 6)) < 4096


def test_the_output_is_always_the_same() -> None:
    assert generate.render(PAGES) == generate.render(PAGES)


def texts(language: str) -> dict[str, str]:
    locale = ROOT / "varnish-vcl/locale"
    return dict(generate.read_catalogue(locale / language / "LC_MESSAGES/pages.po"))


def test_german_has_each_text_and_no_language_has_another() -> None:
    english = texts("en").keys()
    assert texts("de").keys() == english
    for language in (each.name for each in (ROOT / "varnish-vcl/locale").iterdir()):
        assert texts(language).keys() <= english, language


def test_every_text_of_every_language_is_in_the_output() -> None:
    output = generate.render(PAGES)
    for language in (each.name for each in (ROOT / "varnish-vcl/locale").iterdir()):
        for text in texts(language).values():
            if "{" not in text:
                assert generate.html.escape(text) in output or text in output, (language, text)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    for name in ("pages", "locale"):
        shutil.copytree(ROOT / "varnish-vcl" / name, tmp_path / name)
    return tmp_path / "pages"


def spoil(pages: Path, language: str = "de", **changes: str | None) -> None:
    """Change texts of the waiting page; None: there is none."""
    path = pages.parent / f"locale/{language}/LC_MESSAGES/pages.po"
    catalogue = read_po(path.read_bytes().splitlines(keepends=True))
    for key, text in changes.items():
        catalogue.delete(f"waiting.{key}")
        if text is not None:
            catalogue.add(f"waiting.{key}", text)
    with path.open("wb") as file:
        write_po(file, catalogue)


def test_a_wrong_text_is_refused_by_name(pages: Path) -> None:
    for text in ("in {minutes}", "{{notice}}", "\0seconds\0"):
        spoil(pages, lead=text)
        with pytest.raises(generate.PagesError, match=r"pages\.po: waiting\.lead: "):
            generate.render(pages)


def test_english_has_each_text_and_no_other(pages: Path) -> None:
    for changes, words in (
        ({"motto": "x"}, "unknown: waiting.motto"),
        ({"motto": None, "lead": ""}, "missing: waiting.lead"),
        ({"lead": None}, "missing: waiting.lead"),
    ):
        spoil(pages, "en", **changes)
        with pytest.raises(generate.PagesError, match=words):
            generate.render(pages)


def test_a_text_that_a_language_lacks_is_english(pages: Path) -> None:
    spoil(pages, lead=None)
    assert generate.all_texts(pages)["de"]["waiting"]["lead"] == texts("en")["waiting.lead"]


def test_an_invalid_catalogue_is_refused_by_name(pages: Path) -> None:
    (pages.parent / "locale/de/LC_MESSAGES/pages.po").write_text('msgid "')
    with pytest.raises(generate.PagesError, match=r"de/LC_MESSAGES/pages\.po: "):
        generate.render(pages)


def test_english_must_be_there(pages: Path) -> None:
    (pages.parent / "locale/en/LC_MESSAGES/pages.po").unlink()
    with pytest.raises(generate.PagesError, match=r"en/LC_MESSAGES/pages\.po"):
        generate.render(pages)


def test_a_language_is_added_by_adding_a_folder(pages: Path) -> None:
    shutil.copytree(pages.parent / "locale/de", pages.parent / "locale/de-CH")
    assert '"en de de-CH es' in generate.render(pages)


def test_markup_in_a_text_is_shown_as_text(pages: Path) -> None:
    spoil(pages, heading="<b>", plain='no " quote')
    output = generate.render(pages)
    assert "&lt;b&gt;" in output
    assert 'naproxy.notice() + {"</h1>' not in output

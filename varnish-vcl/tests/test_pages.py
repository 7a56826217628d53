"""The pages: policy, size, and what the generator refuses."""

import base64
import gzip
import hashlib
import json
import re
import shutil
from pathlib import Path

import generate
import pytest
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


def test_every_text_of_every_language_is_in_the_output() -> None:
    output = generate.render(PAGES)
    for path in (PAGES / "texts").glob("*.json"):
        for page in json.loads(path.read_text()).values():
            for text in page.values() if isinstance(page, dict) else []:
                if isinstance(text, str) and "{" not in text:
                    assert generate.html.escape(text) in output or text in output


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    shutil.copytree(PAGES, tmp_path / "pages")
    return tmp_path / "pages"


def spoil(pages: Path, **changes: object) -> None:
    path = pages / "texts/de.json"
    texts = json.loads(path.read_text())
    texts["waiting"] |= changes
    texts["waiting"] = {key: text for key, text in texts["waiting"].items() if text is not None}
    path.write_text(json.dumps(texts))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lead": None}, r'de\.json: "waiting": missing: lead'),
        ({"motto": "x"}, r'de\.json: "waiting": unknown: motto'),
        ({"lead": ""}, r'"lead": must be a text'),
        ({"lead": 7}, r'"lead": must be a text'),
        ({"lead": ["x"]}, r'"lead": must be a text'),
        ({"lead": "in {minutes}"}, r'"lead": the only placeholders are \{seconds\}'),
        ({"lead": "{{notice}}"}, r'"lead": the only placeholders are \{seconds\}'),
        ({"lead": "\0seconds\0"}, r'"lead": must be a text'),
    ],
)
def test_a_wrong_text_is_refused_by_name(
    pages: Path, changes: dict[str, object], words: str
) -> None:
    spoil(pages, **changes)
    with pytest.raises(generate.PagesError, match=words):
        generate.render(pages)


def test_a_file_that_is_no_json_is_refused_by_name(pages: Path) -> None:
    (pages / "texts/de.json").write_text("{")
    with pytest.raises(generate.PagesError, match=r"de\.json: "):
        generate.render(pages)


def test_a_page_that_is_missing_is_refused_by_name(pages: Path) -> None:
    texts = json.loads((pages / "texts/de.json").read_text())
    del texts["trouble"]
    (pages / "texts/de.json").write_text(json.dumps(texts))
    with pytest.raises(generate.PagesError, match=r"de\.json: missing: trouble"):
        generate.render(pages)


def test_the_fallback_language_must_be_there(pages: Path) -> None:
    (pages / "texts/en.json").unlink()
    with pytest.raises(generate.PagesError, match=r"en\.json is missing"):
        generate.render(pages)


def test_a_language_is_added_by_adding_a_file(pages: Path) -> None:
    shutil.copy(pages / "texts/de.json", pages / "texts/de-CH.json")
    assert '"en de de-CH es' in generate.render(pages)


def test_markup_in_a_text_is_shown_as_text(pages: Path) -> None:
    spoil(pages, heading="<b>", plain='no " quote')
    output = generate.render(pages)
    assert "&lt;b&gt;" in output
    assert 'naproxy.notice() + {"</h1>' not in output

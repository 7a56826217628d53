"""The help on the box: its pages, links to them, and words that the glossary explains."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from naproxy.core.words import LANGUAGES
from naproxy_webui.i18n import terms, texts
from naproxy_webui.pages.help.page import FOLDER, index
from naproxy_webui.pages.settings.page import SUBPAGES

ROOT = Path(__file__).parents[3]
TEMPLATES = FOLDER.parent / "templates"
NAMES = sorted(index()["pages"])
ALLOWED = {
    *("a", "blockquote", "code", "dd", "div", "em", "h1", "h2", "h3", "h4", "hr", "li", "ol", "p"),
    *("pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}


class Seen(HTMLParser):
    """The tags, attributes, ids and links of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name == "href" and tag == "a"]


PAGES = {name: Seen((FOLDER / f"{name}.html").read_text()) for name in NAMES}


def missing(link: str, page: str = "") -> bool:
    """Return whether a link into the help leads nowhere."""
    path, _, heading = link.partition("#")
    name = path.removeprefix("/help/") if path else page
    return name not in PAGES or (heading != "" and heading not in PAGES[name].ids)


def test_the_help_has_the_pages_of_the_docs_by_their_titles() -> None:
    titles = {(ROOT / f"docs/{name}.md").read_text().split("\n")[0] for name in NAMES}
    assert {f"# {title}" for title in index()["pages"].values()} == {
        title.replace("`", "") for title in titles
    }
    assert "contributing" not in NAMES


def test_no_page_has_a_script_a_style_or_a_picture() -> None:
    allowed = {"aria-label", "class", "href", "id", "role", "tabindex", "start"}
    for name, page in PAGES.items():
        assert page.tags <= ALLOWED, name
        assert page.attributes <= allowed, name


def test_every_link_of_a_page_has_a_target() -> None:
    for name, page in PAGES.items():
        inside = [link for link in page.links if not link.startswith(("http://", "https://"))]
        assert [link for link in inside if missing(link, name)] == [], name


def test_no_heading_has_an_id_that_every_page_has(client: FlaskClient, box: object) -> None:
    shell = Seen(client.get("/help").text).ids
    for name, page in PAGES.items():
        assert not set(shell) & set(page.ids), name


def test_a_page_is_within_ours_and_said_to_be_english(client: FlaskClient, box: object) -> None:
    shown = client.get("/help/recipes/wordpress")
    assert shown.status_code == 200
    assert '<article class="card help" lang="en"' in shown.text
    assert "Diese Seiten" not in shown.text
    assert client.put("/api/account/language", json={"language": "de"}).status_code == 200
    assert "Diese Seiten gibt es nur auf Englisch." in client.get("/help/caching").text
    contents = client.get("/help").text
    for name in NAMES:
        assert f'href="/help/{name}"' in contents, name


HOSTILE = (
    *("../templates/base", "%2e%2e/templates/base", "..%2ftemplates%2fbase", "%2fetc/passwd"),
    *("index.json", "caching.html", "caching/", "caching%00", "recipes/../../index.json"),
    *("CACHING", "caching%0d%0aX-A: b", "\\caching", "recipes", "x" * 5000),
)


def test_an_unknown_help_page_is_not_found(client: FlaskClient, box: object) -> None:
    for name in HOSTILE:
        shown = client.get(f"/help/{name}", follow_redirects=True)
        assert shown.status_code == 404, name
        assert "card help" not in shown.text


CALLED = re.compile(r'\b(?:help|page_head)\("([^"]+)", "([^"]*)", ')
LISTED = re.compile(r"{% set helps = {(.*?)\n} %}", re.DOTALL)
PAIR = re.compile(r'\("([^"]+)", "([^"]*)"\)')


def test_every_link_to_the_help_leads_to_a_heading() -> None:
    sources = [file.read_text() for file in TEMPLATES.rglob("*.html")]
    pairs = {pair for source in sources for pair in CALLED.findall(source)}
    lists = [found for source in sources for found in LISTED.findall(source)]
    assert len(lists) == 2
    pairs |= {pair for each in lists for pair in PAIR.findall(each)}
    assert len(pairs) > 40
    links = [f"/help/{page}" + (f"#{heading}" if heading else "") for page, heading in pairs]
    assert [link for link in links if missing(link)] == []


HELPED = (
    *("/history", "/savings", "/traffic", "/update", "/account", "/setup/again"),
    *(f"/settings/{name}" for name, _ in SUBPAGES),
)


def test_a_page_has_its_help_one_click_away(client: FlaskClient, box: object) -> None:
    for path in HELPED:
        assert 'class="help-link" href="/help/' in client.get(path).text, path


def glossary() -> dict[str, str]:
    """Return what its words mean, as plain text, by their keys here."""
    found = {}
    for line in (ROOT / "docs/glossary.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) > 1:
            means = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cells[1])
            name = cells[0].lower().replace(" ", "_")
            found[f"term.{name}"] = re.sub(r"[`*]", "", means)
    return found


def test_a_term_means_in_english_what_the_glossary_says() -> None:
    said = {key: texts.text("en", key) for key, _ in terms.TERMS}
    written = glossary()
    assert said == {key: written[key] for key in said}


def test_a_term_is_marked_once_and_the_text_around_it_is_escaped(app: Any) -> None:
    with app.test_request_context():
        first = terms.terms("A <b> MAGIC packet & a magic packet; magic packets, imagic packet.")
        again = terms.terms("The magic packet")
    assert first.count("<button") == 1
    assert first.startswith("A &lt;b&gt; <button")
    assert ">MAGIC packet</button>" in first
    assert "&amp; a magic packet; magic packets, imagic packet." in first
    assert again == "The magic packet"


def test_the_words_of_each_term_are_on_some_page() -> None:
    """One that no text has would explain nothing."""
    for language in LANGUAGES:
        others = [text for key, text in texts.catalogue(language).items() if key[:5] != "term."]
        others.append((ROOT / "package/naproxy/src/naproxy/keys.json").read_text())
        all_texts = "\n".join(others).lower()
        for key, words in terms.TERMS:
            said = texts.text(language, words).lower().split("|")
            assert any(word in all_texts for word in said), (language, key)

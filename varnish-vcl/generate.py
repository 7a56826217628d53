#!/usr/bin/python3
"""Render pages/ into pages.vcl: one subroutine a page, in every language.

A page is its texts (locale/LANGUAGE/LC_MESSAGES/pages.po) in its template. The language is
chosen when the page is sent; the seconds to wait and the office's notice are
spliced in by VCL. Nothing else varies, so the hashes of style and script in the
Content-Security-Policy are computed here.
"""

import base64
import hashlib
import html
import itertools
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from babel.messages.pofile import PoFileError, read_po

FALLBACK = "en"  # shown to those who want a language we do not have
RIGHT_TO_LEFT = {"ar", "fa", "he", "ur"}

# Values that VCL fills in when it sends the page. None can contain user data.
SECONDS, NOTICE, PLACE = "\0seconds\0", "\0notice\0", "\0place\0"
DYNAMIC = {
    SECONDS: "resp.http.Retry-After",
    NOTICE: "naproxy.notice()",
    PLACE: "resp.http.X-Naproxy-UI",
}
MARKS = {"seconds": SECONDS, "place": PLACE}


# Placeholders of the templates that are not texts.
COMPUTED = {"page", "language", "direction", "style", "body", "script", "notice"}


@dataclass(frozen=True)
class Page:
    """A page's parts under pages/; without a body it is only plain text."""

    body: str = ""
    script: str = ""


PAGES = {
    "waiting": Page("waiting.html", "return.js"),
    "restarting": Page("message.html", "return.js"),
    "trouble": Page("message.html", "return.js"),
    "busy": Page("message.html", "return.js"),
    "slow": Page("message.html", "return.js"),
    "spent": Page("message.html", "return.js"),
    "full": Page("message.html"),
    "error": Page("message.html"),
    "unsent": Page("message.html"),  # a form, say: nothing may send it again
    "unsure": Page("message.html"),
    "too_large": Page("message.html"),
    "unknown_host": Page("message.html"),
    "not_set_up": Page("message.html"),
    "refused": Page(),
    "no_such_path": Page(),
    "method": Page(),
    "misdirected": Page(),
    "bad_request": Page(),
}

Texts = Mapping[str, str | list[str]]


class PagesError(Exception):
    """A template or text file that cannot be used; the message says where and why."""


def read(path: Path) -> str:
    """Read a source file."""
    return path.read_text(encoding="utf-8")


def read_catalogue(path: Path) -> dict[str, str]:
    """Return the texts of a language, {PAGE.KEY: text}."""
    try:
        with path.open("rb") as file:
            found = {str(each.id): str(each.string) for each in read_po(file, abort_invalid=True)}
    except (OSError, ValueError, PoFileError) as error:
        raise PagesError(f"{path}: {error}") from None
    del found[""]
    for key, text in found.items():
        if re.search(r"[{}\0]", re.sub(r"{(seconds|place)}", "", text)):
            raise PagesError(f"{path}: {key}: the only placeholders are {{seconds}} and {{place}}")
    return {key: text for key, text in found.items() if text}


def texts_of(found: Mapping[str, str], wanted: Mapping[str, set[str]]) -> dict[str, Texts]:
    """Return {page: {key: text}}, `points` as a list of KEY.1, KEY.2 and so on."""
    texts: dict[str, dict[str, str | list[str]]] = {page: {} for page in wanted}
    for page, keys in wanted.items():
        for key in keys - {"points"}:
            texts[page][key] = found[f"{page}.{key}"]
        if "points" in keys:
            numbered = (found.get(f"{page}.points.{number}") for number in range(1, 10))
            texts[page]["points"] = list(itertools.takewhile(bool, numbered))
    return texts


def placeholders(template: str) -> set[str]:
    """Return the names in {{...}}."""
    return set(re.findall(r"{{(\w+)}}", template))


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each {{name}}."""
    return re.sub(r"{{(\w+)}}", lambda match: values[match[1]], template)


def to_html(text: str | list[str]) -> str:
    """Escape a text, a list as list items; numbers that change are marked up."""
    if isinstance(text, list):
        return "".join(f"<li>{to_html(each)}</li>" for each in text)
    return (
        html.escape(text)
        .replace("{seconds}", f"<b>{SECONDS}</b>")
        .replace("{place}", f"<b>{PLACE}</b>")
    )


def minify_html(source: str) -> str:
    """Drop line ends and indentation; the templates keep no text across lines."""
    return "".join(line.strip() for line in source.splitlines())


def minify_css(source: str) -> str:
    """Drop comments and spaces that mean nothing."""
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    source = re.sub(r"\s+", " ", source)
    return re.sub(r":\s+", ":", re.sub(r"\s*([{};,])\s*", r"\1", source)).replace(";}", "}").strip()


def minify_js(source: str) -> str:
    """Drop indentation and comments that have a line of their own."""
    lines = (line.strip() for line in source.splitlines())
    return "\n".join(line for line in lines if not re.fullmatch(r"(//.*|/\*.*\*/)?", line))


def csp(style: str, script: str) -> str:
    """Content-Security-Policy: our own style and script by hash, and the status path.

    No frame-ancestors: nothing here can be clicked, and a page embedded
    elsewhere must come back by itself too.
    """
    parts = ["default-src 'none'", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    parts.append(f"style-src '{digest(style)}'")
    if script:
        parts += [f"script-src '{digest(script)}'", "connect-src 'self'"]
    return "; ".join(parts)


def digest(source: str) -> str:
    """Hash a source as CSP level 2 wants it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def vcl(text: str) -> str:
    """Write a text as a VCL string expression, with the dynamic values spliced in."""
    parts = re.split("(" + "|".join(DYNAMIC) + ")", text)
    return " + ".join(
        DYNAMIC.get(part) or '{"' + part.replace('"}', '""} + {"}') + '"}' for part in parts if part
    )


def by_language(bodies: Mapping[str, str]) -> list[str]:
    """Write the lines that send the body in the language chosen."""
    lines = []
    others = {language: body for language, body in bodies.items() if language != FALLBACK}
    for language, body in others.items():
        lines += [
            f'if (resp.http.Content-Language == "{language}") {{',
            f"synthetic({vcl(body)});",
            "} else",
        ]
    return [*lines, "{", f"synthetic({vcl(bodies[FALLBACK])});", "}"]


def html_bodies(
    name: str, pages: Path, languages: Mapping[str, Mapping[str, Texts]], style: str, script: str
) -> dict[str, str]:
    """Return a page as HTML in every language, with marks for the dynamic values."""
    layout, body = (read(pages / file) for file in ("layout.html", PAGES[name].body))
    bodies = {}
    for language, texts in languages.items():
        values = {key: to_html(text) for key, text in texts[name].items()}
        values |= {
            "page": name,
            "language": language,
            "direction": "rtl" if language.partition("-")[0] in RIGHT_TO_LEFT else "ltr",
            "style": style,
            "body": fill(minify_html(body), values),
            "script": f"<script>{script}</script>" if script else "",
            "notice": NOTICE,
        }
        bodies[language] = fill(minify_html(layout), values)
    return bodies


def html_lines(name: str, pages: Path, languages: Mapping[str, Mapping[str, Texts]]) -> list[str]:
    """Write the lines that send a page as HTML."""
    page = PAGES[name]
    style = minify_css(read(pages / "style.css"))
    script = minify_js(read(pages / page.script)) if page.script else ""
    return [
        'set resp.http.Content-Type = "text/html; charset=utf-8";',
        f'set resp.http.Content-Security-Policy = "{csp(style, script)}";',
        *by_language(html_bodies(name, pages, languages, style, script)),
        "return;",
    ]


def previews(pages: Path) -> dict[str, str]:
    """Return the waiting page by language, to look at: without script, and with names in
    double braces where Varnish fills something in.
    """
    style = minify_css(read(pages / "style.css"))
    made = html_bodies("waiting", pages, all_texts(pages), style, "")
    for mark in DYNAMIC:
        shown = "{{" + mark.strip("\0") + "}}"
        made = {language: page.replace(mark, shown) for language, page in made.items()}
    return made


def subroutine(name: str, pages: Path, languages: Mapping[str, Mapping[str, Texts]]) -> list[str]:
    """Write the subroutine that sends one page."""
    available = " ".join([FALLBACK, *(each for each in languages if each != FALLBACK)])
    plain = {
        language: str(texts[name]["plain"]).format(**MARKS) + "\n"
        for language, texts in languages.items()
    }
    as_html = html_lines(name, pages, languages) if PAGES[name].body else []
    return [
        f"sub naproxy_page_{name} {{",
        "set resp.http.Content-Language =",
        f'naproxy.language(req.http.Accept-Language, "{available}");',
        *(['if (req.http.Accept ~ "(?i)text/html") {', *as_html, "}"] if as_html else []),
        'set resp.http.Content-Type = "text/plain; charset=utf-8";',
        *by_language(plain),
        "}",
        "",
    ]


def wanted_keys(pages: Path) -> dict[str, set[str]]:
    """Return the texts each page needs: those its templates name, and `plain`."""
    wanted = {}
    for name, page in PAGES.items():
        templates = [read(pages / file) for file in ("layout.html", page.body)] if page.body else []
        wanted[name] = {"plain"}.union(*map(placeholders, templates)) - COMPUTED
    return wanted


def all_texts(pages: Path) -> dict[str, Mapping[str, Texts]]:
    """Read the texts of all languages; PagesError if one is malformed or English lacks one."""
    wanted, locale = wanted_keys(pages), pages.parent / "locale"
    english = read_catalogue(_file(locale, FALLBACK))
    needed = {f"{page}.{key}" for page, keys in wanted.items() for key in keys - {"points"}}
    given = {key for key in english if ".points." not in key}
    for word, keys in (("missing", needed - given), ("unknown", given - needed)):
        if keys:
            raise PagesError(f"{_file(locale, FALLBACK)}: {word}: {', '.join(sorted(keys))}")
    languages = {}
    for language in sorted(each.name for each in locale.iterdir()):
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", language):
            raise PagesError(f"{locale / language}: must be a language tag, such as fr")
        # Texts without a translation are in English.
        languages[language] = texts_of(english | read_catalogue(_file(locale, language)), wanted)
    return dict(languages)


def _file(locale: Path, language: str) -> Path:
    return locale / language / "LC_MESSAGES/pages.po"


def render(pages: Path) -> str:
    """Return the text of pages.vcl.

    Raises PagesError when an English text is missing or surplus, or one is malformed.
    """
    languages = all_texts(pages)
    lines = ["# Made by generate.py from pages/. Do not edit.", ""]
    for name in PAGES:
        lines += subroutine(name, pages, languages)
    return "\n".join(lines)


def main() -> int:
    """Print pages.vcl, or write the previews into a folder that is named; or say what is wrong."""
    pages = Path(__file__).parent / "pages"
    try:
        if len(sys.argv) > 1:
            for language, page in previews(pages).items():
                (Path(sys.argv[1]) / f"{language}.html").write_text(page, "utf-8")
            return 0
        sys.stdout.write(render(pages))
    except PagesError as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

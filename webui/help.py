#!/usr/bin/env python3
"""Make the box's help: the pages of docs/ as parts of HTML for the web interface to show.

    help.py DIRECTORY

docs/site/mkdocs.yml says which pages and in what groups; pages and parts for people who change
the code stay away. Python-Markdown is needed to build the package, and not on the box.
`index.json` has the pages' titles: {"pages": {name: title}, "groups": [[title, [name]]]}.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

# Python-Markdown has no types of its own, so what comes from it is unchecked.
from markdown import Markdown  # type: ignore[import-untyped]
from markdown.extensions import Extension  # type: ignore[import-untyped]
from markdown.treeprocessors import Treeprocessor  # type: ignore[import-untyped]

TOP: Final = Path(__file__).parents[1]
NOT_HELP: Final = ("Figures", "Change the code")
"""Groups of the site that nobody needs at the box."""

_NOT_READ: Final = re.compile(
    r"^(#+) For (those who change|contributors).*?(?=^(?!\1#)#+ |\Z)", re.MULTILINE | re.DOTALL
)
"""A part of a page for people who change the code, up to the next heading that is no part of it."""

_GROUP: Final = re.compile(r"^  - ([^:]+):$")
_PAGE: Final = re.compile(r"^      - docs/([a-z0-9/-]+)\.md$")
_HEADINGS: Final = ("h1", "h2", "h3", "h4")


def main() -> int:
    """Write them into the folder that the argument names, which is made anew."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(sys.argv[1])
    groups = chosen((TOP / "docs/site/mkdocs.yml").read_text("utf-8"))
    names = frozenset(name for _, group in groups for name in group)
    shutil.rmtree(out, ignore_errors=True)
    titles = {}
    for _, group in groups:
        for name in group:
            titles[name], made = rendered((TOP / f"docs/{name}.md").read_text("utf-8"), name, names)
            file = out / f"{name}.html"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(made + "\n", "utf-8")
    index = {"pages": titles, "groups": groups}
    (out / "index.json").write_text(json.dumps(index, ensure_ascii=False) + "\n", "utf-8")
    return 0


def chosen(site: str) -> list[tuple[str, list[str]]]:
    """Return the groups of the site's navigation with their pages' names."""
    groups: list[tuple[str, list[str]]] = []
    for line in site.partition("\nnav:\n")[2].splitlines():
        if group := _GROUP.match(line):
            groups.append((group[1], []))
        elif groups and (page := _PAGE.match(line)):
            groups[-1][1].append(page[1])
    return [each for each in groups if each[1] and each[0] not in NOT_HELP]


def rendered(text: str, name: str, names: frozenset[str]) -> tuple[str, str]:
    """Return a page's title and its HTML, with what cannot be followed at the box as text."""
    extensions = [f"markdown.extensions.{each}" for each in ("tables", "toc", "fenced_code")]
    made = Markdown(extensions=[*extensions, _Fitted(name, names)]).convert(_NOT_READ.sub("", text))
    return _title(text), made.replace("<pre><code", '<pre tabindex="0"><code')


def _title(text: str) -> str:
    return re.sub("[`*]", "", text.partition("# ")[2].partition("\n")[0])


class _Fitted(Extension):  # type: ignore[misc]
    """What makes a page of the repository one of the web interface."""

    def __init__(self, name: str, names: frozenset[str]) -> None:
        self._name, self._names = name, names
        super().__init__()

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Come after those that make links, ids and tables."""
        md.treeprocessors.register(_Fit(md, self._name, self._names), "fit", 3)


class _Fit(Treeprocessor):  # type: ignore[misc]
    """Links lead to the help; no pictures; no styles; wide tables scroll by themselves."""

    def __init__(self, md: Markdown, name: str, names: frozenset[str]) -> None:
        super().__init__(md)
        self._folder, self._names = posixpath.dirname(name), names

    def run(self, root: Element) -> None:
        """Change the tree in place."""
        for each in root.iter():
            self._each(each)
        heading = ""
        for place, each in enumerate(list(root)):
            if each.tag in _HEADINGS:
                heading = "".join(each.itertext())
            elif each.tag == "table":
                root[place] = _scrolling(each, heading)
        for each in [each for each in root if len(each) == 1 and each[0].tag == "img"]:
            root.remove(each)

    def _each(self, each: Element) -> None:
        if each.tag in ("th", "td"):
            if "right" in each.attrib.pop("style", "") + each.attrib.pop("align", ""):
                each.set("class", "number")
            if not len(each) and not each.text:
                each.tag = "td"  # an empty header is none
        elif each.tag == "table" and not "".join(each[0].itertext()).strip():
            each.remove(each[0])
        elif each.tag == "a":
            target = self._target(each.get("href", ""))
            each.attrib.clear()
            if target is None:
                each.tag = "span"
            else:
                each.set("href", target)

    def _target(self, href: str) -> str | None:
        parts = urlsplit(href)
        if parts.fragment.startswith("for-"):
            return None
        if parts.scheme in ("http", "https") or (not parts.path and parts.fragment):
            return href
        name = posixpath.normpath(posixpath.join(self._folder, parts.path)).removesuffix(".md")
        if parts.scheme or not parts.path.endswith(".md") or name not in self._names:
            return None
        return f"/help/{name}" + (f"#{parts.fragment}" if parts.fragment else "")


def _scrolling(table: Element, heading: str) -> Element:
    """Return a table that is moved sideways by itself, also with keys."""
    looks = {"class": "table-wrap", "tabindex": "0", "role": "group", "aria-label": heading}
    wrap = Element("div", looks)
    wrap.tail, table.tail = "\n", None
    table.set("class", "table")
    wrap.append(table)
    return wrap


if __name__ == "__main__":
    sys.exit(main())

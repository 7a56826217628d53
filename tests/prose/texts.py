"""Where the project's sentences are: pages, texts of the interface, docstrings, comments, names."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

KINDS: Final = ("docs", "interface", "docstrings", "comments", "test names", "subjects")
SUBJECTS: Final = 20
"""Commits whose subjects are read, the latest."""

_CODE: Final = re.compile(r"^(`{3,}|~{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`[^`\n]+`")
_LINK: Final = re.compile(r"\]\([^)]*\)|<[^>\n]+>|https?://\S+")
_MARK: Final = re.compile(r"^\s*(?:[-*+]|\d+\.|#+|>)\s+|\|", re.MULTILINE)
_NOT_PROSE: Final = re.compile(
    r"noqa|type: ignore|shellcheck|SPDX|Copyright|fmt: |biome-ignore|\$Id|^!"
)


class Text(NamedTuple):
    """Some sentences, and where they are."""

    place: str
    prose: str


def texts(top: Path) -> dict[str, list[Text]]:
    """Return all sentences of the files that git has, by kind."""
    found: dict[str, list[Text]] = {kind: [] for kind in KINDS}
    for name in _git(top, "ls-files", "-z").split("\0"):
        path = top / name
        if name and path.is_file() and (read := _reader(name)):
            kind, texts_of = read
            found[kind] += [
                Text(f"{name}:{line}", prose) for line, prose in texts_of(path.read_text("utf-8"))
            ]
            if name.endswith(".py"):
                found["comments"] += [
                    Text(f"{name}:{line}", prose)
                    for line, prose in _python_comments(path.read_text("utf-8"))
                ]
                if "/test_" in name:
                    found["test names"] += _test_names(name, path.read_text("utf-8"))
    subjects = _git(top, "log", f"-{SUBJECTS}", "--format=%h %s").splitlines()
    found["subjects"] = [Text(*line.split(" ", 1)) for line in subjects]
    return found


def _git(top: Path, *args: str) -> str:
    return subprocess.run(
        ["git", *args], cwd=top, capture_output=True, check=True, text=True
    ).stdout


Numbered = Iterator[tuple[int, str]]


def _reader(name: str) -> tuple[str, Callable[[str], Numbered]] | None:
    # The changelog tells of earlier states, in the words of their time.
    if name == "CHANGELOG.md" or (name.endswith(".po") and "/en/" not in name):
        return None
    found = next((each for each in _READERS if re.search(each[0], name)), None)
    return found[1:] if found else None


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _markdown(text: str) -> Numbered:
    kept = _CODE.sub(lambda m: "\n" * m[0].count("\n"), text)
    at = 1
    for paragraph in re.split(r"(\n\s*\n)", kept):
        rows = paragraph.split("\n") if paragraph.lstrip().startswith("|") else None
        # A cell of a table is a text of its own.
        for prose in re.split(r"\||\n(?=\s*[-*] )", paragraph) if rows else [paragraph]:
            yield at, _plain(prose)
        at += paragraph.count("\n")


def _plain(prose: str) -> str:
    return (
        _MARK.sub(" ", _LINK.sub(" ", _INLINE.sub("X", prose))).replace("**", "").replace("*", "")
    )


def _po(text: str) -> Numbered:
    for match in re.finditer(r'^msgstr ((?:"(?:[^"\\\n]|\\.)*"\n?)+)', text, re.MULTILINE):
        whole = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', match[1]))
        if not whole.startswith("Language:"):
            yield _line(text, match.start()), whole.replace("\\n", "\n").replace('\\"', '"')


def _docstrings(text: str) -> Numbered:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            said = node.value.value
            if isinstance(said, str):
                yield node.lineno, _plain(said)


def _python_comments(text: str) -> Numbered:
    so_far, begun, last = "", 0, -2
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or _NOT_PROSE.search(token.string.lstrip("#")):
            continue
        line = token.start[0]
        if line != last + 1 and so_far:
            yield begun, so_far
            so_far = ""
        if not so_far:
            begun = line
        so_far += token.string.lstrip("# ") + "\n"
        last = line
    if so_far:
        yield begun, so_far


def _blocks(text: str, pattern: str) -> Numbered:
    for match in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        prose = next((each for each in match.groups() if each), "")
        prose = re.sub(r"^\s*(?:\*|#|//)?\s?", "", prose, flags=re.MULTILINE)
        if not _NOT_PROSE.search(prose):
            yield _line(text, match.start()), _plain(prose)


def _test_names(name: str, text: str) -> list[Text]:
    return [
        Text(f"{name}:{node.lineno}", node.name.removeprefix("test_").replace("_", " "))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
    ]


_READERS: Final[list[tuple[str, str, Callable[[str], Numbered]]]] = [
    (r"\.md$", "docs", _markdown),
    (r"\.po$", "interface", _po),
    (r"\.py$", "docstrings", _docstrings),
    (
        r"\.(c|h|m?js)$",
        "comments",
        lambda text: _blocks(text, r"/\*+(.*?)\*/|(?<![:\"'])//([^\n]*)"),
    ),
    (
        r"\.(vcl|vtc|sh|mk|service)$|^Makefile$",
        "comments",
        lambda text: _blocks(text, r"(?:^|\s)#((?: [^\n]*\n?(?:\s*#)?)+)"),
    ),
]

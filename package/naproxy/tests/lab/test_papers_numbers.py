"""Numbers of the thesis' figures, tables and equations, wherever they are named."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from naproxy.lab.papers.numbers import EQUATIONS, FIGURES, SECTIONS, TABLES, Item

ROOT = Path(__file__).parents[4]
THESIS = ROOT.parent / "shared/papers/002-thesis-power-saving-proxy.txt"
KINDS: Mapping[str, Mapping[str, Item]] = {
    "figure": FIGURES,
    "table": TABLES,
    "equation": EQUATIONS,
    "section": SECTIONS,
}
NUMBER = r"[3-7]\.\d+(?:\.\d+)*"
NAMED = re.compile(
    rf"\b(figure|table|equation|section)s? \(?({NUMBER})\)?"
    rf"(?: (?:and|to) (?:table |figure |equation |section )?\(?({NUMBER})\)?)?",
    re.IGNORECASE,
)
PLACES = (
    "README.md",
    "docs/*.md",
    "package/naproxy/src/naproxy/**/*.py",
    "package/naproxy/src/naproxy/locale/en/**/*.po",
    "package/libvmod-naproxy/src/*.h",
    "webui/src/naproxy_webui/**/*.py",
    "webui/src/naproxy_webui/locale/en/**/*.po",
    "tests/simulator/**/*.py",
)
OTHERS = re.compile(r"RFC|DCMI|IPMI|clients mask")
"""Documents whose sections are named, too."""


def named() -> Iterator[tuple[str, str, str, str]]:
    """Yield place, kind, number and what is written around it."""
    for pattern in PLACES:
        for path in sorted(ROOT.glob(pattern)):
            if path.name == "numbers.py":
                continue
            lines = path.read_text("utf-8").splitlines()
            for n, line in enumerate(lines):
                for match in NAMED.finditer(line):
                    around = " ".join(lines[max(0, n - 2) : n + 3])
                    if match[1].lower() == "section" and OTHERS.search(around):
                        continue
                    for number in filter(None, match.groups()[1:]):
                        where = f"{path.relative_to(ROOT)}:{n + 1}"
                        yield where, match[1].lower(), number, around


def test_each_number_that_is_named_is_the_thesis() -> None:
    places = list(named())
    assert len(places) > 50
    wrong = []
    for where, kind, number, around in places:
        item = KINDS[kind].get(number)
        if item is None:
            wrong.append(f"{where}: the thesis has no {kind} {number} that is known here")
        elif not any(word.lower() in around.lower() for word in item.words):
            wrong.append(f"{where}: {kind} {number} shows {item.title}; here it says: {around}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(not THESIS.exists(), reason="the thesis is not beside the project")
def test_the_table_of_numbers_is_the_thesis_own() -> None:
    text = THESIS.read_text("utf-8")
    for kind in ("Figure", "Table"):
        for number, item in KINDS[kind.lower()].items():
            found = re.search(rf"^{kind} {re.escape(number)}: (.+)$", text, re.MULTILINE)
            assert found, f"{kind} {number}"
            words = (*item.words, *item.title.split())
            assert any(word.lower() in found[1].lower() for word in words), (kind, number, found[1])
    for number in EQUATIONS:
        assert re.search(rf"\({re.escape(number)}\)", text), number
    for number in SECTIONS:
        assert re.search(rf"^{re.escape(number)} [A-Z]", text, re.MULTILINE), number

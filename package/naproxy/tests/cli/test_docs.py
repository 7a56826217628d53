"""The documentation: what it points at is there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[4]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """What forges make of a page's headings."""
    heads = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def leads_nowhere(page: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    missing_heading = anchor and target.suffix == ".md" and anchor not in anchors(target)
    return not target.exists() or bool(missing_heading)


def test_every_link_has_a_target() -> None:
    links = [(p, link) for p in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", without_code(p))]
    assert len(links) > 500
    assert [(p.name, link) for p, link in links if leads_nowhere(p, link)] == []


def test_tests_that_the_threat_model_names_are_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    named = set(re.findall(r"`(test_\w+|\w+\.vtc)`", text))
    places = [ROOT / name for name in ("package", "webui", "tests", "varnish-vcl")]
    there = {path.name for place in places for path in place.rglob("*.vtc")}
    for path in (path for place in places for path in place.rglob("test_*.py")):
        there.update(re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    assert named
    assert named <= there

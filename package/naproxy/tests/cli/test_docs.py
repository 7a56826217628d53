"""The documentation: what it points at is there."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from naproxy.cli import __main__ as cli

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


def test_every_command_is_in_the_man_page_and_can_be_completed() -> None:
    page = (ROOT / "debian/man/naproxy.1").read_text().replace("\\-", "-")
    for command in cli.COMMANDS:
        assert re.search(rf'^\.BI? "?naproxy {command}\b', page, re.MULTILINE), command
    for shell, name in (("bash", "naproxy"), ("zsh", "_naproxy")):
        text = (ROOT / "debian/completions" / name).read_text()
        assert [each for each in cli.COMMANDS if each not in text] == [], shell


def test_completions_are_those_of_the_commands() -> None:
    pytest.importorskip("shtab", reason="shtab is not installed: make prepare")
    made = runpy.run_path(str(ROOT / "package/naproxy/completion.py"))
    for shell, file in made["FILES"].items():
        assert file.read_text() == made["text"](shell), "run: package/naproxy/completion.py"


def test_bash_completes_commands_and_their_options() -> None:
    for words, expected in (
        (("naproxy", "certif"), "certificate"),
        (("naproxy", "certificate", "ren"), "renew"),
        (("naproxy", "doctor", "--fac"), "--facts"),
    ):
        line = " ".join(words)
        done = subprocess.run(
            [
                *("bash", "-c"),
                '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*";'
                ' _shtab_naproxy naproxy "${!#}" x; echo "${COMPREPLY[@]}"',
                str(ROOT / "debian/completions/naproxy"),
                *words,
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        assert expected in done.stdout.split(), line


def test_units_have_few_rights() -> None:
    """`systemd-analyze security` below 3; the controller's job does not allow that."""
    analyze = shutil.which("systemd-analyze")
    if not analyze:
        pytest.skip("systemd-analyze is not installed")
    folders = ("package/naproxy", "package/naproxy-through", "webui", "package/naproxy-agent")
    units = [unit for folder in folders for unit in (ROOT / folder).glob("*.service")]
    assert len(units) > 8
    for unit in units:
        most = 43 if unit.name == "naproxy-controller.service" else 29
        done = subprocess.run(
            [analyze, "security", "--offline=true", f"--threshold={most}", unit],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (unit.name, done.stdout[-200:], done.stderr)

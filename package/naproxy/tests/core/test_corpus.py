"""Who real User-Agents are taken for: package/crawlers/tests/corpus.txt."""

import sys
from pathlib import Path

import pytest
from naproxy.core.classify import Agents
from naproxy.core.state import Klass

CRAWLERS = Path(__file__).parents[3] / "crawlers"
sys.path.insert(0, str(CRAWLERS / "tests"))

corpus = pytest.importorskip("corpus", reason="the lists of robots are not beside the controller")
AGENTS = Agents()


def test_no_program_of_a_customer_and_no_browser_is_a_robot() -> None:
    refused = [
        f"{group}: {AGENTS.klass(text).name}: {text}"
        for group, what, text in corpus.read()
        if what == corpus.VISITOR and AGENTS.klass(text).robot
    ]
    assert not refused


def test_the_matcher_and_the_controller_take_everybody_for_the_same() -> None:
    for _, _, taken, text in corpus.taken_for():
        klass = AGENTS.klass(text)
        assert taken == (klass.name.lower() if klass.robot else corpus.VISITOR), text


def test_the_corpus_has_every_kind() -> None:
    kinds = {what for _, what, _ in corpus.read()}
    assert kinds == {corpus.VISITOR, *(k.name.lower() for k in Klass if k.robot)}


def test_the_table_in_the_docs_is_what_the_command_prints() -> None:
    # python3 package/crawlers/tests/corpus.py
    assert corpus.table(corpus.taken_for()) in (CRAWLERS / "README.md").read_text("utf-8")

"""What each rule of the office did so far: refusals, and in how many sleeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from history_box import Box, event
from naproxy.config.document import Rule
from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.history.read.queries import rules
from naproxy.history.tables import rule_key
from reading import answer, opened

FEED = Rule(kind="path", text="/feed", treat_as="feed", server="web")
PROBE = Rule(kind="agent", text="Probe/", treat_as="monitor", server="")


@pytest.fixture
def box(box: Box) -> Box:
    box.history.rules([FEED, PROBE])
    return box


def fall_asleep(box: Box) -> None:
    box.journal.transition("web", State.FALLING_ASLEEP, State.ASLEEP, Reason("policy.idle"))
    box.pass_s(60)


def refuse(box: Box, rule: int, outcome: Outcome = Outcome.REFUSED) -> None:
    box.history.request("web", replace(event(box, outcome), rule=rule))
    box.pass_s(60)


def did(box: Box, rule: Rule) -> dict[str, Any]:
    with opened(box) as db:
        return rules(db)[rule_key(rule.kind, rule.text, rule.treat_as, rule.server)]


def test_refusals_of_one_sleep_prevented_one_wake_at_most(box: Box) -> None:
    begun_s = box.wall_s
    for refusals in (3, 1):
        fall_asleep(box)
        for _ in range(refusals):
            last_s = box.wall_s
            refuse(box, 1)
    assert did(box, FEED) == {"since_s": begun_s, "last_s": last_s, "refused": 4, "sleeps": 2}
    assert did(box, PROBE) == {"since_s": begun_s, "last_s": None, "refused": 0, "sleeps": 0}


def test_what_no_rule_refused_is_no_rules(box: Box) -> None:
    fall_asleep(box)
    refuse(box, 0)
    refuse(box, 3)
    refuse(box, 1, Outcome.HIT)
    assert (did(box, FEED)["refused"], did(box, PROBE)["refused"]) == (0, 0)


def test_a_rule_keeps_its_count_when_another_goes_before_it(box: Box) -> None:
    fall_asleep(box)
    refuse(box, 2)
    box.history.rules([PROBE])
    refuse(box, 1)
    box.restart()
    box.history.rules([PROBE])
    assert did(box, PROBE)["refused"] == 2
    assert len(answer(box, rules)) == 1


def test_a_rule_made_again_begins_anew(box: Box) -> None:
    fall_asleep(box)
    refuse(box, 1)
    assert did(box, FEED)["refused"] == 1
    box.history.rules([PROBE])
    box.pass_s(60)
    box.history.rules([FEED, PROBE])
    assert did(box, FEED) == {"since_s": box.wall_s, "last_s": None, "refused": 0, "sleeps": 0}

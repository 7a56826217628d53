"""Requests that waited: counts for ever, and how long each waited."""

import pytest
from history_box import Box, ask
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.reason import own_words
from naproxy.core.state import Klass, State
from naproxy.history.read import waits
from naproxy.history.read.waits import Paid, Wait
from reading import answer

LATE = page_h.E_NEEDED | page_h.E_DELAYED


pytestmark = pytest.mark.usefixtures("watching")


def read(box: Box) -> tuple[list[Wait], float]:
    box.history.flush()
    found: tuple[list[Wait], float] = answer(box, waits.waits, "web", 0, box.wall_s + 60)
    return found


def lengths(box: Box) -> list[float | None]:
    return [w.wait_s if w.wait_s is None else round(w.wait_s, 1) for w in read(box)[0]]


def enter(box: Box, state: State) -> None:
    box.journal.transition("web", State.ASLEEP, state, own_words("x"))


def test_a_request_that_was_held_says_itself_how_long(box: Box) -> None:
    ask(box, outcome=Outcome.HELD, flags=LATE, delay_ms=4100)
    ask(box, outcome=Outcome.HELD, flags=page_h.E_NEEDED, delay_ms=300)  # within the promise
    ask(box)
    assert lengths(box) == [4.1]


def test_who_got_the_waiting_page_waited_until_the_server_was_awake(box: Box) -> None:
    ask(box, 1, Outcome.WAITING_PAGE, flags=LATE)
    box.pass_s(2)
    ask(box, 2, Outcome.WAITING_PAGE, flags=LATE)
    ask(box, 1, Outcome.WAITING_PAGE, flags=LATE)  # too early: the same wait
    box.pass_s(3.5)
    enter(box, State.AWAKE)
    box.pass_s(60)
    assert lengths(box) == [pytest.approx(5.5, abs=0.11), pytest.approx(3.5, abs=0.11)]


def test_a_server_that_never_came_is_not_a_wait_of_known_length(box: Box) -> None:
    ask(box, 1, Outcome.WAITING_PAGE, flags=LATE)
    box.pass_s(3600)
    enter(box, State.AWAKE)
    box.pass_s(60)
    assert lengths(box) == [None]


def test_of_too_many_the_newest_are_looked_at_and_that_is_said(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "MOST_BLOCKS", 2)
    for n in range(5):
        ask(box, outcome=Outcome.HELD, flags=LATE, delay_ms=1000 * (n + 2))
        box.pass_s(600)
        box.history.flush()
    found, since_s = read(box)
    assert [w.wait_s for w in found] == [5.0, 6.0]
    assert since_s <= found[0].t_s


def test_robots_questions_for_the_state_and_who_is_over_his_share_are_not_counted(box: Box) -> None:
    ask(box, outcome=Outcome.HELD, flags=LATE)
    ask(box, klass=Klass.API)
    ask(box, klass=Klass.CRAWLER)
    ask(box, outcome=Outcome.STATUS)
    ask(box, outcome=Outcome.SPENT, flags=page_h.E_SPENT | page_h.E_NEEDED)
    box.history.flush()
    assert answer(box, waits.paid, "web", box.wall_s - 60, box.wall_s + 60) == Paid(2, 1)

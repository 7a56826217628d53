"""Hours of states: kept for ever, the same as the transitions they are made of."""

import pytest
from history_box import HOUR_S, Box
from naproxy.core.reason import own_words
from naproxy.core.state import State
from naproxy.history.read import states
from naproxy.history.read.states import InState
from naproxy.history.read.timeline import Stretch
from naproxy.history.write.writer import PRUNE_EVERY
from reading import answer

pytestmark = pytest.mark.usefixtures("watching")


def enter(box: Box, before: State, state: State) -> None:
    box.journal.transition("web", before, state, own_words("x"))


def live(box: Box, hours: int) -> None:
    for _ in range(hours * 60):
        box.pass_s(box.history.next_s)
        box.history.tick()


def read(box: Box) -> dict[int, states.States]:
    found: dict[int, states.States] = answer(box, states.read, "web", 0, 1e12)
    return found


def test_a_stretch_is_cut_at_each_hour_and_what_is_not_known_is_not_there() -> None:
    found = [
        Stretch(1, 100.0, 7300.0, "asleep", ""),
        Stretch(2, 7300.0, 7400.0, "awake", ""),
        Stretch(3, 7400.0, 20_000.0, "unknown", ""),
    ]
    assert states.by_part(found, 0, 20_000) == {
        0: {"asleep": InState(3500, 1)},
        3600: {"asleep": InState(3600, 0)},
        7200: {"asleep": InState(100, 0), "awake": InState(100, 1)},
    }


def test_hours_that_are_over_are_added_up_once_an_hour(box: Box) -> None:
    enter(box, State.UNKNOWN, State.AWAKE)
    live(box, 2)
    enter(box, State.AWAKE, State.ASLEEP)
    live(box, 3)
    found = read(box)
    assert set(found) == {HOUR_S + 3600 * n for n in range(PRUNE_EVERY * 5 // 60)}
    assert found[HOUR_S + 3600]["awake"] == InState(3600, 0)
    assert sum(s.entered for hour in found.values() for s in hour.values()) == 2
    assert found[HOUR_S + 4 * 3600] == {"asleep": InState(3600, 0)}


def test_hours_stay_when_the_transitions_are_gone(box: Box) -> None:
    enter(box, State.UNKNOWN, State.AWAKE)
    live(box, 5)
    before = read(box)
    box.pass_s(100 * 86400)
    enter(box, State.AWAKE, State.ASLEEP)
    box.journal.prune(90)
    assert read(box) == before != {}


def test_a_box_that_was_off_for_long_goes_on_with_its_hours(box: Box) -> None:
    enter(box, State.UNKNOWN, State.AWAKE)
    live(box, 3)
    enter(box, State.AWAKE, State.UNKNOWN)
    box.stop()
    box.pass_s(60 * 86400)
    box.start()
    box.history.watch(["web"])
    began_s = box.wall_s
    enter(box, State.UNKNOWN, State.AWAKE)
    live(box, 3)
    later = {t_s: known for t_s, known in read(box).items() if t_s > began_s}
    assert later
    assert all(known == {"awake": InState(3600, 0)} for known in later.values())


def test_a_cut_without_a_meter_is_not_taken_for_the_last_state(box: Box) -> None:
    enter(box, State.UNKNOWN, State.ASLEEP)
    live(box, 2)
    seen_s = box.wall_s
    box.journal.close()  # cut off: nothing is said
    box.pass_s(10 * 3600)
    box.start()
    box.history.watch(["web"])
    enter(box, State.UNKNOWN, State.AWAKE)
    live(box, 3)
    asleep_s = sum(hour["asleep"].seconds for hour in read(box).values() if "asleep" in hour)
    assert asleep_s == pytest.approx(seen_s - HOUR_S, abs=1300)


def test_when_the_clock_is_set_the_hours_are_added_up_anew(box: Box) -> None:
    box.synchronised = False
    box.restart()
    box.history.watch(["web"])
    enter(box, State.UNKNOWN, State.AWAKE)
    live(box, 5)
    assert read(box)
    box.wall_s += 30 * 86400
    box.synchronised = True
    live(box, 2)
    assert min(read(box)) >= HOUR_S + 30 * 86400

from collections.abc import Iterator
from pathlib import Path

import pytest
from history_box import DAY_S, START_S, Box, event
from naproxy.core.reason import own_words
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.history.write import power
from naproxy.history.write.clock import TAKEN_S, kernel_says_synchronised

FACTORY_S = 1_600_000_000.0
"""What a clock without a battery says after power comes."""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A box that has just got power, for the first time."""
    made = Box(tmp_path)
    made.synchronised = False
    made.reboot(FACTORY_S)
    yield made
    made.stop()


def ntp_comes(box: Box, true_s: float) -> None:
    box.wall_s = true_s
    box.synchronised = True
    box.history.tick()


def test_what_was_written_before_ntp_came_is_moved_to_when_it_was(box: Box) -> None:
    box.meter(100)
    box.journal.transition("web", State.AWAKE, State.ASLEEP, own_words("x"))
    box.journal.wake_opened("web", WakeRequest("192.0.2.1", "page"))
    box.journal.decision("web", box.house_s, True, own_words("idle"))
    ntp_comes(box, START_S + 100.4)
    assert box.seconds() == list(range(START_S, START_S + 100))
    assert box.read("SELECT t_s, covered_ms FROM power_minutes") == [
        (START_S, 60_000),
        (START_S + 60, 40_000),
    ]
    assert box.read("SELECT t_s FROM power_hours") == [(START_S // 3600 * 3600,)]
    for tier in ("minutes", "hours"):
        assert box.energy(tier) == 100 * 43_000
    for table in ("transitions", "wakes", "decisions"):
        assert box.read(f"SELECT t_s FROM {table}") == [(START_S + 100,)]


def test_a_correction_is_recorded_and_new_seconds_get_the_right_time_from_then_on(
    box: Box, said: list[str]
) -> None:
    ntp_comes(box, START_S)
    [(t_s, what, shift_s, since_s)] = box.read("SELECT t_s, what, shift_s, since_s FROM clock")
    assert (t_s, what, shift_s, since_s) == (START_S, "corrected", START_S - FACTORY_S, FACTORY_S)
    assert "clock was set" in said[-1]
    box.meter(10)  # the house's clock, by which meters go, does not step
    box.history.flush()
    assert box.seconds() == list(range(START_S, START_S + 10))


def test_traffic_is_moved_by_whole_minutes(box: Box) -> None:
    for _ in range(3):
        box.history.request("web", event(box))
        box.pass_s(60)
    ntp_comes(box, START_S + 180)
    found = box.read("SELECT t_s, requests FROM traffic_minutes")
    assert [n for _, n in found] == [1, 1, 1]
    assert all(abs(t - START_S - 60 * i) <= 60 for i, (t, _) in enumerate(found))
    assert box.read("SELECT sum(requests) FROM traffic_hours") == [(3,)]


def test_what_another_boot_wrote_is_not_moved(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.meter(10)
    box.synchronised = False
    box.reboot(START_S + 10)
    box.meter(10)
    ntp_comes(box, START_S + 1000)
    assert box.seconds() == [
        *range(START_S, START_S + 10),
        *range(START_S + 990, START_S + 1000),
    ]


def test_a_clock_behind_the_history_goes_on_after_its_end_until_ntp_comes(
    tmp_path: Path, said: list[str]
) -> None:
    box = Box(tmp_path)
    box.meter(10)
    box.synchronised = False
    box.reboot(FACTORY_S)
    box.meter(10)
    box.history.tick()
    assert box.seconds()[10] > START_S + 10
    assert "a guess" in said[-1]
    ntp_comes(box, START_S + DAY_S)
    assert box.seconds()[10:] == list(range(START_S + DAY_S - 10, START_S + DAY_S))
    assert [row[0] for row in box.read("SELECT what FROM clock")] == ["guessed", "corrected"]


def test_ntp_may_come_while_the_controller_restarts(box: Box) -> None:
    box.meter(10)
    box.stop()
    box.wall_s = START_S + 10.0
    box.synchronised = True
    box.start()
    box.history.tick()
    box.meter(10)
    box.history.flush()
    assert box.seconds() == list(range(START_S, START_S + 20))


def test_a_clock_set_after_it_was_right_leaves_what_was_written(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.meter(10)
    box.history.tick()
    box.wall_s += 3600
    box.history.tick()
    box.meter(10)
    box.history.flush()
    assert box.seconds() == [
        *range(START_S, START_S + 10),
        *range(START_S + 3610, START_S + 3620),
    ]
    assert box.read("SELECT what, shift_s FROM clock") == [("stepped", 3600.0)]


def test_a_clock_that_moves_a_little_is_not_followed(box: Box) -> None:
    box.wall_s += 1.5
    box.history.tick()
    assert box.read("SELECT * FROM clock") == []


def test_a_clock_that_nothing_ever_confirms_is_taken_as_it_is(box: Box) -> None:
    box.meter(10)
    box.pass_s(TAKEN_S)
    box.history.tick()
    assert box.history.clock.confirmed
    box.wall_s += 1000
    box.history.tick()
    assert box.seconds() == list(range(int(FACTORY_S), int(FACTORY_S) + 10))


def test_a_move_that_fails_is_tried_again(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.meter(10)
    with monkeypatch.context() as broken:
        broken.setattr(power.Power, "shift", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ntp_comes(box, START_S + 10)
    assert box.seconds()[0] == FACTORY_S
    box.history.tick()
    assert box.seconds() == list(range(START_S, START_S + 10))


def test_a_clock_far_ahead_that_nothing_confirms_deletes_nothing(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.meter(10)
    box.synchronised = False
    box.reboot(START_S + 3000 * DAY_S)
    box.history.tick()
    assert len(box.seconds()) == 10
    assert not box.history.clock.trusted
    ntp_comes(box, START_S + 8 * DAY_S)
    assert box.seconds() == []


def test_the_kernel_is_asked_whether_the_clock_is_right() -> None:
    assert kernel_says_synchronised() in (True, False)

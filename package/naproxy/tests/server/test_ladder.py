import json
import math

from hypothesis import given
from hypothesis import strategies as st
from naproxy.config import document as config
from naproxy.drivers import wake
from naproxy.server.ladder import Call, Ladder, Rung

PACKETS = Rung("etherwake", 0.5, 3, key="e")
BMC = Rung("ipmi", 5.0, 2, key="i")
BUTTON = Rung("gpio", 60.0, 1, presses=True, key="g")
USUAL_S = 4.0


class Play:
    """Climbs with the time that passes between calls."""

    def __init__(self, *rungs: Rung, remembered: dict[str, float] | None = None) -> None:
        self.ladder = Ladder(rungs, remembered)
        self.now_s = 0.0

    def climb(self, calls: int = 1000, *, on: bool = False) -> list[str]:
        names: list[str] = []
        while len(names) < calls and (call := self.ladder.climb(self.now_s, on=on)):
            names.append("-" if call.rung is None else self.ladder.rungs[call.rung].name)
            self.now_s += call.spacing_s
        return names

    def wake_by(self, name: str) -> str:
        """One wake in which only this rung works; returns which one is thanked."""
        self.ladder.begin()
        while self.climb(1) != [name]:
            pass
        self.now_s += USUAL_S
        return self.ladder.up(self.now_s)

    def order(self) -> list[str]:
        return [str(rung["name"]) for rung in self.ladder.status()]


def test_rungs_are_tried_in_turn_each_as_often_and_as_far_apart_as_it_says() -> None:
    play = Play(PACKETS, BMC)
    assert play.climb(3) == ["etherwake"] * 3
    assert play.now_s == 1.5
    assert play.climb() == ["ipmi"] * 2
    assert play.now_s == 11.5


def test_after_the_last_the_rungs_take_turns() -> None:
    ladder = Play(PACKETS, BMC).ladder
    assert [ladder.again(on=False) for _ in range(3)] == [Call(0, 0.5), Call(1, 5.0), Call(0, 0.5)]


def test_one_passed_over_in_vain_comes_behind_the_one_that_works_also_after_a_restart() -> None:
    play = Play(PACKETS, BMC)
    assert play.wake_by("ipmi") == "ipmi"
    kept = json.loads(json.dumps(play.ladder.dump()))
    for each in (play, Play(PACKETS, BMC, remembered=kept)):
        assert each.order() == ["ipmi", "etherwake"]
        each.ladder.begin()
        assert each.climb(1) == ["ipmi"]


def test_one_that_always_worked_loses_its_place_with_the_second_failure() -> None:
    play = Play(PACKETS, BMC)
    for _ in range(10):
        play.wake_by("etherwake")
    play.wake_by("ipmi")
    assert play.order() == ["etherwake", "ipmi"]
    play.wake_by("ipmi")
    assert play.order() == ["ipmi", "etherwake"]


def test_when_nothing_woke_the_server_nothing_is_learned() -> None:
    play = Play(PACKETS, BMC)
    before = play.ladder.dump()
    play.climb()
    play.ladder.begin()
    assert play.ladder.dump() == before


def test_a_server_up_just_after_the_next_rungs_first_call_was_woken_by_the_one_before() -> None:
    play = Play(PACKETS, BMC)
    play.wake_by("etherwake")
    play.ladder.begin()
    called_s = play.now_s
    play.climb(4)
    assert play.ladder.up(called_s + 1.5 + 0.1) == "etherwake"
    assert play.order() == ["etherwake", "ipmi"]


def test_without_knowing_how_long_it_takes_the_last_rung_is_thanked() -> None:
    play = Play(PACKETS, BMC)
    play.climb(4)
    assert play.ladder.up(1.5 + 0.1) == "ipmi"


def test_a_rung_that_could_not_be_called_gives_way_at_once_and_is_not_thanked() -> None:
    play = Play(PACKETS, BMC)
    play.climb(1)
    assert play.ladder.failed(0)
    assert play.climb() == ["ipmi"] * 2
    assert play.ladder.up(play.now_s + 0.1) == "ipmi"


def test_the_last_rung_is_tried_again_though_it_failed() -> None:
    play = Play(PACKETS)
    play.climb(1)
    assert not play.ladder.failed(0)
    assert play.climb() == ["etherwake"] * 2


def test_a_late_failure_of_an_earlier_rung_does_not_take_the_turn_of_the_present_one() -> None:
    play = Play(PACKETS, BMC, BUTTON)
    play.climb(4)
    assert not play.ladder.failed(0)
    assert play.climb(1) == ["ipmi"]


def test_a_button_is_looked_at_often_while_the_machine_may_be_on_for_as_long_as_a_press_takes() -> (
    None
):
    play = Play(BUTTON)
    assert play.climb(on=True) == ["-"] * 60
    assert play.now_s == 60.0


def test_a_button_that_may_not_be_pressed_yet_lets_the_others_go_first() -> None:
    play = Play(BUTTON, PACKETS)
    assert play.climb(4, on=True) == [*["etherwake"] * 3, "-"]
    assert play.climb(1, on=False) == ["gpio"]


def test_a_button_is_not_pressed_again_and_again() -> None:
    play = Play(PACKETS, BUTTON)
    play.climb()
    assert {play.ladder.again(on=False).rung for _ in range(10)} == {0}


def test_a_button_that_was_never_pressed_is_once_when_the_machine_is_seen_off() -> None:
    play = Play(PACKETS, BUTTON)
    play.climb(on=True)
    assert play.ladder.again(on=True) == Call(0, 0.5)
    assert play.ladder.again(on=False) == Call(1, 60.0)
    assert {play.ladder.again(on=False).rung for _ in range(10)} == {0}


def test_a_button_that_is_all_there_is_is_pressed_again_if_the_machine_is_off() -> None:
    ladder = Play(BUTTON).ladder
    assert [ladder.again(on=False) for _ in range(2)] == [Call(0, 60.0)] * 2
    assert ladder.again(on=True) == Call(None, 1.0)


def test_an_invalid_memory_is_ignored() -> None:
    for score in ("much", None, True, -1, 2, [], math.nan):
        ladder = Ladder([PACKETS, BMC], {"e": score, "x": 0.1})
        assert ladder.dump() == {"e": 0.5, "i": 0.5}, score


@given(
    st.lists(st.sampled_from(["climb", "on", "again", "failed", "up", "begin"]), max_size=60),
    st.permutations([PACKETS, BMC, BUTTON]),
)
def test_any_sequence_ends_and_never_presses_while_on(acts: list[str], rungs: list[Rung]) -> None:
    play = Play(*rungs)
    ladder, called = play.ladder, 0
    for act in acts:
        match act:
            case "climb" | "on":
                call = ladder.climb(play.now_s, on=act == "on")
                if call and call.rung is not None:
                    called = call.rung
                    assert act == "climb" or not rungs[called].presses
            case "again":
                called = ladder.again(on=False).rung or 0
            case "failed":
                ladder.failed(called)
            case "up":
                assert ladder.up(play.now_s) in {"", *(r.name for r in rungs)}
                ladder.begin()
            case _:
                ladder.begin()
        play.now_s += 0.3
        assert all(0 <= score <= 1 for score in ladder.dump().values())
    ladder.begin()
    assert len(play.climb()) == sum(r.attempts for r in rungs)


# Made from the configuration

SERVER = '[[server]]\nid = "web"\naddress = "192.0.2.10"\nmac = "02:00:00:00:00:01"\n'


def rungs(text: str) -> list[Rung]:
    return wake.rungs(config.parse(SERVER + text).server[0].wake)


def test_rungs_are_those_of_the_configuration_in_their_order_and_etherwake_without_a_word() -> None:
    text = "[[server.wake]]\n[[server.wake]]\nspacing_s = 2\n"
    assert [(r.name, r.spacing_s, r.attempts) for r in rungs(text)] == [
        ("etherwake", 0.5, 60),
        ("etherwake 2", 2.0, 60),
    ]
    assert [(r.name, r.spacing_s, r.attempts) for r in rungs("")] == [("etherwake", 0.5, 60)]


def test_a_rung_with_other_settings_than_its_times_is_another_of_which_nothing_is_known() -> None:
    known = rungs("")[0].key
    assert rungs("[[server.wake]]\nspacing_s = 3\n")[0].key == known
    assert rungs('[[server.wake]]\ninterface = "eth7"\n')[0].key != known

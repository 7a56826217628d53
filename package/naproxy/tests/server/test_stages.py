"""Where the seconds of a wake went: marks in, stages out."""

import pytest
from naproxy.server.seeing import Sign
from naproxy.server.stages import Stage, Waking, load, typical

CALLED_S = 100.0


def names(stages: tuple[Stage, ...]) -> list[str]:
    return [stage.name for stage in stages]


def seconds(stages: tuple[Stage, ...]) -> dict[str, float]:
    return {stage.name: round(stage.took_s, 3) for stage in stages}


def test_each_stage_has_the_time_since_the_one_before_it() -> None:
    waking = Waking(CALLED_S, on_w=40.0, asleep_w=2.0)
    waking.drew(100.2, 2.1)
    waking.drew(100.4, 9.0)
    waking.saw_link(100.5, up=False)
    waking.saw_link(102.0, up=True)
    waking.pinged(102.5)
    waking.connected(102.6)
    assert seconds(waking.up(103.0)) == {
        **{"power": 0.4, "link": 1.6, "network": 0.5},
        **{"port": 0.1, "answer": 0.4},
    }


def test_only_the_first_of_each_mark_counts() -> None:
    waking = Waking(CALLED_S)
    for t_s in (101.0, 101.1, 101.2):
        waking.pinged(t_s)
    assert seconds(waking.up(102.0)) == {"network": 1.0, "answer": 1.0}


def test_a_wake_of_which_only_the_answer_was_seen_has_one_stage() -> None:
    assert seconds(Waking(CALLED_S).up(101.5)) == {"answer": 1.5}


@pytest.mark.parametrize("link", [[], [True, True], [False, False]])
def test_a_link_that_was_not_seen_to_come_up_is_left_out(link: list[bool]) -> None:
    waking = Waking(CALLED_S)
    for i, up in enumerate(link):
        waking.saw_link(100.1 + i / 10, up=up)
    assert "link" not in names(waking.up(103.0))


def test_the_last_time_a_flapping_link_came_up_counts() -> None:
    waking = Waking(CALLED_S)
    for t_s, up in ((100.1, False), (100.5, True), (100.9, False), (102.0, True)):
        waking.saw_link(t_s, up=up)
    assert seconds(waking.up(103.0)) == {"link": 2.0, "answer": 1.0}


def test_a_link_that_drops_after_the_network_answered_is_not_a_stage() -> None:
    waking = Waking(CALLED_S)
    waking.pinged(101.0)
    waking.saw_link(101.5, up=False)
    waking.saw_link(102.0, up=True)
    assert names(waking.up(103.0)) == ["network", "answer"]


def test_an_open_port_proves_that_the_network_answers() -> None:
    """The first ping is due up to 100 ms later, or a firewall drops them all."""
    waking = Waking(CALLED_S)
    waking.connected(101.0)
    waking.pinged(101.08)
    assert seconds(waking.up(101.5)) == {"network": 1.0, "port": 0.0, "answer": 0.5}


def test_a_refused_connection_is_an_answer_of_the_network() -> None:
    waking = Waking(CALLED_S)
    waking.probed(101.0, Sign.REFUSING)
    waking.pinged(101.05)
    waking.connected(104.0)
    assert seconds(waking.up(104.5)) == {"network": 1.0, "port": 3.0, "answer": 0.5}


@pytest.mark.parametrize("sign", [Sign.SILENT, Sign.FOREIGN, Sign.READY])
def test_silence_another_machine_and_the_proper_answer_are_not_marks(sign: Sign) -> None:
    waking = Waking(CALLED_S)
    waking.probed(101.0, sign)
    assert names(waking.up(102.0)) == ["answer"]


def test_power_that_was_read_after_the_network_answered_is_left_out() -> None:
    """A slow meter says nothing about when the power rose."""
    waking = Waking(CALLED_S, on_w=40.0, asleep_w=2.0)
    waking.pinged(101.0)
    waking.drew(101.4, 41.0)
    assert names(waking.up(102.0)) == ["network", "answer"]


@pytest.mark.parametrize("asleep_w", [None, 39.0])
def test_power_is_left_out_if_the_sleeping_level_is_unknown_or_that_of_awake(
    asleep_w: float | None,
) -> None:
    waking = Waking(CALLED_S, on_w=40.0, asleep_w=asleep_w)
    waking.drew(100.5, 45.0)
    assert names(waking.up(102.0)) == ["answer"]


def test_a_reading_barely_above_the_sleeping_level_is_noise() -> None:
    waking = Waking(CALLED_S, on_w=40.0, asleep_w=2.0)
    waking.drew(100.5, 4.5)
    waking.drew(100.9, 30.0)
    assert seconds(waking.up(102.0)) == {"power": 0.9, "answer": 1.1}


def test_stages_survive_being_kept() -> None:
    waking = Waking(CALLED_S)
    waking.pinged(101.23456)
    made = waking.up(102.0)
    assert load([stage.plain() for stage in made]) == made


@pytest.mark.parametrize(
    "kept",
    [
        *(None, "", "{", 5, [5], [{}], [{"stage": "nap", "took_s": 1.0}]),
        *([{"stage": "answer", "took_s": -1.0}], [{"stage": "answer", "took_s": "1"}]),
        *([{"stage": "answer", "took_s": float("nan")}], [{"stage": [], "took_s": 1.0}]),
    ],
)
def test_a_value_without_stages_loads_as_none(kept: object) -> None:
    assert load(kept) == ()


def test_typical_has_the_median_of_each_stage() -> None:
    wakes = [
        (Stage("network", a), Stage("port", 0.0), Stage("answer", b))
        for a, b in ((1.0, 0.5), (2.0, 0.4), (9.0, 0.6))
    ]
    assert typical(wakes) == (Stage("network", 2.0), Stage("port", 0.0), Stage("answer", 0.5))


def test_a_stage_that_one_wake_lacks_counts_for_the_next_stage() -> None:
    """Otherwise the sum of the stages would not be the time of the wake."""
    wakes = [
        (Stage("power", 0.5), Stage("network", 1.0), Stage("answer", 0.5)),
        (Stage("network", 1.5), Stage("answer", 0.5)),
    ]
    assert typical(wakes) == (Stage("network", 1.5), Stage("answer", 0.5))


def test_typical_of_nothing_is_nothing() -> None:
    assert typical([]) == ()
    assert typical([()]) == ()

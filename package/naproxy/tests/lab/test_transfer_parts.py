"""Groups, equations and the four algorithms: pure, as algorithms 1 to 4 of the paper say."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from naproxy.core.reason import WrongError
from naproxy.lab.transfer.parts import (
    Group,
    Link,
    Load,
    by_weight,
    group_of,
    in_turn,
    least_energy,
    loads,
    parallelism,
    pipelining,
    ranges,
    small_first,
)
from naproxy.lab.transfer.power import Draw
from naproxy.lab.transfer.sla import EE, FlexibleThr, MaxThr, MinE, Reading, Sla, parse

SMALL, MEDIUM, LARGE = Group.SMALL, Group.MEDIUM, Group.LARGE
LINK = Link(bandwidth_bytes_s=10e6, rtt_s=0.1, buffer_bytes=250_000)
"""Its bandwidth-delay product is a megabyte."""

MIXED = {SMALL: Load(100, 1_000_000), MEDIUM: Load(20, 4_000_000), LARGE: Load(4, 40_000_000)}


def test_files_are_grouped_by_the_bandwidth_delay_product() -> None:
    for size, group in (
        *((None, SMALL), (0, SMALL), (99_999, SMALL), (100_000, MEDIUM)),
        *((999_999, MEDIUM), (1_000_000, LARGE), (10**18, LARGE)),
    ):
        assert group_of(size, LINK.bdp_bytes) is group, size


def test_a_group_knows_its_average() -> None:
    found = loads([(SMALL, 10), (SMALL, None), (LARGE, 7)])
    assert found == {SMALL: Load(2, 10), MEDIUM: Load(0, 0), LARGE: Load(1, 7)}
    assert found[SMALL].average_bytes == 5
    assert found[MEDIUM].average_bytes == Load(3, 0).average_bytes == 1


def test_pipelining_is_the_product_by_the_average() -> None:
    assert [pipelining(MIXED[group], LINK) for group in Group] == [100, 5, 1]


def test_parallelism_is_bounded_by_the_product_and_by_the_file() -> None:
    assert [parallelism(MIXED[group], LINK) for group in Group] == [1, 1, 4]
    assert parallelism(Load(1, 600_000), LINK) == 3


def test_what_has_no_round_trip_to_speak_of_needs_neither() -> None:
    near = Link(bandwidth_bytes_s=10e6, rtt_s=0.0, buffer_bytes=250_000)
    assert (pipelining(MIXED[SMALL], near), parallelism(MIXED[LARGE], near)) == (1, 1)


def test_mine_gives_the_small_most_and_the_large_least() -> None:
    assert least_energy(MIXED, LINK, 12) == {SMALL: 7, MEDIUM: 3, LARGE: 1}


def test_mine_never_has_more_channels_than_there_are() -> None:
    for most in range(1, 14):
        assert 1 <= sum(least_energy(MIXED, LINK, most).values()) <= most, most


def test_mine_goes_on_with_the_next_group_when_one_is_done() -> None:
    assert least_energy(MIXED, LINK, 1) == {SMALL: 1, MEDIUM: 0, LARGE: 0}
    left = {SMALL: Load(0, 0), MEDIUM: Load(0, 0), LARGE: MIXED[LARGE]}
    assert least_energy(left, LINK, 1)[LARGE] == 1


def test_maxthr_goes_by_turns_and_hands_channels_on() -> None:
    assert in_turn(MIXED, 7) == {SMALL: 2, MEDIUM: 2, LARGE: 3}
    assert in_turn({**MIXED, LARGE: Load(0, 0)}, 7) == {SMALL: 3, MEDIUM: 4, LARGE: 0}
    assert in_turn({**MIXED, LARGE: Load(1, 7)}, 7) == {SMALL: 3, MEDIUM: 3, LARGE: 1}
    assert in_turn({SMALL: Load(2, 7)}, 7) == {SMALL: 2, MEDIUM: 0, LARGE: 0}


def test_ee_has_channels_by_files_and_bytes() -> None:
    # Of the files and of the bytes: 0.81 + 0.02 small, 0.16 + 0.09 medium, 0.03 + 0.89 large.
    assert by_weight(MIXED, 8) == {SMALL: 3, MEDIUM: 1, LARGE: 4}
    assert by_weight(MIXED, 3) == {SMALL: 1, MEDIUM: 1, LARGE: 1}
    assert sum(by_weight(MIXED, 1).values()) == 1
    assert by_weight({SMALL: Load(3, 0)}, 8)[SMALL] == 3


def test_flexible_uses_all_it_has_small_ones_first() -> None:
    assert sum(small_first(MIXED, LINK, 12).values()) == 12
    assert small_first(MIXED, LINK, 2) == {SMALL: 2, MEDIUM: 0, LARGE: 0}
    assert small_first({LARGE: Load(2, 10**7)}, LINK, 5)[LARGE] == 2


def test_ranges_cover_a_file_once() -> None:
    for size, parts in ((10, 3), (2, 5), (1, 1), (10**18, 7)):
        found = ranges(size, parts)
        assert len(found) == min(size, parts), size
        assert (found[0][0], found[-1][1]) == (0, size - 1), size
        assert all(a[1] + 1 == b[0] for a, b in pairwise(found)), size


def test_mine_and_maxthr_probe_nothing() -> None:
    for algorithm in (MinE(LINK, 4), MaxThr(4)):
        algorithm.begin(Reading(0, 0, 0))
        assert algorithm.due_s == math.inf


def total(algorithm: EE | FlexibleThr) -> int:
    return sum(algorithm.channels(MIXED).values())


def test_ee_tries_every_fourth_level_and_keeps_the_best_ratio() -> None:
    ee = EE(12, probe_s=5.0)
    ee.begin(Reading(100.0, 0, 0.0))
    moved, joules, seen = 0, 0.0, []
    for bytes_, joule in ((10, 5.0), (60, 10.0), (80, 20.0)):
        seen.append((ee.due_s, total(ee)))
        moved, joules = moved + bytes_, joules + joule
        ee.read(Reading(ee.due_s, moved, joules))
    assert seen == [(105.0, 1), (110.0, 5), (115.0, 9)]
    # 2, 6 and 4 bytes a joule.
    assert (ee.due_s, total(ee)) == (math.inf, 5)


def test_ee_has_nothing_to_try_up_to_four_channels() -> None:
    for most in (1, 4):
        ee = EE(most)
        ee.begin(Reading(0, 0, 0))
        assert (ee.due_s, total(ee)) == (math.inf, 1), most


def flexible(top_bytes_s: float | None, most: int = 12) -> FlexibleThr:
    made = FlexibleThr(0.8, LINK, most, probe_s=5.0, top_bytes_s=top_bytes_s)
    made.begin(Reading(0.0, 0, 0.0))
    return made


def test_flexible_estimates_once_and_then_adds_one_at_a_time() -> None:
    one = flexible(top_bytes_s=100.0)
    seen, moved = [], 0
    for bytes_s in (30.0, 60.0, 79.0, 90.0, 50.0):
        seen.append(total(one))
        moved += round(bytes_s * 5)
        one.read(Reading(one.due_s, moved, 0.0))
    # 80 are wanted: 80 / 30 is 3 rounded up. What is above it stays as it is.
    assert seen == [1, 3, 4, 5, 5]
    assert total(one) == 6


def test_flexible_never_has_more_than_it_may() -> None:
    one = flexible(top_bytes_s=1e9, most=3)
    for n in range(4):
        one.read(Reading(5.0 * (n + 1), 0, 0.0))
        assert total(one) == 3


def test_flexible_finds_out_what_the_highest_is_where_nobody_says() -> None:
    one = flexible(top_bytes_s=None)
    assert total(one) == 12
    one.read(Reading(5.0, 500, 0.0))
    assert total(one) == 1
    one.read(Reading(10.0, 500 + 100, 0.0))
    assert total(one) == 4


def test_a_draw_is_of_time_and_processors() -> None:
    draw = Draw(base_w=40.0, cpu_w=20.0)
    assert draw.energy_j(10.0, 0.0, 2) == 400
    assert draw.energy_j(10.0, 10.0, 2) == 500
    assert draw.energy_j(10.0, 99.0, 2) == 600
    assert draw.energy_j(10.0, -1.0, 2) == 400


def test_an_sla_is_read() -> None:
    for name in ("mine", "maxthr", "ee"):
        assert parse(name) == Sla(name)
    assert parse("flexible:0.8") == parse("flexible:.8") == Sla("flexible", 0.8)
    assert parse("flexible:1") == Sla("flexible", 1.0)


def test_an_sla_that_is_none_is_named() -> None:
    odd = (
        "flexible:1.1",
        "flexible:nan",
        "flexible:0.8 ",
        "flexible:-0.5",
        "flexible:0.\N{ARABIC-INDIC DIGIT EIGHT}",
    )
    for text in ("", "MinE", "flexible", "flexible:", "flexible:0", "flexible:0.0", "fixed", *odd):
        with pytest.raises(WrongError, match="is not one of mine, maxthr, ee"):
            parse(text)

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.lab.estimate.accesslog import Entry
from naproxy.lab.replay.replay_slice import DISORDER_S, Slice, parse_slice, plan

FIRST_S = 1_706_313_600  # 2024-01-27T00:00:00Z


def entry(after_s: int, path: str = "/") -> Entry:
    return Entry(FIRST_S + after_s, "192.0.2.1", "GET", path, 200, 1, "", "")


def chosen(text: str, *after_s: int) -> list[int]:
    return [p.entry.t_s - FIRST_S for p in plan(map(entry, after_s), parse_slice(text))]


def test_slice_is_from_start_to_before_end() -> None:
    for text, start_s, end_s in (
        ("0+90", 0, 90),
        ("90s+2m", 90, 210),
        ("1d+2h30m", 86400, 86400 + 9000),
        ("1.5h+0.5s", 5400, 5400.5),
        ("10..20", 10, 20),
        ("..1h", -float("inf"), 3600),
        ("1h..", 3600, float("inf")),
        ("2024-01-27T00:01+30", 60, 90),
        ("2024-01-27T01:01:00+01:00+30", 60, 90),
        ("2024-01-27T00:01Z..2024-01-27T00:02", 60, 120),
        ("30..2024-01-27T00:02", 30, 120),
    ):
        assert parse_slice(text).bounds(FIRST_S) == (FIRST_S + start_s, FIRST_S + end_s), text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not START+DURATION or START..END"),
        ("10", "not START+DURATION or START..END"),
        ("2024-01-27T01:01:00+01:00", "not START+DURATION or START..END"),
        ("+10", "not START+DURATION or START..END"),
        ("10+", "not START+DURATION or START..END"),
        ("10+-5", "not START+DURATION or START..END"),
        ("10+0", "the duration is 0"),
        ("20..10", "the end is not after the start"),
        ("tomorrow+10", "no offset such as"),
        ("10..13h60x", "no offset such as"),
        ("2024-02-30T00:00+10", "no offset such as"),
    ],
)
def test_wrong_slice_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_slice(text)


def test_the_start_is_in_and_the_end_is_out_and_times_count_from_the_start() -> None:
    assert [p.at_s for p in plan([entry(0), entry(70)], parse_slice("60+60"))] == [10]
    assert chosen("10..20", 0, 9, 10, 19, 20, 21) == [10, 19]


def test_lines_out_of_order_are_put_in_order() -> None:
    assert chosen("0..100", 0, 5, 3, 99, 100, 4, 200) == [0, 3, 4, 5, 99]


def test_all_of_a_log_has_also_what_came_before_its_first_line() -> None:
    planned = plan([entry(5), entry(3)], Slice())
    assert [p.at_s for p in planned] == [0, 2]
    assert plan([], Slice()) == []


def test_reading_stops_long_after_the_end() -> None:
    def entries() -> Iterator[Entry]:
        yield entry(0)
        yield entry(10 + DISORDER_S)
        raise AssertionError("read on")

    assert len(plan(entries(), parse_slice("0..10"))) == 1


def test_requests_of_one_second_are_spread_evenly_in_the_logs_order() -> None:
    planned = plan([entry(3, f"/{i}") for i in range(4)] + [entry(4)], Slice())
    assert [p.at_s for p in planned] == [0, 0.25, 0.5, 0.75, 1]
    assert [p.entry.path for p in planned] == ["/0", "/1", "/2", "/3", "/"]
    assert [p.number for p in planned] == [1, 2, 3, 4, 5]


@given(st.lists(st.integers(0, 50)), st.integers(0, 40), st.integers(1, 40))
def test_any_plan_is_in_order_and_within_the_slice(
    after_s: list[int], start_s: int, length_s: int
) -> None:
    entries = [entry(0), *map(entry, after_s)]
    planned = plan(entries, parse_slice(f"{start_s}+{length_s}"))
    times = [p.at_s for p in planned]
    assert times == sorted(times)
    assert all(0 <= at_s < length_s for at_s in times)
    assert plan(entries, parse_slice(f"{start_s}+{length_s}")) == planned

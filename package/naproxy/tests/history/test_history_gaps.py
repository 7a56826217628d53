import time
from collections.abc import Iterator
from pathlib import Path

import history_box
import pytest
from history_box import DAY_S, START_S, Box
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy.history.write import gaps
from naproxy.history.write.gaps import EDGES_S, Gaps
from naproxy.history.write.writer import SYNC_EVERY
from reading import answer, opened

MIDNIGHT_S = START_S // DAY_S * DAY_S + DAY_S


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """A box that begins to watch its server at midnight."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    made = Box(tmp_path)
    passes(made, MIDNIGHT_S - START_S)
    made.history.watch(["web"])
    yield made
    made.stop()
    monkeypatch.undo()
    time.tzset()


def asks(box: Box, klass: int = Klass.PERSON, flags: int = page_h.E_NEEDED) -> None:
    history_box.asks(box, 0xFFFFFFFF, klass, Outcome.FETCH, flags)


def passes(box: Box, seconds: float) -> None:
    """Time passes, and the history is written all the while."""
    while seconds > 0:
        box.pass_s(min(600.0, seconds))
        seconds -= 600
        for _ in range(SYNC_EVERY):
            box.history.tick()


def found(box: Box, from_s: float = MIDNIGHT_S, to_s: float | None = None) -> Gaps:
    with opened(box) as db:
        return gaps.histogram(db, "web", from_s, to_s or box.wall_s + 1)


def buckets(made: Gaps) -> dict[int, int]:
    """Lower edge of each bucket that has gaps -> how many."""
    edges = (0, *EDGES_S)
    return {edges[n]: count for n, count in enumerate(made.counts) if count}


def done(box: Box) -> list[int]:
    return [t for (t,) in box.read("SELECT t_s FROM gap_days WHERE bucket = -1 ORDER BY t_s")]


def test_gaps_are_counted_by_their_length(box: Box) -> None:
    for gap_s in (0.5, 3, 3, 30, 4000):
        asks(box)
        passes(box, gap_s)
    asks(box)
    made = found(box)
    assert buckets(made) == {0: 1, 2: 2, 20: 1, 3600: 1}
    assert sum(made.sums_s) == pytest.approx(4036.5, abs=0.5)
    assert made.requests == 6


def test_who_needs_no_server_ends_no_gap(box: Box) -> None:
    asks(box)
    for klass, flags in (
        (Klass.CRAWLER, page_h.E_NEEDED),
        (Klass.PERSON, 0),
        (Klass.MONITOR, page_h.E_NEEDED),
    ):
        passes(box, 20)
        asks(box, klass, flags)
    passes(box, 20)
    asks(box)
    assert buckets(found(box)) == {60: 1}


def is_off(box: Box, seconds: float) -> None:
    box.stop()
    box.pass_s(seconds)
    box.start()
    box.history.watch(["web"])


@pytest.mark.parametrize(("before_s", "off_s"), [(1200, 7200), (0, 300)])
def test_a_gap_in_which_the_box_was_off_is_not_known(
    box: Box, before_s: float, off_s: float
) -> None:
    passes(box, 100)
    asks(box)
    passes(box, before_s)
    is_off(box, off_s)
    asks(box)
    passes(box, 30)
    asks(box)
    passes(box, 1200)
    assert buckets(found(box)) == {20: 1}


def test_a_gap_after_a_start_in_the_middle_of_a_block_is_known(box: Box) -> None:
    is_off(box, 7400)
    asks(box)
    passes(box, 4000)
    asks(box)
    assert buckets(found(box)) == {3600: 1}


def test_a_gap_over_midnight_belongs_to_the_day_it_ends_in(box: Box) -> None:
    passes(box, DAY_S - 3000)
    asks(box)
    passes(box, 6000)
    asks(box)
    passes(box, 60)
    assert buckets(found(box, MIDNIGHT_S, MIDNIGHT_S + DAY_S)) == {}
    assert buckets(found(box, MIDNIGHT_S + DAY_S)) == {3600: 1}


def test_a_gap_over_a_weekend_is_one(box: Box) -> None:
    asks(box)
    passes(box, 2.6 * DAY_S)
    asks(box)
    passes(box, DAY_S)
    assert buckets(found(box)) == {86400: 1}


def test_whole_days_are_counted_once_and_sum_to_the_same(box: Box) -> None:
    for number in range(300):
        asks(box)
        passes(box, 7 + number * 13 % 1800)
    anew = Gaps()
    with opened(box) as db:
        gaps._count(anew, db, "web", MIDNIGHT_S, box.wall_s)
    assert done(box) == [MIDNIGHT_S, MIDNIGHT_S + DAY_S]
    kept = found(box)
    assert kept.counts == anew.counts
    assert kept.sums_s == pytest.approx(anew.sums_s, abs=1)
    assert kept.requests == anew.requests == 300
    assert kept.watched_s == pytest.approx(box.wall_s - MIDNIGHT_S, abs=2)


def test_a_day_without_a_request_is_counted_too(box: Box) -> None:
    passes(box, 3 * DAY_S)
    assert done(box) == [MIDNIGHT_S, MIDNIGHT_S + DAY_S]
    assert found(box).watched_s == pytest.approx(3 * DAY_S, abs=2)


def test_no_day_is_counted_while_the_clock_is_a_guess(box: Box) -> None:
    box.synchronised = False
    box.reboot(MIDNIGHT_S + 100)
    box.history.watch(["web"])
    passes(box, DAY_S / 2)
    box.history.clock.since_s = box.wall_s  # as if a day had not passed yet
    passes(box, 0.7 * DAY_S)
    assert done(box) == []


def test_a_damaged_block_has_no_requests(box: Box) -> None:
    for _ in range(2):
        asks(box)
        passes(box, 1200)
    box.journal.store.execute("UPDATE request_blocks SET block = X'0199'")
    assert buckets(answer(box, gaps.histogram, "web", MIDNIGHT_S, box.wall_s)) == {}

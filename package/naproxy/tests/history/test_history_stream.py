"""The request stream: what is kept of each request, and what of the time it was watched."""

import zlib
from itertools import pairwise

import pytest
from history_box import Box, ask
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy.history.read import recorded
from naproxy.history.visits import (
    BLOCK_S,
    DELAYED,
    NEEDED,
    PAGE_LOAD,
    PROGRAM,
    SENT_AWAY,
    Visit,
    pack,
    ticks_of,
    unpack,
)
from naproxy.history.write import stream
from naproxy.history.write.writer import SYNC_EVERY
from reading import answer


def pruned(box: Box, now_s: float) -> int:
    """Delete what is too old or too much then; return how many blocks that was."""
    numbers: list[int] = []
    box.journal.store.batch(lambda db: numbers.append(stream.prune(db, now_s, 250)))
    return numbers[0]


visits = st.lists(
    st.builds(
        Visit,
        st.integers(0, 5999),
        st.integers(0, 255),
        st.integers(-3, 5) | st.integers(0, 2**64 - 1),
        st.integers(0, 2**16 - 1),
    ),
    max_size=80,
)


pytestmark = pytest.mark.usefixtures("watching")


def tick(box: Box, batches: int) -> None:
    for _ in range(batches):
        box.pass_s(box.history.next_s)
        box.history.tick()


def read(box: Box) -> recorded.Requests:
    box.history.flush()
    found: recorded.Requests = answer(box, recorded.requests, "web", 0, box.wall_s + 1e6)
    return found


def watched(box: Box) -> list[tuple[float, float]]:
    box.history.flush()
    found = answer(box, recorded.watched, "web", 0, box.wall_s + 1e6)
    return [(w.from_s, w.to_s) for w in found]


@given(visits)
def test_a_block_gives_back_times_flags_waits_and_who_was_the_same(asked: list[Visit]) -> None:
    found = unpack(pack(asked))
    before = sorted(asked, key=lambda v: v.tick)
    assert [(v.tick, v.flags, v.waited) for v in found] == [
        (v.tick, v.flags, v.waited) for v in before
    ]
    same = {(a.client == b.client) for a, b in pairwise(before)}
    assert same == {(a.client == b.client) for a, b in pairwise(found)}
    assert len({v.client for v in found}) == len({v.client for v in before})


@given(st.binary(min_size=1, max_size=60), st.integers(0, 40))
def test_a_damaged_block_is_said_to_be_one(blob: bytes, cut: int) -> None:
    good = pack([Visit(n, 2, n % 3, 4) for n in range(9)])
    for damaged in (b"\x02" + blob, b"\x01" + blob, good[: min(cut, len(good) - 1)] + b"x"):
        with pytest.raises(ValueError, match="block"):
            unpack(damaged)


def test_nothing_in_the_file_tells_who_asked_for_what(box: Box) -> None:
    client = 0x1122334455667788
    ask(box, client)
    box.history.flush()
    ((blob,),) = box.read("SELECT block FROM request_blocks WHERE requests > 0")
    assert unpack(blob)[0].client == 0
    assert client.to_bytes(8, "little") not in blob
    assert client.to_bytes(8, "big") not in blob


def test_a_request_keeps_its_time_class_need_and_wait(box: Box) -> None:
    begun_s = box.wall_s
    ask(box, outcome=Outcome.HELD, flags=page_h.E_NEEDED | page_h.E_DELAYED, delay_ms=4123)
    box.pass_s(1.25)
    ask(box, klass=Klass.API, flags=page_h.E_PAGE_LOAD)
    ask(box, outcome=Outcome.WAITING_PAGE, flags=page_h.E_NEEDED | page_h.E_DELAYED)
    found = read(box)
    assert list(found.t_s) == pytest.approx([begun_s, begun_s + 1.2, begun_s + 1.2])
    assert list(found.flags) == [
        NEEDED | DELAYED,
        PROGRAM | PAGE_LOAD,
        NEEDED | DELAYED | SENT_AWAY,
    ]
    assert list(found.waited_s) == pytest.approx([4.1, 0, 0])
    assert list(found.client) == [0, 0, 0]


def test_robots_questions_for_the_state_and_requests_over_a_share_are_left_out(box: Box) -> None:
    ask(box, klass=Klass.CRAWLER)
    ask(box, klass=Klass.MONITOR, flags=page_h.E_NEEDED)
    ask(box, outcome=Outcome.STATUS)
    ask(box, outcome=Outcome.SPENT, flags=page_h.E_SPENT | page_h.E_NEEDED)
    ask(box, outcome=Outcome.FETCH, flags=page_h.E_SPENT | page_h.E_NEEDED)
    assert len(read(box)) == 0


def test_what_comes_in_one_block_by_several_batches_is_all_there(box: Box) -> None:
    for n in range(25):
        ask(box, client=n % 3)
        tick(box, 1)
    found = read(box)
    assert len(found) == 25
    assert list(found.t_s) == sorted(found.t_s)


def test_it_is_written_with_the_rare_batches_only(box: Box) -> None:
    ask(box)
    tick(box, SYNC_EVERY - 1)
    assert box.read("SELECT count(*) FROM request_blocks") == [(0,)]
    tick(box, 1)
    assert box.read("SELECT sum(requests) FROM request_blocks") == [(1,)]


def test_a_request_that_ends_late_is_in_the_block_it_began_in(box: Box) -> None:
    begun_s = box.wall_s
    tick(box, SYNC_EVERY * 2)
    ask(box, ago_s=box.wall_s - begun_s)
    ask(box)
    assert list(read(box).t_s) == pytest.approx([begun_s, box.wall_s])


def test_after_a_restart_it_goes_on_and_nothing_is_twice(box: Box) -> None:
    ask(box, client=1)
    ask(box, client=2)
    box.restart()
    box.history.watch(["web"])
    ask(box, client=1, ago_s=1e-3)  # the ring still has it
    box.pass_s(120)
    ask(box, client=1)
    found = read(box)
    assert len(found) == 3
    assert list(found.client) == [0, 1, 2]


def test_a_quiet_time_is_watched_and_a_stopped_box_watches_nothing(box: Box) -> None:
    begun_s = box.wall_s
    tick(box, 30)
    stopped_s = box.wall_s
    box.stop()
    box.pass_s(3 * BLOCK_S)
    box.start()
    box.history.watch(["web"])
    began_s = box.wall_s
    tick(box, 30)
    assert watched(box) == [
        pytest.approx((begun_s, stopped_s), abs=0.2),
        pytest.approx((began_s, box.wall_s), abs=0.2),
    ]


def test_when_the_clock_is_set_what_was_a_guess_moves(box: Box) -> None:
    box.synchronised = False
    box.restart()
    box.history.watch(["web"])
    tick(box, 15)
    ask(box, client=5)
    ask(box, client=6)
    box.wall_s += 86_400 + 77
    box.synchronised = True
    tick(box, 1)
    asked_s, now_s = box.wall_s - 60, box.wall_s
    tick(box, 15)
    found = read(box)
    assert [round(t - asked_s) for t in found.t_s] == pytest.approx([0, 0], abs=4)
    assert len(set(found.client)) == 2
    ((from_s, to_s),) = watched(box)
    assert from_s == pytest.approx(now_s - 16 * 60, abs=60)
    assert to_s == pytest.approx(box.wall_s, abs=1)


def test_a_step_of_the_clock_was_not_watched(box: Box) -> None:
    tick(box, 15)
    stepped_s = box.wall_s
    box.wall_s += 7200
    tick(box, 15)
    spans = watched(box)
    assert sum(to_s - from_s for from_s, to_s in spans) == pytest.approx(30 * 60, abs=61)
    assert not any(from_s < stepped_s + 3600 < to_s for from_s, to_s in spans)


def test_the_oldest_blocks_go_first_when_there_are_too_many_bytes(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(200):
        ask(box, client=n)
        tick(box, 1)
    box.history.flush()
    kept = "SELECT count(*), sum(length(block)), min(key) FROM request_blocks"
    ((blocks, size, _),) = box.read(kept)
    monkeypatch.setattr(stream, "MOST_BYTES", size // 2)
    assert pruned(box, box.wall_s) > 0
    ((left, left_size, oldest),) = box.read(kept)
    assert 0 < left < blocks
    assert left_size <= size // 2
    assert oldest > stream.key(box.wall_s - 200 * 60, 0)


def test_blocks_of_400_days_ago_go(box: Box) -> None:
    ask(box)
    box.history.flush()
    assert pruned(box, box.wall_s + 399 * 86400) == 0
    assert pruned(box, box.wall_s + 401 * 86400) == 1


def test_a_storm_is_counted_not_kept(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_IN_BLOCK", 5)
    for n in range(9):
        ask(box, client=n)
    box.history.flush()
    assert box.read("SELECT sum(requests), sum(left_out) FROM request_blocks") == [(5, 4)]


def test_a_block_that_swells_is_refused() -> None:
    for read in (unpack, lambda blob: ticks_of(blob, NEEDED)):
        with pytest.raises(ValueError, match="too long"):
            read(b"\x01" + zlib.compress(bytes(1 << 24)))

"""The box's cache in the simulation: what it answers depends on when the server slept."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.energy import Power
from naproxy.core.state import Klass
from naproxy.lab.estimate.bounds import Bounds, Sleeps
from naproxy.lab.estimate.boxcache import (
    BOXES,
    FILE,
    NEEDS,
    NOT_KEPT,
    PAGE,
    PLAIN,
    BoxCache,
    BoxModel,
    Keeps,
    PathRule,
    bytes_of,
    size_code,
)
from naproxy.lab.estimate.boxsimulation import BoxSimulation
from naproxy.lab.estimate.simulate import Outcome
from naproxy.policy.timeout import Settings, Timeout
from traffic_maker import Asked, ask, chunks, days

POWER = Power()
STYLE, NEWS, FORM = 1, 2, 0


def run(asked: list[Asked], box: str | BoxModel, idle_s: float = 60.0) -> Outcome:
    model = BOXES[box] if isinstance(box, str) else box
    policy = Timeout(Settings(idle_s=idle_s))
    made = BoxSimulation(
        policy, model, POWER, 0.01, wake_s=5.0, sleep_s=4.0, delta_s=1.0, closed=False
    )
    for chunk in chunks(asked):
        made.feed(chunk)
    return made.finish()


def waited(asked: list[Asked], box: str | BoxModel, idle_s: float = 60.0) -> int:
    return run(asked, box, idle_s).delayed(1.0, closed=False)


def test_what_was_asked_after_before_the_sleep_is_answered_for_hours() -> None:
    asked = [ask(0, path=STYLE), ask(20_000, path=STYLE), ask(40_000, path=STYLE)]
    assert waited(asked, "box-default") == 2
    unwarmed = replace(BOXES["box-frozen"], warm=False)
    assert waited(asked, unwarmed) == 2, "somebody may have changed it before"
    # The first visit is learned from: the second finds the file.
    warm = run(asked, "box-frozen", idle_s=300)
    assert warm.delayed(1.0, closed=False) == 0
    assert (warm.warm_fetches, warm.answered_asleep) == (1, 2)
    assert warm.warm_bytes > 0
    assert warm.warm_s > 0


def test_pages_are_held_only_where_the_office_says_so() -> None:
    asked = [ask(0, path=NEWS), ask(20_000, path=NEWS)]
    assert waited(asked, "box-frozen") == 1
    assert waited(asked, "box-pages") == 0


def test_page_loaded_again_keeps_a_server_awake_only_if_a_sleep_would_not_answer_it() -> None:
    asked = [ask(t_s, path=NEWS) for t_s in range(0, 5000, 200)]
    cycles = {name: run(asked, name, idle_s=300).cycles for name in ("box-frozen", "box-pages")}
    assert cycles == {"box-frozen": 0, "box-pages": 1}


def test_grace_is_ten_seconds_or_what_aggressive_says() -> None:
    asked = [ask(0, path=NEWS), ask(125, path=NEWS)]
    assert waited(asked, "box-default") == 0
    asked = [ask(0, path=NEWS), ask(3000, path=NEWS)]
    assert waited(asked, "box-default") == 1
    assert waited(asked, "box-aggressive") == 0


def test_while_asleep_nothing_is_fetched_and_afterwards_it_is_new() -> None:
    cache = BoxCache(BOXES["box-default"])
    assert cache.awake(0.0, STYLE, FILE)
    assert not cache.asleep(125.0, 10.0, STYLE, FILE)
    assert cache.asleep(135.0, 10.0, STYLE, FILE)
    cache.up(140.0)
    assert not cache.awake(250.0, STYLE, FILE)
    assert cache.awake(300.0, FORM, NOT_KEPT) == NEEDS, "a POST needs the server each time"


def test_the_room_is_limited_and_what_is_not_asked_for_goes_first() -> None:
    size = size_code(1 << 20) << 8
    cache = BoxCache(replace(BOXES["box-frozen"], room_bytes=4 << 20))
    for path in range(1, 5):
        cache.awake(float(path), path, FILE | size)
    assert not cache.awake(6.0, 1, FILE | size)
    cache.awake(7.0, 5, FILE | size)
    assert not cache.awake(8.0, 1, FILE | size)
    assert cache.awake(9.0, 2, FILE | size)


@given(st.integers(0, 1 << 30))
def test_a_size_fits_in_a_byte(size: int) -> None:
    assert 0 <= size_code(size) < 256
    assert max(1, size) * 7 / 8 <= bytes_of(size_code(size)) <= max(1, size)


def test_the_first_rule_that_says_it_counts() -> None:
    for bare, keep_s, held in (
        ("/a.css", 120.0, True),
        ("/news/today", 600.0, True),
        ("/news/live", 600.0, True),
        ("/shop/a.css", 120.0, False),
        ("/", 120.0, False),
    ):
        keeps = Keeps(
            [
                PathRule("/news/", keep_s=600.0),
                PathRule("/shop/", asleep="no"),
                PathRule("/news/live", asleep="yes", keep_s=5.0),
                PathRule("/news/", asleep="yes"),
            ]
        )
        keep = keeps.all[keeps.of(bare, static=bare.endswith(".css"), status=200, size=100)]
        assert (keep.ttl_s, keep.held) == (keep_s, held), bare


def test_a_permanent_redirect_is_held_as_a_file_is() -> None:
    keeps = [PLAIN.all[PLAIN.of("/", static=False, status=s, size=1)] for s in (301, 308, 302)]
    assert [keep.held for keep in keeps] == [True, True, False]


def test_what_is_never_kept_or_too_large_is_not() -> None:
    keeps = Keeps([PathRule("/live/", keep_s=0.0)])
    assert keeps.of("/live/", static=False, status=200, size=1) == NOT_KEPT
    assert keeps.of("/a.zip", static=True, status=200, size=9 << 20) == NOT_KEPT
    assert keeps.of("/a", static=False, status=200, size=1) == PAGE


@given(days(), st.sampled_from(sorted(BOXES)), st.sampled_from([2.0, 60.0, 3000.0]))
def test_no_box_saves_more_than_its_bound(asked: list[Asked], name: str, idle_s: float) -> None:
    asked = [ask(0), *asked]
    box = BOXES[name]
    outcome = run(asked, box, idle_s)
    sleeps = Sleeps(box.bound, wake_s=5.0, delta_s=1.0, least_s=POWER.break_even_s)
    for chunk in chunks(asked):
        sleeps.feed(chunk)
    bounds = Bounds(sleeps, POWER)
    # Not the reactive one: who is answered there does not wake the server for who comes next.
    assert outcome.saving_j(POWER) <= bounds.idealised().saving_j + 1e-3


@given(days(robots=True), st.sampled_from(sorted(BOXES)), st.integers(1, 7))
def test_chunking_does_not_matter(asked: list[Asked], name: str, size: int) -> None:
    def outcome(length: int) -> Outcome:
        policy = Timeout(Settings(idle_s=100))
        made = BoxSimulation(policy, BOXES[name], POWER, 0.01, wake_s=5.0, sleep_s=4.0)
        for chunk in chunks(asked, length):
            made.feed(chunk)
        return made.finish()

    assert outcome(1 << 15) == outcome(size)


def test_robots_neither_fill_it_nor_wake_the_server() -> None:
    asked = [ask(0, path=STYLE, klass=Klass.CRAWLER), ask(10), ask(500, path=STYLE)]
    assert waited(asked, "box-frozen") == 1

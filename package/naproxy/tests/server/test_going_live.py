"""Whether visitors come through the box: what proves it, and for how long."""

from naproxy.core.reason import Reason
from naproxy.server.going_live import FRESH_S, QUIET_S, GoingLive

NOW_S = 1.8e9
DAY_S = 86400.0
NAME = "www.example.org"


def live(*hosts: str, mode: str = "none", port: str | None = "refused") -> GoingLive:
    made = GoingLive("web")
    made.configure(hosts, mode, port)
    return made


def waits(name: str | Reason, code: str = "server.no_visitor_yet") -> Reason:
    return Reason(code, name=name, server="web")


def test_it_waits_for_a_visitor_and_says_for_which_name_and_what_to_do() -> None:
    assert live().waits == waits(Reason("server.its_website"))
    made = live(NAME)
    assert not made.visited(None, None)
    assert made.waits == waits(NAME)
    assert "naproxy live web" in str(made.waits)


def test_the_first_visitor_ends_the_wait_and_later_ones_are_kept_once_a_day() -> None:
    made = live(NAME)
    assert made.visited(NOW_S, None)
    none = {"waits": None, "silent": False}
    assert made.status() == {"first_s": NOW_S, "last_s": NOW_S, "confirmed_s": None, **none}
    assert not made.visited(NOW_S + 60, None)
    assert made.visited(NOW_S + DAY_S, None)
    assert (made.first_s, made.seen_s) == (NOW_S, NOW_S + DAY_S)


def test_a_visitor_over_http_proves_nothing_of_a_server_that_answers_https_itself() -> None:
    for mode, port in (("through", "open"), ("through", None), ("box", "open")):
        made = live(NAME, mode=mode, port=port)
        made.visited(NOW_S, None)
        assert made.waits == waits(NAME, "server.no_https_visitor_yet"), (mode, port)
        made.visited(NOW_S, NOW_S + 1)
        assert (made.waits, made.first_s) == (None, NOW_S + 1), (mode, port)


def test_either_visitor_proves_it_where_https_can_reach_nothing_but_the_box() -> None:
    for way in (("box", "refused"), ("box", None), ("none", "open"), ("unused", "open")):
        for seen in ((NOW_S, None), (None, NOW_S)):
            made = live(NAME, mode=way[0], port=way[1])
            made.visited(*seen)
            assert made.waits is None, (way, seen)


def test_a_persons_confirmation_is_not_a_visitor() -> None:
    made = live(NAME)
    made.confirm(NOW_S)
    assert made.waits is None
    assert made.seen_s is None
    assert made.unseen == waits(NAME)


def test_a_new_test_counts_visitors_of_the_last_days() -> None:
    made = live(NAME)
    made.visited(NOW_S, None)
    made.proved(NOW_S + FRESH_S)
    assert made.waits is None
    made.proved(NOW_S + FRESH_S + 1)
    assert made.waits == waits(NAME)


def test_visitors_and_confirmations_survive_a_restart() -> None:
    old, new = live(NAME), live(NAME)
    old.visited(NOW_S, NOW_S + 1)
    old.confirm(NOW_S + 2)
    new.load(old.dump())
    assert new.status() == old.status()


def test_saved_nonsense_is_not_a_visitor() -> None:
    for saved in (None, 5, "x", [], {"http_s": "x", "assumed": 1}, {"https_s": []}):
        made = live(NAME)
        made.load(saved)
        assert made.waits == waits(NAME), saved


def lately(name: str | Reason, days: int) -> Reason:
    return Reason("server.no_visitor_lately", name=name, days=days, server="web")


def test_after_days_without_a_visitor_it_waits_for_one_again_and_the_next_ends_that() -> None:
    made = live(NAME)
    made.visited(NOW_S, None, NOW_S)
    made.visited(NOW_S, None, NOW_S + QUIET_S - 1)
    assert (made.waits, made.silent) == (None, None)
    made.visited(NOW_S, None, NOW_S + QUIET_S)
    assert made.waits == made.silent == lately(NAME, 3)
    assert made.status()["silent"] is True
    assert "naproxy live web" in str(made.waits)
    made.visited(NOW_S + QUIET_S + 9, None, NOW_S + QUIET_S + 9)
    assert made.waits is None


def test_http_visitor_does_not_end_a_silence_of_https_visitors() -> None:
    made = live(NAME, mode="through", port="open")
    made.visited(None, NOW_S, NOW_S)
    made.visited(NOW_S + QUIET_S, NOW_S, NOW_S + QUIET_S)
    assert made.waits == lately(NAME, 3)


def test_a_confirmation_without_any_visitor_holds_for_days_and_a_second_until_one_comes() -> None:
    made = live(NAME)
    made.visited(None, None, NOW_S)
    made.confirm(NOW_S)
    assert made.waits is None
    made.visited(None, None, NOW_S + QUIET_S)
    assert made.waits == lately(NAME, 3)
    made.confirm(NOW_S + QUIET_S)
    made.visited(None, None, NOW_S + 50 * QUIET_S)
    assert made.waits is None
    again = live(NAME)
    again.load(made.dump())
    again.visited(None, None, NOW_S + 50 * QUIET_S)
    assert again.waits is None
    later_s = NOW_S + 60 * QUIET_S
    assert again.visited(later_s, None, later_s)
    again.visited(later_s, None, later_s + QUIET_S)
    assert again.waits == lately(NAME, 3)


def test_clock_set_back_or_state_of_an_earlier_version_reports_no_silence() -> None:
    made = live(NAME)
    made.visited(NOW_S, None, NOW_S)
    made.visited(NOW_S, None, 0.0)
    assert made.waits is None
    old = live(NAME)
    old.load({"assumed": True})
    old.visited(None, None, NOW_S)
    assert old.waits is None

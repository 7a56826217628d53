"""Requests of the last minute from counters."""

from __future__ import annotations

from naproxy_webui.pages.now.rates import Rates


def test_nothing_is_known_at_first() -> None:
    assert Rates().take("web", 0.0, {"person": 700}) == (0.0, {"person": 0})


def test_what_came_since() -> None:
    rates = Rates()
    rates.take("web", 0.0, {"person": 700})
    assert rates.take("web", 10.0, {"person": 703}) == (10.0, {"person": 3})


def test_a_minute_at_most() -> None:
    rates = Rates()
    for second in range(200):
        window_s, found = rates.take("web", float(second), {"person": second})
    assert (window_s, found) == (60.0, {"person": 60})


def test_counters_that_began_anew_begin_anew() -> None:
    rates = Rates()
    rates.take("web", 0.0, {"person": 700})
    assert rates.take("web", 10.0, {"person": 2}) == (0.0, {"person": 0})


def test_nobody_looked_for_long() -> None:
    rates = Rates()
    rates.take("web", 0.0, {"person": 1})
    assert rates.take("web", 3600.0, {"person": 500}) == (0.0, {"person": 0})


def test_servers_have_windows_of_their_own() -> None:
    rates = Rates()
    rates.take("web", 0.0, {"person": 1})
    assert rates.take("mail", 5.0, {"person": 9}) == (0.0, {"person": 0})


def test_a_server_that_is_gone_is_forgotten() -> None:
    rates = Rates()
    rates.take("web", 0.0, {"person": 1})
    rates.keep(set())
    assert rates.take("web", 5.0, {"person": 9}) == (0.0, {"person": 0})

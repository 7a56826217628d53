"""Requests of the last minute from counters."""

from __future__ import annotations

from naproxy_webui.pages.now.rates import Rates

NOTHING = (0.0, {"person": 0})


def test_only_what_came_since_the_last_look_at_a_server_is_known() -> None:
    for case, server, at_s, count, found in (
        ("nobody looked before", "mail", 5.0, 9, NOTHING),
        ("what came since", "web", 10.0, 703, (10.0, {"person": 3})),
        ("counters began anew", "web", 10.0, 2, NOTHING),
        ("nobody looked for long", "web", 3600.0, 900, NOTHING),
    ):
        rates = Rates()
        assert rates.take("web", 0.0, {"person": 700}) == NOTHING
        assert rates.take(server, at_s, {"person": count}) == found, case


def test_a_minute_at_most() -> None:
    rates = Rates()
    for second in range(200):
        window_s, found = rates.take("web", float(second), {"person": second})
    assert (window_s, found) == (60.0, {"person": 60})


def test_a_server_that_is_gone_is_forgotten() -> None:
    rates = Rates()
    rates.take("web", 0.0, {"person": 1})
    rates.keep(set())
    assert rates.take("web", 5.0, {"person": 9}) == NOTHING

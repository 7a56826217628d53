"""Hours that are proposed from when people came."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from history_box import DAY_S, Box
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy_webui.pages.settings.proposal import LEAST_REQUESTS, proposed
from test_traffic import asks, past

__all__ = ["past"]
WEEK_H = 168


def times(hours: dict[int, int], weeks: int = 4) -> list[list[list[int]]] | None:
    """Return what is proposed if people came so often in these hours of the week."""
    return proposed([hours.get(hour, 0) for hour in range(WEEK_H)], [weeks] * WEEK_H)


def test_hours_of_nearly_every_week_are_proposed_with_lunch_in_between() -> None:
    monday = {8: 4, 9: 3, 10: 4, 11: 4, 13: 4, 14: 2, 16: 1}
    assert times(monday) == [[[480, 840]], *[[]] * 6]


def test_a_busy_hour_here_and_there_is_no_habit() -> None:
    assert times({8: 4, 9: 4, 24 + 9: 4, 24 + 12: 4, 24 + 13: 4}) == [[]] * 7


def test_two_weeks_do_not_make_a_habit() -> None:
    for weeks, expected in ((2, []), (3, [[480, 660]])):
        assert times(dict.fromkeys((8, 9, 10), weeks), weeks) == [expected, *[[]] * 6], weeks


def test_visits_at_all_hours_give_no_proposal() -> None:
    always = dict.fromkeys(range(WEEK_H), 4)
    assert times(always) is None
    assert times(dict.fromkeys(range(120), 4)) == [[[0, 1440]]] * 5 + [[]] * 2


def test_a_day_s_end_and_begin_are_not_joined_over_midnight() -> None:
    night = dict.fromkeys(range(21, 27), 4)
    assert times(night) == [[[1260, 1440]], [[0, 180]], *[[]] * 5]


def ask(client: FlaskClient, past: Box, monkeypatch: pytest.MonkeyPatch) -> Any:
    past.history.flush()
    monkeypatch.setattr("time.time", lambda: past.wall_s)
    return client.get("/api/settings/hours", query_string={"server": "web"}).json


def test_only_people_who_need_the_server_count(
    client: FlaskClient, past: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    past.pass_s(10 * 3600)  # Wednesday 8:14
    for _ in range(4):
        for _ in range(3):
            for _ in range(LEAST_REQUESTS):
                asks(past)
            past.pass_s(3600)
        for number in range(LEAST_REQUESTS):
            asks(past, Klass.CRAWLER)
            asks(past, Klass.API)
            asks(past, outcome=Outcome.HIT if number else Outcome.FETCH)
        past.pass_s(7 * DAY_S - 3 * 3600)
    found = ask(client, past, monkeypatch)
    assert found["days"] == [[], [], [[480, 660]], *[[]] * 4]
    assert found["weeks"] == 4


def test_a_box_that_knows_nothing_yet_proposes_nothing(
    client: FlaskClient, past: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks(past)
    assert ask(client, past, monkeypatch) == {"days": [[]] * 7, "weeks": 0}

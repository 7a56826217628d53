"""The figures of the page Traffic, from a history as the controller writes it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from flask.testing import FlaskClient
from history_box import DAY_S, Box
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason
from naproxy.core.state import Klass, State
from naproxy.history.write import agents
from naproxy.history.write.gaps import BUCKETS, EDGES_S
from naproxy.shm.events import Event
from naproxy_webui.options import Settings
from naproxy_webui.pages.traffic import page as traffic

NOBODY = 0xFFFFFFFF
GOOGLEBOT = agents.names().index("Googlebot")


@pytest.fixture
def past(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A box that has watched a server; `START_S` is a Tuesday, 22:14 UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    settings.data_dir.mkdir()
    made = Box(settings.data_dir)
    made.history.watch(["web"])
    yield made
    made.stop()
    monkeypatch.undo()
    time.tzset()


def asks(
    past: Box,
    klass: int = Klass.PERSON,
    outcome: int = Outcome.FETCH,
    agent: int = NOBODY,
    flags: int = page_h.E_NEEDED,
) -> None:
    t_us = int(past.monotonic_s * 1e6)
    past.history.request("web", Event(1, t_us, 0, 0, 0, agent, 0, klass, outcome, flags, 200, 0))


def ask(
    client: FlaskClient, past: Box, part: str, days: float = 30, server: str = "web"
) -> dict[str, Any]:
    past.history.flush()
    query = {"server": server, "from_s": past.wall_s - days * DAY_S, "to_s": past.wall_s + 60}
    answer = client.get(f"/api/traffic/{part}", query_string=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json
    return found


def test_requests_are_counted_by_hour_of_the_week(client: FlaskClient, past: Box) -> None:
    asks(past)
    asks(past, Klass.CRAWLER)
    past.pass_s(2 * 3600)
    asks(past)
    found = ask(client, past, "week")
    tuesday_22, wednesday_0 = 24 + 22, 48
    person = {hour: n for hour, n in enumerate(found["classes"]["person"]) if n}
    assert person == {tuesday_22: 1, wednesday_0: 1}
    assert sum(found["classes"]["crawler"]) == 1
    assert {hour for hour, n in enumerate(found["times"]) if n} == {46, 47, 48}


def test_outcomes_of_requests_are_counted_by_kind(client: FlaskClient, past: Box) -> None:
    for outcome in Outcome:
        asks(past, outcome=outcome)
    found = ask(client, past, "days")
    assert found["ends"] == {end: len(outcomes) for end, outcomes in traffic.ENDS.items()}
    assert found["requests"] == len(Outcome)
    assert found["needed_nobody"] == 6
    assert found["from_cache"] == 2
    assert [day["day"] for day in found["days"]] == ["2023-11-14"]
    assert found["days"][0]["ends"] == found["ends"]


def test_outcomes_of_a_later_version_are_counted(client: FlaskClient, past: Box) -> None:
    asks(past, klass=77, outcome=99)
    found = ask(client, past, "days")
    assert found["requests"] == found["ends"]["box"] == 1


def test_requests_that_waited_are_told(client: FlaskClient, past: Box) -> None:
    asks(past, outcome=Outcome.HELD, flags=page_h.E_NEEDED | page_h.E_DELAYED)
    asks(past)
    assert ask(client, past, "days")["delayed"] == 1


@pytest.mark.parametrize(
    ("days", "unit"), [(30, "day"), (90, "day"), (400, "week"), (999, "month")]
)
def test_a_long_range_is_told_in_longer_parts(
    client: FlaskClient, past: Box, days: int, unit: str
) -> None:
    for _ in range(5):
        asks(past)
        past.pass_s(days * DAY_S / 5)
    found = ask(client, past, "days", days + 1)
    assert found["unit"] == unit
    assert sum(day["ends"]["server"] for day in found["days"]) == 5
    assert len(found["days"]) <= traffic.MOST_BARS


def test_gaps_are_told_by_length(client: FlaskClient, past: Box) -> None:
    for gap_s in (3, 3, 700):
        asks(past)
        past.pass_s(gap_s)
    asks(past)
    found = ask(client, past, "gaps")
    assert found["edges_s"] == list(EDGES_S)
    assert len(found["counts"]) == len(found["sums_s"]) == BUCKETS
    assert found["counts"][EDGES_S.index(2) + 1] == 2
    assert found["counts"][EDGES_S.index(600) + 1] == 1
    assert found["requests"] == 4
    assert found["worth_s"] is None  # no controller says what the server draws


def test_agents_are_told_by_name(client: FlaskClient, past: Box) -> None:
    asks(past, Klass.CRAWLER, Outcome.REFUSED, GOOGLEBOT)
    asks(past, Klass.CRAWLER, Outcome.HIT, GOOGLEBOT)
    asks(past, Klass.SCANNER, Outcome.REFUSED)
    found = ask(client, past, "agents")
    assert [(a["name"], a["class"], a["requests"]) for a in found["agents"]] == [
        ("Googlebot", "crawler", 2),
        ("", "scanner", 1),
    ]
    assert found["agents"][0]["ends"]["away"] == 1
    assert found["more"] == 0


def test_of_many_agents_those_with_most_requests_are_told(
    client: FlaskClient, past: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "MOST_AGENTS", 2)
    for number in range(5):
        for _ in range(number + 1):
            asks(past, Klass.CRAWLER, Outcome.REFUSED, number)
    found = ask(client, past, "agents")
    assert [agent["requests"] for agent in found["agents"]] == [5, 4]
    assert found["more"] == 3


def test_a_server_that_never_was_has_no_traffic(client: FlaskClient, past: Box) -> None:
    for part in ("week", "days", "gaps", "agents"):
        asks(past)
        found = ask(client, past, part, server="'; DROP TABLE servers; --")
        told = (*found.get("counts", ()), found.get("requests"), found.get("agents"))
        assert not any((*told, found.get("days"))), part


def test_ranges_that_make_no_sense_are_refused(client: FlaskClient) -> None:
    for query in (
        "server=web",
        "server=web&from_s=5&to_s=4",
        "server=web&from_s=nan&to_s=9",
        "server=web&from_s=0&to_s=1e99",
        "server=web&from_s=0&to_s=19999999999",
    ):
        for part in ("week", "days", "gaps", "agents"):
            assert client.get(f"/api/traffic/{part}?{query}").status_code == 400, (part, query)


def test_without_a_history_that_is_said(client: FlaskClient) -> None:
    for part in ("week", "days", "gaps", "agents"):
        answer = client.get(f"/api/traffic/{part}?server=web&from_s=0&to_s=9")
        assert answer.status_code == 503, part
        assert answer.json["error"], part


def test_the_page_shows_figures_where_there_are_any(client: FlaskClient, past: Box) -> None:
    past.journal.transition("web", State.UNKNOWN, State.AWAKE, Reason("server.answers"))
    asks(past)
    past.history.flush()
    shown = client.get("/traffic").text
    assert 'id="week"' in shown
    assert 'id="drop"' in shown


def test_without_a_history_the_page_has_a_place_for_a_log(client: FlaskClient) -> None:
    shown = client.get("/traffic", headers={"Accept-Language": "de"}).text
    assert 'id="week"' not in shown
    assert 'id="drop"' in shown
    assert "Protokolldateien hier ablegen" in shown


def test_a_viewer_sees_no_upload_of_logs(viewer: FlaskClient) -> None:
    shown = viewer.get("/traffic").text
    assert 'id="drop"' not in shown
    assert 'id="estimate"' in shown

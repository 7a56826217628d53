"""HTTPS on Now: visitors who bypass the box, certificates that end, an edge that is down."""

from __future__ import annotations

import json
from typing import Any

from box import Box
from flask import Flask
from flask.testing import FlaskClient
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy_webui.office import https

EDGE: dict[str, Any] = {
    **{"wanted": True, "problem": None, "uncovered": [], "ended": [], "ending": []},
    "certificates": [{"id": "main", "names": ["a.example", "b.example"], "not_after_s": 2e9}],
}
EXPIRED = Reason("https.expired", day="2026-11-01")


def ends(days: int) -> Reason:
    why = Reason("https.ends_soon", days=days, day="2026-12-01")
    return Reason("https.certificate", name="<b>", why=why)


def test_https_problems_that_need_a_person_are_shown(app: Flask) -> None:
    for edge, kinds, words in (
        (None, [], ""),
        (EDGE, [], ""),
        ({**EDGE, "wanted": False, "problem": Reason("https.not_running")}, [], ""),
        ({**EDGE, "problem": Reason("https.not_running")}, ["bad"], "does not run as it should"),
        ({**EDGE, "problem": Reason("https.starting")}, [], ""),
        ({**EDGE, "uncovered": ["a.example", "b.example"]}, ["warn"], "a.example and 1 more"),
        ({**EDGE, "ending": [ends(30)]}, ["warn"], "“<b>” ends in 30 days"),
        ({**EDGE, "ending": [ends(8)]}, ["warn"], "ends in 8 days"),
        ({**EDGE, "ending": [ends(7)]}, ["bad"], "ends in 7 days"),
        ({**EDGE, "ending": [ends(1)]}, ["bad"], "ends in 1 day."),
        ({**EDGE, "ending": [ends(0)]}, ["bad"], "ends today"),
        (
            {**EDGE, "ending": [Reason("https.certificate", name="a", why=EXPIRED)]},
            *(["bad"], "ended on 2026-11-01"),
        ),
        (
            {**EDGE, "ending": [Reason("https.certificate", name="main", why=EXPIRED)]},
            *(["bad"], "“a.example”"),
        ),
    ):
        plain = json.loads(json.dumps(edge, default=Reason.plain))
        with app.test_request_context():
            said = https.troubles(plain)
        assert [each["kind"] for each in said] == kinds, edge
        assert words in "".join(each["words"] for each in said), edge


def test_an_end_is_as_urgent_as_its_part_of_the_whole_life() -> None:
    for days, life_days, kind in (
        (30, 90, "warn"),
        (31, 90, ""),
        (7, 365, "bad"),
        (5.9, 6, ""),
        (2.1, 6, ""),
        (1.6, 6, "warn"),
        (0.4, 6, "bad"),
        (0.3, 1, ""),
        (0.2, 1, "warn"),
        (None, 6, ""),
    ):
        assert https.level(days, life_days) == kind, (days, life_days)


def test_visitors_past_the_box_are_on_the_servers_card(box: Box, client: FlaskClient) -> None:
    box.wait(State.AWAKE)
    [card] = client.get("/api/now").json["servers"]  # type: ignore[index]
    assert (card["past"], card["around"]) == (None, 0)
    box.server.leads = b"https://127.0.0.1/"
    assert client.post("/api/servers/web/look", json={}).status_code == 200
    said = client.get("/api/now").json
    assert said
    past = said["servers"][0]["past"]
    assert "past the box" in past
    [status] = box.call("GET", "/v1/status")[1]["servers"]
    assert status["not_armed"] in status["inhibitors"]
    assert past not in said["servers"][0]["inhibitors"]
    assert said["servers"][0]["armed"] is False
    assert said["https"] == []

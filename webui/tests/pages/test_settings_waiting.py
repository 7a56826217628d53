"""The choice of visitors who may wait, with figures of a log, the history or an example."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from box import Box
from flask import Flask
from flask.testing import FlaskClient
from history_box import ask
from history_past import Past, known
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy_webui.options import Settings
from naproxy_webui.pages.savings.hindsights import hindsights
from naproxy_webui.pages.settings import waiting
from savings_control import Control

from tests.patience import wait_for

NAMES = ["hardly", "few", "first"]


@pytest.fixture
def told(app: Flask) -> Control:
    known(app)
    control = Control()
    app.extensions["naproxy_control"] = control
    return control


@pytest.fixture
def new(settings: Settings, told: Control) -> Iterator[Past]:
    """A box without a recorded request."""
    made = Past(settings, days=4)
    made.history.flush()
    yield made
    made.stop()


@pytest.fixture
def watching(new: Past) -> Past:
    """Three days in which the box only watched: the server was never put to sleep."""
    new.history.watch(["web"])
    chosen = random.Random(4)
    end_s = new.wall_s + 3 * 86400
    while new.wall_s < end_s:
        ask(new, chosen.randrange(5), Outcome.FETCH, flags=page_h.E_NEEDED | page_h.E_PAGE_LOAD)
        for _ in range(chosen.choice([1, 3, 10])):
            new.pass_s(new.history.next_s)
            new.history.tick()
    new.history.flush()
    return new


def asked(client: FlaskClient, server: str = "web") -> Any:
    answer = client.get("/api/settings/waiting", query_string={"server": server})
    assert answer.status_code == 200, answer.text
    return answer.json


def figures(client: FlaskClient) -> Any:
    """Have them worked out."""
    answer = client.post("/api/settings/waiting", json={"server": "web"})
    assert answer.status_code == 202, answer.text
    wait_for(lambda: asked(client)["state"] != "running", "the figures")
    said = asked(client)
    assert said["state"] == "done", said
    return said["figures"]


def estimated(client: FlaskClient, **changes: Any) -> None:
    """Have a log estimated on the page Traffic: a visit each half an hour, for four days."""
    times = (datetime.fromtimestamp(1_700_438_400 + t, UTC) for t in range(0, 4 * 86400, 1800))
    data = "".join(
        f'192.0.2.1 - - [{when:%d/%b/%Y:%H:%M:%S +0000}] "GET /{n} HTTP/1.1" 200 100 "-"'
        ' "Mozilla/5.0"\n'
        for n, when in enumerate(times)
    ).encode()
    body = {"name": "access.log", "size": len(data), "kind": "log"}
    upload = client.post("/api/uploads", json=body).json
    client.put(f"/api/uploads/{upload['id']}?offset=0", data=data)
    question = {"on_w": 43.3, "off_w": 1.6, "proxy_w": 5, "wake_s": 5, "fraction": 0.05}
    question |= {"delta_s": 1, "price": 0.3, "uploads": [upload["id"]], **changes}
    assert client.post("/api/traffic/estimate", json=question).status_code == 202
    wait_for(lambda: client.get("/api/traffic/estimate").json["state"] == "done", "the estimate")


def test_a_new_box_shows_an_example_and_says_so(client: FlaskClient, new: Past) -> None:
    before = asked(client)
    assert (before["state"], before["figures"]) == ("none", None)
    found = figures(client)
    assert found["source"] == "example"
    assert [card["name"] for card in found["cards"]] == NAMES
    assert found["of"] == {"on_w": 43.3, "off_w": 1.6, "proxy_w": 5, "wake_s": 5.0}


def test_a_box_that_only_watched_shows_what_it_has_seen(
    client: FlaskClient, watching: Past
) -> None:
    found = figures(client)
    assert found["source"] == "watched"
    assert found["days"] == pytest.approx(3, abs=0.1)
    hardly, few, first = found["cards"]
    assert hardly["asleep_h_a_day"] < few["asleep_h_a_day"] < first["asleep_h_a_day"]


def test_a_log_goes_before_what_the_box_has_seen(client: FlaskClient, watching: Past) -> None:
    figures(client)
    estimated(client)
    said = asked(client)
    found = said["figures"]
    assert (said["state"], found["source"], found["name"]) == ("done", "log", "access")
    assert not found["old"]
    assert found["requests"] == 192
    assert found["cards"][0]["money_a_year"] == pytest.approx(0.3 * found["cards"][0]["kwh_a_year"])


def test_a_log_estimated_for_another_wake_is_marked_old(
    client: FlaskClient, new: Past, told: Control
) -> None:
    estimated(client, wake_s=5)
    told.wake_s = 9.0
    assert asked(client)["figures"]["old"]


def test_with_several_servers_a_log_is_nobodys(
    client: FlaskClient, watching: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimated(client)
    monkeypatch.setattr(waiting, "equipment", lambda: type("Two", (), {"servers": (1, 2)}))
    assert figures(client)["source"] == "watched"


def test_the_question_has_the_measured_wake_and_the_promises(
    client: FlaskClient, new: Past, told: Control
) -> None:
    said = asked(client)
    assert (said["wake_s"], said["measured"]) == (5.0, False)
    assert said["promises"]["few"] == {"fraction": 0.05, "delta_s": 1.0}
    # It has just been measured by the test.
    told.wake_s = 1.1
    said = asked(client)
    assert (said["wake_s"], said["measured"]) == (1.1, True)
    assert said["promises"]["few"] == {"fraction": 0.05, "delta_s": 1.3}


def test_figures_of_the_history_are_worked_out_again_after_some_hours(
    client: FlaskClient, watching: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures(client)
    now_s = time.time()
    kept = waiting.FRESH_S["watched"]
    monkeypatch.setattr(time, "time", lambda: now_s + kept - 60)
    assert asked(client)["state"] == "done"
    monkeypatch.setattr(time, "time", lambda: now_s + kept + 60)
    assert asked(client)["state"] == "none"


def test_a_question_waits_while_another_is_worked_out(
    client: FlaskClient, watching: Past, app: Flask
) -> None:
    with app.app_context():
        other = hindsights()
    other.start("another", {"server": "web"}, 0.0)
    said = client.post("/api/settings/waiting", json={"server": "web"})
    assert (said.status_code, said.json["state"]) == (202, "running")
    wait_for(lambda: not other.busy, "the other one")
    assert figures(client)["source"] == "watched"


def test_the_same_question_with_a_price_is_asked_once(
    client: FlaskClient, new: Past, told: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.office = {"price_per_kwh": 0.31}
    assert figures(client)["cards"][0]["money_a_year"] is not None
    now_s = time.time()
    for later_s in (0.1, 0.37, 1.9, 7.3, 31.7):
        monkeypatch.setattr(time, "time", lambda later_s=later_s: now_s + later_s)
        assert asked(client)["state"] == "done", later_s


def test_a_choice_sets_both_halves_of_the_promise(client: FlaskClient, box: Box) -> None:
    for name, fraction in zip(NAMES, (0.01, 0.05, 0.10), strict=True):
        answer = client.put("/api/settings/waiting", json={"server": "web", "choice": name})
        assert answer.status_code == 200, answer.text
        assert answer.json["chosen"] == name
        [server] = box.call("GET", "/v1/config")[1]["server"]
        assert server["promise"] == {"fraction": fraction, "delta_s": 1.0}


def test_a_choice_or_server_that_there_is_not_changes_nothing(
    client: FlaskClient, box: Box
) -> None:
    before = box.call("GET", "/v1/config")[1]["version"]
    for body, status in (
        ({"server": "web", "choice": "all"}, 400),
        ({"server": "nope", "choice": "few"}, 404),
        ({"server": "web"}, 400),
    ):
        answer = client.put("/api/settings/waiting", json=body)
        assert answer.status_code == status, body
    assert box.call("GET", "/v1/config")[1]["version"] == before


def test_a_viewer_neither_starts_the_computation_nor_chooses(
    viewer: FlaskClient, new: Past
) -> None:
    assert asked(viewer)["state"] == "none"
    body = {"server": "web"}
    assert viewer.post("/api/settings/waiting", json=body).status_code == 403
    body["choice"] = "few"
    assert viewer.put("/api/settings/waiting", json=body).status_code == 403

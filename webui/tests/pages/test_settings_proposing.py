"""A better choice of the visitors who may wait: it is found, and proposed once, with undo."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from history_box import ask
from history_past import Past, known
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy_webui.options import Settings
from naproxy_webui.pages.settings.better import better
from naproxy_webui.pages.settings.proposing import may_propose
from savings_control import Control

from tests.patience import wait_for

PATH = "/api/settings/waiting/proposal"


def cards(*figures: tuple[float, float]) -> list[dict[str, Any]]:
    """Return cards with these net savings and waits a day."""
    names = ("hardly", "few", "first")
    return [
        {"name": name, "saving_net": net, "waits_a_day": waits, "pays": net > 0}
        for name, (net, waits) in zip(names, figures, strict=True)
    ]


@pytest.mark.parametrize(
    ("figures", "now", "found"),
    [
        # It loses: the first that pays.
        (((-0.02, 5), (0.03, 20), (0.08, 40)), "hardly", "few"),
        (((-0.02, 5), (-0.01, 20), (0.05, 40)), "few", "first"),
        # Much more is saved.
        (((0.10, 5), (0.25, 20), (0.30, 40)), "hardly", "few"),
        (((0.10, 5), (0.15, 20), (0.22, 40)), "hardly", "first"),
        # About as much is saved with fewer waits.
        (((0.30, 5), (0.30, 20), (0.305, 40)), "first", "hardly"),
        # No other choice is better.
        (((0.10, 5), (0.15, 20), (0.19, 40)), "hardly", None),
        (((0.10, 5), (0.25, 20), (0.30, 40)), "few", None),
        (((0.76, 9), (0.76, 9), (0.76, 9)), "few", None),
        # None of them pays: there is nothing to propose.
        (((-0.05, 5), (-0.04, 20), (-0.01, 40)), "hardly", None),
        (((0.1, 5), (0.5, 20), (0.9, 40)), "another", None),
    ],
)
def test_a_better_choice_pays_or_saves_much_more_or_has_fewer_waits(
    figures: tuple[tuple[float, float], ...], now: str, found: str | None
) -> None:
    assert better(cards(*figures), now) == found


class Changing(Control):
    """A controller that changes a promise as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.promise = {"fraction": 0.01, "delta_s": 2.0}
        self.policy = "teacher"

    def get(self, path: str, timeout_s: float = 5.0, **query: object) -> Any:
        said = super().get(path, timeout_s, **query)
        return {**said, "version": "1"} if path == "/v1/config" else said

    def _server(self, number: int) -> dict[str, Any]:
        changed = {"promise": dict(self.promise), "policy": {"name": self.policy}}
        return {**super()._server(number), **changed}

    def call(self, name: str, body: Any, **variables: str) -> Any:
        assert name == "config.change"
        for each in body["changes"]:
            self.promise[each["where"].rpartition(".")[2]] = each["value"]
        return self.get("/v1/config")


@pytest.fixture
def told(app: Flask) -> Changing:
    known(app)
    control = Changing()
    app.extensions["naproxy_control"] = control
    return control


def visited(settings: Settings, days: float) -> Past:
    """A page with nine files from the cache each half an hour or so, for so long, until now."""
    made = Past(settings, days=20)
    made.pass_s((20 - days) * 86400)
    made.restart()
    made.history.watch(["web"])
    chosen = random.Random(4)
    end_s = made.wall_s + days * 86400
    while made.wall_s < end_s:
        visitor = chosen.randrange(5)
        ask(made, visitor, Outcome.FETCH, flags=page_h.E_NEEDED | page_h.E_PAGE_LOAD)
        for _ in range(9):
            ask(made, visitor, Outcome.HIT)
        for _ in range(chosen.choice([10, 30, 60])):
            made.pass_s(made.history.next_s)
            made.history.tick()
    made.history.flush()
    return made


@pytest.fixture
def weeks(settings: Settings, told: Changing) -> Iterator[Past]:
    made = visited(settings, 16)
    yield made
    made.stop()


def proposed(client: FlaskClient) -> Any:
    """Return the proposal, with the figures worked out first."""
    query = {"server": "web"}
    if client.get(PATH, query_string=query).json["due"]:
        client.post("/api/settings/waiting", json=query)
        wait_for(lambda: not client.get(PATH, query_string=query).json["due"], "the figures")
    return client.get(PATH, query_string=query).json


def answered(client: FlaskClient, answer: str, status: int = 200) -> Any:
    said = client.put(PATH, json={"server": "web", "answer": answer})
    assert said.status_code == status, said.text
    return said.json


def test_a_choice_is_proposed_taken_and_undone_and_never_again(
    client: FlaskClient, weeks: Past, told: Changing
) -> None:
    said = proposed(client)
    assert (said["state"], said["now"]["name"]) == ("open", "hardly")
    assert said["better"]["saving_net"] > said["now"]["saving_net"] + 0.1
    taken = answered(client, "take")
    assert (taken["state"], taken["better"]) == ("taken", said["better"])
    assert told.promise == {"fraction": said["better"]["fraction"], "delta_s": 1.0}
    answered(client, "take", 409)
    assert answered(client, "undo")["state"] is None
    assert told.promise == {"fraction": 0.01, "delta_s": 2.0}
    assert proposed(client)["state"] is None
    answered(client, "undo", 409)


def test_the_home_page_asks_for_a_proposal_only_where_there_may_be_one(
    client: FlaskClient, weeks: Past, app: Flask
) -> None:
    with app.test_request_context():
        assert may_propose(["web"], time.time()) == ["web"]
        assert may_propose(["web"], time.time() - 7 * 86400) == []
    proposed(client)
    answered(client, "take")
    with app.test_request_context():
        assert may_propose(["web"], time.time()) == ["web"]
    answered(client, "undo")
    with app.test_request_context():
        assert may_propose(["web"], time.time()) == []


def test_a_declined_proposal_is_not_repeated(
    client: FlaskClient, weeks: Past, told: Changing
) -> None:
    proposed(client)
    assert answered(client, "decline")["state"] is None
    assert told.promise["fraction"] == 0.01
    assert proposed(client) == {**proposed(client), "due": False, "state": None}


def test_a_promise_that_was_changed_since_is_not_undone(
    client: FlaskClient, weeks: Past, told: Changing
) -> None:
    proposed(client)
    answered(client, "take")
    told.promise["fraction"] = 0.07
    assert proposed(client)["state"] is None
    answered(client, "undo", 409)
    assert told.promise["fraction"] == 0.07


@pytest.mark.parametrize(
    "change",
    [{"policy": "timeout"}, {"promise": {"fraction": 0.07, "delta_s": 1.0}}],
    ids=["another rule", "a share of one's own"],
)
def test_nothing_is_proposed_for(
    client: FlaskClient, weeks: Past, told: Changing, change: dict[str, Any]
) -> None:
    vars(told).update(change)
    said = client.get(PATH, query_string={"server": "web"}).json
    assert (said["due"], said["state"]) == (False, None)


def test_before_two_weeks_nothing_is_proposed(
    client: FlaskClient, settings: Settings, told: Changing
) -> None:
    made = Past(settings, days=13)
    made.history.watch(["web"])
    made.pass_s(600)
    made.history.flush()
    said = client.get(PATH, query_string={"server": "web"}).json
    assert (said["due"], said["state"]) == (False, None)
    made.stop()


def test_a_viewer_cannot_answer_a_proposal(viewer: FlaskClient, weeks: Past) -> None:
    body = {"server": "web", "answer": "take"}
    assert viewer.put(PATH, json=body).status_code == 403

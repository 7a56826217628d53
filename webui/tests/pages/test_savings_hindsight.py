"""The possible savings: computed in a child process, bounded, one at a time, kept."""

from __future__ import annotations

import random
import sys
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
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy_webui.options import Settings
from naproxy_webui.pages.savings.hindsights import KEPT, Hindsights
from savings_control import Control

from tests.patience import PATIENCE_S

SLOW = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def past(settings: Settings, app: Flask) -> Iterator[Past]:
    """Four days of visitors and a server that slept half of the time."""
    made = Past(settings)
    made.history.watch(["web"])
    known(app)
    app.extensions["naproxy_control"] = Control()
    chosen = random.Random(4)
    made.change(State.UNKNOWN, State.AWAKE, Reason("server.answers"), 0)
    end_s = made.wall_s + 4 * 86400
    while made.wall_s < end_s:
        for n in range(chosen.randrange(1, 4)):
            flags = page_h.E_NEEDED | (page_h.E_PAGE_LOAD if n == 0 else 0)
            ask(made, chosen.randrange(5), Outcome.FETCH, flags=flags)
            made.pass_s(1)
        for _ in range(chosen.choice([1, 3, 10, 40])):
            made.pass_s(made.history.next_s)
            made.history.tick()
    made.history.flush()
    yield made
    made.stop()


def ended(client: FlaskClient, **question: Any) -> Any:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        query = {"server": "web", "view": "all", **question}
        answer = client.get("/api/savings/hindsight", query_string=query)
        assert answer.status_code == 200, answer.text
        if answer.json["state"] != "running":
            return answer.json
        time.sleep(0.02)
    raise AssertionError("it runs and runs")


def start(client: FlaskClient, status: int = 202, **question: Any) -> Any:
    answer = client.post("/api/savings/hindsight", json={"server": "web", "view": "all"} | question)
    assert answer.status_code == status, answer.text
    return answer.json


def worked_out(client: FlaskClient, **question: Any) -> Any:
    start(client, **question)
    said = ended(client, **question)
    assert said["state"] == "done", said
    return said["found"]


def gross(found: Any, policy: str) -> float:
    return float(next(r for r in found["rows"] if r["policy"] == policy)["saving_gross"])


def test_bounds_and_rules_beside_what_really_was(client: FlaskClient, past: Past) -> None:
    assert ended(client)["state"] == "none"
    found = worked_out(client)
    assert 0 < gross(found, "bound-reactive") <= gross(found, "idealised") + 1e-6
    assert found["span"]["requests"] == found["actual"]["requests"] > 100
    assert found["actual"]["sums"]["always_j"] > 0
    assert len(found["thresholds"]) > 10
    assert found["question"]["promise"] == {"f": 0.01, "delta_s": 1.0}


def test_an_answer_is_kept_until_the_history_grows(
    client: FlaskClient, past: Past, app: Flask
) -> None:
    made_s = worked_out(client)["made_s"]
    assert start(client)["fresh"]
    assert worked_out(client)["made_s"] == made_s
    ask(past, outcome=Outcome.FETCH, flags=page_h.E_NEEDED)
    past.pass_s(1200)
    past.history.flush()
    said = ended(client)
    assert (said["state"], said["fresh"]) == ("done", False)
    assert worked_out(client)["made_s"] > made_s


def test_another_promise_or_server_changes_the_figures(client: FlaskClient, past: Past) -> None:
    as_it_is = worked_out(client)
    reactive = gross(as_it_is, "bound-reactive")
    assert gross(worked_out(client, fraction=0.2), "bound-reactive") > reactive
    assert gross(worked_out(client, wake_s=0.5, sleep_s=1.0), "bound-reactive") > reactive
    thrifty = worked_out(client, on_w=10.0)
    assert thrifty["question"]["power"]["on_w"] == 10.0
    assert thrifty["question"]["power"]["switch_j"] < as_it_is["question"]["power"]["switch_j"]
    net = next(r for r in thrifty["rows"] if r["policy"] == "timeout-1m")["saving_net"]
    assert net == pytest.approx(gross(thrifty, "timeout-1m") - 5 / 10)


def test_a_question_that_makes_no_sense_is_refused(client: FlaskClient, past: Past) -> None:
    for question, where in (
        ({"off_w": 50.0}, "off_w"),
        ({"fraction": "much"}, "fraction"),
        ({"policies": ["no-policy"]}, "policies"),
        ({"day": "yesterday", "view": "day"}, "day"),
    ):
        assert start(client, 400, **question)["where"] == where, question


def test_no_requests_in_the_history_is_said(
    client: FlaskClient, settings: Settings, app: Flask
) -> None:
    made = Past(settings)
    known(app)
    app.extensions["naproxy_control"] = Control()
    made.change(State.UNKNOWN, State.AWAKE, Reason("server.answers"), 600)
    made.history.flush()
    assert "no requests" in worked_out(client)["not_enough"]
    made.stop()


def test_one_at_a_time_and_it_can_be_cancelled(
    client: FlaskClient, past: Past, app: Flask, settings: Settings
) -> None:
    slow = Hindsights(settings.run_dir / "hindsight", settings.data_dir, SLOW)
    app.extensions["naproxy_hindsights"] = slow
    assert start(client)["state"] == "running"
    assert start(client)["state"] == "running"  # the same question
    start(client, 409, fraction=0.2)
    other = client.get("/api/savings/hindsight?server=web&view=all&fraction=0.2").json
    assert (other["state"], other["busy"]) == ("none", True)
    assert client.delete("/api/savings/hindsight").status_code == 200
    assert ended(client)["state"] == "cancelled"
    assert not slow.busy


def worker(settings: Settings, program: str) -> Hindsights:
    command = [sys.executable, "-c", program]
    return Hindsights(settings.run_dir / "hindsight", settings.data_dir, command)


def finish(jobs: Hindsights, key: str = "k") -> Any:
    jobs.start(key, {}, 1.0)
    end_s = time.monotonic() + PATIENCE_S
    while jobs.busy:
        assert time.monotonic() < end_s
        time.sleep(0.01)
    return jobs.progress(key)


def test_a_child_that_fails_leaves_no_answer(settings: Settings) -> None:
    for program in (
        "import sys; sys.exit(3)",
        "print('no json')",
        "print('[' * 100000)",
        "print('\"' + 'x' * (3 << 20) + '\"')",
    ):
        jobs = worker(settings, program)
        ended = finish(jobs)
        assert (ended.state, ended.why) == ("failed", "words"), program
        assert jobs.kept("k") is None, program


def test_only_some_answers_are_kept(settings: Settings) -> None:
    jobs = worker(settings, "print('{}')")
    for number in range(KEPT + 3):
        assert finish(jobs, f"k{number}").state == "done"
    assert len(list((settings.run_dir / "hindsight").glob("*.json"))) == KEPT

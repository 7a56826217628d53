"""The most frequent wakers, and rules against them: their effect; adding, undoing, refusing."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from box import Box as Controller
from flask import Flask
from flask.testing import FlaskClient
from history_box import event
from history_past import IDLE, SERVER, Past, as_declared, known
from naproxy.config.document import Rule
from naproxy.core.page_h import Outcome
from naproxy.core.state import State
from naproxy_webui.options import Settings
from naproxy_webui.pages.history import wakerules, wakes

FEED = {"server": "web", "kind": "path", "text": "/feed.xml"}


def wake(**more: Any) -> dict[str, Any]:
    made = {"t_s": 0.0, "path": "/", "who": "192.0.2.1", "agent": "x", "class": "api"}
    return {**made, **more}


def test_a_wake_is_shown_with_the_rule_that_decides_now(client: FlaskClient, past: Past) -> None:
    past.wake(path="/feed.xml")
    past.wake(path="/page")
    kept = client.application.extensions["naproxy_equipment"]
    rules = ({**FEED, "server": "other", "treat_as": "feed"}, {**FEED, "treat_as": "feed"})
    kept["equipment"] = replace(kept["equipment"], rules=rules)
    query = {"from_s": past.begun_s, "to_s": past.wall_s + 1, "server": "web"}
    rows = client.get("/api/history/wakes", query_string=query).json["rows"]
    assert {row["path"]: row["ruled"] for row in rows} == {"/feed.xml": 1, "/page": None}
    groups = client.get("/api/history/wakers", query_string={**query, "by": "path"}).json["groups"]
    assert {group["key"]: group["ruled"] for group in groups} == {"/feed.xml": 1, "/page": None}


def test_rules_say_what_they_did(client: FlaskClient, past: Past) -> None:
    kept = client.application.extensions["naproxy_equipment"]
    rule = {**FEED, "treat_as": "feed"}
    past.history.rules([Rule(**rule)])
    past.change(State.FALLING_ASLEEP, State.ASLEEP, IDLE, 60)
    past.history.request("web", replace(event(past, Outcome.REFUSED), rule=1))
    past.history.flush()
    known = replace(kept["equipment"], rules=(rule,))
    with client.application.app_context():
        [did] = wakes._did(known)
    assert (did["refused"], did["sleeps"]) == (1, 1)


# What to suggest


def test_a_rule_is_suggested_for_the_distinctive_part() -> None:
    for kind, key, text in (
        ("path", "/feed.xml?since=3", "/feed.xml"),
        ("path", "/" + "x" * 100, "/" + "x" * 54),
        ("address", "192.0.2.7", "192.0.2.7"),
        ("address", "2001:db8::1", "2001:db8::1"),
        ("agent", "Feedly/1.0 (+http://www.feedly.com)", "Feedly/"),
        ("agent", "python-requests/2.31.0", "python-requests/"),
        ("agent", "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://x)", "SemrushBot"),
        ("agent", "Mozilla/5.0 (X11; Linux x86_64) Nextcloud-News/1.0", "Nextcloud-News"),
        ("agent", "checker", "checker"),
    ):
        assert wakerules.suggest(kind, key).text == text, key


def test_no_rule_is_suggested_that_would_stop_everybody() -> None:
    for kind, key, why_not in (
        ("path", "/", "front_page"),
        ("path", "/?utm=1", "front_page"),
        ("path", "*", "no_path"),
        ("path", "", "no_path"),
        ("address", "command", "no_address"),
        ("address", "<script>", "no_address"),
        ("agent", "", "no_agent"),
        ("agent", "???", "no_agent"),
        (
            "agent",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
            " Chrome/126.0.0.0 Safari/537.36",
            "browser",
        ),
        (
            "agent",
            "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
            "browser",
        ),
        (
            "agent",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML,"
            " like Gecko) Version/17.5 Mobile/15E1",
            "browser",
        ),
    ):
        assert wakerules.suggest(kind, key) == wakerules.Suggestion(kind, why_not=why_not), key


def test_a_suggestion_from_any_ledger_entry_fits_a_rule() -> None:
    for kind in ("path", "address", "agent"):
        for key in ("a", "😀" * 40, "\x7f/x", "A" * 400, "Mozilla/", "Mozilla/5.0 ("):
            text = wakerules.suggest(kind, key).text
            assert len(text.encode()) <= wakerules.MOST_BYTES, (kind, key)


# As whom


def every(seconds: float, **more: Any) -> list[dict[str, Any]]:
    return [wake(t_s=n * seconds + n % 3, **more) for n in range(20)]


def test_the_class_follows_from_path_agent_and_interval() -> None:
    for kind, text, matched, klass in (
        ("path", "/feed.xml", [wake()], "feed"),
        ("path", "/blog/rss", [wake()], "feed"),
        ("address", "192.0.2.1", every(600, path="/atom.xml"), "feed"),
        ("path", "/health", every(300), "monitor"),
        ("agent", "SomeBot", [wake(agent="SomeBot/1.0")], "crawler"),
        ("agent", "SomeBot", every(3600, agent="SomeBot/1.0"), "monitor"),
        ("path", "/backup", [wake()], "monitor"),
    ):
        assert wakerules.treat_as(SERVER, kind, text, matched) == klass, (text, klass)


def test_the_class_is_never_one_that_may_wake_the_server() -> None:
    server = replace(SERVER, wake_classes=("person", "api", "feed", "monitor"))
    assert wakerules.treat_as(server, "path", "/feed.xml", []) == "crawler"
    server = replace(SERVER, wake_classes=("person", "api", *wakerules.ROBOTS))
    assert wakerules.treat_as(server, "path", "/feed.xml", []) is None


def test_periodic_times_are_regular() -> None:
    assert wakerules.regular([n * 900.0 for n in range(10)]) == 900
    assert wakerules.regular([n**2 * 60.0 for n in range(10)]) is None
    assert wakerules.regular([0.0] * 10) is None
    assert wakerules.regular([0.0, 900.0]) is None


# The effect of a rule


def test_an_earlier_rule_decides_first() -> None:
    wakes = [wake(path="/feed.xml"), wake(path="/feed.xml", who="192.0.2.9"), wake(path="/")]
    earlier = [{"kind": "address", "text": "192.0.2.9"}]
    made, matched = wakerules.effect("path", "/feed", wakes, earlier)
    assert (made.wakes, made.shadowed) == (1, 1)
    assert matched == wakes[:1]


def ask(client: FlaskClient, path: str, **query: str) -> Any:
    return client.get(f"/api/history/{path}", query_string=query)


def test_the_most_frequent_wakers_have_their_cost(client: FlaskClient, past: Past) -> None:
    for number in range(8):
        past.measured_cycle(path=f"/feed.xml?n={number}")
    past.measured_cycle(path="/", klass="person", agent="Mozilla/5.0 (X11) Firefox/128.0")
    past.history.flush()
    query = {"from_s": str(past.begun_s), "to_s": str(past.wall_s), "server": "web"}
    found = ask(client, "wakers", by="path", **query).json
    as_declared(client.application, "/api/history/wakers", found)
    assert (found["wakes"], found["measured"]) == (9, True)
    [feed, front] = found["groups"]
    assert (feed["key"], feed["wakes"], feed["persons"]) == ("/feed.xml", 8, 0)
    assert feed["every_s"] == pytest.approx(1800)
    assert feed["awake_s"] == pytest.approx(8 * 600)
    assert feed["extra_j"] == pytest.approx(8 * 600 * 38, rel=0.01)
    assert feed["cost"] == pytest.approx(feed["extra_j"] / 3.6e6 * 0.5)
    assert feed["rule"] == "/feed.xml"
    assert front["rule"] is None
    assert front["why_not"]


def test_without_a_meter_time_is_told_and_no_energy(client: FlaskClient, past: Past) -> None:
    past.cycle()
    query = {"from_s": str(past.begun_s), "to_s": str(past.wall_s), "server": "web"}
    [group] = ask(client, "wakers", by="address", **query).json["groups"]
    assert group["awake_s"] == 305
    assert (group["extra_j"], group["cost"]) == (None, None)


# With a real controller


@pytest.fixture
def box(settings: Settings) -> Iterator[Controller]:
    made = Controller(settings.data_dir.parent).start()
    yield made
    made.close()


def rules_in(box: Controller) -> list[dict[str, Any]]:
    return list(tomllib.loads(box.file.read_text()).get("rule", []))


def test_a_rule_is_made_and_undone_in_an_edited_file(client: FlaskClient, box: Controller) -> None:
    box.file.write_text("# by hand\n" + box.file.read_text())
    assert box.call("POST", "/v1/config/reload", b"{}")[0] == 200
    before = box.file.read_text()
    answer = client.post("/api/history/rules", json=FEED)
    assert answer.status_code == 201, answer.text
    rule = {"kind": "path", "text": "/feed.xml", "treat_as": "feed", "server": "web"}
    assert answer.json == {"rule": rule}
    assert rules_in(box) == [rule]
    assert box.file.read_text().startswith("# by hand\n")
    assert client.get("/api/history/rules").json["rules"] == [rule]
    answer = client.delete("/api/history/rules", json=rule)
    assert (answer.status_code, answer.json) == (200, {"rules": [], "did": []})
    assert tomllib.loads(box.file.read_text()).get("rule", []) == []
    assert box.file.read_text().rstrip() == before.rstrip()


def test_the_same_rule_is_not_made_twice(client: FlaskClient, box: Controller) -> None:
    assert client.post("/api/history/rules", json=FEED).status_code == 201
    answer = client.post("/api/history/rules", json=FEED)
    assert (answer.status_code, answer.json["where"]) == (409, "text")
    assert len(rules_in(box)) == 1


def test_the_meant_rule_is_removed_after_others(client: FlaskClient, box: Controller) -> None:
    made = [
        client.post("/api/history/rules", json={**FEED, "text": text}).json["rule"]
        for text in ("/a", "/b", "/c")
    ]
    assert client.delete("/api/history/rules", json=made[0]).status_code == 200
    assert client.delete("/api/history/rules", json=made[2]).status_code == 200
    assert [rule["text"] for rule in rules_in(box)] == ["/b"]
    answer = client.delete("/api/history/rules", json=made[0])
    assert answer.status_code == 404


def test_a_rule_that_cannot_be_changes_nothing(client: FlaskClient, box: Controller) -> None:
    for body, status, where in (
        ({**FEED, "text": "/"}, 422, "text"),
        ({**FEED, "text": "feed"}, 422, "text"),
        ({**FEED, "text": "/" + "x" * 55}, 400, "text"),
        ({**FEED, "text": "/é"}, 422, "text"),
        ({**FEED, "text": "/a\n[box]"}, 422, "text"),
        ({**FEED, "kind": "address", "text": "the office"}, 422, "text"),
        ({**FEED, "server": "shop"}, 404, "server"),
        ({**FEED, "treat_as": "person"}, 400, "treat_as"),
    ):
        before = box.file.read_bytes()
        answer = client.post("/api/history/rules", json=body)
        assert (answer.status_code, answer.json["where"]) == (status, where), answer.text
        assert box.file.read_bytes() == before, body


def test_without_a_controller_no_rule_is_made(client: FlaskClient) -> None:
    answer = client.post("/api/history/rules", json=FEED)
    assert answer.status_code == 503


def test_a_server_that_wakes_for_robots_too_has_no_rules(
    client: FlaskClient, past: Past, app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(app, server=replace(SERVER, defer_crawlers=False))
    kept = app.extensions["naproxy_equipment"]["equipment"]
    monkeypatch.setattr("naproxy_webui.pages.history.wakes.equipment", lambda *, fresh=False: kept)
    answer = client.get("/api/history/rule", query_string=FEED)
    assert answer.status_code == 422
    assert "come back later" in answer.json["error"]


def test_the_effect_of_a_rule_is_that_of_the_last_30_days(
    client: FlaskClient, past: Past, app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = app.extensions["naproxy_equipment"]["equipment"]
    monkeypatch.setattr("naproxy_webui.pages.history.wakes.equipment", lambda *, fresh=False: kept)
    for _ in range(3):
        past.measured_cycle()
    past.measured_cycle(path="/feedback", klass="person")
    past.measured_cycle(path="/")
    past.history.flush()
    said = client.get("/api/history/rule", query_string={**FEED, "text": "/feed"}).json
    as_declared(client.application, "/api/history/rule", said)
    assert (said["wakes"], said["all"], said["persons"]) == (4, 5, 1)
    assert (said["treat_as"], said["retry_s"]) == ("feed", 3600)
    assert said["extra_j"] == pytest.approx(4 * 600 * 38, rel=0.01)
    assert [each["key"] for each in said["paths"]["most"]] == ["/feed.xml", "/feedback"]

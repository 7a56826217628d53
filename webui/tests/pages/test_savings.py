"""Savings: sums that agree with their parts, their inputs, and the waits of people."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from flask.testing import FlaskClient
from history_box import ask
from history_past import OFF_MW, ON_MW, Past, known
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.rates import Rates
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.history.write.reckoned import Reckoned
from naproxy.lab.estimate import hindsight
from naproxy_webui.http.errors import ApiError
from naproxy_webui.office.equipment import Equipment, Server
from naproxy_webui.office.money import means_of_year, office_rates
from naproxy_webui.office.office import forget_office
from naproxy_webui.options import Settings
from naproxy_webui.pages.savings.page import POLICIES
from savings_control import Control


@pytest.fixture
def control(app: Flask) -> Control:
    made = Control()
    app.extensions["naproxy_control"] = made
    return made


@pytest.fixture
def past(settings: Settings, app: Flask, control: Control) -> Iterator[Past]:
    """Six hours of sleeping and waking, all of it measured, three days ago."""
    made = Past(settings, days=3)
    made.history.watch(["web"])
    known(app)
    made.change(State.UNKNOWN, State.AWAKE, Reason("server.answers"), 0)
    made.meter(600, ON_MW)
    for _ in range(12):
        made.measured_cycle()
        made.history.flush()
    yield made
    made.stop()


def get(client: FlaskClient, path: str = "", status: int = 200, **query: Any) -> Any:
    answer = client.get(f"/api/savings{path}", query_string={"server": "web", **query})
    assert answer.status_code == status, answer.text
    return answer.json


def stop(past: Past) -> None:
    """The box ends: later states are unknown."""
    past.change(State.AWAKE, State.UNKNOWN, Reason("server.stopped"), 0)
    past.history.flush()


def test_savings_of_a_range_are_those_of_its_parts(client: FlaskClient, past: Past) -> None:
    for view in ("week", "month", "year", "all"):
        stop(past)
        found = get(client, view=view, **_day(past, view))
        assert len(found["parts"]) >= 1, view
        for name in ("gross_j", "net_j", "measured_s", "modelled_s", "always_j", "length_s"):
            parts = sum(part["sums"][name] for part in found["parts"])
            assert found["total"][name] == pytest.approx(parts), view
        assert found["total"]["length_s"] == found["to_s"] - found["from_s"], view


def _day(past: Past, view: str) -> dict[str, str]:
    day = time.strftime("%Y-%m-%d", time.gmtime(past.begun_s + 86400))
    return {} if view == "all" else {"day": day}


def test_the_sums_on_now_are_those_of_this_month_here(client: FlaskClient, past: Past) -> None:
    stop(past)
    month = get(client, view="month")
    found = client.get("/api/now/overview").json
    assert found
    assert (found["from_s"], found["kind"] == "none") == (
        month["from_s"],
        not month["total"]["measured_s"],
    )
    assert found["net_j"] == pytest.approx(month["total"]["net_j"])
    assert found["forecast"] is None
    assert found["promises"] == [{"server": "web", "requests": 0, "delayed": 0, "allowed": 0}]


def test_why_there_is_no_forecast_is_said_in_ones_language(client: FlaskClient, past: Past) -> None:
    stop(past)
    for language, words in (("en", "7 whole days"), ("de", "7 ganze Tage")):
        client.put("/api/account/language", json={"language": language})
        assert words in client.get("/api/now/overview").json["no_forecast"], language


def record(past: Past, *co2_g: float) -> None:
    """Say what an API said of the hours from the past's begin on."""
    hours = [(past.begun_s + 3600 * n, 1, each) for n, each in enumerate(co2_g)]
    sql = "INSERT OR REPLACE INTO co2_hours (t_s, readings, mean_g) VALUES (?, ?, ?)"
    past.journal.store.batch(lambda db: db.executemany(sql, hours))


def test_the_rates_stay_the_same_object_until_an_hour_is_recorded(app: Flask, past: Past) -> None:
    def rates() -> Rates:
        with app.test_request_context():
            return office_rates()

    record(past, 100.0)
    first = rates()
    assert rates() is first
    assert first.co2.at(past.begun_s) == 100.0
    record(past, 100.0, 300.0)
    second = rates()
    assert second is not first
    assert [second.co2.at(past.begun_s + 3600 * n) for n in range(3)] == [100.0, 300.0, None]
    assert rates() is second


def test_recorded_hours_count_with_their_co2(
    client: FlaskClient, past: Past, control: Control
) -> None:
    stop(past)
    control.office["co2_g_per_kwh"] = 500.0
    forget(client)
    flat = get(client, view="all")
    record(past, *[250.0] * 3)
    found = get(client, view="all")
    always_kwh = found["total"]["always_j"] / 3.6e6
    assert flat["always_worth"]["co2_g"] == pytest.approx(500 * always_kwh)
    known_s = found["total"]["measured_s"] + found["total"]["modelled_s"]
    recorded = 3 * 3600 / known_s
    mean_g = 250 * recorded + 500 * (1 - recorded)
    assert found["always_worth"]["co2_g"] == pytest.approx(mean_g * always_kwh)
    assert found["assumed"]["office"]["co2_changes"] is True
    parts = [part["sums"]["always_j"] for part in found["parts"]]
    assert sum(parts) == pytest.approx(found["total"]["always_j"])


def test_a_coming_years_mean_falls_back_to_the_recorded_one(
    app: Flask, past: Past, control: Control
) -> None:
    record(past, 100.0, 200.0)
    with app.test_request_context():
        found = means_of_year()
        assert (found["mean_co2"], found["recorded_co2"]) == (None, 150.0)
        control.office["co2_g_per_kwh"] = 500.0
        forget_office()
        found = means_of_year()
        assert (found["mean_co2"], found["recorded_co2"]) == (pytest.approx(500.0), None)


def test_the_source_of_the_co2_and_its_failure_are_told(
    client: FlaskClient, past: Past, control: Control
) -> None:
    stop(past)
    assert get(client)["assumed"]["office"]["co2_source"] is None
    control.office["co2_url"] = "https://api.example.org:8443/v3?zone=CH"
    forget(client)
    source = {"host": "api.example.org:8443", "problem": "", "failed_since_s": None}
    assert get(client)["assumed"]["office"]["co2_source"] == source
    problem = Reason("co2.status", status=500).plain()
    control.co2 = {"problem": problem, "failed_since_s": 1.7e9}
    source |= {"problem": "The answer has the status 500.", "failed_since_s": 1.7e9}
    assert get(client)["assumed"]["office"]["co2_source"] == source


def forget(client: FlaskClient) -> None:
    with client.application.app_context():
        forget_office()


def test_measured_time_is_marked_as_measured(client: FlaskClient, past: Past) -> None:
    stop(past)
    found = get(client, view="all")
    assert found["total"]["measured_s"] == pytest.approx(12 * 1800 + 600)
    assert found["total"]["modelled_s"] == 0
    asleep_j, awake_j = 12 * 1200 * OFF_MW / 1000, (12 * 600 + 600) * ON_MW / 1000
    assert found["total"]["measured_j"] == pytest.approx(asleep_j + awake_j)
    assert found["assumed"]["meter"] == "web"
    assert found["assumed"]["values"]["on_w"] == {"value": pytest.approx(40), "source": "measured"}
    assert found["assumed"]["values"]["off_w"]["source"] == "measured"
    assert found["total"]["gross_j"] == pytest.approx(12 * 1200 * 38)
    assert found["total"]["net_j"] == pytest.approx(
        found["total"]["gross_j"] - found["total"]["box_j"]
    )


def test_without_a_meter_the_model_uses_the_commissioning_fit(
    client: FlaskClient, past: Past, app: Flask, control: Control
) -> None:
    stop(past)
    _no_meter(app)
    control.fit = {"on_w": 50.0, "off_w": 5.0, "switch_j": 90.0}
    found = get(client, view="all")
    assert found["total"]["measured_s"] == 0
    assert found["total"]["modelled_s"] == pytest.approx(12 * 1800 + 600)
    assert found["assumed"]["values"]["on_w"] == {"value": 50.0, "source": "fitted"}
    assert found["total"]["gross_j"] == pytest.approx(12 * 1200 * 45 - 12 * 90)


def test_without_a_measurement_that_makes_sense_the_settings_count(
    client: FlaskClient, past: Past, app: Flask, control: Control
) -> None:
    _no_meter(app)
    for control.fit in (None, {"on_w": 5.0, "off_w": 50.0, "switch_j": 90.0}):
        app.extensions.pop("naproxy_believed", None)
        values = get(client, view="all")["assumed"]["values"]
        assert {v["source"] for v in values.values()} == {"configured", "expected"}, control.fit
        assert values["on_w"]["value"] == 43.3, control.fit


def _no_meter(app: Flask) -> None:
    app.extensions["naproxy_equipment"]["equipment"] = Equipment(
        answered=True,
        version="2",
        servers=(Server("web", ("person",), False, 43.3, 1.6, 4.1),),
    )


def test_an_uncertain_fit_is_not_used(
    client: FlaskClient, past: Past, app: Flask, control: Control
) -> None:
    _no_meter(app)
    control.fit, control.unsure = {"on_w": 50.0, "off_w": 5.0, "switch_j": 90.0}, 0.3
    assert get(client, view="all")["assumed"]["values"]["on_w"]["source"] == "configured"


def test_on_the_first_day_there_are_no_savings_to_show_yet(
    client: FlaskClient, settings: Settings, app: Flask, control: Control
) -> None:
    made = Past(settings, days=1)
    known(app, co2_g_per_kwh=380.0)
    made.begun_s += 6 * 3600
    made.pass_s(6 * 3600)
    made.change(State.UNKNOWN, State.AWAKE, Reason("server.answers"), 3600)
    made.history.flush()
    found = get(client, view="all")
    assert (found["early"], found["total"]["net_j"] < 0) == (True, True)
    assert client.get("/api/now/overview").json["kind"] == "none"
    made.change(State.AWAKE, State.ASLEEP, Reason("policy.idle", idle_s=63), 4 * 3600)
    made.change(State.ASLEEP, State.AWAKE, Reason("server.answers"), 60)
    made.history.flush()
    app.extensions.pop("naproxy_now_overview")
    found = get(client, view="all")
    assert (found["early"], found["total"]["net_j"] > 0) == (False, True)
    assert client.get("/api/now/overview").json["kind"] == "modelled"
    made.stop()


def test_savings_of_a_removed_server_stay(
    client: FlaskClient, past: Past, app: Flask, control: Control
) -> None:
    stop(past)
    before = get(client, view="all")["total"]
    month_j = client.get("/api/now/overview").json["net_j"]
    kept = {
        **{"meter": "web", "fit": {}, "proxy_w": 5.0},
        "power": {"on_w": 43.3, "off_w": 1.6, "switch_j": 170.7},
        "about": {
            **{"fraction": 0.01, "delta_s": 1.0, "policy": "teacher"},
            **{"wake_s": 5.0, "sleep_s": 4.0},
        },
    }
    reckoned = Reckoned(past.journal)
    reckoned.keep({"web": kept}, box_meter="plug", now_s=time.time())
    reckoned.keep({"shop": {**kept, "meter": None}}, box_meter="plug", now_s=time.time())
    control.name = "shop"
    for name in ("naproxy_believed", "naproxy_now_overview"):
        app.extensions.pop(name, None)
    assert get(client, view="all")["total"] == pytest.approx(before)
    overview = client.get("/api/now/overview").json
    assert overview["net_j"] == pytest.approx(month_j)
    assert [each["server"] for each in overview["promises"]] == ["shop"]
    assert ">web</option>" in client.get("/savings").text


def test_measured_times_are_told_from_expected_ones(
    client: FlaskClient, past: Past, control: Control
) -> None:
    control.wake_s = 7.5
    values = get(client, view="all")["assumed"]["values"]
    assert values["wake_s"] == {"value": 7.5, "source": "measured"}
    assert values["sleep_s"]["source"] == "expected"


def test_two_servers_at_once_share_the_box(
    client: FlaskClient, past: Past, settings: Settings
) -> None:
    stop(past)
    alone = get(client, view="all")["total"]
    with closing(sqlite3.connect(settings.data_dir / "history.db", isolation_level=None)) as db:
        db.execute(
            'INSERT INTO transitions (t_s, server, "from", "to", reason)'
            ' SELECT t_s, \'other1\', "from", "to", reason FROM transitions'
        )
        # Hours that were added up before the second server was there.
        for table in ("state_hours", "box_hours"):
            db.execute(f"DELETE FROM {table}")
    shared = get(client, view="all")
    assert shared["assumed"]["box_share"] == pytest.approx(0.5, abs=1e-3)
    assert shared["total"]["box_j"] == pytest.approx(alone["box_j"] / 2, rel=1e-3)


def test_money_only_with_a_price(client: FlaskClient, past: Past, app: Flask) -> None:
    priced = get(client, view="all")
    assert priced["net_worth"]["money"] == pytest.approx(priced["total"]["net_j"] / 3.6e6 * 0.5)
    known(app, price_per_kwh=0.0, co2_g_per_kwh=0.0)
    assert get(client, view="all")["net_worth"] == {"money": None, "co2_g": None}


def test_time_before_the_first_price_has_no_money(
    client: FlaskClient, past: Past, app: Flask
) -> None:
    zurich = ZoneInfo("Europe/Zurich")
    day = datetime.fromtimestamp(past.begun_s, zurich).date() + timedelta(1)
    tariff = {"since": day.isoformat(), "price_per_kwh": 0.5, "bands": []}
    known(app, price_per_kwh=0.0, tariff=[tariff])
    found = get(client, view="all")
    midnight = datetime(day.year, day.month, day.day, tzinfo=zurich)
    assert found["priced_since_s"] == midnight.timestamp()
    assert found["assumed"]["office"]["price_changes"]
    later = found["total"]["always_j"] / 3.6e6 * 0.5
    assert 0 < found["always_worth"]["money"] < later
    known(app, price_per_kwh=0.0, tariff=[{**tariff, "since": "2199-01-01"}])
    assert get(client, view="all")["net_worth"]["money"] is None


def test_delayed_requests_are_counted_against_the_promise(client: FlaskClient, past: Past) -> None:
    found = get(client, "/paid", view="all")
    assert (found["requests"], found["longest_s"], found["median_s"]) == (0, None, None)
    for n in range(200):
        late = n < 3
        flags = page_h.E_NEEDED | (page_h.E_DELAYED if late else 0)
        ask(past, n, Outcome.HELD, flags=flags, delay_ms=2000 + 1000 * n if late else 0)
        past.pass_s(1)
    past.history.flush()
    found = get(client, "/paid", view="all")
    assert (found["requests"], found["delayed"], found["allowed"]) == (200, 3, 2)
    assert (found["longest_s"], found["median_s"]) == (pytest.approx(4.0), pytest.approx(3.0))
    assert sum(bucket["count"] for bucket in found["buckets"]) == 3
    assert found["promise"] == {"fraction": 0.01, "delta_s": 1.0}


def test_a_question_that_is_wrong_is_refused(client: FlaskClient, past: Past) -> None:
    for query, status, where in (
        ({"server": "'; DROP TABLE hours; --"}, 404, "server"),
        ({"server": "web", "view": "century"}, 400, "view"),
        ({"server": "web", "day": "2026-13-01"}, 400, "day"),
        ({"server": "web", "day": "0001-01-01"}, 400, "day"),
        ({"server": "web", "color": "red"}, 400, "color"),
        ({}, 400, "server"),
    ):
        for path in ("", "/paid", "/export", "/hindsight"):
            answer = client.get(f"/api/savings{path}", query_string=query)
            assert (answer.status_code, answer.json["where"]) == (status, where), path


def test_a_silent_controller_is_said(client: FlaskClient, past: Past, control: Control) -> None:
    control.fault = ApiError(503, "the controller does not answer")
    assert "does not answer" in get(client, view="all", status=503)["error"]


def test_the_export_has_everything_with_its_assumptions(client: FlaskClient, past: Past) -> None:
    answer = client.get("/api/savings/export?server=web&view=all")
    assert "attachment" in answer.headers["Content-Disposition"]
    found = answer.json
    assert found["total"]["net_j"] == pytest.approx(get(client, view="all")["total"]["net_j"])
    assert found["assumed"]["values"]["on_w"]["source"] == "measured"
    assert found["paid"]["requests"] == 0
    assert found["hindsight"] is None


def test_rules_are_those_of_hindsight() -> None:
    assert set(POLICIES) == set(hindsight.POLICIES)


def test_the_interface_does_not_load_what_computes() -> None:
    program = (
        "import sys, naproxy_webui.pages.savings.page, naproxy_webui.pages.savings.hindsight\n"
        "heavy = {f'naproxy.lab.estimate.{name}' for name in"
        " ('hindsight', 'lineup', 'bounds', 'simulate', 'traffic')}\n"
        "heavy |= {'multiprocessing', 'naproxy.policy.teacher'}\n"
        "print(*heavy & set(sys.modules))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr

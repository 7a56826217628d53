"""The history's API: power, states, energy, downloads, the calendar of the office's zone."""

from __future__ import annotations

import csv
import io
import sqlite3
import time
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from flask.testing import FlaskClient
from history_past import ON_MW, Past, as_declared, known
from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.history.tables import FILE
from naproxy.history.write import state_hours
from naproxy_webui.office.equipment import Equipment
from naproxy_webui.pages.history import page

HERE = Reason("policy.somebody_here")
IDLE = Reason("policy.idle", idle_s=63)


def get(client: FlaskClient, path: str, **query: Any) -> Any:
    answer = client.get(f"/api/history/{path}", query_string={k: str(v) for k, v in query.items()})
    assert answer.status_code == 200, answer.text
    return as_declared(client.application, f"/api/history/{path}", answer.json)


# The calendar


def test_the_calendar_is_that_of_the_offices_zone(client: FlaskClient, past: Past) -> None:
    for query, hours, beside in (
        ({"view": "day", "day": "2025-03-30"}, 23, ("2025-03-29", "2025-03-31")),
        ({"view": "day", "day": "2025-10-26"}, 25, ("2025-10-25", "2025-10-27")),
        ({"view": "week", "day": "2025-10-22"}, 169, ("2025-10-13", "2025-10-27")),
        ({"view": "month", "day": "2025-02-10"}, 28 * 24, ("2025-01-01", "2025-03-01")),
        ({"view": "year", "day": "2024-07-01"}, 366 * 24, ("2023-01-01", "2025-01-01")),
    ):
        found = get(client, "range", **query)
        assert (found["to_s"] - found["from_s"]) / 3600 == hours, query
        assert (found["previous"], found["next"]) == beside, query


def test_there_is_nothing_after_today(client: FlaskClient, past: Past) -> None:
    asked_s = time.time()
    found = get(client, "range")
    assert (found["view"], found["next"]) == ("day", None)
    assert found["from_s"] <= time.time()
    assert asked_s < found["to_s"]


def test_a_range_of_ones_own_is_by_the_offices_clock(client: FlaskClient, past: Past) -> None:
    found = get(client, "range", **{"from": "2026-07-01T12:00", "to": "2026-07-01T13:30"})
    assert (found["from_s"], found["view"]) == (1782900000, None)
    assert found["to_s"] - found["from_s"] == 5400


def test_each_of_two_hours_of_the_same_name_can_be_shown(client: FlaskClient, past: Past) -> None:
    summer_ends_s = 1792886400  # 2026-10-25 00:00 UTC: at 03:00 it is 02:00 again
    for offset, hour in (("+02:00", 0), ("+01:00", 1)):
        found = get(
            client, "range", **{"from": f"2026-10-25T02:00{offset}", "to": "2026-10-25T03:00"}
        )
        assert found["from_s"] == summer_ends_s + 3600 * hour, offset


def test_a_range_that_cannot_be_is_refused(client: FlaskClient, past: Past) -> None:
    for query, where in (
        ({"view": "day", "day": "2026-02-30"}, "day"),
        ({"view": "day", "day": "9999-12-31"}, "day"),
        ({"view": "day", "day": "0001-01-01"}, "day"),
        ({"view": "decade"}, "view"),
        ({"from": "2026-07-01T12:00"}, "to"),
        ({"from": "2026-07-01T12:00", "to": "yesterday"}, "to"),
        ({"from": "2026-07-02T12:00", "to": "2026-07-01T12:00"}, "to_s"),
        ({"from": "2001-01-01T00:00", "to": "2026-07-01T12:00"}, "to_s"),
    ):
        answer = client.get("/api/history/range", query_string=query)
        assert (answer.status_code, answer.json["where"]) == (400, where), query


# Power and states


def test_power_has_least_mean_and_most_of_each_meter(client: FlaskClient, past: Past) -> None:
    past.meter(120, ON_MW)
    past.history.flush()
    found = get(client, "power", from_s=past.begun_s, to_s=past.begun_s + 120)
    server = next(m for m in found["meters"] if m["id"] == "web")
    assert (server["of"], server["tier"], server["step_s"]) == ("web", "seconds", 1)
    assert server["points"][0] == [past.begun_s, 40.0, 39.6, 40.4]
    assert len(server["points"]) == 120
    assert server["gaps"] == []


def test_all_meters_together_have_at_most_1000_points(client: FlaskClient, past: Past) -> None:
    for name in ("web", "plug", "third"):
        past.history.add_second(name, past.second(ON_MW))
    for _ in range(100):
        past.meter(1, ON_MW)
        past.pass_s(899)
    past.history.flush()
    found = get(client, "power", from_s=past.begun_s, to_s=past.wall_s)
    assert sum(len(meter["points"]) for meter in found["meters"]) <= 1000


def test_states_have_plain_reasons_and_their_wakes(client: FlaskClient, past: Past) -> None:
    past.cycle()
    found = get(client, "states", from_s=past.begun_s, to_s=past.wall_s, server="web")
    assert found["exact"]
    assert [s["state"] for s in found["stretches"]] == ["asleep", "waking", "awake"]
    asleep, waking, _ = found["stretches"]
    assert asleep["words"] == "Nobody had needed it for 63\N{NO-BREAK SPACE}s."
    assert asleep["wake"] is None
    assert (waking["wake"]["path"], waking["wake"]["waited_s"]) == ("/feed.xml", 5.0)


def test_too_many_changes_become_shares(
    client: FlaskClient, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "MOST_STRETCHES", 8)
    for _ in range(3):
        past.cycle(asleep_s=60, awake_s=60)
    query = {"from_s": past.begun_s, "to_s": past.wall_s, "server": "web"}
    found = get(client, "states", **query)
    assert (found["exact"], found["stretches"]) == (False, [])
    assert found["changes"] == 9
    length_s = sum(sum(part["seconds"].values()) for part in found["parts"])
    assert length_s == pytest.approx(past.wall_s - past.begun_s)
    rows = get(client, "transitions", **query)["rows"]
    assert len({row["id"] for row in rows}) == 9
    assert sum(1 for row in rows if row["wake"]) == 3


def test_states_end_when_the_controller_did(client: FlaskClient, past: Past, app: Flask) -> None:
    past.cycle()
    app.extensions["naproxy_equipment"]["equipment"] = Equipment()
    query = {"from_s": past.begun_s, "to_s": time.time() + 3600, "server": "web"}
    found = get(client, "states", **query)
    assert found["until_s"] < past.wall_s + 61


# Energy


def test_states_that_were_deleted_are_said_to_be(client: FlaskClient, past: Past) -> None:
    begun_s = past.begun_s
    past.change(State.UNKNOWN, State.AWAKE, IDLE, 86400)
    past.journal.store.batch(lambda db: state_hours.roll_up(db, past.wall_s))
    ask = partial(get, client, "states", server="web", to_s=past.wall_s + 1)
    assert ask(from_s=begun_s - 86400)["deleted"] is None  # before the box was there
    changed_s = past.wall_s
    past.change(State.AWAKE, State.ASLEEP, IDLE, 86400)
    past.journal.prune(1)
    assert ask(from_s=begun_s)["deleted"] == {"before_s": changed_s, "keep_days": 90}
    assert ask(from_s=begun_s, to_s=begun_s + 600)["stretches"] == []
    assert ask(from_s=changed_s)["deleted"] is None


def test_energy_of_a_day_is_split_and_priced(client: FlaskClient, past: Past) -> None:
    past.measured_cycle()
    past.history.flush()
    day = get(client, "energy", from_s=past.begun_s - 3 * 86400, to_s=past.wall_s, server="web")
    measured = [each for each in day["days"] if each["covered"]]
    assert day["unit"] == "day"
    assert sum(each["server_j"] for each in measured) == 1200 * 2 + 600 * 40
    parts = [each["parts"] for each in measured]
    assert sum(sum(each.values()) for each in parts) == 1200 * 2 + 600 * 40
    assert sum(each["asleep"] for each in parts) > 0
    assert day["total"]["cost"] == pytest.approx((1200 * 2 + 600 * 40) / 3.6e6 * 0.5)


def test_an_hours_energy_has_its_minutes_prices(
    client: FlaskClient, past: Past, app: Flask
) -> None:
    past.meter(7200, ON_MW)
    past.history.flush()
    bands = [f"mon-sun {hour:02}:30-{hour:02}:45 0.1" for hour in range(24)]
    query = {"from_s": past.begun_s - 86400, "to_s": past.wall_s, "server": "web"}
    flat = get(client, "energy", **query)["total"]["cost"]
    tariff = {"since": "2000-01-01", "price_per_kwh": 0.5, "bands": bands}
    known(app, price_per_kwh=0.0, tariff=[tariff])
    found = get(client, "energy", **query)
    # A quarter of each hour costs 0.1 instead of 0.5.
    assert found["total"]["cost"] == pytest.approx(flat * (0.75 + 0.25 * 0.2), rel=0.05)


def test_half_a_measured_day_says_so(client: FlaskClient, past: Past) -> None:
    past.meter(3600, ON_MW)
    past.history.flush()
    found = get(client, "energy", from_s=past.begun_s - 3 * 86400, to_s=past.wall_s, server="web")
    shares = [each["covered"] for each in found["days"]]
    assert 0 < max(shares) < 0.1
    assert min(shares) == 0
    assert found["total"]["covered"] < 0.05


def test_the_days_that_clocks_change_have_23_and_25_hours(client: FlaskClient, past: Past) -> None:
    for begin_s, hours in ((1743289200, 23), (1761429600, 25)):
        end_s = begin_s + hours * 3600
        found = get(client, "energy", from_s=begin_s, to_s=end_s, server="web")
        assert (found["unit"], len(found["days"])) == ("hour", hours), begin_s


def test_without_a_price_no_money_is_said(client: FlaskClient, past: Past, app: Flask) -> None:
    known(app, price_per_kwh=0.0)
    past.meter(60, ON_MW)
    past.history.flush()
    found = get(client, "energy", from_s=past.begun_s, to_s=past.wall_s, server="web")
    assert found["price_per_kwh"] is None
    assert found["total"]["cost"] is None


def test_a_long_range_is_shown_by_months(client: FlaskClient, past: Past) -> None:
    past.meter(60, ON_MW)
    past.history.flush()
    found = get(client, "energy", from_s=past.begun_s - 300 * 86400, to_s=past.wall_s, server="web")
    assert found["unit"] == "month"
    assert all(each["parts"] is None for each in found["days"])
    assert len(found["days"]) in (10, 11, 12)


# Downloads


def table(client: FlaskClient, past: Past, what: str, **query: Any) -> list[dict[str, str]]:
    query = {"from_s": past.begun_s - 86400, "to_s": past.wall_s + 1, "what": what} | query
    answer = client.get("/api/history/export", query_string=query)
    assert answer.status_code == 200, answer.text
    assert answer.mimetype == "text/csv"
    assert answer.headers["Content-Disposition"].startswith(
        f'attachment; filename="naproxy-{what}-'
    )
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_everything_can_be_downloaded(client: FlaskClient, past: Past) -> None:
    past.all_of_it()
    for what in ("power", "energy", "traffic", "transitions", "wakes", "decisions"):
        assert table(client, past, what), what


def test_times_in_a_download_are_the_offices(client: FlaskClient, past: Past) -> None:
    past.cycle()
    rows = table(client, past, "transitions")
    assert {row["time"][-6:] for row in rows} <= {"+01:00", "+02:00"}
    assert float(rows[0]["t_s"]) == past.begun_s


def test_a_download_of_wakes_has_the_results_of_the_search(client: FlaskClient, past: Past) -> None:
    past.wake(path="/100%", agent='say "hi"')
    past.wake(path="/1000")
    past.wake(path="/other%", klass="person")
    query = {"from_s": past.begun_s, "to_s": past.wall_s + 1, "what": "wakes"}
    query |= {"server": "web", "text": "0%", "class": "api", "format": "json"}
    found = client.get("/api/history/export", query_string=query)
    assert found.mimetype == "application/json"
    said = as_declared(client.application, "/api/history/export", found.json)
    assert [(row["path"], row["agent"]) for row in said["rows"]] == [("/100%", 'say "hi"')]
    assert (said["text"], said["class"]) == ("0%", "api")
    query |= {"text": "%; DROP TABLE wakes"}
    assert client.get("/api/history/export", query_string=query).json["rows"] == []


def test_power_is_downloaded_of_the_meters_that_are_shown(client: FlaskClient, past: Past) -> None:
    for name in ("web", "plug"):
        past.meter(60, ON_MW, name)
    past.history.flush()
    query = {"from_s": past.begun_s, "to_s": past.wall_s, "what": "power", "format": "json"}
    for server, meters in (("web", {"web", "plug"}), ("other", {"plug"})):
        rows = client.get("/api/history/export", query_string=query | {"server": server}).json
        assert {row["meter"] for row in rows["rows"]} == meters


def test_wakes_are_counted_by_the_hours_of_the_office(client: FlaskClient, past: Past) -> None:
    past.wake()
    found = get(client, "hours", from_s=past.begun_s, to_s=past.wall_s + 1, server="web")
    hour = datetime.fromtimestamp(past.begun_s, ZoneInfo("Europe/Zurich")).hour
    assert found["wakes"] == 1
    assert [n for n, each in enumerate(found["hours"]) if each["api"]] == [hour]


def test_a_download_that_cannot_be_is_refused(client: FlaskClient, past: Past) -> None:
    for query, status, where in (
        ({"what": "saved"}, 400, "what"),
        ({"what": "power", "name": "nope"}, 404, "name"),
        ({"what": "traffic", "tier": "seconds"}, 400, "tier"),
        ({"what": "power", "tier": "years"}, 400, "tier"),
        ({"what": "power", "text": "feed"}, 400, "text"),
        ({"what": "wakes", "class": "' OR 1=1 --"}, 400, "class"),
    ):
        answer = client.get("/api/history/export", query_string={"from_s": 0, "to_s": 9, **query})
        assert (answer.status_code, answer.json["where"]) == (status, where), query


# Decisions, and nothing at all


def test_without_a_history_that_is_said(client: FlaskClient, app: Flask) -> None:
    known(app)
    answer = client.get("/api/history/power?from_s=0&to_s=9")
    assert answer.status_code == 503
    assert "history" in answer.json["error"]


def test_the_page_is_there_without_a_history_and_a_controller(client: FlaskClient) -> None:
    for language in ("en", "de"):
        answer = client.get("/history", headers={"Accept-Language": language})
        assert answer.status_code == 200, language
        assert ("Wer den Server geweckt hat" in answer.text) == (language == "de"), language


def test_a_wake_by_the_policy_is_told_in_plain_words(client: FlaskClient, past: Past) -> None:
    past.journal.wake_opened("web", WakeRequest("policy", HERE))
    found = get(client, "wakes", from_s=past.begun_s, to_s=past.wall_s + 1)
    assert found["rows"][0]["words"] == "Somebody is there."


def test_sentences_of_an_older_naproxy_are_told_as_they_are(
    client: FlaskClient, past: Past
) -> None:
    past.all_of_it()
    past.journal.wake_opened("web", WakeRequest("policy", "somebody is here"))
    with sqlite3.connect(past.directory / FILE) as older:
        older.execute("UPDATE transitions SET reason = 'idle 63 s'")
        older.execute("UPDATE decisions SET reason = 'idle 5 s of 60 s'")
    older.close()
    query = {"from_s": past.begun_s, "to_s": past.wall_s + 1, "server": "web"}
    for path in ("states", "transitions", "decisions"):
        found = get(client, path, **query)
        told = {row["words"] for row in found.get("rows") or found["stretches"]}
        assert told == {"Idle 5 s of 60 s." if path == "decisions" else "Idle 63 s."}, path
    assert get(client, "wakes", **query)["rows"][0]["words"] == "Somebody is here."


def test_another_servers_states_are_not_shown(client: FlaskClient, past: Past) -> None:
    past.journal.transition("shop", State.UNKNOWN, State.AWAKE, HERE)
    query = {"from_s": past.begun_s, "to_s": past.wall_s + 9, "server": "web"}
    assert get(client, "states", **query)["stretches"] == []

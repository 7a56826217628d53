"""Hindsight: the estimator's functions over the recorded requests, and what is left out of them."""

import io
import json
import random
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from history_box import Box, ask
from naproxy.core import page_h
from naproxy.core.energy import Power, idealised
from naproxy.core.page_h import Outcome
from naproxy.history.read.recorded import Requests
from naproxy.history.tables import FILE
from naproxy.history.visits import NEEDED, PAGE_LOAD, SENT_AWAY
from naproxy.lab.estimate import hindsight
from naproxy.lab.estimate.cachemodel import RECORDED
from naproxy.lab.estimate.hindsight import NotEnoughError, Question, answer, without_returns
from naproxy.lab.estimate.lineup import Promise, Server
from naproxy.lab.estimate.simulate import Simulation
from naproxy.policy import timeout

SETUP = Server(Power(on_w=40.0, off_w=2.0, switch_j=200.0, proxy_w=5.0), wake_s=5.0, sleep_s=4.0)
PROMISE = Promise(0.1, 1.0)
SAID: dict[str, Any] = {
    "server": "web",
    "power": {"on_w": 40.0, "off_w": 2.0, "switch_j": 200.0, "proxy_w": 5.0},
    "wake_s": 5.0,
    "sleep_s": 4.0,
    "promise": {"f": 0.1, "delta_s": 1.0},
}


@pytest.fixture
def box(box: Box) -> Box:
    box.history.watch(["web"])
    return box


def live(box: Box, hours: float, chosen: random.Random) -> None:
    """Visits now and then, of which half of the requests need the server."""
    end_s = box.wall_s + 3600 * hours
    while box.wall_s < end_s:
        for client in range(chosen.randrange(1, 3)):
            for n in range(chosen.randrange(1, 6)):
                flags = page_h.E_PAGE_LOAD if n == 0 else 0
                flags |= page_h.E_NEEDED if chosen.random() < 0.5 else 0
                ask(box, client, Outcome.FETCH, flags=flags)
                wait(box, chosen.uniform(0.1, 2))
        wait(box, chosen.choice([20, 60, 300, 1800]))
    box.history.flush()


def wait(box: Box, wait_s: float) -> None:
    while wait_s > 0:
        step_s = min(wait_s, box.history.next_s)
        due = step_s == box.history.next_s
        box.pass_s(step_s)
        wait_s -= step_s
        if due:
            box.history.tick()


def open_(box: Box) -> sqlite3.Connection:
    return sqlite3.connect(box.directory / FILE)


def question(box: Box, **more: Any) -> Question:
    return Question.read({**SAID, "from_s": 0, "to_s": box.wall_s, **more})


def answered(box: Box, **more: Any) -> dict[str, Any]:
    with closing(open_(box)) as db:
        return answer(db, question(box, **more))


def row(found: dict[str, Any], policy: str) -> dict[str, Any]:
    return next(r for r in found["rows"] if r["policy"] == policy)


def test_nobody_beats_the_bounds(box: Box) -> None:
    live(box, 40, random.Random(3))
    found = answered(box)
    ideal = row(found, "idealised")["saving_gross"]
    reactive = row(found, "bound-reactive")["saving_gross"]
    assert 0 < reactive <= row(found, "bound-pre-wake")["saving_gross"] + 1e-9 <= ideal + 1e-6
    for each in found["rows"]:
        assert each["saving_gross"] <= ideal + 1e-9
    kept = [r for r in found["thresholds"] if r["delayed_fraction"] <= PROMISE.f]
    assert all(r["saving_gross"] <= reactive * 1.001 for r in kept)


def test_it_is_what_the_estimators_functions_say_of_the_same_requests(box: Box) -> None:
    live(box, 30, random.Random(5))
    found = answered(box)
    span = found["span"]
    with (
        closing(open_(box)) as db,
        hindsight.traffic_of(db, "web", span["from_s"], span["to_s"]) as traffic,
    ):
        simulation = Simulation(
            timeout.Timeout(timeout.Settings(idle_s=300.0)),
            RECORDED,
            wake_s=5.0,
            sleep_s=4.0,
            closed=True,
        )
        for chunk in traffic:
            simulation.feed(chunk)
    outcome = simulation.finish()
    five = row(found, "timeout-5m")
    assert five["energy_wh"] == pytest.approx(outcome.energy_j(SETUP.power) / 3600)
    assert five["delayed_fraction"] == pytest.approx(
        outcome.delayed(1.0, closed=True) / outcome.requests
    )
    assert outcome.span_s == pytest.approx(span["to_s"] - span["from_s"])
    at_five = next(r for r in found["thresholds"] if r["threshold_s"] == 300.0)
    assert at_five["energy_wh"] == five["energy_wh"]


def test_the_idealised_model_is_equation_4_4_over_the_needs(box: Box) -> None:
    for _ in range(30):
        ask(box, outcome=Outcome.FETCH, flags=page_h.E_NEEDED)
        wait(box, 300)
    box.history.flush()
    found = answered(box)
    times = idealised([300.0] * 30, 60.0)
    at_a_minute = next(r for r in found["thresholds"] if r["threshold_s"] == 60.0)
    always_j = 40.0 * (found["span"]["to_s"] - found["span"]["from_s"])
    saving_j = SETUP.power.saving_j(times.off_s, times.switches)
    assert at_a_minute["idealised_gross"] == pytest.approx(saving_j / always_j, rel=0.01)
    at_an_hour = next(r for r in found["thresholds"] if r["threshold_s"] == 3600.0)
    assert at_an_hour["idealised_gross"] == 0


NIGHT = {"since": "2000-01-01", "price_per_kwh": 0.4, "bands": ["mon-sun 22:00-06:00 0.2"]}


def test_what_it_would_have_cost_is_by_the_time_of_each_sleep(box: Box) -> None:
    live(box, 40, random.Random(3))
    asked = {"promise": {"f": 0.3, "delta_s": 1.0}, "time_zone": "UTC"}
    flat_rates = {"office": {"price_per_kwh": 0.4, "co2_g_per_kwh": 400}}
    flat = answered(box, **asked, rates=flat_rates)
    by_hour = answered(box, **asked, rates={"tariff": [NIGHT]})
    costs = flat["costs"]
    best = max(
        (each for each in flat["thresholds"] if each["delayed_fraction"] <= 0.3),
        key=lambda each: each["saving_gross"],
    )
    assert costs["timeout"]["threshold_s"] == best["threshold_s"]
    assert costs["timeout"]["energy_j"] == pytest.approx(3600 * best["energy_wh"])
    assert costs["idealised"]["energy_j"] == pytest.approx(
        3600 * row(flat, "idealised")["energy_wh"], rel=1e-3
    )
    for name in ("always", "timeout", "idealised"):
        kwh = costs[name]["energy_j"] / 3.6e6
        assert costs[name]["money"] == pytest.approx(0.4 * kwh)
        assert costs[name]["co2_g"] == pytest.approx(400 * kwh)
        found = by_hour["costs"][name]
        assert 0.2 * kwh < found["money"] < 0.4 * kwh
        assert found["co2_g"] is None


def test_where_no_timeout_keeps_the_promise_none_is_compared(box: Box) -> None:
    live(box, 20, random.Random(3))
    with closing(open_(box)) as db:
        asked = question(box, promise={"f": 0.0, "delta_s": 1.0})
        from_s, to_s, *_ = hindsight.span_of(db, "web", asked.from_s, asked.to_s)
        late = {"threshold_s": 60.0, "delayed_fraction": 0.1, "saving_gross": 0.5}
        with hindsight.traffic_of(db, "web", from_s, to_s) as traffic:
            found = hindsight.compared(traffic, [from_s, to_s], asked, [late])
    assert found["timeout"] is None
    assert found["always"]["energy_j"] == pytest.approx(40.0 * (to_s - from_s))


def test_a_pause_is_not_taken_for_a_quiet_time(box: Box) -> None:
    live(box, 5, random.Random(1))
    box.stop()
    box.pass_s(12 * 3600)
    box.start()
    box.history.watch(["web"])
    began_s = box.wall_s
    live(box, 20, random.Random(1))
    span = answered(box)["span"]
    assert span["from_s"] == pytest.approx(began_s, abs=60)
    assert span["watched_s"] == pytest.approx(span["to_s"] - span["from_s"] + 5 * 3600, abs=3600)


def test_of_too_many_requests_the_newest_are_taken(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(box, 30, random.Random(2))
    monkeypatch.setattr(hindsight, "MOST_REQUESTS", 100)
    span = answered(box)["span"]
    assert span["cut"]
    assert span["requests"] <= 100
    assert span["to_s"] == pytest.approx(box.wall_s, abs=60)


def test_too_little_is_said_in_words(box: Box) -> None:
    with closing(open_(box)) as db:
        with pytest.raises(NotEnoughError, match="no requests were recorded"):
            answer(db, question(box))
        wait(box, 1200)
        box.history.flush()
        with pytest.raises(NotEnoughError, match="less than an hour"):
            answer(db, question(box))


def test_what_the_waiting_page_asks_again_is_not_a_second_visit() -> None:
    found = Requests()
    rows = [
        (0.0, 1, PAGE_LOAD | NEEDED | SENT_AWAY),  # a person
        (2.0, 1, PAGE_LOAD | NEEDED | SENT_AWAY),  # the page comes back too early
        (3.0, 2, PAGE_LOAD | NEEDED),  # somebody else
        (6.0, 1, PAGE_LOAD | NEEDED),  # the page comes back
        (6.2, 1, NEEDED),  # what it embeds
        (9.0, 1, PAGE_LOAD | NEEDED),  # the person goes on
        (500.0, 3, PAGE_LOAD | NEEDED | SENT_AWAY),
        (900.0, 3, PAGE_LOAD | NEEDED),  # long after
    ]
    for t_s, client, flags in rows:
        found.t_s.append(t_s)
        found.client.append(client)
        found.flags.append(flags)
        found.waited_s.append(0)
    assert without_returns(found) == [0, 2, 4, 5, 6, 7]


def run(box: Box, said: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(said if isinstance(said, str) else json.dumps(said)))
        status = hindsight.main([str(box.directory)])
    out, err = capsys.readouterr()
    return status, out, err


def test_as_a_process_it_tells_how_far_it_is(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    live(box, 5, random.Random(1))
    status, out, err = run(box, {**SAID, "from_s": 0, "to_s": box.wall_s}, capsys)
    assert status == 0
    assert json.loads(out)["rows"]
    shares = [json.loads(line)["share"] for line in err.splitlines()]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_as_a_process_it_says_when_there_is_too_little_or_a_question_is_none(
    box: Box, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(box, {**SAID, "from_s": 0, "to_s": box.wall_s}, capsys)
    assert status == 0
    assert "no requests" in json.loads(out)["not_enough"]
    for said in (
        *("", "[]", "{}"),
        {**SAID, "from_s": 0, "to_s": 1, "policies": ["no-policy"]},
        {**SAID, "from_s": 0, "to_s": 1, "power": {"on_w": 1, "off_w": 2}},
        {**SAID, "from_s": 0, "to_s": 1, "wake_s": "soon"},
    ):
        status, out, err = run(box, said, capsys)
        assert (status, out) == (2, ""), said
        assert "hindsight" in err, said


def carded(box: Box, **more: Any) -> dict[str, Any]:
    with closing(open_(box)) as db:
        return hindsight.cards(db, question(box, **more))


def test_a_box_that_only_watched_says_what_each_choice_would_bring(box: Box) -> None:
    live(box, 40, random.Random(5))
    found = carded(box, price=0.3)
    assert (found["source"], found["days"]) == ("watched", pytest.approx(40 / 24, abs=0.05))
    hardly, few, first = found["choices"]
    assert hardly["waits_a_day"] < few["waits_a_day"] <= first["waits_a_day"]
    assert hardly["asleep_h_a_day"] < first["asleep_h_a_day"]
    assert first["money_a_year"] == pytest.approx(0.3 * first["kwh_a_year"])


@pytest.mark.parametrize("hours", [0, 23])
def test_choices_without_a_day_of_requests_are_an_examples(box: Box, hours: float) -> None:
    live(box, hours, random.Random(5))
    found = carded(box)
    assert (found["source"], round(found["days"])) == ("example", 14)
    assert [each["name"] for each in found["choices"]] == ["hardly", "few", "first"]


def test_an_example_is_of_this_server_and_box(box: Box) -> None:
    free = carded(box, power={**SAID["power"], "proxy_w": 0.0})["choices"]
    dear = carded(box, power={**SAID["power"], "proxy_w": 50.0})["choices"]
    assert [each["pays"] for each in dear] == [False] * 3
    for cheap, costly in zip(free, dear, strict=True):
        assert cheap["kwh_a_year"] - costly["kwh_a_year"] == pytest.approx(50 * 24 * 365 / 1000)

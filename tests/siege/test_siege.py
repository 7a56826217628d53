"""How the siege judges and what it draws; and one short attack, for real."""

import dataclasses
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from tests.siege import energy, verdict
from tests.siege.__main__ import ALL, attack
from tests.siege.attacks import sources
from tests.siege.energy import STRATEGIES
from tests.siege.fair import Visit, judged
from tests.siege.mutator import MOST, REQUESTS, scratches, spoilt
from tests.siege.place import place
from tests.simulator.office.namespace import ROOT

GOOD = Visit(
    kind="hit", id="fair-hit-1", due_s=10.0, took_s=0.002,
    status=200, retry_after=False, words=True, right=True,
)  # fmt: skip
POST = dataclasses.replace(GOOD, kind="post", id="fair-post-1")
REFUSED = dataclasses.replace(POST, status=503, retry_after=True, right=False)
HUNG_UP = dataclasses.replace(POST, status=0, words=False, right=False, error="hung up")


def answer(kind: str, data: bytes) -> Visit:
    return judged(kind, f"fair-{kind}-7", 1.0, 0.1, data)


def test_the_99th_percentile_is_that_of_the_slowest_hundredth() -> None:
    visits = [dataclasses.replace(GOOD, took_s=n / 1000) for n in range(1, 201)]
    told = verdict.latency(visits)
    assert (told["n"], told["p50_ms"], told["p99_ms"], told["max_ms"]) == (200, 100, 198, 200)


def test_who_is_not_served_took_as_long_as_he_would_have_waited() -> None:
    refused = dataclasses.replace(GOOD, status=503, right=False)
    told = verdict.latency([GOOD, refused])
    assert (told["max_ms"], told["not_served"]) == (5000.0, {"503": 1})


def test_only_what_was_due_while_it_lasted_counts() -> None:
    visits = [dataclasses.replace(GOOD, due_s=due_s) for due_s in (9.9, 10.0, 14.9, 15.0)]
    assert [visit.due_s for visit in verdict.during(visits, "hit", 10, 15)] == [10.0, 14.9]
    assert not verdict.during(visits, "status", 10, 15)


def test_a_form_arrives_once_or_is_refused_in_words() -> None:
    for visit, received, became in (
        (POST, 1, "arrived"),
        (POST, 2, "twice"),
        (POST, 0, "lost"),
        (REFUSED, 0, "refused"),
        (REFUSED, 1, "lost"),
        (dataclasses.replace(REFUSED, retry_after=False), 0, "lost"),
        (dataclasses.replace(REFUSED, words=False), 0, "lost"),
        (HUNG_UP, 0, "lost"),
        (HUNG_UP, 1, "lost"),
        (HUNG_UP, 2, "twice"),
    ):
        told = dataclasses.asdict(verdict.posts([visit], {visit.id: received}))
        seen = {name for name in ("arrived", "refused", "lost", "twice") if told[name]}
        assert seen == {became}, (visit, received)


def test_an_answer_cut_short_is_not_right() -> None:
    body = b"number=7"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    assert answer("post", head % len(body) + body).served
    assert not answer("post", head % (len(body) + 1) + body).served


def test_no_answer_has_no_status() -> None:
    assert (answer("hit", b"").status, answer("hit", b"").error) == (0, "hung up without an answer")
    assert answer("hit", b"\xff\0garbage").status == 0


def test_a_refusal_says_when_to_come_again() -> None:
    words = b"HTTP/1.1 503 Busy\r\nRetry-After: 5\r\n\r\n<p>Too many.</p>"
    assert answer("post", words).refused
    assert not answer("post", words.replace(b"Retry-After", b"X")).refused


def row(**changes: Any) -> dict[str, Any]:
    well = {"p99_ms": 3.0}
    return {
        "attack": "one",
        "during": {"hit": well, "status": well},
        "memory_mb": {"all": 100.0 + 128},
        "varnish": {"SMA.default.g_bytes": 128 * 2**20},
        "posts": {"lost": 0, "twice": 0},
        "panics": 0,
        **changes,
    }


def test_one_bad_attack_among_good_ones_misses_its_goal() -> None:
    assert all(each["met"] for each in verdict.goals([row(), row()]))
    for bad in (
        {"during": {"hit": {"p99_ms": 251.0}, "status": {"p99_ms": 3.0}}},
        {"during": {"hit": {"p99_ms": 3.0}, "status": {"p99_ms": 251.0}}},
        {"memory_mb": {"all": 161.0 + 128}},
        {"posts": {"lost": 1, "twice": 0}},
        {"posts": {"lost": 0, "twice": 1}},
        {"panics": 1},
    ):
        goals = verdict.goals([row(), row(**bad), row()])
        assert sum(not each["met"] for each in goals) == 1, bad


def test_one_address_or_200_and_a_network_of_ipv6() -> None:
    assert set(itertools.islice(sources(1), 500)) == {"203.0.113.1"}
    many = set(itertools.islice(sources(200), 5000))
    assert len({each for each in many if "." in each}) == 200
    assert {each.partition("::")[0] for each in many if ":" in each} == {"2001:db8:66:1"}


def test_the_mutator_spoils_the_same_way_for_the_same_seed() -> None:
    first, again, other = (
        list(itertools.islice(spoilt(seed, REQUESTS), 500)) for seed in (15, 15, 16)
    )
    assert first == again != other
    assert len(set(first)) > 480
    assert max(map(len, first)) <= MOST


def test_scratches_stay_within_the_file() -> None:
    for at, data in itertools.islice(scratches(1, 4096), 2000):
        assert 0 <= at < at + len(data) <= 4096


PAGE = ROOT / "docs/siege.md"


def test_the_page_says_what_each_attack_does() -> None:
    page = PAGE.read_text()
    for name in (*ALL, *(each.__name__ for each in STRATEGIES)):
        assert f"`{name}`" in page, name


def test_the_table_has_a_row_for_each_attack() -> None:
    posts = {"arrived": 49, "refused": 2, "lost": 0, "twice": 0}
    lines = verdict.table([row(name="one", addresses=200, posts=posts)]).splitlines()
    assert lines[2:] == ["| `one` | 200 | 3 ms | 3 ms | 100 MB | 49 | 2 |"]
    assert {line.count("|") for line in lines} == {8}


def test_who_costs_more_than_was_set_misses_the_goal() -> None:
    for cost_s, met in ((600.0, True), (609.9, True), (610.1, False)):
        rows = [
            {"strategy": "other", "rule": "any", "s_a_day": 1.0, "set_s": 600},
            {"strategy": "one", "rule": "any", "s_a_day": cost_s, "set_s": 600},
        ]
        assert [each["met"] for each in energy.goals(rows)] == [met], cost_s


def test_a_day_of_a_stranger_costs_his_share() -> None:
    rule = "timeout of 2 min"
    cost_s = energy.awake_s(energy.woken_again, rule, 1) - energy.awake_s(energy.nobody, rule, 1)
    assert 500 < cost_s <= 600 + energy.LATE_S


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One attack of three seconds, and what was measured."""
    if os.geteuid() != 0:
        pytest.skip("an office needs root")
    logs: Path = tmp_path_factory.mktemp("siege")
    with place(logs) as at:
        at.raise_the_firewall()
        return attack(at, "slow_bodies", 200, 3.0, 1, alone_s=0.3)


def test_an_attack_reaches_the_box_from_all_its_addresses(short: dict[str, Any]) -> None:
    assert short["attacker"]["connected"] > 500
    assert "EADDRNOTAVAIL" not in short["attacker"]


def test_nothing_of_the_others_is_lost_under_an_attack(short: dict[str, Any]) -> None:
    assert short["posts"]["sent"] > 10
    assert (short["posts"]["lost"], short["posts"]["twice"]) == (0, 0)
    assert short["panics"] == 0

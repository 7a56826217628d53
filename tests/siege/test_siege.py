"""How the siege judges and what it draws; and one short attack, for real."""

import dataclasses
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from tests.siege import verdict
from tests.siege.__main__ import ALL, attack
from tests.siege.energy import STRATEGIES
from tests.siege.fair import Visit, judged
from tests.siege.mutator import MOST, REQUESTS, spoilt
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


def test_who_is_not_served_took_as_long_as_he_would_have_waited() -> None:
    refused = dataclasses.replace(GOOD, status=503, right=False)
    told = verdict.latency([GOOD, refused])
    assert (told["max_ms"], told["not_served"]) == (5000.0, {"503": 1})


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


def test_the_mutator_spoils_the_same_way_for_the_same_seed() -> None:
    first, again, other = (
        list(itertools.islice(spoilt(seed, REQUESTS), 500)) for seed in (15, 15, 16)
    )
    assert first == again != other
    assert len(set(first)) > 480
    assert max(map(len, first)) <= MOST


PAGE = ROOT / "docs/siege.md"


def test_the_page_says_what_each_attack_does() -> None:
    page = PAGE.read_text()
    for name in (*ALL, *STRATEGIES):
        assert f"`{name}`" in page, name


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

"""What the attackers by HTTPS say, how their box is judged; and two short attacks, for real."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.__main__ import h2spec_cases, verdict
from tests.bench import edge
from tests.bench.floods import WAYS
from tests.bench.terminators import Running
from tests.siege.place import Place
from tests.simulator.office.namespace import ROOT


def row(**changes: Any) -> dict[str, Any]:
    return {
        "attack": "one", "name": "one", "addresses": 40, "ends": 0,
        "during": {"p50_ms": 4.0, "max_ms": 20.0, "not_served": {}},
        "memory_mb": {"all": 100.0}, "varnish": {"SMA.default.g_bytes": 0}, **changes,
    }  # fmt: skip


def test_one_bad_attack_among_good_ones_misses_its_goal() -> None:
    assert all(each["met"] for each in edge.goals([row(), row()]))
    for bad in (
        {"during": {"p50_ms": 4.0, "max_ms": 1100.0, "not_served": {}}},
        {"memory_mb": {"all": 161.0}},
        {"ends": 1},
    ):
        assert sum(not each["met"] for each in edge.goals([row(), row(**bad)])) == 1, bad


PAGE = ROOT / "docs/siege.md"


def test_the_page_says_what_each_attack_does() -> None:
    page = PAGE.read_text()
    for name in WAYS:
        assert f"`{name}`" in page, name


def test_of_h2specs_words_one_line_a_case_is_kept() -> None:
    said = "3. Frames\n    1: Sends one\n  ✔ 1: Sends one\n\n\n\nFinished in 0.1 s\n"
    kept = h2spec_cases(said + "1 tests, 1 passed\n")
    assert kept == "3. Frames\n  ✔ 1: Sends one\n\n1 tests, 1 passed\n"
    assert verdict(kept) == "1 tests, 1 passed"


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Running]]:
    if os.geteuid() != 0:
        pytest.skip("an office needs root")
    logs: Path = tmp_path_factory.mktemp("edge")
    with edge.besieged(logs) as made:
        yield made


def refused(seen: dict[str, Any]) -> list[str]:
    """Whom the box turned away; that a machine with other work was slow is not held against it."""
    assert seen["during"]["n"] > 10
    return [why for why in seen["during"]["not_served"] if "Timeout" not in why]


@pytest.mark.long
def test_a_flood_of_frames_reaches_haproxy_and_costs_others_nothing(
    besieged: tuple[Place, Running],
) -> None:
    seen = edge.attack(*besieged, "rapid_reset", 40, 3.0)
    assert seen["attacker"]["handshakes"] > 0
    assert seen["attacker"]["pieces"] > 10
    assert not refused(seen)
    assert seen["ends"] == 0


@pytest.mark.long
def test_idle_connections_reach_haproxy_and_leave_room_for_others(
    besieged: tuple[Place, Running],
) -> None:
    seen = edge.attack(*besieged, "idle_tls", 40, 3.0)
    assert seen["attacker"]["handshakes"] > 100
    assert not refused(seen)
    assert seen["ends"] == 0


@pytest.mark.long
def test_thousands_of_streams_do_not_all_reach_varnish(besieged: tuple[Place, Running]) -> None:
    seen = edge.attack(*besieged, "slow_bodies_h2", 40, 3.0)
    assert seen["attacker"]["handshakes"] >= 20  # of 100 streams each
    assert 300 <= seen["varnish"]["MAIN.sess_conn"] < 1500
    assert not refused(seen)

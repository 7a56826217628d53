"""What the attackers by HTTPS say, how their box is judged; and two short attacks, for real."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.__main__ import h2spec_cases, verdict
from tests.bench import edge, h2
from tests.bench.floods import WAYS, sources
from tests.bench.terminators import Running
from tests.siege.fair import Visit
from tests.siege.place import Place
from tests.simulator.office.namespace import ROOT

GOOD = Visit(
    kind="h2", id="fair-hit-1", due_s=10.0, took_s=0.002,
    status=200, retry_after=False, words=True, right=True,
)  # fmt: skip


def test_a_number_is_written_as_rfc_7541_has_it() -> None:
    # Its examples: appendix C.1.
    assert h2.integer(10, 5) == b"\x0a"
    assert h2.integer(1337, 5) == b"\x1f\x9a\x0a"
    assert h2.integer(42, 8) == b"\x2a"


def test_headers_are_written_as_rfc_7541_has_them() -> None:
    # Appendix C.2.1 and C.2.4.
    assert h2.literal("custom-key", "custom-header", index=True) == (
        b"\x40\x0acustom-key\x0dcustom-header"
    )
    assert h2.indexed(2) == b"\x82"


def test_frames_that_arrive_in_pieces_are_found() -> None:
    frames, sent = h2.Frames(), h2.settings({4: 1}) + h2.frame(h2.DATA, h2.END_STREAM, 7, b"ab")
    found = [each for byte in sent for each in frames.feed(bytes([byte]))]
    assert found == [(h2.SETTINGS, 0, 0, b"\0\x04\0\0\0\x01"), (h2.DATA, 1, 7, b"ab")]


def test_an_answers_status_is_read() -> None:
    for block, status in ((b"\x88", 200), (b"\x8d", 404), (b"\x08\x03503", 503), (b"\0\x01x", 0)):
        assert h2.status(block) == status, block


def test_attackers_come_from_as_many_addresses_as_are_said() -> None:
    for count in (1, 40, 1000):
        given = sources(count)
        assert len({next(given) for _ in range(3000)}) == count


def row(**changes: Any) -> dict[str, Any]:
    return {
        "attack": "one", "name": "one", "addresses": 40, "ends": 0,
        "during": {"p50_s": 0.004, "max_s": 0.02, "not_served": {}},
        "memory_mb": {"all": 100.0}, "varnish": {"SMA.default.g_bytes": 0}, **changes,
    }  # fmt: skip


def test_one_bad_attack_among_good_ones_misses_its_goal() -> None:
    assert all(each["met"] for each in edge.goals([row(), row()]))
    for bad in (
        {"during": {"p50_s": 0.004, "max_s": 1.1, "not_served": {}}},
        {"memory_mb": {"all": 161.0}},
        {"ends": 1},
    ):
        assert sum(not each["met"] for each in edge.goals([row(), row(**bad)])) == 1, bad


def test_who_is_not_answered_took_as_long_as_he_would_have_waited() -> None:
    refused = dataclasses.replace(GOOD, status=503, right=False)
    told = edge.answers([GOOD, refused])
    assert (told["n"], told["max_s"], told["not_served"]) == (2, 5.0, {"h2: 503": 1})


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

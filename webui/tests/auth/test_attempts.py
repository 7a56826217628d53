"""How often somebody may guess."""

from __future__ import annotations

import pytest
from conftest import Clock
from naproxy_webui.auth.attempts import FORGET_S, MOST_KEYS, Attempts, network


@pytest.fixture
def attempts(clock: Clock) -> Attempts:
    return Attempts(free=3, most_s=60.0, clock=clock)


def test_the_wait_doubles_up_to_its_most(attempts: Attempts, clock: Clock) -> None:
    waits = []
    for _ in range(12):
        wait_s = attempts.begin("a")
        waits.append(wait_s)
        clock.now_s += wait_s
        if wait_s:
            assert attempts.begin("a") == 0
    assert waits[:3] == [0, 0, 0]
    assert waits[3:9] == [1, 2, 4, 8, 16, 32]
    assert waits[9:] == [60, 60, 60]


def test_asking_while_one_waits_makes_it_no_longer(attempts: Attempts, clock: Clock) -> None:
    for _ in range(3):
        attempts.begin("a")
    for _ in range(50):
        assert attempts.begin("a") <= 1
    clock.now_s += 1
    assert attempts.begin("a") == 0


def test_a_success_refunds_only_its_own_attempt(attempts: Attempts) -> None:
    attempts.begin("a")
    attempts.begin("a")
    attempts.refund("a")
    assert [attempts.begin("a") for _ in range(2)] == [0, 0]
    assert attempts.begin("a") == 1
    attempts.refund("nobody")


def test_an_hour_later_it_is_forgotten(attempts: Attempts, clock: Clock) -> None:
    for _ in range(3):
        attempts.begin("a")
    clock.now_s += FORGET_S + 1
    assert [attempts.begin("a") for _ in range(3)] == [0, 0, 0]


def test_many_who_guess_take_no_more_memory(attempts: Attempts) -> None:
    for number in range(MOST_KEYS * 2):
        attempts.begin(str(number))
    assert len(attempts._known) == MOST_KEYS


def test_addresses_of_one_network_count_together() -> None:
    for address, whose in (
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("localhost", "localhost"),
        ("", ""),
        ("x" * 500, "x" * 64),
    ):
        assert network(address) == whose, address

"""The box's own energy, split among its servers by the hour: whatever comes and goes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from history_box import HOUR_S, Box
from naproxy.core.energy import Power
from naproxy.core.reason import own_words
from naproxy.core.state import State
from naproxy.history.read.cells import Source, cells
from naproxy.history.read.savings import Assumptions, Saved, saved, total
from naproxy.history.write import state_hours
from reading import answer

BOX_W = 5.0
ASSUMED = Assumptions(Power(on_w=43.0, off_w=2.0, switch_j=100.0, proxy_w=BOX_W), {})
MINUTE_S = 60


def managed(box: Box, server: str, yes: bool) -> None:
    """The box begins, or ends, to look after a server."""
    states = (State.UNKNOWN, State.AWAKE) if yes else (State.AWAKE, State.UNKNOWN)
    box.journal.transition(server, *states, own_words("x"))


@pytest.fixture
def box(box: Box) -> Box:
    """A box at the beginning of an hour that looks after one server."""
    box.pass_s(3600 - box.wall_s % 3600)
    managed(box, "web", True)
    return box


def pass_minutes(box: Box, minutes: int) -> None:
    box.pass_s(minutes * MINUTE_S)
    box.history.flush()
    box.history.tick()


def sums(box: Box, server: str) -> Saved:
    box.history.flush()
    found = answer(box, cells, Source(server), HOUR_S, int(box.wall_s) // 60 * 60)
    return total(saved(part, ASSUMED) for part in found)


def box_j(box: Box, servers: Sequence[str]) -> float:
    return sum(sums(box, name).box_j for name in servers)


def test_a_second_server_changes_nothing_about_the_hours_before_it(box: Box) -> None:
    pass_minutes(box, 300)
    before = sums(box, "web")
    assert before.box_j == pytest.approx(BOX_W * 300 * 60)
    managed(box, "shop", True)
    pass_minutes(box, 120)
    assert sums(box, "web").box_j == pytest.approx(before.box_j + BOX_W * 60 * 60)
    assert sums(box, "shop").box_j == pytest.approx(BOX_W * 60 * 60)


def test_a_renamed_server_takes_over_the_box_within_the_hour(box: Box) -> None:
    pass_minutes(box, 90)
    managed(box, "web", False)
    managed(box, "shop", True)
    pass_minutes(box, 90)
    assert sums(box, "web").box_j == pytest.approx(BOX_W * 90 * 60)
    assert sums(box, "shop").box_j == pytest.approx(BOX_W * 90 * 60)


def test_a_removed_server_keeps_its_share_and_the_others_carry_the_box_from_then_on(
    box: Box,
) -> None:
    managed(box, "shop", True)
    pass_minutes(box, 120)
    managed(box, "shop", False)
    pass_minutes(box, 120)
    assert sums(box, "shop").box_j == pytest.approx(BOX_W * 60 * 60)
    assert sums(box, "web").box_j == pytest.approx(BOX_W * 180 * 60)


def rolled_up(box: Box, without: str) -> None:
    """Add the hours up, and delete what is in this table."""
    box.journal.store.batch(lambda db: state_hours.roll_up(db, box.wall_s + 3600))
    box.journal.store.execute(f"DELETE FROM {without}")


def test_shares_stay_the_same_when_the_transitions_are_gone(box: Box) -> None:
    pass_minutes(box, 20)
    managed(box, "shop", True)
    pass_minutes(box, 100)
    managed(box, "web", False)
    pass_minutes(box, 60)
    before = [sums(box, name).box_j for name in ("web", "shop")]
    rolled_up(box, without="transitions")
    assert [sums(box, name).box_j for name in ("web", "shop")] == pytest.approx(before)


def test_two_servers_of_a_history_without_box_hours_share_each_hour(box: Box) -> None:
    managed(box, "shop", True)
    pass_minutes(box, 126)
    rolled_up(box, without="box_hours")
    assert box_j(box, ["web", "shop"]) == pytest.approx(BOX_W * 126 * 60)


@pytest.mark.parametrize("seed", range(3))
def test_the_shares_of_all_servers_add_up_to_the_box_in_any_history(box: Box, seed: int) -> None:
    chosen = random.Random(seed)
    names = ["web", "shop", "nas"]
    here = {"web"}
    managed_minutes = 0
    for _ in range(30):
        if name := chosen.choice([*names, ""]):
            managed(box, name, name not in here)
            here ^= {name}
        minutes = chosen.randrange(1, 100)
        managed_minutes += minutes if here else 0
        pass_minutes(box, minutes)
    assert box_j(box, names) == pytest.approx(BOX_W * managed_minutes * 60)

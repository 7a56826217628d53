"""The box's own energy, split among its servers by the hour: whatever comes and goes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from history_box import HOUR_S, Box
from naproxy.core.energy import Power
from naproxy.core.reason import own_words
from naproxy.core.state import State
from naproxy.history.read.cells import Source, cells
from naproxy.history.read.savings import Assumptions, Saved, saved, total
from naproxy.history.write import state_hours
from naproxy.history.write.reckoned import Reckoned
from naproxy.notify.figures import report
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


# Savings of all servers, those that were removed or renamed included


def configured(name: str) -> dict[str, Any]:
    """What the controller keeps of a server; each draws something else."""
    on_w = 30.0 + sum(map(ord, name)) % 20
    return {
        "meter": None,
        "power": {"on_w": on_w, "off_w": 2.0, "switch_j": 100.0},
        "fit": {},
        "proxy_w": BOX_W,
        "about": {
            **{"fraction": 0.05, "delta_s": 1.0, "policy": "teacher"},
            **{"wake_s": 5.0, "sleep_s": 4.0},
        },
    }


def reported(box: Box, here: Sequence[str], until_s: float) -> dict[str, Any]:
    """The figures of all servers, as the monthly mail has them."""
    box.history.flush()
    servers = [{"id": name, "box_meter": None, **configured(name)} for name in sorted(here)]
    job = {
        **{"servers": servers, "from_s": HOUR_S, "to_s": until_s, "now_s": box.wall_s},
        **{"proxy_w": BOX_W, "time_zone": "UTC"},
        **{"office": {"price_per_kwh": 0.3, "co2_g_per_kwh": 400.0}, "tariff": []},
    }
    found: dict[str, Any] = answer(box, report, job)
    return found


def sleeps(box: Box, name: str, state: State) -> State:
    """The server falls asleep or wakes."""
    other = State.ASLEEP if state == State.AWAKE else State.AWAKE
    box.journal.transition(name, state, other, own_words("x"))
    return other


@pytest.mark.parametrize("seed", range(2))
def test_past_savings_stay_the_same_when_servers_come_go_or_are_renamed(
    box: Box, seed: int
) -> None:
    chosen = random.Random(seed)
    reckoned = Reckoned(box.journal)
    states = {"web": State.AWAKE}
    unused = [f"server{n}" for n in range(40)]

    def manage(name: str, before: State, state: State) -> None:
        box.journal.transition(name, before, state, own_words("x"))

    reckoned.keep({"web": configured("web")}, box_meter=None, now_s=box.wall_s)
    for step in range(15):
        box.pass_s(3600 - box.wall_s % 3600)  # hours are the least that is split
        box.history.flush()
        now_s = int(box.wall_s)
        before = reported(box, list(states), now_s)
        act = chosen.choice(["add", "remove", "rename", "sleep", "sleep"])
        if act in ("remove", "rename") and states:
            gone = chosen.choice(sorted(states))
            manage(gone, states.pop(gone), State.UNKNOWN)
        if act in ("add", "rename") and len(states) < 5:
            states[unused.pop()] = State.AWAKE
            manage(list(states)[-1], State.UNKNOWN, State.AWAKE)
        if act == "sleep" and states:
            name = chosen.choice(sorted(states))
            states[name] = sleeps(box, name, states[name])
        if chosen.random() < 0.3:
            reckoned = Reckoned(box.journal)  # the controller begins anew
        kept = {name: configured(name) for name in states}
        reckoned.keep(kept, box_meter=None, now_s=box.wall_s)
        case = f"seed {seed}, step {step}: {act}"
        after = reported(box, list(states), now_s)
        for figure in ("net_j", "used_j", "box_j", "money", "asleep_s", "known_s"):
            assert after[figure] == pytest.approx(before[figure]), (case, figure)
        for _ in range(chosen.randrange(4)):
            pass_minutes(box, chosen.randrange(1, 60))
            if states and chosen.random() < 0.5:
                name = chosen.choice(sorted(states))
                states[name] = sleeps(box, name, states[name])

"""The whole box with a real server behind it: sleeps and wakes under replayed traffic."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from naproxy.core.classify import Agents
from naproxy.lab.replay.replay_report import summarise
from naproxy.lab.replay.replay_visit import Target
from naproxy.policy.thesis import Settings

from tests.guest.guest import GuestOffice
from tests.guest.image import BUILD
from tests.guest.power import WAKEUP
from tests.simulator.demo.stretch import choose
from tests.simulator.demo.visitors import Visitors
from tests.simulator.office.box import ADDRESS, HOST, VMOD
from tests.simulator.office.namespace import OfficeError
from tests.simulator.office.office import VISITORS

CYCLES = 10
LONGEST_S = 3600.0
AWAKE_S = 5.0
NOBODY_CAME_S = 30.0
"""Then the box is told to wake it."""


@pytest.fixture
def boxed(office: GuestOffice) -> Iterator[GuestOffice]:
    """The box runs, and has seen the guest awake."""
    assert (VMOD / "libvmod_naproxy.so").exists(), "the VMOD is not built: make build"
    office.box.start()
    try:
        office.box.await_state("awake", 60)
        yield office
    finally:
        office.box.stop()


def cycle(office: GuestOffice) -> dict[str, float | bool]:
    power = office.server.power
    assert power
    woke = power.count(WAKEUP)
    slept_s = office.put_to_sleep()
    try:
        woke_s = power.wait(WAKEUP, woke + 1, NOBODY_CAME_S)
        visitor = True
    except OfficeError:
        visitor = False
        office.box.api("POST", "/v1/servers/web/wake", {})
        woke_s = power.wait(WAKEUP, woke + 1)
    office.box.await_state("awake", 60)
    # The box by itself would let it be awake for longer; waiting pages must get to return.
    time.sleep(AWAKE_S)
    return {"asleep_s": woke_s - slept_s, "by_a_visitor": visitor}


def test_ten_cycles_under_traffic_lose_nothing(boxed: GuestOffice) -> None:
    guest = boxed.server
    assert guest.power
    suspends, woken = guest.suspends(), guest.power.woken
    stretch = choose(None, Settings(min_awake_s=10.0, fraction=1.0), LONGEST_S)
    target = Target(ADDRESS, 80, HOST, run="guest", bind=ip_network(VISITORS))
    visitors = Visitors(boxed.client, target, stretch.plan())
    visitors.start()
    cycles = [cycle(boxed) for _ in range(CYCLES)]
    visitors.leave()
    assert visitors.left(120), "the visitors did not end"
    figures = summarise(visitors.visits, Agents().klass)
    report(stretch.name, cycles, figures)
    assert figures["lost"] == 0, figures["lost_why"]
    assert figures["errors"] == 0
    assert figures["requests"] > CYCLES
    assert any(cycle["by_a_visitor"] for cycle in cycles)
    assert guest.suspends() == suspends + CYCLES
    assert guest.power.woken == woken + CYCLES
    seen = Counter(one["id"] for one in guest.requests() if one["id"].startswith("guest-"))
    assert seen
    assert max(seen.values()) == 1


def report(log: str, cycles: list[dict[str, Any]], figures: dict[str, Any]) -> None:
    """Print what happened, and keep it in build/guest/traffic.json."""
    served = figures["delays"]["served"]
    print(
        f"\n{log}: {figures['requests']} requests, {figures['lost']} lost, "
        f"{figures['held']} held, {figures['waiting_pages']['shown']} waiting pages, "
        f"{figures['crawler_503']} robots sent away; delay p50 {served['p50_s']:.3f} s, "
        f"max {served['max_s']:.2f} s"
    )
    for i, each in enumerate(cycles, 1):
        by = "a visitor" if each["by_a_visitor"] else "the box's command"
        print(f"cycle {i:>2}: slept {each['asleep_s']:6.2f} s, woken for {by}")
    result = {"log": log, "cycles": cycles, "traffic": figures}
    (BUILD / "traffic.json").write_text(json.dumps(result, indent=2) + "\n")

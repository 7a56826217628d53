"""The estimator's simulator and the box agree: same requests, same transitions, same delayed.

By default a made stretch of two minutes. AGREE_S=1200 takes so many seconds of a real log that
lies beside the project instead (the quiet hours of its second day): the same comparison, longer.
"""

import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from naproxy.accesslog import Log
from naproxy.cachemodel import CACHES, NEVER
from naproxy.classify import Agents
from naproxy.policy import timeout
from naproxy.policy.base import Klass, State
from naproxy.simulate import Simulation
from naproxy.traffic import Chunk

from tests.e2e.clients import ASSET, CRAWLER, PERSON, PROGRAM, Answer, ask, fresh
from tests.office import Office
from tests.office.box import toml
from tests.office.namespace import ROOT

IDLE_S = 8.0
BOARD = {"sleep_s": 2.0, "wake_s": 2.0}
LOG = ROOT.parent / "shared/logs/bpgov.log.gz"
AGREE_S = int(os.environ.get("AGREE_S", "0"))
WAITED = ("held", "waiting_page")
WITHIN_S = 1.0

Due = tuple[float, str]
"""Seconds from the start, and who asks."""

KINDS = {"person": PERSON, "asset": ASSET, "program": PROGRAM, "crawler": CRAWLER}


def made() -> list[Due]:
    """Visits with gaps around the idle time, and crawlers all the time."""
    chance = random.Random(5)
    due: list[Due] = [(float(t), "crawler") for t in range(3, 120, 7)]
    t_s = 0.0
    while t_s < 120:
        due += [(t_s, "person"), (t_s + 0.4, "asset"), (t_s + 0.8, "program")]
        t_s += chance.choice((3.0, 6.0, 14.0, 18.0, 25.0)) + chance.random()
    return sorted(due)


def logged(path: Path, seconds: int) -> list[Due]:
    """A stretch of a log from 2:00 on its second day; what kind asks by its agent."""
    agents, due = Agents(), []
    begin_s = 0
    for entry in Log([path]):
        begin_s = begin_s or (entry.t_s // 86400 + 1) * 86400 + 2 * 3600
        if entry.t_s >= begin_s + seconds:
            break
        if entry.t_s >= begin_s:
            klass = agents.klass(entry.agent)
            kind = "crawler" if klass.robot else "program" if klass is Klass.API else "person"
            due.append((float(entry.t_s - begin_s), kind))
    return due


def replay(office: Office, due: list[Due]) -> list[tuple[str, Answer]]:
    """Ask for something new each time, at the right moment."""
    begin_s = time.monotonic() + 1.0
    answers = []
    with ThreadPoolExecutor(64) as pool:
        for t_s, kind in due:
            time.sleep(max(0.0, begin_s + t_s - time.monotonic()))
            answers.append((kind, pool.submit(ask, office.client, fresh(), headers=KINDS[kind])))
    return [(kind, answer.result()) for kind, answer in answers]


def simulate(
    answers: list[tuple[str, Answer]], end_s: float, sleep_s: float, wake_s: float
) -> tuple[list[tuple[float, State]], Simulation]:
    """The same requests at the times they were sent, through the simulator."""
    chunk = Chunk()
    klass = {"crawler": Klass.CRAWLER, "program": Klass.API}
    for n, (kind, answer) in enumerate(sorted(answers, key=lambda a: a[1].began_s)):
        chunk.t_s.append(answer.began_s)
        chunk.client.append(n)
        chunk.path.append(n)
        chunk.klass.append(klass.get(kind, Klass.PERSON))
        chunk.flags.append(0)
        chunk.age_s.append(NEVER)
    # So that time passes to the end of what the box did.
    chunk.t_s.append(end_s)
    for column in (chunk.client, chunk.path, chunk.flags):
        column.append(0)
    chunk.klass.append(Klass.CRAWLER)
    chunk.age_s.append(NEVER)
    simulation = Simulation(
        timeout.Timeout(timeout.Settings(idle_s=IDLE_S)),
        CACHES["none"],
        wake_s=wake_s,
        sleep_s=sleep_s,
        record=True,
    )
    simulation.feed(chunk)
    simulation.finish()
    assert simulation.transitions is not None
    return simulation.transitions, simulation


def durations(moves: list[tuple[float, str]], state: str) -> float:
    """How long the server was in a state on average."""
    stays = [after - before for (before, name), (after, _) in pairwise(moves) if name == state]
    return sum(stays) / len(stays)


def test_box_and_simulator_agree(office: Office) -> None:
    if AGREE_S and not LOG.exists():
        pytest.skip(f"the real logs are not here: {LOG.parent}")
    due = logged(LOG, AGREE_S) if AGREE_S else made()
    office.server.board.configure(**BOARD)
    config = office.box.default_config()
    config["server"][0]["policy"] = {"name": "timeout", "idle_s": IDLE_S}
    office.box.api("PUT", "/v1/config", toml(config).encode())
    begun_s = time.time()
    answers = replay(office, due)
    end_s = time.monotonic()
    # The journal has the wall clock.
    ahead_s = time.time() - time.monotonic()
    moves = [
        (row["t_s"] - ahead_s, row["to"])
        for row in reversed(office.box.transitions())
        if row["t_s"] >= begun_s
    ]
    assert all(not answer.error for _, answer in answers)
    names = [name for _, name in moves]
    assert names.count("waking") >= 4, "the stretch must have something to compare"
    expected, simulation = simulate(
        answers, end_s, durations(moves, "falling_asleep"), durations(moves, "waking")
    )

    # The box sees what the simulator knows: a state may last a probe longer or shorter.
    seen = [(t_s, name) for t_s, name in moves if name in ("falling_asleep", "waking", "awake")]
    told = [(t_s, state.name.lower()) for t_s, state in expected if state is not State.ASLEEP]
    assert [name for _, name in seen] == [name for _, name in told]
    for (box_s, name), (simulated_s, _) in zip(seen, told, strict=True):
        assert box_s == pytest.approx(simulated_s, abs=WITHIN_S), name

    waited = {
        answer.request_id: answer
        for kind, answer in answers
        if answer.headers["x-naproxy"] in WAITED and kind != "crawler"
    }
    simulated = sum(simulation.outcome.waits_ms.values())
    # Named cases: who asks within a probe of the moment at which the server is up.
    ups = [t_s for t_s, name in seen if name == "awake"]
    close = sum(any(abs(answer.began_s - up_s) < WITHIN_S for up_s in ups) for _, answer in answers)
    sys.stdout.write(
        f"{len(answers)} requests, {len(seen)} transitions, {len(waited)} waited in the box,"
        f" {simulated} in the simulator, {close} close to a wake's end\n"
    )
    assert abs(len(waited) - simulated) <= close

"""The estimator's simulator and the box agree: same requests, same transitions, same delayed.

By default a made stretch of some minutes, in which some files are asked for again: what the box's
cache answers, fresh or frozen, the simulated cache must, and both learn for themselves what to ask
after before a sleep. AGREE_S=1200 takes so many seconds of a real log that lies beside the project
instead (the quiet hours of its second day): the same comparison, longer.

Two cases are named and may differ. A *close call*: a pause within UNSURE_S of the idle time,
where the box, which hears of a request when it has ended, may decide either way; so what the
simulator does with an idle time that much shorter and longer is allowed, too. And *at the edge*:
a request within WITHIN_S of a transition, which the box and the client see at other moments.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from naproxy.core.classify import Agents
from naproxy.core.energy import Power
from naproxy.core.state import Klass, State
from naproxy.lab.estimate.accesslog import Log
from naproxy.lab.estimate.boxcache import NOT_KEPT, BoxModel, Keeps, PathRule
from naproxy.lab.estimate.boxsimulation import BoxSimulation
from naproxy.lab.estimate.traffic import Chunk
from naproxy.lab.replay.replay_visit import became
from naproxy.policy.base import Request
from naproxy.policy.timeout import Settings, Timeout

from tests.e2e.clients import ASSET, CRAWLER, PERSON, PROGRAM, Answer, ask, fresh
from tests.simulator.office import Office
from tests.simulator.office.box import toml
from tests.simulator.office.namespace import ROOT

AGREE_S = int(os.environ.get("AGREE_S", "0"))
# Logs have whole seconds: with whole numbers here, too, every other request would be a close call.
IDLE_S, WAKE_S = (8.4, 2.3) if AGREE_S else (8.0, 2.0)
BOARD = {"sleep_s": 2.0, "wake_s": WAKE_S}
LOG = ROOT.parent / "shared/logs/bpgov.log.gz"
WAITED = ("held", "waiting_page")
SEEN = ("falling_asleep", "waking", "awake")
"""Transitions that both know at once; `asleep` is seen some probes later."""
WITHIN_S = 1.0
UNSURE_S = 0.75

MADE_S = 180
KEEP_S = 12
"""How long a file is fresh: past the idle time, but not over a sleep."""
FILES = "/images/"
KEEPS = Keeps([PathRule(FILES, keep_s=KEEP_S)])
BOX = BoxModel("box", frozen=True, warm=True, keeps=KEEPS)


class Due(NamedTuple):
    """Who asks, how many seconds after the start: for a file, or for something new."""

    t_s: float
    kind: str
    file: str = ""
    visitor: int = 1  # another agent, which makes another client of the box


Move = tuple[float, str]
"""When, and which state began."""

KINDS = {"person": PERSON, "asset": ASSET, "program": PROGRAM, "crawler": CRAWLER}


class Course(NamedTuple):
    """What happened, in the box or in the simulator."""

    moves: list[Move]
    waited: set[int]  # numbers of the requests that had to wait


class Times(NamedTuple):
    """How long a server takes, in seconds."""

    sleep_s: float
    wake_s: float


class _Listener(Timeout):
    """The policy, which also notes who was told to have waited."""

    def __init__(self, idle_s: float) -> None:
        super().__init__(Settings(idle_s=idle_s))
        self.waited: set[float] = set()

    def request(self, request: Request) -> None:
        super().request(request)
        if request.delay_s > 0:
            self.waited.add(request.t_s)


def made() -> list[Due]:
    """Visits with gaps around the idle time, and crawlers all the time."""
    chance = random.Random(5)
    due = [Due(float(t), "crawler", visitor=0) for t in range(3, MADE_S, 7)]
    t_s, visitor = 0.0, 2
    while t_s < MADE_S:
        if chance.random() < 0.5:
            # Half of the visits need nothing but files, which the cache may have.
            due += [Due(t_s, "person"), Due(t_s + 0.4, "asset")]
            due.append(Due(t_s + 0.8, "program", visitor=2))
        visitor += 1
        due += [
            Due(t_s + 0.2 + n / 5, "asset", f"{FILES}{n + 1:03}.png", visitor) for n in range(2)
        ]
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
            visitor = {"crawler": 0, "person": 1, "program": 2}[kind]
            due.append(Due(float(entry.t_s - begin_s), kind, visitor=visitor))
    return due


def replay(office: Office, due: list[Due]) -> list[tuple[Due, Answer]]:
    """Ask for a file, or something new, at the right moment; returned in the order they began."""
    begin_s = time.monotonic() + 1.0
    answers = []
    with ThreadPoolExecutor(64) as pool:
        for each in due:
            time.sleep(max(0.0, begin_s + each.t_s - time.monotonic()))
            headers = dict(KINDS[each.kind])
            if each.visitor > 2:
                headers["User-Agent"] += f" {each.visitor}"
            path = each.file or fresh()
            answers.append((each, pool.submit(ask, office.client, path, headers=headers)))
    made = [(each, answer.result()) for each, answer in answers]
    return sorted(made, key=lambda each: each[1].began_s)


class Recorded(BoxSimulation):
    """Keeps the transitions; a server that falls asleep wakes once it sleeps."""

    def __init__(self, *what: Any, **how: Any) -> None:
        super().__init__(*what, **how)
        self.transitions: list[tuple[float, State]] = []

    def _enter(self, t_s: float, state: State) -> None:
        super()._enter(t_s, state)
        up_s = self._until_s - self._wake_s
        self.transitions.append((up_s if state is State.WAKING else t_s, state))


def simulate(
    answers: list[tuple[Due, Answer]], span: tuple[float, float], times: Times, idle_s: float
) -> Course:
    """Return what the simulator does with the same requests at the times they were sent.

    `span` is from when the box's policy began, with the server awake, to when it was left.
    """
    chunk = Chunk()
    klass = {"crawler": Klass.CRAWLER, "program": Klass.API}
    rows = [(answer.began_s, each) for each, answer in answers]
    # The policy is idle from its begin on, as after a request; a robot lets time pass to the end.
    begin, end = (span[0], Due(0.0, "person")), (span[1], Due(0.0, "crawler"))
    for n, (t_s, due) in enumerate([begin, *rows, end]):
        keep = KEEPS.of(due.file, static=True, status=200, size=1000) if due.file else NOT_KEPT
        path = crc32(due.file.encode()) if due.file else n
        chunk.append(t_s, due.visitor, path, klass.get(due.kind, Klass.PERSON), keep=keep)
    policy = _Listener(idle_s)
    simulation = Recorded(policy, BOX, Power(), 0.01, **times._asdict())
    simulation.feed(chunk)
    simulation.finish()
    moves = [(t_s, state.name.lower()) for t_s, state in simulation.transitions]
    waited = {n for n, (t_s, _) in enumerate(rows) if t_s in policy.waited}
    return Course([move for move in moves if move[1] in SEEN], waited)


def has(moves: list[Move], move: Move, within_s: float) -> bool:
    """Is this transition among the others, at about its time?"""
    return any(name == move[1] and abs(t_s - move[0]) <= within_s for t_s, name in moves)


def durations(moves: list[Move], state: str) -> float:
    """How long the server was in a state on average."""
    stays = [after - before for (before, name), (after, _) in pairwise(moves) if name == state]
    return sum(stays) / len(stays)


def observe(office: Office, due: list[Due]) -> tuple[list[tuple[Due, Answer]], list[Move]]:
    """Replay in the box; return the answers and all transitions, in monotonic time."""
    begun_s = time.time()
    answers = replay(office, due)
    # The journal has the wall clock.
    ahead_s = time.time() - time.monotonic()
    rows = reversed(office.box.transitions())
    return answers, [(row["t_s"] - ahead_s, row["to"]) for row in rows if row["t_s"] >= begun_s]


def odd_waits(box: Course, courses: list[Course]) -> Iterator[int]:
    """Requests that wait in the box and never in the simulator, or the other way round."""
    always = set.intersection(*(course.waited for course in courses))
    ever = set.union(*(course.waited for course in courses))
    yield from sorted((always - box.waited) | (box.waited - ever))


def test_box_and_simulator_agree(office: Office) -> None:
    if AGREE_S and not LOG.exists():
        pytest.skip(f"the real logs are not here: {LOG.parent}")
    due = logged(LOG, AGREE_S) if AGREE_S else made()
    office.server.board.configure(**BOARD)
    config = office.box.default_config()
    config["server"][0]["policy"] = {"name": "timeout", "idle_s": IDLE_S}
    config["server"][0]["cache"] = {"mode": "frozen"}
    config["cache_rule"] = [{"path": FILES, "keep_s": KEEP_S}]
    office.box.api("PUT", "/v1/config", toml(config).encode())
    begin_s = time.monotonic()
    answers, moves = observe(office, due)
    end_s = time.monotonic()
    assert all(not answer.error for _, answer in answers)
    box = Course(
        [move for move in moves if move[1] in SEEN],
        {
            n
            for n, (each, answer) in enumerate(answers)
            if each.kind != "crawler" and became(answer.headers) in WAITED
        },
    )
    # The box sees what the simulator is told: how long this server takes.
    times = Times(durations(moves, "falling_asleep"), durations(moves, "waking"))
    told, sooner, later = courses = [
        simulate(answers, (begin_s, end_s), times, idle_s)
        for idle_s in (IDLE_S, IDLE_S - UNSURE_S, IDLE_S + UNSURE_S)
    ]
    sure = [
        move
        for move in told.moves
        if all(has(other.moves, move, UNSURE_S + 0.1) for other in (sooner, later))
    ]
    odd = list(odd_waits(box, courses))
    files = [n for n, (each, _) in enumerate(answers) if each.file]
    hits = [n for n in files if n not in box.waited]
    frozen = [n for n in hits if became(answers[n][1].headers) == "frozen"]
    sys.stdout.write(
        f"{len(answers)} requests; transitions: {len(box.moves)} in the box, {len(told.moves)} in"
        f" the simulator, {len(told.moves) - len(sure)} of them close calls; waited:"
        f" {len(box.waited)} in the box, {len(told.waited)} in the simulator;"
        f" {len(hits)} files did not wait, {len(frozen)} of them frozen\n"
    )
    edges = {}
    for n in odd:
        each, answer = answers[n]
        near_s, name = min((abs(answer.began_s - t_s), name) for t_s, name in box.moves)
        edges[n] = near_s
        how = became(answer.headers)
        what = each.file or each.kind
        sys.stdout.write(f"{what}, {how} in the box, asked {near_s:.2f} s from {name}\n")

    assert sum(name == "waking" for _, name in sure) >= 4, "there must be something to compare"
    assert AGREE_S or len(frozen) >= 2, "the cache must have something to do"
    assert [move for move in sure if not has(box.moves, move, WITHIN_S)] == []
    every = [move for course in courses for move in course.moves]
    assert [move for move in box.moves if not has(every, move, WITHIN_S)] == []
    assert [n for n, near_s in edges.items() if near_s > WITHIN_S] == []
    assert len(odd) <= max(2, len(told.waited) // 20), "they are to be a few"

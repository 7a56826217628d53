"""Days with somebody hostile: the controller's own runner, page and shares, in virtual time.

Only the door is a model: what Varnish and the VMOD make of a request, by the same page.
"""

import asyncio
import heapq
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, cycle
from pathlib import Path
from typing import Final

import pytest
from naproxy.controller.context import BoxContext
from naproxy.controller.sharing import Spent
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import Klass, State
from naproxy.history.write.journal import Journal
from naproxy.server.shares import Shares
from naproxy.shm.events import Event
from naproxy.shm.page import Page

from tests.simulator.past import clock, house
from tests.simulator.past.board import Board, Mishaps

START_S: Final = 1_794_700_800.0  # a Sunday, 0:00 UTC
DAY_S: Final = 86400.0
DAYS: Final = 2
"""Each of them begins with new shares."""
WEEK: Final = 7
CONFIG: Final = """
[[server]]
id = "web"
address = "127.0.0.1"
mac = "02:00:5e:10:00:02"
armed = true
[server.sleep]
driver = "ssh"
[server.ready]
check_mac = false
asleep_interval_s = 60
"""
LIMITLESS: Final = "[server.share]\nstrangers_cost = 0\n"
BUDGET: Final = 0.10
"""The default, in a day."""
PATIENT: Final = '[server.policy]\nname = "timeout"\nidle_s = 7200\n'
USUAL: Final = '[server.policy]\nname = "timeout"\nidle_s = 120\n'
SOON_S: Final = 900.0
ADDRESS, NETWORK = 7, 8
"""The stranger's."""


@dataclass(order=True)
class Doing:
    """Somebody asks at a time, and his request lasts so long once it is at the server."""

    t_s: float
    lasts_s: float = field(compare=False, default=0.2)
    address: int = field(compare=False, default=ADDRESS)
    network: int = field(compare=False, default=NETWORK)
    robot: bool = field(compare=False, default=False)
    program: bool = field(compare=False, default=False)
    embeds: bool = field(compare=False, default=False)
    """A browser that loads what the page embeds, and follows the waiting page."""
    again: bool = field(compare=False, default=False)

    @property
    def klass(self) -> Klass:
        return Klass.CRAWLER if self.robot else Klass.API if self.program else Klass.PERSON


@dataclass
class Lived:
    """What came of it."""

    awake_s: float = 0.0
    """Awake or waking."""
    spent: set[int] = field(default_factory=set)
    """Addresses that were refused because they were over a share."""
    waited_s: dict[int, list[float]] = field(default_factory=dict)
    cost: float = 0.0
    """What strangers have cost at most in a day, in the office's currency."""
    """What each address waited for the server."""


class _Page(Page):
    """Adds up the time awake."""

    lived: Lived
    entered: Callable[[], None]

    def set_state(self, index: int, state: int, t_us: int) -> int:
        record = self.server(index)
        if record.state in (State.AWAKE, State.WAKING):
            self.lived.awake_s += (t_us - max(record.since_us, int(1e6 * clock.START_S))) / 1e6
        found = super().set_state(index, state, t_us)
        self.entered()
        return found


class _Door:
    """Varnish and the VMOD: lets in, holds, refuses; who is in flight stands in the page."""

    def __init__(self, shared: _Page, lived: Lived) -> None:
        self.ended: list[Event] = []
        self.wake: Callable[[WakeRequest], None] = print
        self._page, self._lived = shared, lived
        self._held: list[tuple[Doing, float, int]] = []
        self._rows = list(range(page_h.CLIENTS))
        self._numbers = count(1)
        shared.entered = self.enter

    @property
    def _state(self) -> State:
        return State(self._page.server(0).state)

    def enter(self) -> None:
        """Let in who waited, when the server is awake."""
        if self._state is State.AWAKE:
            held, self._held = self._held, []
            for doing, since_s, place in held:
                self._let_in(doing, since_s, place, Outcome.HELD)

    def ask(self, doing: Doing) -> None:
        if self._state in (State.AWAKE, State.UNKNOWN, State.TROUBLE):
            self._let_in(doing, time.monotonic(), self._note(doing), Outcome.FETCH)
        elif self._over(doing):
            self._heard(doing, time.monotonic(), Outcome.SPENT, page_h.E_NEEDED | page_h.E_SPENT)
            if doing.embeds and not doing.again:
                self._follow(doing)
            else:
                self._lived.spent.add(doing.address)
        else:
            # A robot's, too: what it asks for here is never refused, as a POST.
            self._held.append((doing, time.monotonic(), self._note(doing)))
            reason = ("pass", "POST") if doing.robot else ("page", "GET")
            self.wake(WakeRequest("192.0.2.7", *reason))

    def _follow(self, doing: Doing) -> None:
        """As the page's script does: ask how the server is, and load the page again."""
        loop, now_s = asyncio.get_running_loop(), time.monotonic()
        loop.call_later(2.0, self._heard, doing, now_s + 2, Outcome.STATUS, 0)
        loop.call_later(7.0, self.ask, replace(doing, again=True))

    def _over(self, doing: Doing) -> bool:
        who = {doing.address, doing.network}
        person = doing.klass is Klass.PERSON
        slots = self._page.layout.spent
        if self._page.server(0).spent_mask >> doing.klass & 1:
            shown = any(s.who == doing.address and s.servers >> page_h.SHOWN & 1 for s in slots)
            return not (person and shown)
        return any(
            slot.who in who and (slot.servers | (0 if person else slot.programs)) & 1
            for slot in slots
        )

    def _note(self, doing: Doing) -> int:
        place = self._rows.pop()
        row = self._page.layout.client[place]
        row.address, row.network, row.in_flight = doing.address, doing.network, 1
        row.people[0], row.robots[0] = doing.klass is Klass.PERSON, doing.robot
        row.programs[0] = doing.klass is Klass.API
        return place

    def _let_in(self, doing: Doing, since_s: float, place: int, outcome: Outcome) -> None:
        waited_s = time.monotonic() - since_s
        self._lived.waited_s.setdefault(doing.address, []).append(waited_s)
        self._page.server(0).fetching_now += 1
        loop = asyncio.get_running_loop()
        loop.call_later(doing.lasts_s, self._end, doing, since_s, outcome, place)

    def _end(self, doing: Doing, since_s: float, outcome: Outcome, place: int) -> None:
        row = self._page.layout.client[place]
        row.address = row.network = row.in_flight = 0
        row.people[0] = row.robots[0] = row.programs[0] = 0
        self._rows.append(place)
        self._page.server(0).fetching_now -= 1
        flags = page_h.E_NEEDED | (page_h.E_SPENT if self._over(doing) else 0)
        self._heard(doing, since_s, outcome, flags)
        if doing.embeds:
            self._heard(doing, since_s + 0.1, Outcome.HIT, 0, page=False)

    def _heard(
        self, doing: Doing, since_s: float, outcome: Outcome, flags: int, *, page: bool = True
    ) -> None:
        waited_ms = 5000 if outcome is Outcome.HELD else 0
        if page and doing.lasts_s < 1 and doing.klass is Klass.PERSON:
            flags |= page_h.E_PAGE_LOAD
        self.ended.append(
            Event(
                *(next(self._numbers), int(1e6 * since_s), doing.address, 8 + page, waited_ms),
                *(0, 0, doing.klass, outcome, flags, 200, 0, doing.address, doing.network),
            )
        )


def far_from_its_end(shares: Shares) -> bool:
    """Will no share end soon? Then a look each quarter of a second would find nothing new."""
    return all(
        accounts.limit.awake_s - account.awake_s > SOON_S
        for accounts in shares._all
        for who, account in accounts._accounts.items()
        if accounts.limit.awake_s and who not in accounts.over
    )


def live(directory: Path, text: str, doings: Iterable[Doing], days: float = DAYS) -> Lived:
    """Live for some days with these requests."""
    now = clock.Clock(START_S)
    lived = Lived()

    async def inside() -> None:
        shared = _Page(directory)
        shared.lived = lived
        door = _Door(shared, lived)
        journal = Journal(directory, clock=now.wall)
        day = lambda: int(now.wall() // DAY_S)  # noqa: E731 - the office's
        box = BoxContext(shared, journal, now.epoch_s, day=day, look=house.nobody_around)
        house._Executor.board = Board(now.wall, random.Random(1), Mishaps())
        runner = house._Runner(box, 0, house.configured(CONFIG + text), "none")
        door.wake = runner.wake
        spent = Spent(shared)
        loop = asyncio.get_running_loop()

        def beat() -> None:
            ended, door.ended = door.ended, []
            runner.decider.heard(ended, fresh=True)
            runner.decider.account()
            spent.tell({0: runner.executor.sharing.shares})
            lived.cost = max(lived.cost, runner.executor.sharing.shares.cost)
            asleep = runner.machine.state is State.ASLEEP
            shares = runner.executor.sharing.shares
            loop.call_later(2.0 if asleep or far_from_its_end(shares) else 0.25, beat)

        runner.start()
        beat()
        for doing in doings:
            if doing.t_s >= days * DAY_S:
                break
            await asyncio.sleep(max(0.0, START_S + doing.t_s - now.wall()))
            door.ask(doing)
        await asyncio.sleep(START_S + days * DAY_S - now.wall())
        runner.stop(why=Reason("server.stopped"))
        journal.close()

    with now.installed(), asyncio.Runner(loop_factory=lambda: clock.loop(now)) as runner:
        runner.run(inside())
    return lived


def over_and_over(
    every_s: float, lasts_s: float, robots: tuple[bool, ...], *, program: bool = True
) -> Iterator[Doing]:
    for number, robot in zip(count(1), cycle(robots)):
        yield Doing(number * every_s, lasts_s, robot=robot, program=program and not robot)


ITSELF, BOTH = (False,), (False, True)
STRATEGIES: Final = {
    "a silent WebSocket": (3600.0, 8 * DAY_S, ITSELF),
    "a page each minute": (60.0, 0.2, ITSELF),
    "a page each ten minutes": (600.0, 0.2, ITSELF),
    "a byte every 3 s as a robot, and pages": (59.0, 58.0, BOTH),
    "woken again and again": (150.0, 0.2, ITSELF),
    "many at once": (60.0, 900.0, BOTH),
}
FIRST_S: Final = 7200 + 120.0
"""Of a server that nobody has asked for yet the box does not know why it is awake."""
EXCESS_S: Final = 10.0
"""In a day: the wake that a share ends in, and a look."""


CASES: Final = [
    pytest.param("a silent WebSocket", PATIENT, marks=pytest.mark.long),
    pytest.param("a page each minute", PATIENT, marks=pytest.mark.long),
    ("a byte every 3 s as a robot, and pages", PATIENT),
    ("woken again and again", USUAL),
    pytest.param("many at once", PATIENT, marks=pytest.mark.long),
    pytest.param("woken again and again", PATIENT, marks=pytest.mark.long),
    pytest.param("a page each ten minutes", PATIENT, marks=pytest.mark.long),
    pytest.param("a page each ten minutes", USUAL, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("name", "rule"), CASES)
def test_an_unknown_program_keeps_it_awake_for_ten_minutes_a_day(
    tmp_path: Path, name: str, rule: str
) -> None:
    lived = live(tmp_path, rule, over_and_over(*STRATEGIES[name]))
    assert lived.awake_s <= FIRST_S + DAYS * (600 + EXCESS_S)
    assert lived.spent == {ADDRESS}


@pytest.mark.parametrize("rule", [PATIENT, pytest.param(USUAL, marks=pytest.mark.long)])
def test_robots_of_many_networks_keep_it_awake_for_ten_minutes_a_day_together(
    tmp_path: Path, rule: str
) -> None:
    posts = (Doing(150.0 * n, 0.2, 1000 + n, 5000 + n, robot=True) for n in count(1))
    lived = live(tmp_path, rule, posts)
    assert lived.awake_s <= FIRST_S + DAYS * (600 + EXCESS_S)
    assert lived.spent


def test_a_program_that_claims_to_be_a_browser_costs_less_than_the_budget(
    tmp_path: Path,
) -> None:
    attack = over_and_over(*STRATEGIES["a page each minute"], program=False)
    lived = live(tmp_path, USUAL, attack, 1)
    assert lived.awake_s <= FIRST_S + 30 * 60 + EXCESS_S
    assert lived.cost < BUDGET
    assert lived.spent == {ADDRESS}


def test_addresses_without_end_cost_the_budget_and_people_go_on(tmp_path: Path) -> None:
    attack = (Doing(30.0 * n, 0.2, 1000 + n, 5000 + n) for n in count(1))
    lived = live(tmp_path, USUAL, heapq.merge(attack, a_day_at_home()), 1)
    assert lived.cost <= BUDGET + 0.001
    assert lived.spent
    assert ADDRESS not in lived.spent


def a_day_at_home() -> Iterator[Doing]:
    """A person alone with the server from 9 to 17: a tunnel until lunch, and pages."""
    yield Doing(9 * 3600.0 - 60, embeds=True)
    yield Doing(9 * 3600.0, 3 * 3600.0)
    for t_s in range(9 * 3600 + 90, 17 * 3600 - 600, 90):
        if not 12 * 3600 < t_s < 12.5 * 3600:
            yield Doing(float(t_s), embeds=True)


def test_person_alone_at_home_works_a_day_without_being_refused(tmp_path: Path) -> None:
    lived = live(tmp_path, USUAL, a_day_at_home(), 0.75)
    assert lived.spent == set()
    assert lived.awake_s >= 7 * 3600


def test_without_shares_a_page_each_ten_minutes_keeps_it_awake(tmp_path: Path) -> None:
    lived = live(tmp_path, PATIENT + LIMITLESS, over_and_over(600.0, 0.2, ITSELF), 0.4)
    assert lived.awake_s > 0.99 * 0.4 * DAY_S
    assert lived.spent == set()


def visits() -> list[Doing]:
    """Twenty visitors a day from anywhere, who read a few pages each."""
    dice, found = random.Random(3), []
    for number in range(20 * WEEK):
        t_s = number // 20 * DAY_S + dice.uniform(8, 18) * 3600
        for _ in range(5):
            found.append(Doing(t_s, 0.2, 1000 + number, 5000 + number))
            t_s += dice.expovariate(1 / 20)
    return sorted(found)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    return live(tmp_path_factory.mktemp("undisturbed"), USUAL, visits(), WEEK)


@pytest.mark.long
@pytest.mark.parametrize("name", ["a silent WebSocket", "woken again and again"])
def test_visitors_beside_a_stranger_are_served_as_without_him(
    tmp_path: Path, name: str, undisturbed: Lived
) -> None:
    attack = over_and_over(*STRATEGIES[name])
    lived = live(tmp_path, USUAL, heapq.merge(attack, visits()), WEEK)
    served = lived.waited_s.keys() - {ADDRESS}
    assert lived.spent == {ADDRESS}
    assert served == undisturbed.waited_s.keys()
    assert lived.awake_s <= undisturbed.awake_s + WEEK * (600 + EXCESS_S)
    assert sum(waits(lived)) <= sum(waits(undisturbed))


def waits(lived: Lived) -> list[float]:
    """Return what visitors waited for the server, each time that they did."""
    found = lived.waited_s.items()
    return [each for address, waited in found if address != ADDRESS for each in waited if each]

"""Daily limits for the cost of strangers to a server: time awake, wakes, and money.

A server is awake for those who use it. Each moment of that is split among those who have
requests in flight, and otherwise goes to the client that asked last, for whom the policy waits.
So a client pays for the time awake that it adds, and for no other.

Robots and programs have accounts: of addresses, of their networks, and one of all robots together,
because robots have many addresses. One network can use up a quarter of that account; any further
cost goes to its own. A client that has used up its account no longer keeps the server awake or
wakes it until the office's next day. Long before that, the server waits less and less for it.

People have no account, unless their behaviour looks like an attack (`people`): then they have a
program's. All who have not shown that they are people may together cost the office so much money in
a day. Once that is spent, robots and programs are refused. A client that claims to be a browser is
served as soon as it shows that it is one, as by following the page that says so.
The office's own clients and logged-in visitors have no limit: the VMOD marks their requests.
Pure: times and readings are arguments.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from naproxy.core.schema import option
from naproxy.server.people import People

ROBOTS_S: Final = 60.0
"""Requests of robots keep a server awake for so long on end, and no longer."""

ACCOUNTS: Final = 4096
"""Accounts of addresses, and as many of networks, that are kept; when full, the larger half stays.

So to forget an account others must have 2048 that are as large. A day has 144 programs' shares of
time, and 432 of wakes if one takes 20 s: a program that has used three tenths of a share is never
forgotten.
"""

PROGRAM_AWAKE_S: Final = 600
"""Daily limits: of an address for robots and programs, and of all robots together."""

PROGRAM_NETWORK_AWAKE_S: Final = 1800
PROGRAM_WAKES: Final = 10


PATIENCE: Final = 0.25
"""For a client, the server waits at most this part of the rest of its share."""

LEAST_PATIENCE_S: Final = 10.0
"""But so long in any case: a page has more to load."""

NETWORKS_OF_ROBOTS: Final = 4
"""So many networks at least use up the robots' share: one stranger must not take it from them."""

VISITOR: Final = 0.5
"""A policy no longer learns from a program that has used up this much of a share."""

_LATEST: Final = 1024
_MOST_STEP_S: Final = 10.0
"""After a longer time without a look nobody knows who used the server meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Daily limits for strangers; people and the office's own clients have no limit."""

    strangers_cost: float = option(
        "What all strangers together may cost in a day by keeping the server awake, in the office's"
        " currency: robots, programs, and clients that have not shown that they are people."
        " Visitors who behave like people or have logged in are always served. 0: no limit for"
        " anybody",
        0.10,
        low=0,
        high=1000,
    )


@dataclass(frozen=True, slots=True)
class Costs:
    """A server's cost above its sleep, in the office's currency."""

    awake_s: float = 41.7 * 0.30 / 3.6e6
    """A second awake. The default has the powers of the thesis and 0.30 for a kWh."""
    wake: float = 170.7 * 0.30 / 3.6e6
    """A sleep and a wake."""


class Party(NamedTuple):
    """A client: hashes of address and network, and whether it is a robot, or an unknown program."""

    address: int
    network: int
    robot: bool = False
    program: bool = False

    @property
    def person(self) -> bool:
        """Does it claim to be a person's browser?"""
        return not (self.robot or self.program)

    @property
    def own(self) -> bool:
        """Is it the office's own client, logged in, or of no known address? No share limits it."""
        return not self.address


OWN: Final = Party(0, 0)
OWN_ROBOT: Final = Party(0, 0, robot=True)
"""As the office's rule says of it. No account, but its requests keep nothing awake for long."""


class Use(NamedTuple):
    """So many requests of a party use the server now."""

    party: Party
    number: int


@dataclass(slots=True)
class _Account:
    awake_s: float = 0.0
    wakes: float = 0.0


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of an account; 0: none."""

    awake_s: float
    wakes: float = 0.0

    def used(self, account: _Account) -> float:
        """Return what share of it is used up, 1 or more if all."""
        awake = account.awake_s / self.awake_s if self.awake_s else 0.0
        wakes = account.wakes / self.wakes if self.wakes else 0.0
        return max(awake, wakes)


class Accounts:
    """The accounts of one kind, and which of them are used up, in the order in which that came."""

    def __init__(self, limit: Limit) -> None:
        """Start a day."""
        self.limit = limit
        self.over: dict[int, None] = {}
        self._accounts: dict[int, _Account] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._accounts)

    def used(self, who: int) -> float:
        """Return what part of a share is used up."""
        account = self._accounts.get(who)
        return self.limit.used(account) if account else 0.0

    def left_s(self, who: int) -> float:
        """Return how long one may still keep the server awake."""
        account = self._accounts.get(who, _Account())
        return self.limit.awake_s - account.awake_s if self.limit.awake_s else math.inf

    def left_wakes(self, who: int) -> float:
        """Return how often one may still wake the server."""
        account = self._accounts.get(who, _Account())
        return self.limit.wakes - account.wakes if self.limit.wakes else math.inf

    def charge(self, who: int, awake_s: float, wakes: float) -> None:
        """Put this on an account."""
        account = self._accounts.get(who)
        if account is None:
            self._make_room()
            account = self._accounts[who] = _Account()
        account.awake_s += awake_s
        account.wakes += wakes
        if self.limit.used(account) >= 1:
            self._close(who)

    def _close(self, who: int) -> None:
        self.over[who] = None
        if len(self.over) > ACCOUNTS:
            del self.over[next(iter(self.over))]

    def _make_room(self) -> None:
        if len(self._accounts) < ACCOUNTS:
            return
        largest = sorted(
            self._accounts.items(), key=lambda item: self.limit.used(item[1]), reverse=True
        )
        self._accounts = dict(largest[: ACCOUNTS // 2])

    def change(self, limit: Limit) -> None:
        """Hold the same day against another limit."""
        self.limit = limit
        self.over.clear()
        for who, account in self._accounts.items():
            if limit.used(account) >= 1:
                self._close(who)


class Latest:
    """When parties last did something, and until when that counts; of many the latest ones."""

    def __init__(self) -> None:
        """Nobody has done it."""
        self._times: OrderedDict[Party, tuple[float, float]] = OrderedDict()

    def note(self, party: Party, t_s: float, until_s: float = math.inf) -> None:
        """It did it just now."""
        self._times[party] = t_s, until_s
        self._times.move_to_end(party)
        if len(self._times) > _LATEST:
            self._times.popitem(last=False)

    def last(self, without: Shares) -> tuple[Party, float] | None:
        """Return the last who did it and is not over its share, and when."""
        while self._times:
            party = next(reversed(self._times))
            if not without.over(party):
                return party, self._times[party][0]
            del self._times[party]
        return None

    def counting(self, t_s: float, without: Shares) -> tuple[Party, float] | None:
        """Return the last of those whose time is not over either."""
        for party, (done_s, until_s) in reversed(self._times.items()):
            if t_s < until_s and not without.over(party):
                return party, done_s
        return None

    def clear(self) -> None:
        """Forget all."""
        self._times.clear()


class Shares:
    """The accounts of one server, and the clients that keep it awake."""

    def __init__(self, settings: Settings, costs: Callable[[], Costs] = Costs) -> None:
        """Begin a day with empty accounts; `costs` is asked each day what the server costs."""
        self._settings = settings
        self._costs = costs
        self._day: int | None = None
        self._t_s: float | None = None
        self._robots_since_s: float | None = None
        self.people = People()
        self._begin_day()
        self.asked = Latest()
        self.worked = Latest()
        self._up = True
        self._askers: set[Party] = set()  # clients that want it awake
        self._woke: set[Party] = set()  # whom it was woken for

    def configure(self, settings: Settings, costs: Callable[[], Costs] = Costs) -> None:
        """Take other limits; the accounts of the day stay."""
        self._costs, self._cost = costs, costs()
        if settings == self._settings:
            return
        self._settings = settings
        for accounts, limit in zip(self._all, self._limits(), strict=True):
            accounts.change(limit)

    def _limits(self) -> tuple[Limit, ...]:
        """Return those of `_all`; without a budget there is none."""
        if not self._settings.strangers_cost:
            return (Limit(0),) * 6
        one, network = Limit(PROGRAM_AWAKE_S, PROGRAM_WAKES), Limit(PROGRAM_NETWORK_AWAKE_S)
        return one, network, one, network, one, self._part_of(one)

    @staticmethod
    def _part_of(robots: Limit) -> Limit:
        parts = NETWORKS_OF_ROBOTS
        return Limit(robots.awake_s / parts, robots.wakes / parts)

    def _begin_day(self) -> None:
        self._all = tuple(Accounts(limit) for limit in self._limits())
        self.addresses, self.networks, self.programs, self.program_networks = self._all[:4]
        self._robots, self._robots_by_network = self._all[4:]
        self.people = self.people.next_day()
        self.cost = 0.0
        self._cost = self._costs()

    def _of(self, party: Party) -> list[tuple[Accounts, int]]:
        """Return the accounts that are its own and its network's."""
        own = [(self.addresses, party.address), (self.networks, party.network)]
        if not party.person:
            own += [(self.programs, party.address), (self.program_networks, party.network)]
        return own

    # Clients over their share

    def over(self, party: Party) -> bool:
        """Is it refused: its account is used up, or all strangers' money is?"""
        if party.own or not self._settings.strangers_cost:
            return False
        if party.person and self.people.shown(party.address):
            return False
        if self.closed or (party.robot and self.robots_over):
            return True
        if party.person and not self.people.attacks(party.address):
            return False
        return any(who in accounts.over for accounts, who in self._of(party))

    @property
    def most_cost(self) -> float:
        """The daily limit of all strangers together; 0: none."""
        return self._settings.strangers_cost

    @property
    def closed(self) -> bool:
        """Have strangers cost as much today as they may?"""
        return 0 < self._settings.strangers_cost <= self.cost

    def visitor(self, party: Party) -> bool:
        """Has it used so little that a policy may learn from it, and promise it something?"""
        if party.own:
            return True
        if party.person:
            return not self.people.attacks(party.address)
        return all(accounts.used(who) < VISITOR for accounts, who in self._of(party))

    def _patience_s(self, party: Party) -> float:
        """Return how long the server waits for it at most."""
        if party.own or (party.person and not self.people.attacks(party.address)):
            return math.inf
        left_s = min(accounts.left_s(who) for accounts, who in self._of(party))
        return max(LEAST_PATIENCE_S, PATIENCE * left_s)

    @property
    def robots_over(self) -> bool:
        """Have the robots used up theirs?"""
        return bool(self._robots.over)

    @property
    def spent(self) -> tuple[int, ...]:
        """The hashes of addresses that look like an attack and whose account is used up."""
        return tuple(
            address
            for address, network in self.people.attackers
            if address in self.addresses.over or network in self.networks.over
        )

    @property
    def spent_by_programs(self) -> tuple[int, ...]:
        """The same, and networks, of robots and programs: people behind them are served.

        Networks come last: of a list that is too long for the page the end counts.
        """
        return (*self.programs.over, *self.program_networks.over)

    # Use by clients

    def keeping(self, t_s: float, uses: Iterable[Use]) -> list[Use]:
        """Return those whose requests in flight keep the server awake."""
        may = [use for use in uses if not self.over(use.party)]
        if not any(use.party.robot for use in may):
            self._robots_since_s = None
        elif self._robots_since_s is None:
            self._robots_since_s = t_s
        since_s = self._robots_since_s
        robots = since_s is not None and t_s - since_s < ROBOTS_S
        return [use for use in may if robots or not use.party.robot]

    def ask(self, t_s: float, party: Party, *, awake: bool) -> None:
        """Hear of a request after which the policy waits for more; `awake`: it found it so."""
        self.asked.note(party, t_s, t_s + self._patience_s(party))
        if not awake:
            # It may be told of when it was answered, which is after the wake.
            (self._woke if self._up else self._askers).add(party)

    def others_since_s(self, t_s: float) -> float | None:
        """Return when somebody last asked for whom the server still waits, since it slept."""
        last = self.asked.counting(t_s, self)
        return last[1] if last else None

    # Changes of the server

    def woke(self, t_s: float) -> None:
        """The server is awake: for those who asked, or for the office if nobody did."""
        self._up = True
        if not self._askers and not self.asked.last(self):
            self.asked.note(OWN, t_s)
        for party in self._askers:
            self.asked.note(party, t_s, t_s + self._patience_s(party))
        self._woke |= self._askers
        self._askers.clear()

    def falls_asleep(self) -> None:
        """The server is no longer awake: a client that asks from now on wakes it."""
        self._up = False

    def slept(self, t_s: float) -> None:
        """The server sleeps. A wake counts now: whom it was for was served by then."""
        self._up = False
        for party in self._woke:
            self._charge(party, 0.0, 1 / len(self._woke))
        self._woke.clear()
        self.asked.clear()
        for party in self._askers:
            self.asked.note(party, t_s)

    def pass_time(self, t_s: float, day: int, uses: Collection[Use], *, paid: bool) -> bool:
        """Put the time since the last call on the accounts of those whom the server is up for.

        `uses` are those that keep it awake. Not `paid`: it is asleep, or up whoever asks.
        Return whether somebody has used up a share with this.
        """
        gone_s = min(max(t_s - self._t_s, 0.0), _MOST_STEP_S) if self._t_s is not None else 0.0
        self._t_s = t_s
        if day != self._day:
            self._day = day
            self._begin_day()
        parties = {use.party for use in uses}
        for party in parties:
            if not (party.robot and self._up):
                self.ask(t_s, party, awake=self._up)
            if party.person and not party.own:
                self.people.open(party.address, party.network, gone_s)
        if not parties and (last := self.asked.counting(t_s, self) or self.asked.last(self)):
            parties = {last[0]}
        before = self._used_up
        for party in parties if paid else ():
            self._charge(party, gone_s / len(parties), 0.0)
        return self._used_up > before

    @property
    def _used_up(self) -> int:
        programs = (self.programs, self.program_networks, self._robots)
        return sum(len(each.over) for each in programs) + len(self.spent) + self.closed

    def _charge(self, party: Party, awake_s: float, wakes: float) -> None:
        if party.own:
            return
        if not (party.person and self.people.shown(party.address)):
            self.cost += self._cost.awake_s * awake_s + self._cost.wake * wakes
        for accounts, who in self._of(party):
            accounts.charge(who, awake_s, wakes)
        if party.robot:
            part = self._robots_by_network
            awake_s = min(awake_s, max(0.0, part.left_s(party.network)))
            wakes = min(wakes, max(0.0, part.left_wakes(party.network)))
            part.charge(party.network, awake_s, wakes)
            self._robots.charge(0, awake_s, wakes)

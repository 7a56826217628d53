"""The current users of a server, from the page, and the cost to their shares (`server.shares`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final, Literal, NamedTuple

from naproxy.controller.context import BoxContext
from naproxy.controller.through import Through
from naproxy.core import page_h
from naproxy.core.page_h import MOST_SPENT, Outcome
from naproxy.core.state import Klass
from naproxy.server.people import Request
from naproxy.server.shares import OWN, OWN_ROBOT, Costs, Party, Settings, Shares, Use
from naproxy.shm.events import Event
from naproxy.shm.page import Page, fnv

_ROBOTS: Final = sum(1 << klass for klass in Klass if klass.robot)
_ALL: Final = sum(1 << klass for klass in Klass)
_NOBODYS_S: Final = 60.0
"""Requests at the server of whom Varnish names no client keep it awake for so long after the last
of somebody who may: their client has hung up."""

_OFFICES: Final = tuple(
    ip_network(text)
    for text in (
        *("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("fc00::/7", "fe80::/10", "::1/128"),
    )
)
"""As `page_own_address` of page_read.h has it."""


def party_at(text: str) -> Party:
    """Return whose share a person's connection from this address is on, as the VMOD hashes it."""
    try:
        address = ip_address(text)
    except ValueError:
        return OWN
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if any(address in network for network in _OFFICES if network.version == address.version):
        return OWN
    four = address.version == 4
    family, packed = bytes([address.version]), address.packed
    whole = fnv(family + packed[: 4 if four else 8]) or 1
    network = fnv(b"n" + family + packed[: 3 if four else 6]) or 1
    return Party(whole, network)


def party_of(event: Event) -> Party:
    """Return whose share a request is on."""
    robot = event.klass < len(Klass) and Klass(event.klass).robot
    party = Party(event.address, event.network, robot, event.klass == Klass.API)
    return _exempt(party) if event.own or not event.address else party


def _exempt(party: Party) -> Party:
    return OWN_ROBOT if party.robot else OWN


class Sharing:
    """One server's."""

    def __init__(
        self, box: BoxContext, index: int, settings: Settings, costs: Callable[[], Costs] = Costs
    ) -> None:
        """Begin with empty accounts: they last for a day, and are not worth a place on a disk."""
        self._box = box
        self._index = index
        self.shares = Shares(settings, costs)
        self.through = Through(box.page, index)
        self._used_s = time.monotonic()

    def saw(self, event: Event) -> None:
        """Hear of a request that ended: does its client behave like a person?"""
        if event.own or not event.address or event.klass != Klass.PERSON:
            return
        outcome = event.outcome
        sent_away = outcome == Outcome.WAITING_PAGE or (
            outcome == Outcome.SPENT and event.page_load
        )
        asked = Request(
            event.t_us / 1e6,
            *(event.address, event.network, event.path, event.status, event.page_load, sent_away),
            status_path=outcome == Outcome.STATUS,
        )
        self.shares.people.saw(asked)

    def ask(self, t_s: float, event: Event, *, awake: bool) -> None:
        """Hear of a request that is a reason to stay awake."""
        self._used_s = time.monotonic()
        self.shares.ask(t_s, party_of(event), awake=awake)

    def keeping(self) -> list[Use]:
        """Return whose requests in flight, or connections, keep the server awake.

        Connections that are passed on unopened are of nobody known: no share limits them, and
        nobody else pays for them.
        """
        through = self.through.busy
        return [*self._requests(), *([Use(OWN, through)] if through else [])]

    def _requests(self) -> list[Use]:
        now_s = time.monotonic()
        uses = self.shares.keeping(now_s, self._uses())
        if uses:
            self._used_s = now_s
        return uses

    def busy(self) -> tuple[int, int]:
        """Return how many fetches and open connections speak against sleep."""
        number = sum(use.number for use in self._requests())
        record = self._box.page.server(self._index)
        fetching, piping = int(record.fetching_now), int(record.piping_now)
        if time.monotonic() - self._used_s < _NOBODYS_S:
            number += max(0, fetching + piping - sum(use.number for use in self._uses()))
        return min(number, fetching), min(number, piping) + self.through.busy

    def _uses(self) -> list[Use]:
        found = []
        for address, network, _, own, exempt, *uses in self._box.page.clients():
            parties = (
                Party(address, network),
                Party(address, network, robot=True),
                Party(address, network, program=True),
            )
            for party, number in zip(parties, uses[self._index :: page_h.SERVERS], strict=True):
                if number:
                    found.append(Use(_exempt(party) if own else party, number))
            if exempt >> self._index & 1 and not own:
                # Somebody else at this address has logged in.
                found.append(Use(OWN, 1))
        return found

    def status(self) -> dict[str, Any]:
        """Return how many are over their share."""
        shares = self.shares
        return {
            "addresses": len({*shares.spent, *shares.programs.over}),
            "networks": len(shares.program_networks.over),
            "robots": shares.robots_over,
            "cost": round(shares.cost, 4),
            "most_cost": shares.most_cost,
            "closed": shares.closed,
        }


class _Wanted(NamedTuple):
    """One server's part of the page."""

    over: tuple[int, ...]
    programs: tuple[int, ...]
    persons: tuple[int, ...]
    classes: int
    """The refused classes. `persons` are exempt."""


class Spent:
    """Tells the VMOD who is over a share."""

    def __init__(self, shared: Page) -> None:
        """The state written by an earlier controller is unknown."""
        self._page = shared
        self._told: dict[int, _Wanted] | None = None

    def tell(self, all_shares: Mapping[int, Shares]) -> None:
        """Write what is new; `all_shares` are by the servers' places in the page."""
        wanted = {
            index: _Wanted(
                s.spent,
                s.spent_by_programs,
                s.people.persons[-MOST_SPENT:] if s.closed else (),
                _ALL if s.closed else _ROBOTS if s.robots_over else 0,
            )
            for index, s in all_shares.items()
        }
        if wanted == self._told:
            return
        self._told = wanted
        all_over, programs_over = _masks(wanted, 0), _masks(wanted, 1)
        # Of a list that is too long the end counts: a person's share is worth many programs'.
        persons = _masks(wanted, 2)
        only = [who for who in programs_over if who not in all_over]
        rest = [who for who in persons if who not in all_over and who not in programs_over]
        last = [*only, *all_over, *rest][-MOST_SPENT:]
        last += [0] * (MOST_SPENT - len(last))
        with self._page.configure(None) as layout:
            for slot, who in zip(layout.spent, last, strict=True):
                slot.who = who
                slot.servers = all_over.get(who, 0) | persons.get(who, 0) << page_h.SHOWN
                slot.programs = programs_over.get(who, 0)
        for index in range(page_h.SERVERS):
            mask = wanted[index].classes if index in wanted else 0
            if self._page.server(index).spent_mask != mask:
                with self._page.configure(index) as record:
                    record.spent_mask = mask


def _masks(wanted: Mapping[int, _Wanted], kind: Literal[0, 1, 2]) -> dict[int, int]:
    """Return at which servers each of them is: over, over for programs, or a person's."""
    masks: dict[int, int] = {}
    for index, told in wanted.items():
        for who in told[kind]:
            masks[who] = masks.get(who, 0) | 1 << index
    return masks

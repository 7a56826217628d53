"""Who uses a server now, by the page, and what that costs their shares: `server.shares` live."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from naproxy.controller.context import BoxContext
from naproxy.controller.through import Through
from naproxy.core.state import Klass
from naproxy.server.shares import OWN, OWN_ROBOT, Party, Settings, Shares, Use
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import MOST_SPENT, Page

_ROBOTS: Final = sum(1 << klass for klass in Klass if klass.robot)
_NOBODYS_S: Final = 60.0
"""Requests at the server of whom Varnish names no client keep it awake for so long after the last
of somebody who may: their client has hung up."""


def party_of(event: Event) -> Party:
    """Return whose share a request is on."""
    robot = event.klass < len(Klass) and Klass(event.klass).robot
    return _party(event.address, event.network, own=event.own, robot=robot)


def _party(address: int, network: int, *, own: bool, robot: bool) -> Party:
    if own or not address:
        return OWN_ROBOT if robot else OWN
    return Party(address, network, robot)


class Sharing:
    """One server's."""

    def __init__(self, box: BoxContext, index: int, settings: Settings) -> None:
        """Begin with empty accounts: they last for a day, and are not worth a place on a disk."""
        self._box = box
        self._index = index
        self.shares = Shares(settings)
        self.through = Through(box.page, index)
        self._used_s = time.monotonic()

    def ask(self, t_s: float, event: Event, *, awake: bool) -> None:
        """Hear of a request that is a reason to stay awake."""
        self._used_s = time.monotonic()
        self.shares.ask(t_s, party_of(event), awake=awake)

    def keeping(self) -> list[Use]:
        """Return whose requests in flight keep the server awake."""
        now_s = time.monotonic()
        uses = self.shares.keeping(now_s, self._uses())
        if uses:
            self._used_s = now_s
        return uses

    def busy(self) -> tuple[int, int]:
        """Return how many fetches and open connections speak against sleep."""
        number = sum(use.number for use in self.keeping())
        record = self._box.page.server(self._index)
        fetching, piping = int(record.fetching_now), int(record.piping_now)
        if time.monotonic() - self._used_s < _NOBODYS_S:
            number += max(0, fetching + piping - sum(use.number for use in self._uses()))
        return min(number, fetching), min(number, piping) + self.through.busy

    def _uses(self) -> list[Use]:
        found = []
        for address, network, _, own, *uses in self._box.page.clients():
            of_class = uses[self._index], uses[page.SERVERS + self._index]
            for robot, number in zip((False, True), of_class, strict=True):
                if number:
                    party = _party(address, network, own=bool(own), robot=robot)
                    found.append(Use(party, number))
        return found

    def status(self) -> dict[str, Any]:
        """Return how many are over their share."""
        shares = self.shares
        return {
            "addresses": len(shares.addresses.over),
            "networks": len(shares.networks.over),
            "robots": shares.robots_over,
        }


class Spent:
    """Tells the VMOD who is over a share."""

    def __init__(self, shared: Page) -> None:
        """What an earlier controller told is not known any more."""
        self._page = shared
        self._told: dict[int, tuple[tuple[int, ...], bool]] | None = None

    def tell(self, all_shares: Mapping[int, Shares]) -> None:
        """Write what is new; `all_shares` are by the servers' places in the page."""
        wanted = {index: (s.spent, s.robots_over) for index, s in all_shares.items()}
        if wanted == self._told:
            return
        self._told = wanted
        masks: dict[int, int] = {}
        for index, (spent, _) in wanted.items():
            for who in spent:
                masks[who] = masks.get(who, 0) | 1 << index
        last = list(masks.items())[-MOST_SPENT:]
        with self._page.configure(None) as layout:
            for number, slot in enumerate(layout.spent):
                slot.who, slot.servers = last[number] if number < len(last) else (0, 0)
        for index in range(page.SERVERS):
            mask = _ROBOTS if wanted.get(index, ((), False))[1] else 0
            if self._page.server(index).spent_mask != mask:
                with self._page.configure(index) as record:
                    record.spent_mask = mask

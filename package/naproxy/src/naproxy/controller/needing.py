"""Servers that need each other: one wakes after those that it needs, and these stay awake for it.

A virtual machine, for example, needs its host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from naproxy.config.document import LONGEST_HOLD_S, Server, needs_of
from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.server.machine_io import Needed

SOON_S: Final = 60.0
"""A server stays awake for one that is woken within so long, and the time that both take."""


class Peer(Protocol):
    """Another server of the box."""

    def state(self) -> State:
        """Return what it does now."""

    def wake(self, wake_request: WakeRequest) -> None:
        """Somebody needs it."""

    def up_in_s(self) -> float:
        """Return when it is expected up; 0 if it is awake."""

    def patience_s(self) -> float:
        """Return how long a wake of it may take."""

    def in_use(self, within_s: float) -> bool:
        """Is it awake, or will it be within so long?"""


class Company:
    """All servers of the box, and which of them need which."""

    def __init__(self, peers: Callable[[], Mapping[str, Peer]] = dict) -> None:
        """`peers` are those of now, by their ids, whenever they are asked."""
        self.peers = peers
        self._needs: Mapping[str, tuple[str, ...]] = {}

    def configure(self, servers: Sequence[Server]) -> None:
        """Take a checked configuration: no server needs itself, directly or through others.

        Of all servers at once: half of a new one may have a cycle with half of the old one.
        """
        self._needs = {each.id: needs_of(each, servers) for each in servers}

    def needed(self, name: str) -> dict[str, Peer]:
        """Return the servers that one needs."""
        peers = self.peers()
        return {each: peers[each] for each in self._needs.get(name, ()) if each in peers}

    def needing(self, name: str) -> dict[str, Peer]:
        """Return the servers that need one."""
        peers = self.peers()
        needing = (each for each, needs in self._needs.items() if name in needs)
        return {each: peers[each] for each in needing if each in peers}


class Needing:
    """One server's relations to the others."""

    def __init__(self, name: str, company: Company) -> None:
        """`name` is the server's id."""
        self._name = name
        self._company = company

    def _needed(self) -> dict[str, Peer]:
        return self._company.needed(self._name)

    def wake(self) -> None:
        """Wake the servers that it needs: it is about to be woken."""
        why = Reason("server.needed_by", names=(self._name,))
        for peer in self._needed().values():
            peer.wake(WakeRequest("naproxy", why))

    def keep(self) -> bool:
        """Wake those that sleep all the same, as it is awake; return whether all are awake."""
        why = Reason("server.needed_by", names=(self._name,))
        needed = self._needed().values()
        for peer in needed:
            if peer.state() is State.ASLEEP:
                peer.wake(WakeRequest("naproxy", why))
        return all(peer.state() is State.AWAKE for peer in needed)

    def look(self) -> Needed:
        """Return how the servers are that it needs."""
        needed = self._needed()
        states = {name: peer.state() for name, peer in needed.items()}
        failed = tuple(name for name, state in states.items() if state is State.TROUBLE)
        waking = tuple(
            name for name, state in states.items() if state not in (State.AWAKE, State.TROUBLE)
        )
        return Needed(waking, failed, self.up_in_s(), self.patience_s())

    def up_in_s(self) -> float:
        """Return when the servers that it needs are expected up; 0 if they are awake."""
        return max((peer.up_in_s() for peer in self._needed().values()), default=0.0)

    def patience_s(self) -> float:
        """Return how long the wakes of the servers that it needs may take."""
        longest_s = max((peer.patience_s() for peer in self._needed().values()), default=0.0)
        return min(longest_s, LONGEST_HOLD_S)

    def inhibitors(self, turns_s: float) -> list[Reason]:
        """Return for which servers this one stays awake.

        It takes `turns_s` to fall asleep and to wake.
        """
        needing = self._company.needing(self._name)
        using = tuple(name for name, peer in needing.items() if peer.in_use(SOON_S + turns_s))
        return [Reason("server.needed_by", names=using)] if using else []

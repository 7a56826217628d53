"""A request for a wake: its client and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from naproxy.core.reason import Reason, own_words

CRAWLER_RETRY_S: Final = 3600
"""How long robots should wait before they come back, if nobody knows when the server is awake."""

_CLASSES: Final = {
    "person": Reason("server.person"),
    "crawler": Reason("server.crawler"),
    "monitor": Reason("server.monitor"),
    "feed": Reason("server.feed"),
    "api": Reason("server.program"),
    "scanner": Reason("server.scanner"),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One that says it is a search engine was refused."""

    engine: str
    address: str
    network: int
    """The hash of its network, as `naproxy_event.network`."""


@dataclass(frozen=True, slots=True)
class WakeRequest:
    """The client that wants a wake, and the reason; unknown fields are empty.

    `reason` is Varnish's cause of a request, such as `page`, or a reason of our own.
    `silent`: the server should be awake, but accepted no connection.
    """

    who: str
    reason: str | Reason
    method: str = ""
    klass: str = ""
    agent: str = ""
    host: str = ""
    path: str = ""
    silent: bool = False

    @property
    def why(self) -> Reason:
        """Why it asks, for people."""
        if isinstance(self.reason, Reason):
            return self.reason
        request = " ".join(filter(None, (self.method, self.path)))
        klass = _CLASSES.get(self.klass, own_words(self.klass or self.reason))
        return Reason("server.request", klass=klass, request=request, who=self.who)

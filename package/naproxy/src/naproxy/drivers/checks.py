"""The input of a driver's checks for `naproxy doctor`; the doctor itself sees more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from naproxy.core.findings import NotSeen


class Section(Protocol):
    """A server's section of the configuration."""

    @property
    def id(self) -> str:
        """Its short name."""

    @property
    def address(self) -> str:
        """Its IP address."""

    @property
    def mac(self) -> str:
        """Its Ethernet address."""

    @property
    def web_port(self) -> int:
        """Where its web server is asked."""

    @property
    def sleep(self) -> Any:
        """The keys of its way to sleep."""


@dataclass(frozen=True, slots=True)
class Known:
    """The controller's knowledge of a server."""

    status: Mapping[str, Any]
    """The server's part of `GET /v1/status`."""
    edge: Mapping[str, Any]
    """The box's HTTPS, from there, too."""


@dataclass(frozen=True, kw_only=True)
class FromBox:
    """The box's readings of a server; None: could not be read."""

    server: Section
    way: Any = None
    """The result of the sleep driver's `see`, if it has one."""
    known: Known | None = None
    """The controller's knowledge of it; None: no answer."""
    tried: Any = None
    """The result of a dry run: of the driver's `attempt`, if that was safe to call."""


@dataclass(frozen=True)
class OnServer:
    """The server's answers, and the configuration's demands on it."""

    facts: Mapping[str, str]
    server: Section

    def fact(self, name: str, missing: str) -> str:
        """Return a fact that must be there to judge; NotSeen with the code `missing` if not."""
        value = self.facts.get(name, "")
        if not value:
            raise NotSeen(missing)
        return value

    @property
    def card(self) -> str:
        """The interface's name on the server."""
        return self.fact("card", "doctor.card_not_found")

"""Bringing the agent to a server: its program, and the key that it shares with the box.

The administrator gets a text to paste on the server. It has a code, valid once and for a quarter of
an hour, with which the server fetches a new key from the box over HTTPS; the text pins the box's
certificate (docs/agent.md). Or the box shows a new key, once. It never shows one
that is in use.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy.api import configuration
from naproxy.api.calls import ApiError, Handlers, no_server
from naproxy.api.jobs import JobError
from naproxy.config.document import Server
from naproxy.config.edit import Change
from naproxy.config.in_force import InForce
from naproxy.core.interfaces import own_address
from naproxy.core.reason import Reason
from naproxy.drivers.agent_protocol import KEY_BYTES

LIVES_S: Final = 900.0
"""How long a code is good."""
_CODE_BYTES: Final = 18


@dataclass(slots=True)
class _Code:
    text: str
    until_s: float
    used: bool = False


class Codes:
    """Codes that are good once: one for each server, the last. In memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._of: dict[str, _Code] = {}

    def make(self, server: str) -> str:
        """Return a new code of 144 random bits; one that the server had is worth nothing more."""
        text = secrets.token_urlsafe(_CODE_BYTES)
        self._of[server] = _Code(text, self._clock() + LIVES_S)
        return text

    def use(self, text: str) -> str | None:
        """Return the server whose code this is, and take it; None of any other text."""
        given, found = text.encode("utf-8", "replace"), None
        # All are compared, each in constant time: how long that takes tells nothing of them.
        for server, code in self._of.items():
            good = not code.used and self._clock() < code.until_s
            if hmac.compare_digest(given, code.text.encode()) and good:
                found = server
        if found is not None:
            self._of[found].used = True
        return found

    def state(self, server: str) -> tuple[str, float]:
        """Return none, waiting, used or over, and for how many seconds it is still good."""
        code = self._of.get(server)
        if code is None:
            return "none", 0.0
        left_s = code.until_s - self._clock()
        if code.used:
            return "used", 0.0
        return ("waiting", left_s) if left_s > 0 else ("over", 0.0)


class Agents:
    """The control API's part: codes and keys."""

    def __init__(self, in_force: InForce, codes: Codes | None = None) -> None:
        """`in_force` is changed when a key is made."""
        self._in_force = in_force
        self._codes = codes or Codes()

    def handlers(self) -> Handlers:
        """Return who answers which route."""
        return {
            "server.agent": lambda server: self._told(self._server(server)),
            "server.agent.code": self._code,
            "server.agent.key": self._key,
            "agent.key": self._fetch,
        }

    def _server(self, name: str) -> Server:
        """Return a server that is put to sleep by its agent; ApiError of others."""
        found = next((each for each in self._in_force.current().server if each.id == name), None)
        if found is None:
            raise no_server(name)
        if found.sleep.driver != "agent":
            raise JobError("setup.no_agent", name=name)
        return found

    def _told(self, server: Server) -> dict[str, Any]:
        state, left_s = self._codes.state(server.id)
        return {"state": state, "left_s": left_s, "address": own_address(server.address) or None}

    def _code(self, server: str) -> dict[str, Any]:
        found = self._server(server)
        code = self._codes.make(found.id)
        return {**self._told(found), "code": code}

    async def _key(self, server: str) -> dict[str, Any]:
        return {"key": await self._made(self._server(server).id)}

    async def _fetch(self, code: str) -> dict[str, Any]:
        name = self._codes.use(code)
        if name is None:
            raise ApiError(HTTPStatus.FORBIDDEN, Reason("setup.agent_code"))
        return {"server": self._server(name).id, "key": await self._made(name)}

    async def _made(self, server: str) -> str:
        """Make a key and use it from now on; an agent with another one is asked in vain."""
        key = secrets.token_hex(KEY_BYTES)
        change = Change("set", f"server.{server}.sleep.key_file", {"secret": key})
        await configuration.change(self._in_force, [change], self._in_force.version)
        return key

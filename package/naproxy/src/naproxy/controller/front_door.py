"""The box's front door: whether visitors reach it on ports 80 and 443 of its outside address."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from naproxy.config.document import Config
from naproxy.core.interfaces import outside_address, own_address
from naproxy.core.names import ascii_site
from naproxy.core.processes import printed, why
from naproxy.core.reason import Reason
from naproxy.core.wire import Web, exchange, head_of, reach
from naproxy.edge.render import passed, serves

HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443
EVERY_S: Final = 10.0
_ANSWER_S: Final = 5.0
_AGAIN_S: Final = 2.0
"""Varnish takes less to start again, after an upgrade say."""
_STARTS_S: Final = 90.0
"""Varnish starts after the controller, and a small box compiles its rules for long."""
_ASK: Final = b"GET /.naproxy/status HTTP/1.1\r\nHost: /\r\nConnection: close\r\n\r\n"
"""No server has this host, so our Varnish refuses the request, and counts no visitor."""
_OURS: Final = ("varnishd", "vinyld", "haproxy")
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Doors:
    """Each port's problem; None: visitors reach the box there."""

    address: str = ""
    http: Reason | None = None
    https: Reason | None = None
    over_https: bool = False
    """Whether the box is to take connections on port 443."""

    @property
    def problems(self) -> tuple[Reason, ...]:
        """The problem."""
        return tuple(filter(None, (self.http, self.https)))

    def plain(self) -> dict[str, Any]:
        """Return it as JSON types."""
        ports = [(HTTP_PORT, self.http)] + [(HTTPS_PORT, self.https)] * self.over_https
        return {
            "address": self.address,
            "ports": [
                {"port": port, "problem": problem.plain() if problem else None}
                for port, problem in ports
            ],
        }


async def look(config: Config, http_port: int = HTTP_PORT, https_port: int = HTTPS_PORT) -> Doors:
    """Ask the box's own ports, twice if the first answer is bad. Nothing counts as a visitor."""
    found = await _look(config, http_port, https_port)
    if found.problems:
        await asyncio.sleep(_AGAIN_S)
        found = await _look(config, http_port, https_port)
    return found


async def _look(config: Config, http_port: int, https_port: int) -> Doors:
    servers = [own_address(server.address) for server in config.server]
    address = next(filter(None, (outside_address(), *servers)), "127.0.0.1")
    over_https = serves(config) or bool(passed(config))
    # Passed connections are opened by the server: this box does not know its certificates.
    hosts = (
        host for server in config.server if server.https.mode == "box" for host in server.hosts
    )
    name = next(map(ascii_site, hosts), "").replace("*.", "www.")
    web = Web(address, https_port, tls=serves(config), name=name)
    return Doors(
        address,
        await _problem(Web(address, http_port), asks=True),
        await _problem(web, asks=web.tls) if over_https else None,
        over_https,
    )


async def _problem(web: Web, *, asks: bool) -> Reason | None:
    port, address = web.port, web.address
    try:
        async with asyncio.timeout(_ANSWER_S):
            if await _is_ours(web, asks=asks):
                return None
        problem = Reason("front_door.other", port=port)
    except ConnectionRefusedError:
        problem = Reason("front_door.refused", address=address, port=port)
    except TimeoutError:
        problem = Reason("front_door.silent", address=address, port=port)
    except (OSError, ValueError) as error:
        problem = Reason("front_door.failed", address=address, port=port, why=why(error))
    program = await holder(port)
    return Reason("front_door.taken", port=port, program=program) if program else problem


async def _is_ours(web: Web, *, asks: bool) -> bool:
    """Connect, and if it `asks`, look whether our Varnish answers; OSError, ValueError."""
    streams = await reach(web)
    if not asks:
        streams[1].transport.abort()
        return True
    answer = head_of(await exchange(streams, _ASK, b"\r\n\r\n"))
    return answer is not None and any(name == "x-naproxy" for name, _ in answer[1])


async def holder(port: int) -> str:
    """Return which other program listens on a port; empty: none does, or only root may know."""
    try:
        done = await printed(["ss", "-Hltnp", f"sport = :{port}"], _ANSWER_S, {}, 1 << 16)
    except (OSError, ValueError):
        return ""
    names = dict.fromkeys(re.findall(r'\(\("([^"]+)"', done.output.decode(errors="replace")))
    return ", ".join(name for name in names if name not in _OURS)


class FrontDoor:
    """Looks every few seconds. `on` says whether this installation has a Varnish."""

    def __init__(self, current: Callable[[], Config], *, on: bool) -> None:
        self._current = current
        self._on = on
        self._task: asyncio.Task[None] | None = None
        self._doors = Doors()
        self._looked_s: float | None = None

    def begin(self) -> None:
        """Look from now on."""
        if self._on:
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    def stop(self) -> None:
        """Look no more."""
        if self._task:
            self._task.cancel()

    def status(self) -> dict[str, Any]:
        """Return what the control API says of it."""
        return {**self._doors.plain(), "looked_s": self._looked_s}

    async def _go_on(self) -> None:
        begun_s = time.monotonic()
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                found = await look(self._current())
            except Exception:
                _LOG.exception("the front door")
                continue
            starts = self._looked_s is None and time.monotonic() - begun_s < _STARTS_S
            if found.problems and starts:
                continue
            for problem in found.problems:
                if problem not in self._doors.problems:
                    _LOG.warning("%s", problem)
            self._doors, self._looked_s = found, time.time()

"""Readings on the box about the way to a server; their checks are in box.py."""

from __future__ import annotations

import asyncio
import errno
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from naproxy import drivers
from naproxy.config.document import DEFAULT_FILE, Server, target_of
from naproxy.controller.front_door import Doors
from naproxy.controller.ping import Pinger
from naproxy.core.interfaces import ip, own_address
from naproxy.core.reason import Reason
from naproxy.drivers.checks import FromBox, Known
from naproxy.edge import to_server
from naproxy.server.services import Listener

__all__ = ["Known", "Seen", "own_address", "see"]

CONNECT_S: Final = 3.0
PING_S: Final = 1.5
PING_EVERY_S: Final = 0.3
GOOD_DOORS: Final = Doors()


@dataclass(frozen=True, kw_only=True)
class Seen(FromBox):
    """The readings on the box; None: could not be read."""

    server: Server
    interface: str
    up: bool | None = None
    """Is the interface up? None: there is no such interface."""
    route: dict[str, Any] | None = None
    """How the kernel would reach the server: `dev`, and `gateway` if there is one."""
    web: str = "silent"
    """The server's web port: open, refused, silent or the system's own words."""
    macs: tuple[str, ...] = ()
    """Ethernet addresses that the server's IP address was seen with."""
    raw: bool = True
    """May this user send frames?"""
    programs: frozenset[str] = frozenset()
    pinged: bool = False
    """It answers pings now."""
    shown: Reason | None = None
    """The error in the certificate that it presents to the box."""
    refused: Reason | None = None
    """Why the settings in the file are not those that were looked at."""
    met: tuple[Listener, ...] | None = None
    """Which of a few well-known ports answer; None: nobody was there to answer."""
    listens: str | None = None
    """The ports that a person reported from the server."""
    file: Path = Path(DEFAULT_FILE)
    """Of the settings."""
    doors: Doors = GOOD_DOORS
    """The box's own ports."""

    @property
    def there(self) -> Reason | None:
        """The evidence that the machine is running now, or None."""
        pinged = Reason("doctor.answers_pings") if self.pinged else None
        return (self.way and self.way.there) or pinged


@dataclass(frozen=True, kw_only=True)
class BoxSeen:
    """The readings about the box alone."""

    refused: Reason | None = None
    file: Path = Path(DEFAULT_FILE)
    doors: Doors = GOOD_DOORS


async def see(server: Server, interface: str) -> Seen:
    """Look at the server. Nothing is put to sleep, woken or changed."""
    web = await _web(server)
    routes = await ip("route", "get", server.address)
    neighbours = await ip("neigh", "show", "to", server.address, "dev", interface)
    look = getattr(drivers.module("sleep", server.sleep.driver), "see", None)
    target = target_of(server, interface)
    return Seen(
        server=server,
        interface=interface,
        up=_up(interface),
        route=routes[0] if routes else None,
        web=web,
        shown=(await to_server.look(server))[0] if server.by_https and web == "open" else None,
        macs=tuple(str(each["lladdr"]).lower() for each in neighbours if "lladdr" in each),
        raw=_raw(),
        pinged=await _pinged(server.address),
        programs=frozenset(
            filter(_which, {p for way in (server.sleep, *server.wake) for p in way.needs.programs})
        ),
        way=await look(server.sleep, target) if look else None,
    )


async def attempt(server: Server, interface: str) -> Any:
    """Have the server try its sleep without sleeping; None if its way to sleep cannot."""
    driver = drivers.module("sleep", server.sleep.driver)
    if not hasattr(driver, "attempt"):
        return None
    return await driver.attempt(server.sleep, target_of(server, interface))


def _which(program: str) -> str | None:
    return shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/bin")


def _up(name: str) -> bool | None:
    try:
        return Path(f"/sys/class/net/{name}/operstate").read_text().strip() != "down"
    except OSError:
        return None


async def _web(server: Server) -> str:
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(server.address, server.web_port)
    except TimeoutError:
        return "silent"
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        silent = error.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH)
        return "silent" if silent else error.strerror or str(error)
    writer.close()
    return "open"


async def _pinged(address: str) -> bool:
    answered = asyncio.Event()
    pinger = Pinger(address, lambda ping: answered.set() if ping.answered else None)
    pinger.every(PING_EVERY_S)
    try:
        async with asyncio.timeout(PING_S):
            await answered.wait()
    except TimeoutError:
        pass
    finally:
        pinger.stop()
    return answered.is_set()


def _raw() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except PermissionError:
        return False
    return True

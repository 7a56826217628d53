"""What is read on the box of the way to a server; the checks over it are in box.py."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import secrets
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from naproxy import agent_protocol
from naproxy.agent_protocol import NoAnswerError, Outcome, ProtocolError, Question
from naproxy.config import Server
from naproxy.drivers import secret
from naproxy.drivers.openssh import Session, Ssh
from naproxy.drivers.sleep.agent import STATES
from naproxy.ping import Pinger
from naproxy.reason import Reason, own_words

CONNECT_S: Final = 3.0
PING_S: Final = 1.5
PING_EVERY_S: Final = 0.3


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was read on the box; None: it could not be."""

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
    key_problem: Reason | None = None
    ssh: Session | None = None
    ssh_problem: Reason | None = None
    """Why nobody was let in."""
    agent: Outcome | None = None
    agent_problem: Reason | None = None
    pinged: bool = False
    """It answers pings now."""

    @property
    def there(self) -> Reason | None:
        """By what the machine is known to run now; None: nothing shows it."""
        if self.ssh is not None and self.ssh.let_in:
            return Reason("doctor.lets_in")
        if self.agent is not None:
            return Reason("doctor.agent_answers")
        return Reason("doctor.answers_pings") if self.pinged else None


async def see(server: Server, interface: str) -> Seen:
    """Look at the server. Nothing is put to sleep, woken or changed."""
    web = await _web(server)
    seen = Seen(
        server=server,
        interface=interface,
        up=_up(interface),
        route=_first(_ip("route", "get", server.address)),
        web=web,
        macs=_macs(server, interface),
        raw=_raw(),
        pinged=await _pinged(server.address),
        programs=frozenset(filter(_which, ("etherwake", "ipmitool", "gpioset", "ssh"))),
    )
    if server.sleep.driver == "ssh":
        return dataclasses.replace(seen, key_problem=_key_problem(server), **await _ssh(server))
    if server.sleep.driver == "agent":
        return dataclasses.replace(seen, **await asyncio.to_thread(_agent, server))
    return seen


def _which(program: str) -> str | None:
    return shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/bin")


def _up(name: str) -> bool | None:
    try:
        return Path(f"/sys/class/net/{name}/operstate").read_text().strip() != "down"
    except OSError:
        return None


def _ip(*words: str) -> list[dict[str, Any]]:
    """Ask ip(8), which answers in JSON; nothing where it has no answer."""
    try:
        said = subprocess.run(
            ["ip", "-j", *words], capture_output=True, text=True, timeout=5, check=True
        ).stdout
        found = json.loads(said or "[]")
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return [each for each in found if isinstance(each, dict)]


def _first(found: list[dict[str, Any]]) -> dict[str, Any] | None:
    return found[0] if found else None


async def _web(server: Server) -> str:
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(server.address, server.port)
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


def _macs(server: Server, interface: str) -> tuple[str, ...]:
    found = _ip("neigh", "show", "to", server.address, "dev", interface)
    return tuple(str(each["lladdr"]).lower() for each in found if "lladdr" in each)


def _raw() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except PermissionError:
        return False
    return True


def _key_problem(server: Server) -> Reason | None:
    path = Path(server.sleep.key_file)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return Reason("doctor.key_unreadable", file=str(path), said=own_words(str(error.strerror)))
    return Reason("doctor.key_not_private", file=str(path)) if mode & 0o077 else None


async def _ssh(server: Server) -> dict[str, Any]:
    ssh = Ssh(server.sleep, server.address)
    try:
        session = await ssh.look(2.0 * server.sleep.connect_timeout_s)
    except OSError as error:
        said = own_words(str(error.strerror))
        return {"ssh_problem": Reason("doctor.ssh_cannot_run", said=said)}
    problem = None if session.let_in else ssh.failure(session.log)
    return {"ssh": session, "ssh_problem": problem}


def _agent(server: Server) -> dict[str, Any]:
    settings = server.sleep
    try:
        key = agent_protocol.parse_key(secret.read(settings.key_file))
        question = Question(
            key,
            server.id,
            STATES[settings.state],
            order=False,
            nonce=lambda: secrets.token_hex(16),
        )
        return {"agent": _ask(question, settings.host or server.address, settings.port)}
    except secret.SecretError as error:
        return {"agent_problem": Reason("doctor.agent_key", said=error.reason)}
    except ProtocolError as error:
        return {"agent_problem": Reason("doctor.agent_key", said=own_words(str(error)))}
    except NoAnswerError as error:
        return {"agent_problem": own_words(str(error))}
    except OSError as error:
        said = own_words(error.strerror or str(error))
        return {"agent_problem": Reason("doctor.agent_not_reached", said=said)}


def _ask(question: Question, host: str, port: int) -> Outcome:
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as sock:
        sock.connect(place)

        def receive(wait_s: float) -> bytes | None:
            sock.settimeout(wait_s)
            try:
                return sock.recv(agent_protocol.MAX_BYTES + 1)
            except TimeoutError:
                return None

        return agent_protocol.converse(
            question,
            send=sock.send,
            receive=receive,
            now_s=time.time,
            monotonic_s=time.monotonic,
            timeout_s=CONNECT_S,
        )

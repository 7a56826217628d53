"""Virtual machines and containers of Proxmox VE, by its API (pve.proxmox.com/pve-docs/api-viewer).

Its certificate is of its own making, so it is pinned, and checked before the token is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError, own_words
from naproxy.core.schema import Held, fits, is_absolute, option
from naproxy.drivers import pinned, secret
from naproxy.drivers.openssh import is_place

_POLL_S: Final = 0.5
_is_machine: Final = fits(
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?/(qemu|lxc)/[1-9][0-9]{2,8}",
    Reason("config.machine", name="pve/qemu/100"),
)


def _is_token(text: str) -> Reason | None:
    known = re.fullmatch(r"[!-~]+@[!-~]+![!-~]+=[!-~]+", text)
    return secret.is_line(text) or (None if known else Reason("config.proxmox_token"))


_TOKEN: Final = Held("token", _is_token)


@dataclass(frozen=True, kw_only=True)
class ProxmoxSettings:
    """A machine, its Proxmox, and our login there."""

    guest: ClassVar[bool] = True
    """`host` runs it: as long as that sleeps, nothing wakes it."""

    host: str = option("Address or host name of Proxmox VE", low=1, check=is_place)
    port: int = option("Its port for HTTPS", 8006, low=1, high=65535)
    fingerprint: str = option(
        "SHA-256 fingerprint of its certificate: Naproxy trusts nothing else",
        check=pinned.is_fingerprint,
    )
    password_file: str = option(
        "File with the API token, user@realm!name=secret, in one line; only root may read it",
        check=is_absolute,
        holds=_TOKEN,
    )
    machine: str = option(
        "The machine: the node that runs it, qemu or, for a container, lxc, and its number, such as"
        " pve/qemu/100",
        check=_is_machine,
    )


@dataclass(frozen=True, slots=True)
class Guest:
    """A machine's state (running, stopped, paused or another of QEMU's) and its lock."""

    state: str
    lock: str


@dataclass(frozen=True, slots=True)
class Order:
    """An order to a machine."""

    verb: str
    form: Mapping[str, int]


class Proxmox:
    """Gives orders, in one connection for each request."""

    def __init__(self, settings: ProxmoxSettings, timeout_s: float) -> None:
        """Manage the settings' machine; an order may take so long."""
        self._settings = settings
        self._timeout_s = timeout_s
        node, _, guest = settings.machine.partition("/")
        self._node = f"/api2/json/nodes/{node}"
        self._machine = f"{self._node}/{guest}/status"

    async def order(self, choose: Callable[[Guest], Order | None]) -> Guest:
        """Give the order chosen for the machine's current state, and wait until it is done.

        Returns the machine's state before; WrongError if Proxmox does not do it, or not in time.
        """
        host, task = self._settings.host, None
        try:
            async with asyncio.timeout(self._timeout_s):
                guest = _guest(await self._ask("GET", f"{self._machine}/current"))
                order = choose(guest)
                if order:
                    task = await self._ask("POST", f"{self._machine}/{order.verb}", order.form)
                    await self._end(order.verb, task)
                return guest
        except TimeoutError:
            code = "proxmox.unfinished" if task else "proxmox.silent"
            raise WrongError(code, host=host) from None
        except WrongError as error:
            raise WrongError("proxmox.said", host=host, words=error.reason) from None

    async def _end(self, verb: str, task: object) -> None:
        """Wait for the end of a task; WrongError if it failed."""
        if not isinstance(task, str):
            raise WrongError("proxmox.strange")
        path = f"{self._node}/tasks/{quote(task[:300], safe='')}/status"
        while (now := pinned.as_object(await self._ask("GET", path))).get("status") == "running":
            await asyncio.sleep(_POLL_S)
        ended = now.get("exitstatus")
        if now.get("status") != "stopped" or not isinstance(ended, str):
            raise WrongError("proxmox.strange")
        if ended != "OK" and not ended.startswith("WARNINGS: "):
            raise WrongError("proxmox.task", verb=verb, words=_own(ended))

    async def _ask(self, method: str, path: str, form: Mapping[str, int] | None = None) -> Any:
        """Return the data of an answer."""
        settings = self._settings
        headers = {"Authorization": f"PVEAPIToken={_token(settings.password_file)}"}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        text = urlencode(form) if form is not None else None
        exchange = pinned.Exchange(
            pinned.PinnedConnection(
                settings.host, settings.port, settings.fingerprint, self._timeout_s
            )
        )
        return await exchange.in_time(
            lambda: _talk(exchange, method, path, headers, text), self._timeout_s
        )


def _token(file: str) -> str:
    token = secret.read(file, Reason("proxmox.token"))
    if _is_token(token):
        raise WrongError("proxmox.no_token", file=file)
    return token


def _talk(
    exchange: pinned.Exchange, method: str, path: str, headers: dict[str, str], form: str | None
) -> Any:
    """Make one request; blocks, so it belongs in a thread."""
    response = exchange.ask(method, path, headers, form)
    data = pinned.body(response)
    if response.status != HTTPStatus.OK:
        status, said = response.status, _own(_said(response.reason or "", data))
        raise WrongError("proxmox.status", status=status, said=said)
    return pinned.json_object(data).get("data")


def _guest(data: object) -> Guest:
    said = pinned.as_object(data)
    if said.get("status") not in ("running", "stopped"):
        raise WrongError("proxmox.strange")
    # Of a virtual machine QEMU knows better: to Proxmox one that is paused is running.
    state, lock = said.get("qmpstatus") or said["status"], said.get("lock") or ""
    return Guest(program.words(str(state).encode()), program.words(str(lock).encode()))


def _said(reason: str, data: bytes) -> str:
    """Return the words of a refusal: the status line has them, the body what is wrong where."""
    errors: dict[str, Any] = {}
    with contextlib.suppress(WrongError):
        errors = pinned.as_object(pinned.json_object(data).get("errors"))
    return " ".join([reason, *(f"{name}: {what}" for name, what in errors.items())])


def _own(text: str) -> Reason:
    return own_words(program.words(text.encode(errors="replace")))

"""Redfish (DMTF DSP0266), for the drivers that talk to a BMC.

BMCs sign their certificates themselves, so the certificate is pinned by its fingerprint, and
checked before a password is sent. Nothing is followed elsewhere.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import fits, is_absolute, option
from naproxy.drivers import pinned, secret
from naproxy.drivers.openssh import is_place, is_user

_SYSTEMS: Final = "/redfish/v1/Systems"
_RESET: Final = "#ComputerSystem.Reset"
_SAME: Final = {"On": ("On", "ForceOn", "PushPowerButton")}
"""Reset types with the same effect on a system that is off, in order of preference."""
_IF_OFF: Final = "PushPowerButton"
"""Would shut a running system down."""


@dataclass(frozen=True, kw_only=True)
class RedfishSettings:
    """A BMC's address, and our login there."""

    host: str = option("Address or host name of the BMC", low=1, check=is_place)
    port: int = option("Its port for HTTPS", 443, low=1, high=65535)
    fingerprint: str = option(
        "SHA-256 fingerprint of its certificate: Naproxy trusts nothing else",
        check=pinned.is_fingerprint,
    )
    user: str = option("User of the BMC", low=1, high=64, check=is_user)
    password_file: str = option(
        "File with the password, in one line; only root may read it",
        check=is_absolute,
        holds=secret.PASSWORD,
    )
    machine: str = option(
        "Id of the system on it; empty: the only one",
        "",
        check=fits(r"[A-Za-z0-9_.:-]*", Reason("config.redfish", name="/redfish/v1/Systems")),
    )


async def reset(settings: RedfishSettings, kind: str, unless: str, timeout_s: float) -> Reason:
    """Ask for a reset (On, GracefulShutdown); WrongError if the BMC does not take it.

    It is not sent to a system whose PowerState is `unless`: BMCs react to that differently.
    Returns the action taken. It takes one connection.
    """
    password = secret.read(settings.password_file, Reason("bmc.password"))
    connection = pinned.PinnedConnection(
        settings.host, settings.port, settings.fingerprint, timeout_s
    )
    exchange = pinned.Exchange(connection)
    session = _Session(exchange, settings, password)
    try:
        return await exchange.in_time(lambda: session.reset(kind, unless), timeout_s)
    except TimeoutError:
        raise WrongError("bmc.silent", host=settings.host) from None
    except WrongError as error:
        raise WrongError("bmc.said", host=settings.host, words=error.reason) from None


class _Session:
    """Requests in one connection; blocks, so it belongs in a thread."""

    def __init__(self, exchange: pinned.Exchange, settings: RedfishSettings, password: str) -> None:
        self._exchange = exchange
        self._settings = settings
        token = base64.b64encode(f"{settings.user}:{password}".encode()).decode()
        self._headers = {
            "Authorization": f"Basic {token}",
            "Accept": "application/json",
            "OData-Version": "4.0",
        }

    def reset(self, kind: str, unless: str) -> Reason:
        system = self._ask("GET", self._find())
        state = program.words(str(system.get("PowerState")))
        if state == unless:
            raise WrongError("bmc.already", state=state)
        action = pinned.as_object(pinned.as_object(system.get("Actions")).get(_RESET))
        offered = action.get("ResetType@Redfish.AllowableValues")
        if isinstance(offered, list):
            kinds = [each for each in _SAME.get(kind, (kind,)) if each in offered]
            if state != "Off":
                kinds = [each for each in kinds if each != _IF_OFF]
            if not kinds:
                names = program.words(", ".join(map(str, offered)))
                raise WrongError("bmc.not_offered", kind=kind, names=names)
            kind = kinds[0]
        self._ask("POST", _path(action.get("target")), {"ResetType": kind})
        return Reason("bmc.taken", kind=kind, state=state)

    def _find(self) -> str:
        members = self._ask("GET", _SYSTEMS).get("Members")
        found = [
            _path(pinned.as_object(member).get("@odata.id"))
            for member in (members if isinstance(members, list) else [])
        ]
        wanted = self._settings.machine
        chosen = [p for p in found if not wanted or p.rstrip("/").rpartition("/")[2] == wanted]
        if len(chosen) != 1:
            names = ", ".join(p.rstrip("/").rpartition("/")[2] for p in found)
            if not names:
                raise WrongError("bmc.no_system")
            raise WrongError("bmc.systems", names=program.words(names))
        return chosen[0]

    def _ask(self, method: str, path: str, form: dict[str, str] | None = None) -> dict[str, Any]:
        headers = {**self._headers, **({"Content-Type": "application/json"} if form else {})}
        text = json.dumps(form) if form else None
        response = self._exchange.ask(method, path, headers, text)
        data = pinned.body(response)
        if slashed := pinned.with_slash(response, path, self._settings.host):
            response = self._exchange.ask(method, slashed, headers, text)
            data = pinned.body(response)
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise WrongError("bmc.login")
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            request, status = f"{method} {path}", response.status
            if said := _said(data):
                raise WrongError("bmc.status_said", request=request, status=status, said=said)
            raise WrongError("bmc.status", request=request, status=status)
        return pinned.json_object(data) if data else {}


def _path(value: object) -> str:
    """Return a path on this BMC; links to other hosts are not followed."""
    if not isinstance(value, str) or not re.fullmatch(r"/redfish/v1/[!-~]{1,200}", value):
        raise WrongError("bmc.elsewhere")
    return value


def _said(data: bytes) -> str:
    """Return the words of a Redfish error (DSP0266, 8.6); empty if none."""
    with contextlib.suppress(WrongError):
        error = pinned.as_object(pinned.json_object(data).get("error"))
        more = error.get("@Message.ExtendedInfo")
        first = pinned.as_object(more[0]) if isinstance(more, list) and more else {}
        text = first.get("Message") or error.get("message")
        if isinstance(text, str):
            return program.words(text)
    return ""

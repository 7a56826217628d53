"""Redfish (DMTF DSP0266), for the drivers that talk to a BMC.

BMCs sign their certificates themselves, so the certificate is pinned by its fingerprint, and
checked before a password is sent. Nothing is followed elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import re
import socket
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy.drivers import program, secret
from naproxy.drivers.openssh import is_place, is_user
from naproxy.drivers.pinned import PinnedConnection, is_fingerprint
from naproxy.reason import Reason
from naproxy.schema import is_absolute, option

_SYSTEMS: Final = "/redfish/v1/Systems"
_MOST_BYTES: Final = 1 << 20
_RESET: Final = "#ComputerSystem.Reset"


class RedfishError(Exception):
    """What failed, in words that a person can act on."""


def _is_id(text: str) -> Reason | None:
    ok = re.fullmatch(r"[A-Za-z0-9_.:-]*", text)
    return None if ok else Reason("config.redfish", name="/redfish/v1/Systems")


@dataclass(frozen=True, kw_only=True)
class RedfishSettings:
    """Which BMC, and who we are to it."""

    host: str = option("Address or host name of the BMC", low=1, check=is_place)
    port: int = option("Its port for HTTPS", 443, low=1, high=65535)
    fingerprint: str = option(
        "SHA-256 fingerprint of its certificate: nothing else is trusted", check=is_fingerprint
    )
    user: str = option("User of the BMC", low=1, high=64, check=is_user)
    password_file: str = option(
        "File with the password, in one line; only root may read it", check=is_absolute
    )
    system: str = option("Which of its systems; empty: the only one", "", check=_is_id)


class Redfish:
    """Resets a system, in one connection for each time."""

    def __init__(self, settings: RedfishSettings) -> None:
        """Talk to the settings' BMC."""
        self._settings = settings

    async def reset(self, kind: str, unless: str, timeout_s: float) -> str:
        """Ask for a reset (On, GracefulShutdown); RedfishError if the BMC does not take it.

        To a system whose PowerState is `unless` it is not sent: BMCs differ in what they then
        do. Returns what was done, in words.
        """
        settings = self._settings
        try:
            password = secret.read(settings.password_file)
        except secret.SecretError as error:
            raise RedfishError(f"the BMC's password: {error}") from None
        connection = PinnedConnection(settings.host, settings.port, settings.fingerprint, timeout_s)
        session = _Session(connection, settings, password)
        work = asyncio.ensure_future(asyncio.to_thread(session.reset, kind, unless))
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(work)
        except TimeoutError:
            raise RedfishError(f"the BMC at {settings.host} does not answer in time") from None
        except (RedfishError, OSError, ValueError, http.client.HTTPException) as error:
            text = getattr(error, "strerror", None) or str(error) or repr(error)
            words = program.words(text.encode())
            raise RedfishError(f"the BMC at {settings.host}: {words}") from None
        finally:
            if not work.done():
                # Ends the thread, which may hang in a read of a BMC that drips.
                work.add_done_callback(lambda done: done.cancelled() or done.exception())
                with contextlib.suppress(OSError):
                    if connection.sock:
                        connection.sock.shutdown(socket.SHUT_RDWR)


class _Session:
    """Requests in one connection; blocks, so it belongs in a thread."""

    def __init__(
        self, connection: PinnedConnection, settings: RedfishSettings, password: str
    ) -> None:
        self._connection = connection
        self._settings = settings
        token = base64.b64encode(f"{settings.user}:{password}".encode()).decode()
        self._headers = {
            "Authorization": f"Basic {token}",
            "Accept": "application/json",
            "OData-Version": "4.0",
        }

    def reset(self, kind: str, unless: str) -> str:
        try:
            system = self._ask("GET", self._find())
            state = system.get("PowerState")
            if state == unless:
                raise RedfishError(f"it says that the server is {state} already")
            action = _dict(_dict(system.get("Actions")).get(_RESET))
            offered = action.get("ResetType@Redfish.AllowableValues")
            if isinstance(offered, list) and kind not in offered:
                raise RedfishError(f"it does not offer {kind}, but {', '.join(map(str, offered))}")
            self._ask("POST", _path(action.get("target")), {"ResetType": kind})
            return f"{kind} taken; the system was {state}"
        finally:
            self._connection.close()

    def _find(self) -> str:
        members = self._ask("GET", _SYSTEMS).get("Members")
        found = [
            _path(_dict(member).get("@odata.id"))
            for member in (members if isinstance(members, list) else [])
        ]
        wanted = self._settings.system
        chosen = [p for p in found if not wanted or p.rstrip("/").rpartition("/")[2] == wanted]
        if len(chosen) != 1:
            names = ", ".join(p.rstrip("/").rpartition("/")[2] for p in found) or "none"
            raise RedfishError(f"set the key system to one of its systems: {names}")
        return chosen[0]

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        headers = {**self._headers, **({"Content-Type": "application/json"} if body else {})}
        self._connection.request(method, path, json.dumps(body) if body else None, headers)
        response = self._connection.getresponse()
        data = response.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise RedfishError("its answer is too long")
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise RedfishError("it does not accept the user and the password")
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            raise RedfishError(f"{method} {path}: HTTP status {response.status}{_why(data)}")
        return _read(data) if data else {}


def _read(data: bytes) -> dict[str, Any]:
    try:
        return _dict(json.loads(data))
    except (ValueError, RecursionError):
        raise RedfishError("its answer is not JSON") from None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _path(value: object) -> str:
    """Return a path on this BMC; what it names elsewhere is not followed."""
    if not isinstance(value, str) or not re.fullmatch(r"/redfish/v1/[!-~]{1,200}", value):
        raise RedfishError("it names a resource that is no path below /redfish/v1/")
    return value


def _why(data: bytes) -> str:
    """Return the words of a Redfish error (DSP0266, 8.6), after a colon; empty if none."""
    with contextlib.suppress(RedfishError):
        error = _dict(_read(data).get("error"))
        more = error.get("@Message.ExtendedInfo")
        first = _dict(more[0]) if isinstance(more, list) and more else {}
        text = first.get("Message") or error.get("message")
        if isinstance(text, str):
            return f": {text}"
    return ""

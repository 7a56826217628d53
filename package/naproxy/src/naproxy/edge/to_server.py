"""Servers reached over HTTPS: haproxy's rules for their certificates, and the ones they present.

haproxy rejects a server with another certificate and gives no reason. So this module checks it by
the same rules, only to report the reason and to learn a certificate to pin.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from naproxy.config.document import Config, Server, plain_fingerprint, target_of
from naproxy.core import files
from naproxy.core.processes import why, words
from naproxy.core.reason import Reason, WrongError
from naproxy.core.wire import Web, reach

MOST_BYTES: Final = 1 << 20
"""Of a file of authorities."""
MOST_NAMES: Final = 8
_STEP_S: Final = 3.0
_AGAIN_S: Final = 3600.0
_SOON_S: Final = 60.0
_PINNED: Final = "pinned"
_BEGINS: Final = b"-----BEGIN CERTIFICATE-----"
_MISMATCH: Final = (62, 64)
_WRONG: Final = {
    9: Reason("https.shown_not_yet"),
    10: Reason("https.shown_expired"),
    **dict.fromkeys((2, 18, 19, 20, 21), Reason("https.shown_issuer")),
}
"""By OpenSSL's error number for a certificate (x509_vfy.h)."""


@dataclass(frozen=True, slots=True)
class Way:
    """The authorities haproxy trusts for a server; None: those of the system."""

    authorities: bytes | None = None


class ToServers:
    """The ways to those servers, and the errors in their certificates."""

    def __init__(
        self, folder: Path, awake: Callable[[str], bool], now: Callable[[], float]
    ) -> None:
        """Know nothing; certificates that were pinned before are below `folder`."""
        self._folder = folder / _PINNED
        self._awake = awake
        self._now = now
        self._seen: dict[str, tuple[Any, float, Reason | None]] = {}
        self._ways: dict[str, Way | Reason] = {}

    def ways(self, config: Config) -> Mapping[str, Way]:
        """Return the usable ways; a server without one gets no requests."""
        wanted = [server for server in config.server if server.by_https]
        self._ways = {server.id: self._way(server) for server in wanted}
        return {name: way for name, way in self._ways.items() if isinstance(way, Way)}

    def _way(self, server: Server) -> Way | Reason:
        https = server.https
        try:
            if https.to_server_check == "pin":
                return self._pinned(plain_fingerprint(https.to_server_pin))
            return Way(authorities_of(server))
        except WrongError as error:
            return error.reason

    def _pinned(self, pin: str) -> Way | Reason:
        try:
            pem = (self._folder / f"{pin}.pem").read_bytes()
        except OSError:
            return Reason("https.pin_not_met")
        return Way(pem)

    def problem(self, server: Server) -> Reason | None:
        """Return why it cannot be asked, as far as is known."""
        way = self._ways.get(server.id)
        about, _, seen = self._seen.get(server.id, (None, 0.0, None))
        if about == _subject(server) and seen:
            return seen
        return way if isinstance(way, Reason) else None

    async def look(self, config: Config) -> bool:
        """Look at those that are awake, each once an hour; has a way become known?"""
        due = [server for server in config.server if server.by_https and self._due(server)]
        return any(await asyncio.gather(*(self._look(server) for server in due)))

    def _due(self, server: Server) -> bool:
        if not self._awake(server.id):
            return False
        about, t_s, problem = self._seen.get(server.id, (None, 0.0, None))
        again_s = _SOON_S if problem else _AGAIN_S
        return about != _subject(server) or not t_s <= self._now() < t_s + again_s

    async def _look(self, server: Server) -> bool:
        problem, shown = await look(server)
        self._seen[server.id] = (_subject(server), self._now(), problem)
        if problem or server.https.to_server_check != "pin":
            return False
        file = self._folder / f"{sha256(shown).hexdigest()}.pem"
        if file.exists():
            return False
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(files.write, file, ssl.DER_cert_to_PEM_cert(shown), 0o600)
        return True


def _subject(server: Server) -> Any:
    return (server.address, server.https, server.web_names)


def authorities_of(server: Server) -> bytes | None:
    """Return the authorities that may sign its certificate; None: the system's; WrongError."""
    name = server.https.to_server_ca_file
    if server.https.to_server_check != "ca" or not name:
        return None
    try:
        pem, _ = files.peek(name, MOST_BYTES)
    except OSError as error:
        raise WrongError("https.ca_file", file=name, why=why(error)) from None
    try:
        # A file that haproxy cannot parse would break the visitors' HTTPS too.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=_text(pem))
    except ssl.SSLError as error:
        what = words((error.reason or str(error)).encode())
        raise WrongError("https.ca_file", file=name, why=what) from None
    return pem


def _text(pem: bytes) -> str:
    if _BEGINS not in pem:
        raise WrongError("https.no_certificate")
    return pem.decode("ascii", errors="replace")


async def look(server: Server) -> tuple[Reason | None, bytes]:
    """Do a TLS handshake; return the certificate's error and the certificate (DER)."""
    web = target_of(server, "").web
    names = server.web_names[:MOST_NAMES] or ("",)
    try:
        async with asyncio.timeout(_STEP_S):
            shown = await asyncio.gather(*(_shaken(replace(web, name=name)) for name in names))
    except TimeoutError:
        return Reason("https.server_silent", port=web.port), b""
    except OSError as error:
        return Reason("https.server_no_https", port=web.port, why=_words(error)), b""
    for name, certificate in zip(names, shown, strict=True):
        wrong = await _judged(server, replace(web, name=name), certificate)
        if wrong:
            return wrong, certificate
    return None, shown[0]


async def _judged(server: Server, web: Web, certificate: bytes) -> Reason | None:
    check = server.https.to_server_check
    found = sha256(certificate).hexdigest()
    if check == "pin" and found != plain_fingerprint(server.https.to_server_pin):
        return Reason("https.shown_other", found=found)
    try:
        authorities = authorities_of(server)
        context = await asyncio.to_thread(_checking, authorities, check, certificate, web.name)
        async with asyncio.timeout(_STEP_S):
            await _shaken(web, context)
    except WrongError as error:
        return error.reason
    except ssl.SSLCertVerificationError as error:
        return _wrong(error, check, web.name)
    except TimeoutError:
        return Reason("https.server_silent", port=web.port)
    except OSError as error:
        return Reason("https.server_no_https", port=web.port, why=_words(error))
    return None


def _checking(
    authorities: bytes | None, check: str, certificate: bytes, name: str
) -> ssl.SSLContext:
    """Return a context that verifies as haproxy does, and also checks `name`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(name)
    if check == "ca" and authorities is None:
        context.load_default_certs()
        return context
    context.load_verify_locations(cadata=_text(authorities) if authorities else certificate)
    if check == "name":
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return context


def _wrong(error: ssl.SSLCertVerificationError, check: str, name: str) -> Reason:
    if error.verify_code in _MISMATCH:
        return Reason("https.shown_for_others", name=name)
    if error.verify_code not in _WRONG:
        return Reason("https.shown_wrong", why=words(error.verify_message.encode()))
    wrong = _WRONG[error.verify_code]
    if check == "pin" and wrong.code == "https.shown_issuer":
        return Reason("https.pin_of_issued")
    return wrong


async def _shaken(web: Web, context: ssl.SSLContext | None = None) -> bytes:
    _, writer = await reach(web, context)
    try:
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return secured.getpeercert(binary_form=True) or b""
    finally:
        writer.transport.abort()


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return words((error.reason or "TLS").encode())
    return why(error) or os.strerror(error.errno or 0)

"""Looking at a server: does it answer over HTTPS, and does it send visitors past the box?

The answers are untrusted: little is read, and no other machine is asked. `Wire` has all access to
the network, and tests replace it. `server/sight.py` judges the result.
"""

from __future__ import annotations

import asyncio
import calendar
import contextlib
import errno
import re
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from urllib.parse import urlsplit

from naproxy import __version__
from naproxy.config.document import Server, target_of
from naproxy.core.names import ascii_site, in_url, is_one
from naproxy.core.processes import printed
from naproxy.core.wire import MOST_BYTES, Streams, Web, anybody, exchange, reach, status_of
from naproxy.server.sight import HTTPS_PORT, Led, Look, Shown

LONGEST_S: Final = 20.0
STEP_S: Final = 3.0
MOST_SHOWN: Final = 8
"""Of so many names the certificate is looked at: that is for people, no judgement."""
AT_ONCE: Final = 8
"""So many questions wait for an answer at once."""
_SAMPLE: Final = "www."
"""Asked in the place of `*.`, which is not a name."""
MOST_STEPS: Final = 5
_MOST_TEXT: Final = 100
_DER_BYTES: Final = 1 << 16
_OPENSSL: Final = (
    *("openssl", "x509", "-inform", "DER", "-noout", "-enddate", "-dateopt", "iso_8601"),
    *("-ext", "subjectAltName"),
)
_DNS: Final = re.compile(r"DNS:([A-Za-z0-9*._-]{1,253})(?=,|\s|$)")
_END: Final = re.compile(r"notAfter=(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)Z")
_LEADS: Final = (301, 302, 303, 307, 308)
_NO_HEAD: Final = (405, 501)

_T = TypeVar("_T")


class Wire:
    """All access to the network."""

    async def connect(self, address: str, port: int) -> Streams:
        """Open a connection that buffers no more of an answer than is read."""
        return await asyncio.open_connection(address, port, limit=MOST_BYTES)

    async def web(self, web: Web) -> Streams:
        """Do so as its web server expects it."""
        plain = not (web.tls or web.proxied)
        return await (self.connect(web.address, web.port) if plain else reach(web))

    async def certificate(self, address: str, port: int, name: str) -> bytes:
        """Return the certificate that is shown for a name, with any signature; maybe empty."""
        return await self._shaken(address, port, name, anybody())

    async def trusted(self, address: str, port: int, name: str) -> bool:
        """Would a browser trust what is shown?"""
        context = await asyncio.to_thread(ssl.create_default_context)
        try:
            await self._shaken(address, port, name, context)
        except ssl.SSLCertVerificationError:
            return False
        return True

    async def _shaken(self, address: str, port: int, name: str, context: ssl.SSLContext) -> bytes:
        _, writer = await asyncio.open_connection(
            address, port, ssl=context, server_hostname=name, ssl_shutdown_timeout=STEP_S
        )
        try:
            secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
            return secured.getpeercert(binary_form=True) or b""
        finally:
            writer.transport.abort()

    async def told(self, certificate: bytes) -> str:
        """Return openssl's description of a certificate; empty if it is invalid."""
        with tempfile.NamedTemporaryFile(prefix="naproxy-shown-") as file:
            file.write(certificate)
            file.flush()
            done = await printed((*_OPENSSL, "-in", file.name), STEP_S, {}, MOST_BYTES)
        return done.output.decode(errors="replace")


async def look(server: Server, wire: Wire | None = None) -> Look:
    """Look at it, at most `LONGEST_S`; the rest is unknown then."""
    t_s = time.time()
    looking = _Looking(server, wire or Wire())
    try:
        async with asyncio.timeout(LONGEST_S):
            async with asyncio.TaskGroup() as group:
                port = group.create_task(looking.https())
                leads = [
                    group.create_task(looking.follow(name, through_proxy=through_proxy))
                    for name in looking.asked
                    for through_proxy in (False, True)
                ]
    except TimeoutError:
        return Look(t_s, "unknown", whole=False)
    state, shown = port.result()
    led = [task.result() for task in leads]
    return Look(
        t_s,
        state,
        shown,
        tuple(each.led for each in led if each.led),
        whole=all(each.answered for each in led),
    )


@dataclass(frozen=True, slots=True)
class _Followed:
    led: Led | None = None
    answered: bool = True


class _Looking:
    """One look at one server."""

    def __init__(self, server: Server, wire: Wire) -> None:
        self._server = server
        self._wire = wire
        sites = [ascii_site(host) for host in server.hosts]
        self._names = tuple(dict.fromkeys(_asked(site) for site in sites))
        self.asked: Sequence[str] = self._names or (in_url(server.address),)
        self._sites = set(sites) or {server.address}
        self._own = {*sites, server.address}
        self._turn = asyncio.Semaphore(AT_ONCE)

    # Port 443

    async def https(self) -> tuple[str, tuple[Shown, ...]]:
        """Return the port's state, and the certificate that it shows for each name."""
        state = await self._knock()
        if state != "open":
            return state, ()
        asked = self._names[:MOST_SHOWN] or ("",)
        shown = await asyncio.gather(*(self._shown(name) for name in asked))
        return state, tuple(each for each in shown if each)

    async def _knock(self) -> str:
        try:
            async with asyncio.timeout(STEP_S):
                _, writer = await self._wire.connect(self._server.address, HTTPS_PORT)
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "silent"
        except OSError as error:
            # So do firewalls turn away; the other port shows that there is a way.
            return "silent" if error.errno == errno.EHOSTUNREACH else "unknown"
        writer.transport.abort()
        return "open"

    async def _shown(self, name: str) -> Shown | None:
        """Return what is shown for a name; None where there is no certificate."""
        where = (self._server.address, HTTPS_PORT, name)
        der = await _in_time(self._wire.certificate(*where), b"")
        if not der or len(der) > _DER_BYTES:
            return None
        text = await _in_time(self._wire.told(der), "")
        trusted = bool(name) and await _in_time(self._wire.trusted(*where), False)
        names = tuple(dict.fromkeys(found.lower() for found in _DNS.findall(text)))
        return Shown(name, names, _end_s(text), trusted)

    # Where the port that the box asks leads

    def _web(self, host: str) -> Web:
        web, https = target_of(self._server, "").web, self._server.https
        any_name = not https.to_server_name and https.to_server_check != "pin"
        return replace(web, name=host) if web.tls and any_name else web

    async def follow(self, name: str, *, through_proxy: bool) -> _Followed:
        """Ask for / by a name, and follow where it leads, as long as that is at this port."""
        host, path, led = name, "/", None
        asked: set[tuple[str, str]] = set()
        while (host, path) not in asked and len(asked) <= MOST_STEPS:
            asked.add((host, path))
            answer = await self._ask(host, path, through_proxy=through_proxy)
            if answer is None:
                return _Followed(answered=False)
            if not (to := _location(answer)):
                return _Followed()
            target = _target(to)
            own = not target.host or is_one(target.host, self._own)
            led = Led(
                name,
                _cut(target.shown),
                _cut(target.host),
                https=target.https,
                own_name=own,
                through_proxy=through_proxy,
                port=target.port,
            )
            if not self._comes_back(target, through_proxy=through_proxy):
                return _Followed(led)
            host, path = in_url(target.host) or host, target.path
        # A redirect loop bypasses the box only if it led to HTTPS and the box asks over HTTP.
        not_believed = led and led.https and not self._server.by_https
        return _Followed(led if not_believed else None)

    def _comes_back(self, target: _Target, *, through_proxy: bool) -> bool:
        """Would the visitor come to the box again, over the same protocol?"""
        if not target.host:
            return not target.https  # else it could not be read
        if not is_one(target.host, self._sites):
            return False
        if self._server.by_https:
            port = HTTPS_PORT if through_proxy else 80
            ports = (None, port, self._server.web_port)
            return target.https == through_proxy and target.port in ports
        if target.https:
            return through_proxy and target.port in (None, HTTPS_PORT)
        return target.port in (None, 80, self._server.port)

    async def _ask(self, host: str, path: str, *, through_proxy: bool) -> bytes | None:
        """Return the head of an answer; None if there is none."""
        answer = b""
        for method in ("HEAD", "GET"):
            async with self._turn:
                said = await _in_time(self._said(method, host, path, through_proxy), None)
            if said is None:
                return None
            answer = said
            if status_of(answer) not in _NO_HEAD:
                break
        return answer

    async def _said(self, method: str, host: str, path: str, through_proxy: bool) -> bytes | None:
        proxy = "X-Forwarded-Proto: https\r\n" if through_proxy else ""
        if self._server.by_https and not through_proxy:
            # Over HTTPS itself: so the server must be told how the visitor came, as the box does.
            proxy = "X-Forwarded-Proto: http\r\n"
        request = (
            f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: naproxy/{__version__}\r\n"
            f"Accept: text/html, */*\r\n{proxy}Connection: close\r\n\r\n"
        ).encode()
        return await exchange(await self._wire.web(self._web(host)), request, b"\r\n\r\n") or None


async def _in_time(work: Awaitable[_T], otherwise: _T) -> _T:
    """Return what comes of it; `otherwise` if it fails, or takes longer than a step may."""
    with contextlib.suppress(OSError, TimeoutError, UnicodeError, ValueError):
        async with asyncio.timeout(STEP_S):
            return await work
    return otherwise


def _asked(site: str) -> str:
    return site.replace("*.", _SAMPLE, 1) if site.startswith("*.") else site


def _location(answer: bytes) -> str:
    """Return where an answer leads; nothing if it does not."""
    if status_of(answer) not in _LEADS:
        return ""
    head, _, _ = answer.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"location":
            return value.decode("latin-1")
    return ""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a Location leads, as a browser would read it; no `host`: the same."""

    https: bool
    host: str
    port: int | None
    path: str

    @property
    def shown(self) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{'https' if self.https else 'http'}://{in_url(self.host)}{port}"


def _target(to: str) -> _Target:
    text = _printable(to).replace("\\", "/")  # as browsers do
    https = text.lower().startswith("https:")
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return _Target(https, "", None, "/")
    path = parts.path if parts.path.startswith("/") else f"/{parts.path}"
    return _Target(https, host, port, path + (f"?{parts.query}" if parts.query else ""))


def _printable(text: str) -> str:
    """Return it without anything that could end a line."""
    return re.sub(r"[^!-~]", "", text)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def _end_s(text: str) -> float | None:
    found = _END.search(text)
    if not found:
        return None
    with contextlib.suppress(ValueError):
        return float(calendar.timegm(time.strptime(found[1], "%Y-%m-%d %H:%M:%S")))
    return None


Looker = Callable[[Server], Awaitable[Look]]

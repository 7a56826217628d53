"""One visitor's request, its result, and the wait on the waiting page."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from ipaddress import IPv4Network, IPv6Network, ip_address

from naproxy.core.page_h import ENDS, SAID
from naproxy.lab.estimate.accesslog import Entry
from naproxy.lab.estimate.cachemodel import is_static
from naproxy.lab.replay.replay_http import Answer, Lost, ask

TIMEOUT_S = 60.0
POLL_S = 1.0  # as the waiting page's script does
DIRECT = "direct"  # the outcome of an answer that no proxy of ours sent
LOST = "lost"
_UNSERVED = (*ENDS["away"], *ENDS["failed"], *ENDS["spent"])
_NOT_SERVED = frozenset((LOST, *(word for word, outcome in SAID.items() if outcome in _UNSERVED)))
_STATUS_PATH = "/.naproxy/status"
_PAGE = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


@dataclass(frozen=True, slots=True)
class Returned:
    """The result for a visitor who saw the waiting page."""

    outcome: str  # of the answer that ended the wait, or "lost"
    status: int | None
    after_s: float  # after the first request was sent
    reloads: int


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of the log, or of a script, and its result."""

    number: int
    entry: Entry
    outcome: str  # a word of SAID, DIRECT without a box, LOST without an answer
    status: int | None
    size: int
    delay_s: float  # from before the connection to the end of the answer
    late_s: float = 0.0  # sent this much later than planned
    why_lost: str = ""
    returned: Returned | None = None

    @property
    def lost(self) -> bool:
        """Did the visitor never get an answer to what was asked for?"""
        return self.outcome == LOST or (self.returned is not None and self.returned.outcome == LOST)

    @property
    def served(self) -> bool:
        """Did the visitor get it in the end, not lost and not refused?"""
        return (self.returned.outcome if self.returned else self.outcome) not in _NOT_SERVED

    @property
    def wait_s(self) -> float:
        """Seconds until the visitor had what was asked for, over the waiting page if need be."""
        return self.returned.after_s if self.returned else self.delay_s


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go, and from whom."""

    address: str  # IP address
    port: int
    host: str  # the Host header
    run: str = "replay"  # begins every X-Request-Id
    bind: IPv4Network | IPv6Network | None = None  # source addresses, all local to this machine
    forwarded: bool = False  # name the client in X-Forwarded-For
    timeout_s: float = TIMEOUT_S
    tls: ssl.SSLContext | None = None  # HTTPS with these settings

    def source(self, client: str) -> str | None:
        """Return the address that stands for a client of the log: its own if `bind` has it."""
        if self.bind is None:
            return None
        try:
            address = ip_address(client)
        except ValueError:
            pass  # logged by name
        else:
            if address in self.bind:
                return client
        # The first and the last of a network may not be addresses of hosts.
        number = int.from_bytes(hashlib.sha256(client.encode("latin-1")).digest()[:8])
        return str(self.bind[1 + number % max(1, self.bind.num_addresses - 2)])


async def visit(
    target: Target,
    number: int,
    entry: Entry,
    *,
    late_s: float = 0.0,
    shown: Callable[[Visit], None] = lambda _: None,
) -> Visit:
    """Send one request and, if the waiting page comes, wait as it says and ask again.

    `shown` gets the visit so far when a waiting page comes. A server's faults never raise: they
    are in the result.
    """
    begin_s = time.monotonic()
    try:
        async with asyncio.timeout(target.timeout_s):
            answer = await _send(target, entry, f"{target.run}-{number}")
    except (Lost, TimeoutError) as error:
        why = _why(error, target)
        delay_s = time.monotonic() - begin_s
        return Visit(number, entry, LOST, None, 0, delay_s, late_s, why_lost=why)
    delay_s = time.monotonic() - begin_s
    done = Visit(number, entry, became(answer.headers), answer.status, answer.size, delay_s, late_s)
    if done.outcome != "waiting_page":
        return done
    shown(done)
    return await _wait(target, done, answer, begin_s)


async def _wait(target: Target, done: Visit, answer: Answer, begin_s: float) -> Visit:
    reloads = 0
    outcome, status, why = LOST, None, ""
    try:
        async with asyncio.timeout(target.timeout_s):
            while outcome in (LOST, "waiting_page"):
                await _up(target, done.entry, answer)
                reloads += 1
                request_id = f"{target.run}-{done.number}.{reloads}"
                answer = await _send(target, done.entry, request_id)
                outcome, status = became(answer.headers), answer.status
    except (Lost, TimeoutError) as error:
        outcome, status, why = LOST, None, f"waiting page: {_why(error, target)}"
    returned = Returned(outcome, status, time.monotonic() - begin_s, reloads)
    return replace(done, returned=returned, why_lost=why)


async def _up(target: Target, entry: Entry, answer: Answer) -> None:
    """Do what the waiting page's script does until it is time to reload."""
    poll = entry._replace(method="GET", path=_STATUS_PATH, referer="", status=200)
    begin_s = time.monotonic()
    while True:
        await asyncio.sleep(POLL_S)
        waited_s = time.monotonic() - begin_s
        try:
            said = json.loads((await _send(target, poll, "")).body)
            if said["available"] or (said["state"] == "asleep" and waited_s > 5):
                return
        except (ValueError, KeyError, TypeError, RecursionError, Lost):
            # Not our status: the header that browsers obey without a script.
            if waited_s >= _refresh_s(answer):
                return


def _refresh_s(answer: Answer) -> float:
    said = answer.headers.get("refresh", answer.headers.get("retry-after", ""))
    return float(said) if said.isascii() and said.isdecimal() and len(said) < 5 else 10.0


async def _send(target: Target, entry: Entry, request_id: str) -> Answer:
    return await ask(
        target.address,
        target.port,
        request_bytes(target, entry, request_id),
        source=target.source(entry.host),
        head=entry.method == "HEAD",
        tls=target.tls,
        name=target.host,
    )


def request_bytes(target: Target, entry: Entry, request_id: str) -> bytes:
    """Return the request as the client may have sent it; the log does not tell everything.

    Connections are not kept: the log does not say which requests shared one. Bodies have a
    size and content that follow from `request_id`.
    """
    headers = {"Host": target.host, "Connection": "close"}
    if entry.agent:
        headers["User-Agent"] = entry.agent
    headers["Accept"] = _PAGE if asks_for_page(entry) else "*/*"
    if entry.referer:
        headers["Referer"] = entry.referer
    if entry.status == 304:
        # Was asked with a condition: has it since then.
        headers["If-Modified-Since"] = formatdate(entry.t_s, usegmt=True)
    if target.forwarded:
        headers["X-Forwarded-For"] = entry.host
    if request_id:
        headers["X-Request-Id"] = request_id
    body = b""
    if entry.method in _WITH_BODY:
        body = _form(request_id)
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        headers["Content-Length"] = str(len(body))
    lines = [f"{entry.method} {_on_one_line(entry.path, ' ')} HTTP/1.1"]
    lines += [f"{name}: {_on_one_line(value)}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


def asks_for_page(entry: Entry) -> bool:
    """Does it look as if a browser navigates, or a crawler that says it is one?"""
    path = entry.path.partition("?")[0]
    asset = is_static(path) or path.lower().endswith(".json")
    return entry.agent.startswith(("Mozilla/", "Opera/")) and not asset


def _form(seed: str) -> bytes:
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return (f"id={digest}&text=" + digest * 32)[: 100 + int(digest[:4], 16) % 1900].encode()


def _on_one_line(text: str, also: str = "") -> str:
    """Spell control characters, and those in `also`, in percent: a log must not write headers."""
    return "".join(f"%{ord(c):02X}" if c < " " or c == "\x7f" or c in also else c for c in text)


def became(headers: Mapping[str, str]) -> str:
    """Return what became of a request by its answer's headers, their names in lower case."""
    said = headers.get("x-naproxy")
    if said is None:
        # The second number is that of the request which brought it into the cache.
        numbers = headers.get("x-varnish") or headers.get("x-vinyl", "")
        return "hit" if len(numbers.split()) > 1 else DIRECT
    return said if said in SAID else "other"


def _why(error: Exception, target: Target) -> str:
    if isinstance(error, TimeoutError):
        return f"no whole answer within {target.timeout_s:g} s"
    return str(error)

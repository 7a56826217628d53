"""Writes the configuration into the page: each server's slot, and its content."""

from __future__ import annotations

import ctypes
import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from naproxy.config.document import Cache, CacheRule, Config, Rule, Server
from naproxy.core import page_h
from naproxy.core.interfaces import EVERYBODY, broadcast_of
from naproxy.core.names import ascii_site, covers
from naproxy.core.page_h import Listen, RuleKind
from naproxy.core.request import CRAWLER_RETRY_S
from naproxy.core.state import Klass
from naproxy.shm import page
from naproxy.shm.page import Page

RELEASE_BATCH: Final = 20
RELEASE_MS: Final = 10
"""A server that is up again gets so many of the requests that wait at once, then a pause."""

REACH_MS: Final = 2000
"""A server that has answered nothing for so long is looked for before a request is sent to it."""

_MAGIC_PORT: Final = 9
"""Discard, which is usual for magic packets."""

MOST_OPEN: Final = 1000
"""Connections that are passed on to one server at once."""

_KEPT_FLAGS: Final = page_h.F_HTTPS_ONLY | page_h.F_RESTARTS
"""Flags that do not come from the configuration alone."""

_BELOW: Final = "*."
_TOKEN: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{page_h.TOKEN_LEN - 1}}}")
_ANSWER: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{page_h.ANSWER_LEN - 1}}}")


def assign(shared: Page, servers: Sequence[Server]) -> dict[str, int]:
    """Return the slot of each server. One that has a slot keeps it, with its counters."""
    wanted = [s.id for s in servers]
    slots = {}
    for index in range(page_h.SERVERS):
        name = shared.server(index).id.decode(errors="replace")
        if name in wanted and name not in slots:
            slots[name] = index
        elif name:
            shared.clear(index)
    free = [i for i in range(page_h.SERVERS) if i not in slots.values()]
    for name in wanted:
        if name not in slots:
            slots[name] = free.pop(0)
            shared.clear(slots[name])
    shared.layout.nservers = max(slots.values(), default=-1) + 1
    return slots


def write_server(
    shared: Page,
    index: int,
    server: Server,
    interface: str,
    *,
    default: bool,
    wake_expect_s: float,
    hold_s: float,
) -> None:
    """Write a server's configuration under its seqlock; the last two are measured, by now."""
    address = ipaddress.ip_address(server.address)
    with shared.configure(index) as record:
        record.id = server.id.encode()
        record.hsts_s = server.https.hsts_s
        record.flags = _flags(server, default=default) | record.flags & _KEPT_FLAGS
        record.family = address.version
        record.port = server.web_port
        _set_bytes(record.address, address.packed)
        _set_bytes(record.mac, bytes.fromhex(server.mac.replace(":", "")))
        broadcast, record.wol_port = _magic_to(server, interface)
        _set_bytes(record.wol_address, ipaddress.IPv4Address(broadcast).packed)
        record.wakes_mask = sum(1 << Klass[k.upper()] for k in set(server.wake_classes))
        record.wake_expect_ms = round(1000 * wake_expect_s)
        record.hold_cap = server.hold.cap
        record.hold_limit_ms = round(1000 * hold_s)
        record.crawler_retry_s = CRAWLER_RETRY_S
        record.delta_ms = round(1000 * server.promise.delta_s)
        record.grace_s = server.cache.grace_s
        record.cookie[:] = _hashes(server.cache)
        record.reach_ms = REACH_MS
        record.connect_timeout_ms = round(1000 * server.connect_timeout_s)
        record.first_byte_timeout_ms = round(1000 * server.first_byte_timeout_s)
        record.stream_idle_ms = 1000 * server.stream_idle_s
        record.pipe_idle_ms = 1000 * server.websocket_idle_s
        record.release_batch = RELEASE_BATCH
        record.release_ms = RELEASE_MS


def write_redirect(shared: Page, index: int, server: Server, served: Collection[str]) -> None:
    """Have visitors sent on to HTTPS, if they are to be and get all the server's names there."""
    sites = [ascii_site(host) for host in server.hosts]
    whole = bool(served) and all(any(covers(name, site) for name in served) for site in sites)
    flag = page_h.F_HTTPS_ONLY if server.https.redirect and whole else 0
    if shared.server(index).flags & page_h.F_HTTPS_ONLY != flag:
        with shared.configure(index) as record:
            record.flags ^= page_h.F_HTTPS_ONLY


def write_services(shared: Page, servers: Sequence[Server], slots: Mapping[str, int]) -> None:
    """Write whose connections are passed on unopened: each in the place that its server has."""
    passed = {slots[each.id]: each for each in servers if each.https.mode == "through"}
    for index, record in enumerate(shared.layout.service):
        server = passed.get(index)
        name = server.id.encode() if server else b""
        if record.id != name:
            shared.clear_service(index)
        if server is None:
            continue
        with shared.serving(index) as service:
            service.id = name
            service.listen = Listen.EDGE
            service.server = index
            service.port = server.https.to_server_port
            service.hold_limit_ms = round(1000 * server.hold.longest_s)
            service.most_held = server.hold.cap
            service.most_open = MOST_OPEN


def write_names(shared: Page, servers: Sequence[Server], slots: Mapping[str, int]) -> None:
    """Write which server serves which names.

    Before the servers themselves: a slot that changes hands is empty until then, so no
    request for the old one's names gets to the new one.
    """
    names = [(slots[each.id], ascii_site(host)) for each in servers for host in each.hosts]
    with shared.naming() as layout:
        ctypes.memset(ctypes.addressof(layout.names), 0, ctypes.sizeof(layout.names))
        for record, (index, name) in zip(layout.names, names, strict=False):
            record.server = index
            record.flags = page_h.N_BELOW * name.startswith(_BELOW)
            record.name = name.removeprefix(_BELOW).encode()


def write_challenges(shared: Page, answers: Mapping[str, str]) -> None:
    """Write the answers to a certificate authority, by token (RFC 8555, 8.3).

    ValueError for values that Varnish would reject: it would keep the old names, too.
    """
    for token, answer in answers.items():
        if not _TOKEN.fullmatch(token) or not _ANSWER.fullmatch(answer):
            raise ValueError("a token or an answer that is none")
    if len(answers) > page_h.CHALLENGES:
        raise ValueError(f"more than {page_h.CHALLENGES} challenges")
    with shared.naming() as layout:
        ctypes.memset(ctypes.addressof(layout.challenge), 0, ctypes.sizeof(layout.challenge))
        for record, (token, answer) in zip(layout.challenge, answers.items(), strict=False):
            record.token, record.answer = token.encode(), answer.encode()


def write_box(shared: Page, config: Config, slots: dict[str, int]) -> None:
    """Write what holds for the whole box: the notice and the rules."""
    with shared.configure(None) as layout:
        layout.notice = config.box.notice.encode()
        for number in range(page_h.RULES):
            rule = config.rule[number] if number < len(config.rule) else None
            _write_rule(layout.rules[number], rule, slots)
        free = iter(range(len(config.rule), page_h.RULES))
        for server in config.server:
            for path in set(server.awake.work_paths):
                record = layout.rules[next(free)]
                record.kind = RuleKind.WORK
                record.server = slots[server.id]
                record.text = path.encode()
        for kept in config.cache_rule:
            for kind, value in _said(kept):
                record = layout.rules[next(free)]
                record.kind = kind
                record.server = slots[kept.server] if kept.server else page.EVERY_SERVER
                record.text = kept.path.encode()
                record.keep_s = value


def _said(rule: CacheRule) -> Iterator[tuple[RuleKind, int]]:
    """Yield what a rule of the cache says: a row of the page for each."""
    if rule.keep_s >= 0:
        yield RuleKind.KEEP, rule.keep_s
    if rule.asleep:
        yield RuleKind.ASLEEP, int(rule.asleep == "yes")
    if rule.browser_s >= 0:
        yield RuleKind.BROWSER, rule.browser_s


def _write_rule(record: Any, rule: Rule | None, slots: dict[str, int]) -> None:
    record.kind = RuleKind[rule.kind.upper()] if rule else RuleKind.NONE
    record.klass = Klass[rule.treat_as.upper()] if rule else 0
    record.server = slots[rule.server] if rule and rule.server else page.EVERY_SERVER
    record.text = rule.text.encode() if rule else b""
    record.keep_s = 0


def _magic_to(server: Server, interface: str) -> tuple[str, int]:
    """Return where Varnish sends magic packets: where the box does, else to all on its wire.

    Packets to everybody's address take the default route; those to the network's own do not.
    """
    way = next((each for each in server.wake if each.driver == "udp"), None)
    address, port = (way.address, way.ports[0]) if way else ("", _MAGIC_PORT)
    if address in ("", EVERYBODY):
        address = broadcast_of((way.interface if way else "") or interface)
    return address, port


def _flags(server: Server, *, default: bool) -> int:
    chosen = {
        page_h.F_AGGRESSIVE: server.cache.mode == "aggressive",
        page_h.F_WAITING_PAGE: server.waiting_page,
        # A server that is woken in another way mostly hears them too, also without a controller.
        # One that needs others wakes after them: then only the box alone knows when.
        page_h.F_WOL: not server.needs,
        page_h.F_DEFER: server.defer_crawlers,
        page_h.F_DEFAULT: default,
        page_h.F_TLS: server.by_https,
        page_h.F_PROXY: server.https.tell_client_by_proxy,
        page_h.F_THROUGH: server.https.mode == "through",
        page_h.F_FROZEN: server.cache.mode != "default",
    }
    return sum(flag for flag, on in chosen.items() if on)


def _hashes(cache: Cache) -> list[int]:
    """Return the hashes of harmless cookies, and of private headers behind a `;`."""
    names = [*cache.cookies, *(f";{name.lower()}" for name in cache.private_headers)]
    return [*(page.fnv(name.encode()) for name in names), *[0] * (page_h.COOKIES - len(names))]


def _set_bytes(field: Any, value: bytes) -> None:
    field[:] = value.ljust(len(field), b"\0")

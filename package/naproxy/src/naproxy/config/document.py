"""The configuration file: every section, key, default and range, in one place.

What a driver or a policy wants to know is declared in its own module.
"""

# ruff: noqa: RUF009 - option, section, alternative and tables are dataclasses.field

from __future__ import annotations

import ipaddress
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from naproxy import drivers, policy
from naproxy.config import old
from naproxy.config.installation import Installation
from naproxy.config.notify import SETTINGS, Notify
from naproxy.config.notify import conflicts as notify_conflicts
from naproxy.config.tariff import TARIFFS, Tariff
from naproxy.config.tariff import conflicts as tariff_conflicts
from naproxy.config.update import Fleet
from naproxy.core import bounded
from naproxy.core.files import peek, write
from naproxy.core.hours import zone
from naproxy.core.intensity import is_pointer
from naproxy.core.names import ascii_site, is_plain_name, is_site_name
from naproxy.core.page_h import COOKIES, NAMES, NOTICE_LEN, RULE_LEN, RULES, SERVERS
from naproxy.core.rates import MOST_CO2
from naproxy.core.reason import Reason
from naproxy.core.schema import (
    Alternative,
    ConfigError,
    Held,
    Problem,
    address_form,
    alternative,
    checked,
    fits,
    fixed,
    is_absolute,
    is_host,
    is_interface,
    is_mac,
    is_machine,
    load,
    mac_form,
    option,
    or_empty,
    section,
    tables,
    within,
)
from naproxy.core.state import Klass
from naproxy.core.words import DEFAULT, LANGUAGES
from naproxy.drivers import secret
from naproxy.drivers.openssh import SshSettings, is_ssh_path
from naproxy.drivers.own_command import DIRECTORY, is_program
from naproxy.server import inhibitors, services, shares

_LOG: Final = logging.getLogger(__name__)
MAX_BYTES: Final = 1 << 20
CLASS_NAMES: Final = tuple(k.name.lower() for k in Klass)
METERS: Final = 16
WAYS: Final = 10
"""Most ways to wake one server."""
LONGEST_HOLD_S: Final = 600.0
WAKE_EXPECT_S: Final = 5.0
CERTIFICATES: Final = 32
SITES: Final = NAMES // SERVERS
"""Most host names of one server."""
HTTPS_PORT: Final = 443
ACME_NAMES: Final = 100
"""Most names of a certificate that is issued to the box, by Let's Encrypt's rules."""
BOX: Final = "box"
"""Whose meter it is that measures the box itself."""
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
DEFAULT_FILE: Final = "/etc/naproxy/naproxy.toml"


def _is_id(text: str) -> Reason | None:
    ok = text.isascii() and set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    return None if ok else Reason("config.id")


@dataclass(frozen=True, kw_only=True)
class Box:
    """The box itself."""

    interface: str = option(
        "Network interface to the servers; empty: for each server the one that the routes lead to"
        " it by",
        "",
        check=is_interface,
    )
    notice: str = option("Text shown to people who wait", "", high=NOTICE_LEN - 1)
    keep_days: int = option(
        "How long the box keeps the record of who woke a server, and when it slept",
        90,
        low=1,
        high=3650,
    )
    proxy_w: float = option("What the box itself draws", 5.0, low=0, high=10000)
    ui_names: tuple[str, ...] = option(
        "Further names of the web interface, besides the box's own name and addresses",
        (),
        high=16,
        check=is_host,
    )


def _is_currency(text: str) -> Reason | None:
    ok = len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()
    return None if ok else Reason("config.currency")


_WEB: Final = re.compile(
    r"https?://(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[(?P<v6>[0-9A-Fa-f:.]+)\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?:/[!-~]*)?"
)
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_OURS: Final = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "expect", "host"),
        *("keep-alive", "range", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
    }
)
"""Headers that say how the request is sent, or that we send ourselves."""


def _is_web(text: str) -> Reason | None:
    # No name or password before the host: it is shown, and two programs may read it differently.
    found = _WEB.fullmatch(text)
    if found and 1 <= int(found["port"] or HTTPS_PORT) <= 65535:
        with suppress(ValueError):
            ipaddress.IPv6Address(found["v6"] or "::")
            return None
    return Reason("config.web_address")


def _is_header(text: str) -> Reason | None:
    name = text.lower()
    ok = _HEADER.fullmatch(text) and name not in _OURS and not name.startswith("proxy-")
    return None if ok else Reason("config.header")


def _is_key(text: str) -> Reason | None:
    return secret.is_line(text) or (None if text.isascii() else Reason("config.ascii"))


@dataclass(frozen=True, kw_only=True)
class Office:
    """The office: how the web interface speaks to it, and what power costs it."""

    name: str = option("Its name, shown at the top of every page", "", high=64)
    language: str = option("Language of the web interface", DEFAULT, choices=tuple(LANGUAGES))
    time_zone: str = option(
        'The office\'s time zone, such as "Europe/Zurich": all times are shown in it, and hours'
        " and days are those that its clocks show; empty: the box's",
        "",
        high=64,
        check=checked(zone),
    )
    currency: str = option("Currency, such as EUR, CHF or GBP", "EUR", check=_is_currency)
    price_per_kwh: float = option(
        "Price of a kilowatt-hour, in that currency, until a `[[tariff]]` holds; 0: not known, the"
        " box shows no money",
        0.0,
        low=0,
        high=100000,
    )
    co2_g_per_kwh: float = option(
        "Carbon dioxide for a kilowatt-hour, in grams: see the power bill; 0: not known, the box"
        " shows none",
        0.0,
        low=0,
        high=MOST_CO2,
    )
    co2_by_hour: tuple[float, ...] = option(
        "The same for each hour of the day, 24 values from 0 to 1 o'clock on; none:"
        " `co2_g_per_kwh` all day",
        (),
        high=24,
        check=within(0, MOST_CO2),
    )
    co2_url: str = option(
        "Address that answers with JSON which has the grid's carbon intensity of now, in grams for"
        " a kilowatt-hour; empty: none",
        "",
        high=500,
        check=or_empty(_is_web),
    )
    co2_value: str = option(
        "Where in that answer the number stands (JSON Pointer), such as /data/0/intensity/actual",
        "/carbonIntensity",
        high=200,
        check=is_pointer,
    )
    co2_header: str = option(
        "Header of the request that the key goes in, such as Authorization",
        "auth-token",
        check=_is_header,
    )
    co2_key_file: str = option(
        "File with the key in one line, as it stands in that header; empty: it needs none",
        "",
        check=or_empty(is_absolute),
        holds=Held("key", _is_key),
    )

    @property
    def co2_in_clear(self) -> bool:
        """Can anybody on the way read the key?"""
        return bool(self.co2_key_file) and self.co2_url.startswith("http:")


# Without letters before the star it would be every cookie: personal pages, to everybody.
_is_cookie: Final = fits(r"[!#$%&'+.^_`|~0-9A-Za-z-]{1,30}\*?", Reason("config.cookie"))


@dataclass(frozen=True, kw_only=True)
class Cache:
    """What the cache may answer."""

    mode: str = option(
        "default: as the server says; frozen: files that were still good when it fell asleep, too,"
        " until it is awake again; aggressive: pages as well, and what had expired",
        "frozen",
        choices=("default", "frozen", "aggressive"),
    )
    grace_s: int = fixed(3600)
    """How long past its time the box may use an answer, in aggressive mode."""
    cookies: tuple[str, ...] = option(
        "Names of further cookies that the server's pages do not depend on; a * at the end stands"
        " for anything",
        (),
        high=16,
        check=_is_cookie,
    )
    private_headers: tuple[str, ...] = option(
        "Names of further headers that say who is asking: a request with one, and its response, are"
        " nobody else's. Headers with token, key, auth, session, user, secret or the like in their"
        " names are so anyway",
        (),
        high=8,
        check=_is_header,
    )
    warm: bool = option(
        "Before the server sleeps, fetch what people will probably ask for, unless mode is default",
        True,
    )
    pages: str = option(
        "Pages that people get while the server sleeps, besides those of the rules: rules: none;"
        " verified: those that the box keeps checking and that are the same for everybody, unless"
        " mode is default or warm is off",
        "rules",
        choices=("rules", "verified"),
    )

    @property
    def verifies(self) -> bool:
        """Are pages checked, so that they can be answered while the server sleeps?"""
        return self.pages == "verified" and self.warm and self.mode != "default"


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Requests that wait for the server."""

    cap: int = fixed(510)
    """Most requests that may wait at once: Varnish's threads leave room for no more."""
    limit_s: float = option(
        "Longest wait, from the start of the request; 0: as long as the server takes to wake, as"
        " the box has measured it, at least three and a half minutes",
        0.0,
        low=0,
        high=LONGEST_HOLD_S,
    )

    @property
    def longest_s(self) -> float:
        """Longest wait there may be, whatever is measured."""
        return self.limit_s or LONGEST_HOLD_S


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What the office promises its visitors."""

    fraction: float = option(
        "At most this share of people's requests may be delayed", 0.05, low=0, high=1
    )
    delta_s: float = option("A request that waits longer than this is delayed", 1.0, low=0, high=60)


@dataclass(frozen=True, kw_only=True)
class Power:
    """What the server draws (defaults: thesis, table 4.2)."""

    on_w: float = option("Awake", 43.3, low=0, high=100000)
    off_w: float = option("Asleep", 1.6, low=0, high=100000)
    switch_j: float = option("Extra for falling asleep and waking once", 170.7, low=0, high=1e7)


def _is_fingerprint(text: str) -> Reason | None:
    return None if _FINGERPRINT.fullmatch(plain_fingerprint(text)) else Reason("config.pin")


def plain_fingerprint(text: str) -> str:
    """Return it in small letters, without the colons that openssl puts in."""
    return text.replace(":", "").lower()


_is_named = fits("letsencrypt|staging", Reason("config.acme_directory"))
_is_https = fits(
    r"https://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/[!#-&(-;=?-\[\]_a-z~]*",
    Reason("config.acme_directory"),
)
# They go into a program's arguments: none may begin as an option does.
is_email: Final = fits(r"[A-Za-z0-9_][!-?A-~]*@[A-Za-z0-9][A-Za-z0-9.-]*", Reason("config.email"))
is_eab_id: Final = fits(r"[A-Za-z0-9_+/=][A-Za-z0-9_+/=.-]*", Reason("config.eab"))
is_eab_key: Final = fits(r"[A-Za-z0-9_-]*", Reason("config.eab"))


def is_directory(text: str) -> Reason | None:
    """Check who issues certificates: a known one's name, or an address."""
    return _is_named(text) and _is_https(text)


@dataclass(frozen=True, kw_only=True)
class Https:
    """HTTPS at the box, for the servers that want it."""

    port: int = option("The box's port for HTTPS", HTTPS_PORT, low=1, high=65535)
    oldest: str = option("Oldest version of TLS that it speaks", "1.2", choices=("1.2", "1.3"))
    acme_directory: str = option(
        "Who issues certificates to boxes: letsencrypt; staging, its trial, which browsers do not"
        " trust; or the address of another issuer's directory (ACME)",
        "letsencrypt",
        check=is_directory,
    )
    acme_email: str = option(
        "Where the issuer writes to if something is wrong; empty: nowhere",
        "",
        high=254,
        check=or_empty(is_email),
    )
    acme_terms: bool = option("You have read the issuer's terms of use and agree to them", False)
    acme_eab_id: str = option(
        "Number of your account with the issuer (EAB, key identifier); empty: it asks for none",
        "",
        high=256,
        check=or_empty(is_eab_id),
    )
    acme_eab_key: str = option(
        "That account's key (EAB, HMAC key)", "", high=256, check=is_eab_key, secret=True
    )
    acme_ca_file: str = option(
        "Certificates of the authorities that the issuer's directory is trusted by; empty: the"
        " system's",
        "",
        check=or_empty(is_absolute),
    )


@dataclass(frozen=True, kw_only=True)
class ServerHttps:
    """HTTPS of one server, and what it is told of its visitors."""

    mode: str = option(
        "none: the box does not serve it; box: the box serves it, with its certificates; through:"
        " the box passes connections for the server's names on to its `to_server_port`, unopened;"
        " unused: not served, and somebody has made sure that no visitor comes past the box",
        "none",
        choices=("none", "box", "through", "unused"),
    )
    redirect: bool = option("Send visitors from HTTP on to HTTPS, with mode box", False)
    hsts_s: int = option(
        "How long browsers are to come by HTTPS only (HSTS), with mode box; 0: not said",
        0,
        low=0,
        high=63072000,
    )
    to_server: str = option(
        "How the box asks the server: http, at `port`; https, at `to_server_port`",
        "http",
        choices=("http", "https"),
    )
    to_server_port: int = option("The server's port for HTTPS", HTTPS_PORT, low=1, high=65535)
    to_server_check: str = option(
        "Whose certificate the server must show: ca, one for its name, by an authority that the box"
        " knows; pin, the one self-signed certificate of `to_server_pin`; name, one for its name,"
        " whoever signed it: the box only looks once an hour, so this keeps out those who listen,"
        " not those who pretend to be the server",
        "ca",
        choices=("ca", "pin", "name"),
    )
    to_server_ca_file: str = option(
        "File with the authorities' certificates (PEM), with ca; empty: those that the box's system"
        " knows",
        "",
        check=or_empty(is_absolute),
    )
    to_server_pin: str = option(
        "SHA-256 of the server's certificate, as `openssl x509 -fingerprint -sha256` says it, with"
        " pin",
        "",
        check=or_empty(_is_fingerprint),
    )
    to_server_name: str = option(
        "Name that the server is asked by (SNI), and that its certificate must be for; empty: the"
        " one that the visitor asked for, with pin none",
        "",
        check=or_empty(is_plain_name),
    )
    tell_client_by_proxy: bool = option(
        "Begin each connection to the server with a line that says who the visitor is (PROXY"
        " protocol, version 1): the server must expect it, or it understands nothing",
        False,
    )


def _policy(default: str) -> Alternative:
    return Alternative("name", default, lambda: sorted(policy.POLICIES), policy.settings)


@dataclass(frozen=True, kw_only=True)
class Server:
    """One server."""

    id: str = option("Short name of the server", low=1, high=31, check=_is_id)
    address: str = option("Its IP address", check=is_machine, form=address_form)
    mac: str = option("MAC address of its network card", check=is_mac, form=mac_form)
    interface: str = option(
        "Network interface to it; empty: the box's `interface`", "", check=is_interface
    )
    port: int = option("Its port for HTTP", 80, low=1, high=65535)
    hosts: tuple[str, ...] = option("Host names it serves", (), high=SITES, check=is_site_name)
    default: bool = option("It also serves host names that belong to no server", False)
    waiting_page: bool = option(
        "Show people a waiting page; otherwise their browser just waits", True
    )
    defer_crawlers: bool = option("While it sleeps, ask robots to come back later", True)
    wake_classes: tuple[str, ...] = option(
        "Who may wake it", ("person", "api"), high=len(CLASS_NAMES), choices=CLASS_NAMES
    )
    wake_expect_s: float = fixed(WAKE_EXPECT_S)
    """How long a resume usually takes, for countdowns: holds until the box has measured it."""
    engine_refused_s: int = option(
        "A search engine that was refused for so long may wake the server once and crawl it for"
        " some minutes, if its address shows that it is one; 0: never",
        86400,
        low=0,
        high=2592000,
    )
    connect_timeout_s: float = fixed(10.0)
    """Longest wait for a connection, on a network where an answer takes milliseconds."""
    first_byte_timeout_s: float = option(
        "Longest wait for a response, and for the next part of one", 600.0, low=1, high=3600
    )
    stream_idle_s: int = option(
        "How long a stream of events may send nothing before the box ends it; while more than half"
        " of the requests that the box has room for are streams and WebSockets, a minute",
        3600,
        low=60,
        high=86400,
    )
    websocket_idle_s: int = option(
        "How long a WebSocket may be silent before the box ends it; over HTTPS, the longest of"
        " these times and of `stream_idle_s` counts for all servers",
        3600,
        low=60,
        high=86400,
    )
    armed: bool = option(
        "May sleep by itself without commissioning: somebody has otherwise made sure that it wakes"
        " every time, and that visitors come through the box",
        False,
    )
    needs: tuple[str, ...] = option(
        "Short names of servers, such as a NAS, that wake before it and stay awake while it is"
        " awake",
        (),
        high=SERVERS - 1,
        check=_is_id,
    )
    sleep: Any = alternative(drivers.choice("sleep", "none"))
    wake: tuple[Any, ...] = tables(drivers.choice("wake", old.FIRST_WAY), 1, WAYS)
    ready: Any = alternative(drivers.choice("ready", "http"))
    https: ServerHttps = section(ServerHttps)
    awake: inhibitors.Settings = section(inhibitors.Settings)
    cache: Cache = section(Cache)
    hold: Hold = section(Hold)
    share: shares.Settings = section(shares.Settings)
    promise: Promise = section(Promise)
    policy: Any = alternative(_policy("teacher"))
    power: Power = section(Power)

    @property
    def by_https(self) -> bool:
        """Does the box ask it by HTTPS?"""
        return self.https.to_server == "https"

    @property
    def web_port(self) -> int:
        """Its port that the box asks."""
        return self.https.to_server_port if self.by_https else self.port

    @property
    def web_names(self) -> tuple[str, ...]:
        """By which names the box asks it at its port for HTTPS, as far as they are known."""
        if self.https.to_server_name:
            return (ascii_site(self.https.to_server_name),)
        if self.https.to_server_check == "pin":
            return ()
        return tuple(name for name in map(ascii_site, self.hosts) if "*" not in name)

    @property
    def probed_name(self) -> str:
        """The name that the box asks for when it looks whether its site answers; empty: none.

        The first of `hosts`: of one that begins with `*.`, a name that it covers.
        """
        first = next(map(ascii_site, self.hosts), "")
        return f"www{first[1:]}" if first.startswith("*.") else first


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Requests that match are treated as somebody else's."""

    kind: str = option("What the rule compares", choices=("path", "address", "agent"))
    text: str = option(
        "Start of the path; ADDRESS or ADDRESS/BITS; or part of the User-Agent",
        low=1,
        high=RULE_LEN - 1,
    )
    treat_as: str = option("Kind of visitor that the matching ones count as", choices=CLASS_NAMES)
    server: str = option("For this server only; empty: for all", "")


def _is_path(text: str) -> Reason | None:
    return None if text.startswith("/") else Reason("config.slash")


@dataclass(frozen=True, kw_only=True)
class CacheRule:
    """How answers to some paths are kept, whatever the server says of them."""

    path: str = option("Start of the path", low=1, high=RULE_LEN - 1, check=_is_path)
    keep_s: int = option(
        "How long the box keeps them, unless they belong to one visitor; 0: never; -1: as the"
        " server says",
        -1,
        low=-1,
        high=31536000,
    )
    asleep: str = option(
        "May what was good when the server fell asleep be used until it is awake again, unless mode"
        " is default? yes; no; empty: files only",
        "",
        choices=("", "yes", "no"),
    )
    browser_s: int = option(
        "How long browsers may keep them, unless they belong to one visitor; -1: as the server"
        " says",
        -1,
        low=-1,
        high=31536000,
    )
    server: str = option("For this server only; empty: for all", "")

    @property
    def says(self) -> int:
        """How many things it says: each takes the room of one rule."""
        return (self.keep_s >= 0) + (self.asleep != "") + (self.browser_s >= 0)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A certificate of the box's HTTPS; itself and its key are kept elsewhere."""

    id: str = option("Short name of the certificate", low=1, high=31, check=_is_id)
    source: str = option(
        "Where it comes from: upload, somebody sends it; acme, the box has it issued; server, the"
        " box fetches it from the server, which has it",
        "upload",
        choices=("upload", "acme", "server"),
    )
    names: tuple[str, ...] = option(
        "Names it is to be for, with source acme; empty: all that the box serves",
        (),
        high=ACME_NAMES,
        check=is_site_name,
    )
    challenge: str = option(
        "How the issuer sees that the names are yours: http-01, it asks the box on port 80; dns-01,"
        " your program writes into the DNS",
        "http-01",
        choices=("http-01", "dns-01"),
    )
    hook: str = option(
        f"Name of that program in {DIRECTORY}", "", high=64, check=or_empty(is_program)
    )
    server: str = option(
        "The server that has it, with source server; the box must put that to sleep by ssh", ""
    )
    key_file: str = option(
        "Private key that the box logs in there with to fetch it, and for nothing else",
        "/etc/naproxy/ssh/certificate_ed25519",
        check=is_ssh_path,
    )

    @property
    def place(self) -> tuple[str, str]:
        """Which login fetches it."""
        return self.server, self.key_file


def _is_topic(text: str) -> Reason | None:
    bad = set(text) & set("+#") or text.startswith(("/", "$")) or text.endswith("/")
    return Reason("config.topic") if bad else None


@dataclass(frozen=True, kw_only=True)
class Mqtt:
    """Home Assistant, or whoever listens to a broker: what `naproxy mqtt` tells it."""

    host: str = option("The broker's name or address; empty: none", "", high=253)
    port: int = option("The broker's port; 8883 is usual with tls", 1883, low=1, high=65535)
    user: str = option("User to log in as; empty: none", "", high=64)
    password: str = option("That user's password", "", high=256, secret=True)
    tls: bool = option("Encrypt; Naproxy checks the broker's certificate", False)
    topic: str = option("All topics start with it", "naproxy", low=1, high=64, check=_is_topic)
    every_s: float = fixed(30.0)
    """Time between two messages."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole file."""

    box: Box = section(Box)
    office: Office = section(Office)
    notify: Notify = section(SETTINGS)
    mqtt: Mqtt = section(Mqtt)
    fleet: Fleet = section(Fleet)
    https: Https = section(Https)
    server: tuple[Server, ...] = tables(Server, 0, SERVERS)
    tariff: tuple[Tariff, ...] = tables(Tariff, 0, TARIFFS)
    rule: tuple[Rule, ...] = tables(Rule, 0, RULES)
    cache_rule: tuple[CacheRule, ...] = tables(CacheRule, 0, RULES)
    certificate: tuple[Certificate, ...] = tables(Certificate, 0, CERTIFICATES)
    meter: tuple[Any, ...] = tables(drivers.choice("meter", "ina219"), 0, METERS)


@dataclass(frozen=True, slots=True)
class Found:
    """What is in a file: the configuration, what an older one has besides, and what is unwise."""

    config: Config
    arguments: dict[str, Any]
    """What it says of how Naproxy is installed, as far as it does."""
    warnings: list[Problem]


def look(text: str | bytes) -> Found:
    """Return what is in TOML `text`; ConfigError with all that is wrong."""
    if len(text) > MAX_BYTES:
        raise ConfigError([Problem("", Reason("config.too_large", bytes=MAX_BYTES))])
    data = bounded.toml(text)
    arguments, warnings = old.take(data)
    problems: list[Problem] = []
    load(Installation, arguments, "box", problems)
    config = load(Config, data, "", problems)
    if config is not None:
        problems.extend(_conflicts(config))
    if problems:
        raise ConfigError(problems)
    assert isinstance(config, Config)
    for key in config.notify.in_clear.values():
        warnings.append(Problem(f"notify.{key}", Reason("config.token_in_clear")))
    if config.office.co2_in_clear:
        warnings.append(Problem("office.co2_key_file", Reason("config.token_in_clear")))
    return Found(config, arguments, warnings)


def parse(text: str | bytes) -> Config:
    """Return the configuration in TOML `text`; ConfigError with all that is wrong."""
    return look(text).config


def _conflicts(config: Config) -> Iterator[Problem]:
    """Yield what is wrong between keys that are each right."""
    ids = Counter(s.id for s in config.server)
    hosts = Counter(h for s in config.server for h in {ascii_site(host) for host in s.hosts})
    defaults = [s.id for s in config.server if s.default]
    for server in config.server:
        here = f"server.{server.id}"
        if ids[server.id] > 1:
            yield Problem(f"{here}.id", Reason("config.server_twice"))
        for host in server.hosts:
            if hosts[ascii_site(host)] > 1:
                yield Problem(f"{here}.hosts", Reason("config.host_twice", name=host))
        yield from _https_conflicts(config, server, here)
        if len(server.cache.cookies) + len(server.cache.private_headers) > COOKIES:
            wrong = Reason("config.items", low=0, high=COOKIES - len(server.cache.cookies))
            yield Problem(f"{here}.cache.private_headers", wrong)
        if server.default and len(defaults) > 1:
            yield Problem(f"{here}.default", Reason("config.default_twice", names=tuple(defaults)))
        yield from _power_conflicts(server, here)
        yield from _need_conflicts(server, config.server, here)
    yield from _rule_conflicts(config, set(ids))
    yield from _certificate_conflicts(config)
    yield from _meter_conflicts(config, set(ids))
    yield from notify_conflicts(config.notify)
    yield from tariff_conflicts(config.tariff)
    if len(config.office.co2_by_hour) not in (0, 24):
        yield Problem("office.co2_by_hour", Reason("config.each_hour"))
    if config.fleet.url and not config.fleet.token:
        yield Problem("fleet.token", Reason("config.fleet_token"))


def needs_of(server: Server, servers: Iterable[Server]) -> tuple[str, ...]:
    """Return the ids of the servers that it needs: a virtual machine needs its host unsaid."""
    host = _host_of(server, servers)
    return tuple(dict.fromkeys((*server.needs, *([host.id] if host else ()))))


def guest_ways(server: Server) -> list[Any]:
    """Return its ways to sleep and to wake that a host of virtual machines carries out."""
    return [way for way in (server.sleep, *server.wake) if getattr(way, "guest", False)]


def _host_of(server: Server, servers: Iterable[Server]) -> Server | None:
    """Return the server that runs it, if it is a virtual machine of one."""
    places = {address_form(way.host.lower()) for way in guest_ways(server)}
    for each in servers:
        if each.id != server.id and places & {each.address, each.id, *each.hosts}:
            return each
    return None


def _need_conflicts(server: Server, servers: tuple[Server, ...], here: str) -> Iterator[Problem]:
    needed = {each.id: needs_of(each, servers) for each in servers}
    for name in server.needs:
        if name == server.id:
            yield Problem(f"{here}.needs", Reason("config.needs_itself"))
        elif name not in needed:
            yield Problem(f"{here}.needs", Reason("config.needs_nobody", name=name, by=server.id))
    if cycle := _cycle(server.id, needed):
        yield Problem(f"{here}.needs", Reason("config.needs_cycle", names=cycle))
    host = _host_of(server, servers)
    in_memory = server.sleep in guest_ways(server) and server.sleep.state == "ram"
    if in_memory and host and host.sleep.state == "off":
        yield Problem(f"{here}.sleep.state", Reason("config.guest_lost", host=host.id))


def _cycle(start: str, needed: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the way by which a server needs itself, through others; empty: it does not."""
    ways: list[tuple[str, ...]] = [(start,)]
    seen = set()
    while ways:
        way = ways.pop()
        for name in needed.get(way[-1], ()):
            if name == start and len(way) > 1:
                return (*way, start)
            if name not in seen and name != start:
                seen.add(name)
                ways.append((*way, name))
    return ()


def _rule_conflicts(config: Config, servers: set[str]) -> Iterator[Problem]:
    rules = len(config.rule) + sum(rule.says for rule in config.cache_rule)
    rules += sum(len(set(s.awake.work_paths)) for s in config.server)
    if rules > RULES:
        yield Problem(
            "rule",
            Reason("config.many_rules", high=RULES, number=rules),
        )
    for number, rule in enumerate(config.rule, 1):
        what = _wrong_rule(rule)
        if what:
            yield Problem(f"rule.{number}.text", what, rule.text)
    for number, kept in enumerate(config.cache_rule, 1):
        if not kept.says:
            yield Problem(f"cache_rule.{number}.keep_s", Reason("config.cache_rule_empty"))
        if kept.asleep == "yes" and kept.keep_s == 0:
            yield Problem(f"cache_rule.{number}.asleep", Reason("config.cache_rule_never"))
    about = [(f"rule.{n}", rule.server) for n, rule in enumerate(config.rule, 1)]
    about += [(f"cache_rule.{n}", rule.server) for n, rule in enumerate(config.cache_rule, 1)]
    for where, name in about:
        if name and name not in servers:
            yield Problem(f"{where}.server", Reason("config.no_server", name=name))


def _https_conflicts(config: Config, server: Server, here: str) -> Iterator[Problem]:
    https = server.https
    here = f"{here}.https"
    by_default = server.default or server is config.server[0]
    if https.mode == "box" and not server.hosts and not by_default:
        yield Problem(f"{here}.mode", Reason("config.https_names"))
    if https.mode == "through" and not server.hosts:
        yield Problem(f"{here}.mode", Reason("config.through_names"))
    for key, value in (("redirect", https.redirect), ("hsts_s", https.hsts_s)):
        if value and https.mode != "box":
            yield Problem(f"{here}.{key}", Reason("config.https_box"))
    if https.to_server_check == "pin" and server.by_https and not https.to_server_pin:
        yield Problem(f"{here}.to_server_pin", Reason("config.pin"))
    # Neither a redirect of ours nor HSTS names a port.
    if https.redirect and config.https.port != HTTPS_PORT:
        yield Problem(f"{here}.redirect", Reason("config.https_port", port=HTTPS_PORT))


def _certificate_conflicts(config: Config) -> Iterator[Problem]:
    ids = Counter(each.id for each in config.certificate)
    for name in (name for name, number in ids.items() if number > 1):
        yield Problem(f"certificate.{name}.id", Reason("config.certificate_twice"))
    for certificate in config.certificate:
        here = f"certificate.{certificate.id}"
        by_dns = certificate.challenge == "dns-01"
        if by_dns and not certificate.hook:
            yield Problem(f"{here}.hook", Reason("config.acme_hook"))
        if not by_dns and any(name.startswith("*.") for name in certificate.names):
            yield Problem(f"{here}.names", Reason("config.acme_wildcard"))
    places = Counter(each.place for each in config.certificate if each.source == "server")
    by_ssh = {each.id for each in config.server if isinstance(each.sleep, SshSettings)}
    for certificate in (each for each in config.certificate if each.source == "server"):
        here = f"certificate.{certificate.id}"
        if certificate.server not in by_ssh:
            yield Problem(f"{here}.server", Reason("config.certificate_server"))
        # Of two lines with the same key the server takes the first.
        if places[certificate.place] > 1:
            yield Problem(f"{here}.key_file", Reason("config.certificate_key"))


def _power_conflicts(server: Server, here: str) -> Iterator[Problem]:
    needed = server.sleep.woken_by
    if needed and not {way.driver for way in server.wake} & set(needed):
        yield Problem(f"{here}.wake.1.driver", Reason("config.not_by_packet", names=needed))
    if not server.sleep.looks and office_of(server).watches:
        yield Problem(f"{here}.awake.services", Reason("config.service_way"))
    for key, what in server.sleep.conflicts():
        yield Problem(f"{here}.sleep.{key}", what)
    if server.power.on_w <= server.power.off_w:
        wrong = Reason("config.more_than_asleep")
        yield Problem(f"{here}.power.on_w", wrong, server.power.on_w)


def _meter_conflicts(config: Config, servers: set[str]) -> Iterator[Problem]:
    meters = Counter(m.id for m in config.meter)
    for meter in config.meter:
        here = f"meter.{meter.id}"
        if meters[meter.id] > 1:
            yield Problem(f"{here}.id", Reason("config.meter_twice"))
        if meter.of == BOX and BOX in servers:
            yield Problem(f"{here}.of", Reason("config.box_or_server", name=BOX))
        if meter.of not in servers | {BOX}:
            yield Problem(f"{here}.of", Reason("config.no_server", name=meter.of))
        if len(meter.adapter_w) != len(meter.adapter_efficiency):
            yield Problem(f"{here}.adapter_efficiency", Reason("config.one_each"))
        if any(low >= high for low, high in pairwise(meter.adapter_w)):
            yield Problem(f"{here}.adapter_w", Reason("config.growing"))


def _wrong_rule(rule: Rule) -> Reason | None:
    if rule.kind == "path" and not rule.text.startswith("/"):
        return Reason("config.slash")
    if rule.kind == "address":
        try:
            ipaddress.ip_network(rule.text)
        except ValueError:
            return Reason("config.network")
    return None


def target_of(server: Server, interface: str) -> drivers.Target:
    """Return what its drivers need to know of it."""
    host = server.probed_name
    # A pinned server is asked without a name, unless one is set: by visitors' requests, too.
    pinned = server.https.to_server_check == "pin"
    name = server.web_names[0] if server.https.to_server_name else "" if pinned else host
    return drivers.Target(
        id=server.id,
        address=server.address,
        port=server.web_port,
        mac=server.mac,
        interface=interface,
        tls=server.by_https,
        name=name,
        host=host,
        visited_by_https=server.https.mode == "box",
        proxied=server.https.tell_client_by_proxy,
        office=office_of(server),
    )


def office_of(server: Server) -> services.Office:
    """Return what the office chose for what else it does."""
    web = {f"{port}/tcp" for port in (server.port, server.web_port, server.https.to_server_port)}
    door = {"/".join(map(str, server.sleep.door))} if server.sleep.door else set()
    return services.Office(server.awake.services, frozenset(web | door))


def text(path: Path) -> bytes:
    """Return what is in a file, at most one byte too many; OSError."""
    return peek(path, MAX_BYTES + 1)[0]


def text_or_new(path: Path) -> bytes:
    """Return the same, or where there is no file that of a box not set up yet: nothing."""
    try:
        return text(path)
    except FileNotFoundError:
        _LOG.info("there is no %s: this box is not set up yet", path)
        return b""


def read(path: Path) -> Config:
    """Return the configuration in a file; ConfigError, or OSError if it cannot be read."""
    return parse(text(path))


def read_or_new(path: Path) -> Found:
    """Return all that is in it, or where there is no file that of a box not set up yet."""
    return look(text_or_new(path))


def replace(path: Path, text: bytes) -> None:
    """Replace what the file has by `text`, which the caller has checked.

    Power may fail at any time: the file is the old one or the new one.
    """
    # Passwords may be in it: a new one is for its owner only.
    write(path, text, path.stat().st_mode & 0o777 if path.exists() else 0o600)

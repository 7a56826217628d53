"""The values that fields of an access log hold: a time, an address, a request, a user agent.

Text is one character a byte (latin-1), as `accesslog` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

METHODS: Final = frozenset(
    (
        *("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"),
        *("PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH"),
        *("MKCALENDAR", "PURGE", "SUBSCRIBE", "UNSUBSCRIBE", "RPC_IN_DATA", "RPC_OUT_DATA"),
    )
)

# ---------------------------------------------------------------------------------- times

_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"  # in every locale
_CLOCK: Final = r"(\d\d):(\d\d):(\d\d)(?:[.,]\d{1,9})?"
_ZONE: Final = r"(?: ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?"
_TIMES: Final = (
    re.compile(rf"(?P<d>\d\d)/(?P<m>[A-Z][a-z]{{2}})/(?P<y>\d{{4}})[: ]{_CLOCK}{_ZONE}", re.ASCII),
    re.compile(rf"(?P<y>\d{{4}})[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T _:]{_CLOCK}{_ZONE}", re.ASCII),
    re.compile(
        rf"(?:[A-Z][a-z]{{2}},? )?(?P<d>\d\d)[ -](?P<m>[A-Z][a-z]{{2}})[ -](?P<y>\d{{4}}) {_CLOCK}"
        rf"{_ZONE}",
        re.ASCII,
    ),
)
"""As Common Log Format, ISO 8601 and RFC 9110 have them."""
_CTIME: Final = re.compile(
    rf"[A-Z][a-z]{{2}} ([A-Z][a-z]{{2}}) ([ \d]\d) {_CLOCK} (\d{{4}})", re.ASCII
)
_EPOCH: Final = re.compile(
    r"(?:([01]\d{9})(?:\.\d{1,9})?|([01]\d{12})|([01]\d{15}(?:\d{3})?))", re.ASCII
)


@lru_cache(maxsize=1024)
def _midnight_s(year: str, month: str, day: str, zone: str | None, zone_s: int) -> int | None:
    """Epoch seconds at the start of a day; `zone_s` is the offset of times without a zone."""
    number, odd = divmod(_MONTHS.find(month), 3)
    if not month.isdecimal() and (number < 0 or odd):
        return None
    try:
        start = datetime(int(year), int(month) if month.isdecimal() else number + 1, int(day))
    except ValueError:
        return None
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        zone_s = int(ahead.total_seconds()) * (-1 if zone[0] == "-" else 1)
    elif zone:
        zone_s = 0
    return int(start.replace(tzinfo=UTC).timestamp()) - zone_s


def time_s(text: str, zone_s: int = 0) -> int | None:
    """Return the epoch seconds that a field says, or None.

    `zone_s`: how far a time that names no zone is ahead of UTC.
    """
    if text[:1] == "[" and text[-1:] == "]":  # Apache's %t as a member of an object
        text = text[1:-1]
    for pattern in _TIMES:
        if match := pattern.fullmatch(text):
            start = _midnight_s(match["y"], match["m"], match["d"], match[match.re.groups], zone_s)
            return _of_day(start, *match.groups()[3:6])
    if match := _EPOCH.fullmatch(text):
        return int(next(filter(None, match.groups()))[:10])
    if match := _CTIME.fullmatch(text):
        month, day, hour, minute, second, year = match.groups()
        start = _midnight_s(year, month, day.strip(), None, zone_s)
        return _of_day(start, hour, minute, second)
    return None


def _of_day(start_s: int | None, hour: str, minute: str, second: str) -> int | None:
    if start_s is None or hour > "23" or minute > "59" or second > "60":
        return None
    return start_s + int(hour) * 3600 + int(minute) * 60 + int(second)


# ------------------------------------------------------------------------------ addresses

_IPV4: Final = re.compile(r"(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(:\d{1,5})?", re.ASCII)
_BRACKETED: Final = re.compile(r"\[([0-9A-Fa-f:.]{2,45})(?:%\w+)?\](:\d{1,5})?", re.ASCII)
_FOR: Final = re.compile(r'for="?(\[?[0-9A-Fa-f:.]+\]?(?::\d+)?)"?', re.ASCII | re.IGNORECASE)
_LIST: Final = re.compile(r"[,\s+]+")
_LABEL: Final = re.compile(r"(?:Client|client|ip|IP|addr|from)[ :=]+", re.ASCII)
_LONGEST_LIST: Final = 1000

_PRIVATE: Final = [
    ip_network(net)
    for net in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10"),
        *("169.254.0.0/16", "fc00::/7", "fe80::/10", "::1/128"),
    )
]
"""Not `is_private`, which the addresses of documents are, too."""

_CLOUDFLARE: Final = [
    ip_network(net)
    for net in (
        *("173.245.48.0/20", "103.21.244.0/22", "103.22.200.0/22", "103.31.4.0/22"),
        *("141.101.64.0/18", "108.162.192.0/18", "190.93.240.0/20", "188.114.96.0/20"),
        *("197.234.240.0/22", "198.41.128.0/17", "162.158.0.0/15", "104.16.0.0/13"),
        *("104.24.0.0/14", "172.64.0.0/13", "131.0.72.0/22", "2400:cb00::/32"),
        *("2606:4700::/32", "2803:f800::/32", "2405:b500::/32", "2405:8100::/32"),
        *("2a06:98c0::/29", "2c0f:f248::/32"),
    )
]
"""As https://www.cloudflare.com/ips/ has them."""


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _one(text: str) -> str | None:
    match = _IPV4.fullmatch(text) or _BRACKETED.fullmatch(text)
    found = _parsed(match[1] if match else text.partition("%")[0])
    return str(found) if found else None


@lru_cache(maxsize=1 << 14)
def address(text: str) -> str | None:
    """Return the client's address that a field says; of a list of proxies the first public one."""
    if len(text) > _LONGEST_LIST:
        return None
    if match := _LABEL.match(text):
        text = text[match.end() :]
    if (found := _one(text)) is not None:
        return found
    if "or=" in text:
        text = ",".join(_FOR.findall(text))
    if "." not in text and ":" not in text:
        return None
    parts = [_one(part) for part in _LIST.split(text) if part]
    known = [part for part in parts if part]
    if not known or len(known) * 2 < len(parts):
        return None
    return next((part for part in known if not is_private(part)), known[0])


def has_port(text: str) -> bool:
    """Does the address come with a port, as those of connections do?"""
    match = _IPV4.fullmatch(text) or _BRACKETED.fullmatch(text)
    return bool(match and match[2])


@lru_cache(maxsize=1 << 12)
def is_private(text: str) -> bool:
    """Is it an address of a local network?"""
    found = _parsed(text)
    return found is not None and any(found in net for net in _PRIVATE)


@lru_cache(maxsize=1 << 12)
def is_cloudflare(text: str) -> bool:
    """Is it an address that Cloudflare's servers ask from?"""
    found = _parsed(text)
    return found is not None and any(found in net for net in _CLOUDFLARE)


# ---------------------------------------------------------------------------- other fields

_REQUEST: Final = re.compile(r"[A-Za-z_]{3,20} \S.* HTTP/\d(?:\.\d)?", re.ASCII)
_STATUS: Final = re.compile(r"[1-5]\d\d", re.ASCII)
_COMMON_STATUS: Final = frozenset(
    ("200", "204", "206", "301", "302", "303", "304", "307", "308", "400", "401", "403", "404")
) | {"405", "410", "429", "499", "500", "502", "503"}
_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)
_NAME: Final = re.compile(
    r"(?:[\w-]{1,63}\.){1,20}[A-Za-z][\w-]{0,62}(?::\d{1,5})?|localhost", re.ASCII
)
_KNOWN_AGENT: Final = re.compile(
    r"(?:Mozilla|Opera|curl|Wget|python|Python|Go-http-client|okhttp|Java|Apache-HttpClient|Ruby"
    r"|PostmanRuntime|axios|node-fetch|Dalvik|PHP|libwww-perl|WordPress|Lynx|w3m|Googlebot|bingbot)"
    r"[/ ;-]"
)
_AGENT: Final = re.compile(r"[A-Za-z][\w.&!-]{0,40}(?:[ +][\w.-]{1,40}){0,4}/v?\d", re.ASCII)
_ROBOT: Final = re.compile(
    r"[\w ().;/-]{0,60}(?:[Bb]ot|[Cc]rawler|[Ss]pider|[Mm]onitor)\b", re.ASCII
)


def is_request(text: str) -> bool:
    """Is it a request line?"""
    return bool(_REQUEST.fullmatch(text))


def is_method(text: str) -> bool:
    """Is it a method?"""
    return text in METHODS


def is_target(text: str) -> bool:
    """Is it what a client asks for: a path, or a whole address?"""
    return text[:1] == "/" or text[:7] == "http://" or text[:8] == "https://" or text == "*"


def is_status(text: str) -> bool:
    """Can it be a status?"""
    return bool(_STATUS.fullmatch(text))


def is_common_status(text: str) -> bool:
    """Is it a status that is seen every day?"""
    return text in _COMMON_STATUS


def is_size(text: str) -> bool:
    """Can it be a number of bytes?"""
    return text == "-" or bool(_NUMBER.fullmatch(text))


def is_name(text: str) -> bool:
    """Can it be the name of a machine?"""
    return bool(_NAME.fullmatch(text))


def is_agent(text: str) -> bool:
    """Does it look like a user agent?"""
    if text[:5] == "HTTP/" or text[:4] in ("http", "TCP_", "UDP_") or text[:1] == "/":
        return False
    if _KNOWN_AGENT.match(text):
        return True
    return bool((" " in text or "(" in text) and (_AGENT.match(text) or _ROBOT.match(text)))


def share(values: list[str], check: Callable[[str], object]) -> float:
    """Return the share of the values that pass a check."""
    return sum(1 for value in values if check(value)) / len(values) if values else 0.0


_PERCENT: Final = re.compile(r"%([0-9A-Fa-f]{2})", re.ASCII)


def spaced(agent: str) -> str:
    """Return a user agent with the spaces that IIS writes as `+` and Amazon as `%20`."""
    if " " in agent:
        return agent
    if "%20" in agent:
        return _PERCENT.sub(lambda match: chr(int(match[1], 16)), agent.replace("%25", "%"))
    return agent.replace("+", " ")


def path_of(target: str) -> str:
    """Return the path of a request's target, which a proxy writes with scheme and host."""
    if target[:4] != "http" or "://" not in target[:8]:
        return target
    return "/" + target.split("/", 3)[3] if target.count("/") > 2 else "/"


def as_bytes(text: str) -> str:
    """Return a text with one character per byte; characters beyond latin-1 become UTF-8 bytes."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("latin-1")
    return text
